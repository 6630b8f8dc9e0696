//! Delays against the table of presets, at every limit, and over many seeds.

use super::*;
use alloc::{string::ToString as _, vec, vec::Vec};
use proptest::prelude::*;

fn delays(policy: Policy, seed: u64) -> Vec<u32> {
    (1..)
        .map_while(|attempts| policy.delay_seconds(attempts, seed))
        .collect()
}

fn without_jitter(policy: Policy) -> Vec<u32> {
    let jitter = Jitter::None;
    delays(Policy { jitter, ..policy }, 0)
}

#[test]
fn every_preset_has_the_delays_of_its_table_row() {
    let table: &[(Policy, &[u32], Jitter)] = &[
        (Policy::default(), &[5, 10, 20, 40, 60], Jitter::Full),
        (Policy::none(), &[], Jitter::None),
        (Policy::exponential(), &[5, 10], Jitter::Full),
        (Policy::linear(), &[1, 2, 3, 4, 5], Jitter::None),
        (Policy::linear_with_jitter(), &[1, 2, 3, 4, 5], Jitter::Full),
        (Policy::transient(), &[5, 10], Jitter::Half),
        (
            Policy::resource_availability(),
            &[5, 10, 20, 40],
            Jitter::Full,
        ),
        // 1, 1.5, 2.25, 3.375, 5.06, 7.59, 11.39, 17.09, 25.63, each rounded up.
        (
            Policy::critical(),
            &[1, 2, 3, 4, 6, 8, 12, 18, 26],
            Jitter::None,
        ),
        (Policy::fixed(7), &[7, 7, 7, 7], Jitter::None),
    ];
    for (policy, expected, jitter) in table {
        assert_eq!(without_jitter(*policy), *expected, "{policy:?}");
        assert_eq!(policy.jitter, *jitter, "{policy:?}");
        assert_eq!(policy.validate(), Ok(()), "{policy:?}");
    }
    assert_eq!(Policy::exponential().max_delay_seconds, 300);
    assert_eq!(Policy::linear().max_delay_seconds, 300);
    assert_eq!(Policy::critical().max_delay_seconds, 60);
}

#[test]
fn attempts_stop_exactly_at_their_maximum() {
    let policy = Policy::default();
    assert!(policy.delay_seconds(5, 1).is_some());
    assert_eq!(policy.delay_seconds(6, 1), None);
    assert_eq!(policy.delay_seconds(7, 1), None);
    assert_eq!(policy.delay_seconds(u32::MAX, 1), None);
    // A count that misses the attempt just made is read as the first.
    assert!(policy.delay_seconds(0, 1).is_some());
}

#[test]
fn the_longest_delay_is_kept_exactly() {
    let policy = |max_delay_seconds| Policy {
        max_delay_seconds,
        max_attempts: 3,
        ..Policy::exponential()
    };
    assert_eq!(without_jitter(policy(9)), [5, 9]);
    assert_eq!(without_jitter(policy(10)), [5, 10]);
    assert_eq!(without_jitter(policy(11)), [5, 10]);
    assert_eq!(without_jitter(policy(3)), [3, 3]);
}

#[test]
fn full_jitter_rounds_and_the_others_round_up() {
    let cases = [
        (0.0, 0, 0),
        (0.49, 0, 1),
        (0.5, 1, 1),
        (1.0, 1, 1),
        (1.49, 1, 2),
        (1.5, 2, 2),
        (2.5, 3, 3),
        (f64::NAN, 0, 0),
        (-3.0, 0, 0),
        (f64::INFINITY, DELAY_SECONDS_MAX, DELAY_SECONDS_MAX),
    ];
    for (seconds, nearest, upper) in cases {
        assert_eq!(rounded(seconds), nearest, "{seconds}");
        assert_eq!(rounded_up(seconds), upper, "{seconds}");
    }
}

#[test]
fn the_chance_of_a_seed_and_attempt_never_changes() {
    let policy = Policy {
        max_attempts: 7,
        initial_delay_seconds: 1_000,
        max_delay_seconds: 1_000,
        ..Policy::exponential()
    };
    let half = Policy {
        jitter: Jitter::Half,
        ..policy
    };
    assert_eq!(delays(policy, 42), [950, 447, 978, 285, 914, 747]);
    assert_eq!(delays(half, 42), [976, 724, 989, 643, 957, 874]);
}

#[test]
fn full_jitter_covers_the_whole_range_evenly() {
    let policy = Policy {
        initial_delay_seconds: 10,
        ..Policy::exponential()
    };
    let drawn: Vec<u32> = (0..4_000)
        .filter_map(|seed| policy.delay_seconds(1, seed))
        .collect();
    let mean = drawn.iter().sum::<u32>() as f64 / 4_000.0;
    // Zero is lifted to one second, so the mean lies a twentieth above five.
    assert!((4.8..5.3).contains(&mean), "{mean}");
    assert_eq!(drawn.iter().min(), Some(&1));
    assert_eq!(drawn.iter().max(), Some(&10));
}

#[test]
fn impossible_policies_are_refused_with_field_and_value() {
    let good = Policy::default();
    let rated = |rate| Policy {
        growth: Growth::Exponential { rate },
        ..good
    };
    let cases = [
        (
            Policy {
                max_attempts: 0,
                ..good
            },
            "max_attempts is 0, the least is 1",
        ),
        (
            Policy {
                initial_delay_seconds: 0,
                ..good
            },
            "initial_delay_seconds is 0, allowed is 1 to 31622400",
        ),
        (
            Policy {
                max_delay_seconds: 31_622_401,
                ..good
            },
            "max_delay_seconds is 31622401, allowed is 1 to 31622400",
        ),
        (
            rated(0.0),
            "growth rate is 0, it must be positive and finite",
        ),
        (
            rated(-1.0),
            "growth rate is -1, it must be positive and finite",
        ),
        (
            rated(f64::NAN),
            "growth rate is NaN, it must be positive and finite",
        ),
        (
            rated(f64::INFINITY),
            "growth rate is inf, it must be positive and finite",
        ),
    ];
    for (policy, message) in cases {
        assert_eq!(policy.validate().unwrap_err().to_string(), message);
        assert_eq!(
            WaitPolicy(policy).validate().unwrap_err().to_string(),
            message
        );
    }
}

#[test]
fn every_limit_of_a_policy_is_itself_allowed() {
    for delay in [1, 31_622_399, 31_622_400] {
        for rate in [f64::MIN_POSITIVE, 0.5, 1.0, f64::MAX] {
            let policy = Policy {
                max_attempts: 1,
                initial_delay_seconds: delay,
                max_delay_seconds: delay,
                growth: Growth::Exponential { rate },
                jitter: Jitter::None,
            };
            assert_eq!(policy.validate(), Ok(()));
        }
    }
    assert!(Policy::fixed(0).validate().is_err());
    assert!(Policy::fixed(31_622_401).validate().is_err());
}

#[test]
fn extreme_policies_neither_loop_nor_overflow() {
    let rates = [
        0.0,
        -2.0,
        f64::NAN,
        f64::INFINITY,
        f64::MAX,
        f64::MIN_POSITIVE,
    ];
    let mut growths: Vec<Growth> = rates.map(|rate| Growth::Exponential { rate }).to_vec();
    growths.push(Growth::Linear {
        increment_seconds: u32::MAX,
    });
    for growth in growths {
        for jitter in [Jitter::None, Jitter::Full, Jitter::Half] {
            for (initial, max) in [(0, 0), (0, u32::MAX), (u32::MAX, u32::MAX), (1, 1)] {
                let policy = Policy {
                    max_attempts: u32::MAX,
                    initial_delay_seconds: initial,
                    max_delay_seconds: max,
                    growth,
                    jitter,
                };
                for attempts in [0, 1, 2, 1 << 31, u32::MAX - 1] {
                    let delay = policy.delay_seconds(attempts, 9).unwrap();
                    assert!((1..=DELAY_SECONDS_MAX).contains(&delay));
                }
            }
        }
    }
}

#[test]
fn a_filter_without_entries_lets_every_error_retry() {
    let filter = Filter::default();
    assert!(filter.is_retryable(None, None));
    assert!(filter.is_retryable(Some("Timeout"), Some("late")));
}

#[test]
fn a_filter_with_entries_lets_only_matches_retry() {
    let filter = Filter {
        messages: vec!["try again".into()],
        error_types: vec!["Timeout".into()],
    };
    assert!(filter.is_retryable(Some("Timeout"), None));
    assert!(filter.is_retryable(Some("Other"), Some("please try again later")));
    assert!(!filter.is_retryable(Some("TimeoutError"), Some("no")));
    assert!(!filter.is_retryable(None, None));
    let types_only = Filter {
        messages: vec![],
        ..filter
    };
    assert!(!types_only.is_retryable(None, Some("try again")));
}

#[test]
fn a_satisfied_condition_wins_over_exhaustion() {
    let policy = WaitPolicy::default();
    assert_eq!(policy.decide(true, 1, 0), WaitDecision::Stop);
    assert_eq!(policy.decide(true, 60, 0), WaitDecision::Stop);
    assert_eq!(policy.decide(false, 60, 0), WaitDecision::Exhausted);
    assert_eq!(policy.decide(false, 61, 0), WaitDecision::Exhausted);
    assert!(matches!(
        policy.decide(false, 59, 0),
        WaitDecision::Continue {
            delay_seconds: 1..=300
        }
    ));
}

#[test]
fn the_default_condition_grows_by_half_up_to_five_minutes() {
    let found = without_jitter(WaitPolicy::default().0);
    assert_eq!(found.len(), 59);
    assert_eq!(found[..6], [5, 8, 12, 17, 26, 38]);
    assert_eq!(found[10..13], [289, 300, 300]);
    assert_eq!(WaitPolicy::default().0.jitter, Jitter::Full);
}

fn any_growth() -> impl Strategy<Value = Growth> {
    prop_oneof![
        (0.01f64..10.0).prop_map(|rate| Growth::Exponential { rate }),
        any::<u32>().prop_map(|increment_seconds| Growth::Linear { increment_seconds }),
    ]
}

prop_compose! {
    fn any_policy()(
        max_attempts in 1..=u32::MAX,
        initial_delay_seconds in 1..=DELAY_SECONDS_MAX,
        max_delay_seconds in 1..=DELAY_SECONDS_MAX,
        growth in any_growth(),
        jitter in prop_oneof![Just(Jitter::None), Just(Jitter::Full), Just(Jitter::Half)],
    ) -> Policy {
        Policy { max_attempts, initial_delay_seconds, max_delay_seconds, growth, jitter }
    }
}

proptest! {
    #[test]
    fn delays_stay_within_their_bounds(
        policy in any_policy(),
        attempts in 1..=u32::MAX,
        seed: u64,
    ) {
        prop_assert_eq!(policy.validate(), Ok(()));
        let delay = policy.delay_seconds(attempts, seed);
        prop_assert_eq!(delay.is_none(), attempts >= policy.max_attempts);
        prop_assert_eq!(delay, policy.delay_seconds(attempts, seed));
        let Some(delay) = delay else { return Ok(()) };
        prop_assert!((1..=policy.max_delay_seconds).contains(&delay));
        let jitter = Jitter::None;
        let plain = Policy { jitter, ..policy }.delay_seconds(attempts, seed).unwrap();
        prop_assert!(delay <= plain);
        if policy.jitter == Jitter::Half {
            prop_assert!(delay >= plain / 2);
        }
    }

    #[test]
    fn delays_without_jitter_never_shrink_when_growth_is_at_least_one(
        policy in any_policy(),
        rate in 1.0f64..5.0,
        attempts in 1..u32::MAX - 1,
        seed: u64,
    ) {
        let growth = match policy.growth {
            Growth::Exponential { .. } => Growth::Exponential { rate },
            Growth::Linear { .. } => policy.growth,
        };
        let policy = Policy { growth, jitter: Jitter::None, max_attempts: u32::MAX, ..policy };
        prop_assert!(policy.delay_seconds(attempts, seed) <= policy.delay_seconds(attempts + 1, seed));
        let early = attempts % 100 + 1;
        prop_assert!(policy.delay_seconds(early, seed) <= policy.delay_seconds(early + 1, seed));
    }

    #[test]
    fn powers_agree_with_repeated_multiplication(base in 0.5f64..2.0, exponent in 0u32..200) {
        let expected = (0..exponent).fold(1.0, |product, _| product * base);
        prop_assert!((power(base, exponent) / expected - 1.0).abs() < 1e-12);
    }
}

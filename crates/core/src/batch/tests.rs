//! Batches against the formula, at every limit, and in every order.

use super::*;
use crate::limits::PAYLOAD_BYTES_MAX;
use alloc::{format, string::String, string::ToString as _};
use proptest::prelude::*;

fn thresholds(completion: Completion) -> Rule {
    Rule::Thresholds(completion)
}

fn cap(max_concurrency: usize) -> Option<NonZeroUsize> {
    NonZeroUsize::new(max_concurrency)
}

fn start_all(batch: &mut Batch) -> Vec<usize> {
    core::iter::from_fn(|| batch.next_to_start()).collect()
}

/// Starts whatever may start, then finishes one item after the other.
fn play(rule: Rule, total: usize, outcomes: &[(usize, bool)]) -> Batch {
    let mut batch = Batch::new(total, None, rule);
    start_all(&mut batch);
    for (index, ok) in outcomes {
        batch.finish(*index, *ok);
    }
    batch
}

fn letters(batch: &Batch) -> String {
    let letter = |status| match status {
        ItemStatus::Succeeded => 'S',
        ItemStatus::Failed => 'F',
        ItemStatus::Started => '-',
    };
    batch.statuses().map(letter).collect()
}

/// The specification's formula, written down line by line.
fn formula(completion: &Completion, n: u64, s: u64, f: u64) -> Option<CompletionReason> {
    let none_configured = completion.min_successful.is_none()
        && completion.tolerated_failure_count.is_none()
        && completion.tolerated_failure_percentage.is_none();
    let mut tolerance_exceeded = none_configured && f > 0;
    if let Some(count) = completion.tolerated_failure_count {
        tolerance_exceeded |= f > count;
    }
    if let Some(pct) = completion.tolerated_failure_percentage {
        tolerance_exceeded |= n > 0 && (100 * f) as f64 / n as f64 > pct;
    }
    let complete = s + f == n || completion.min_successful.is_some_and(|min| s >= min);
    if !complete && !tolerance_exceeded {
        None
    } else if tolerance_exceeded {
        Some(CompletionReason::FailureToleranceExceeded)
    } else if s + f == n {
        Some(CompletionReason::AllCompleted)
    } else {
        Some(CompletionReason::MinSuccessfulReached)
    }
}

/// Every criterion that can make a difference in a batch of `n`.
fn completions(n: u64) -> Vec<Completion> {
    let counts: Vec<Option<u64>> = core::iter::once(None)
        .chain((0..=n + 1).map(Some))
        .collect();
    let percentages = [
        None,
        Some(0.0),
        Some(20.0),
        Some(33.3),
        Some(50.0),
        Some(100.0),
    ];
    let mut found = Vec::new();
    for min_successful in &counts {
        for tolerated_failure_count in &counts {
            for tolerated_failure_percentage in percentages {
                found.push(Completion {
                    min_successful: *min_successful,
                    tolerated_failure_count: *tolerated_failure_count,
                    tolerated_failure_percentage,
                });
            }
        }
    }
    found
}

#[test]
fn every_small_batch_decides_as_the_formula_says() {
    // Each item is still running, ends well or ends badly: 3^n final sets.
    let mut sets: Vec<Vec<Option<bool>>> = vec![vec![]];
    for n in 0..=5 {
        for completion in completions(n) {
            for set in &sets {
                check_against_formula(completion, set);
            }
        }
        let longer = |set: &Vec<Option<bool>>| {
            [None, Some(true), Some(false)].map(|last| [set.as_slice(), &[last]].concat())
        };
        sets = sets.iter().flat_map(longer).collect();
    }
}

fn check_against_formula(completion: Completion, set: &[Option<bool>]) {
    let total = set.len() as u64;
    let (mut succeeded, mut failed) = (0, 0);
    let mut batch = Batch::new(set.len(), None, thresholds(completion));
    let mut expected = formula(&completion, total, 0, 0);
    assert_eq!(batch.verdict(), expected);
    // Resumed items may finish even after the verdict.
    batch.resume(0..set.len());
    for (index, outcome) in set.iter().enumerate() {
        let Some(ok) = *outcome else { continue };
        succeeded += u64::from(ok);
        failed += u64::from(!ok);
        assert!(batch.finish(index, ok));
        let now = formula(&completion, total, succeeded, failed);
        expected = expected.or(now);
        assert_eq!(batch.verdict(), expected, "{completion:?}: {set:?}");
        let counts = Counts {
            total,
            succeeded,
            failed,
        };
        assert_eq!(batch.counts(), counts);
        assert_eq!(
            completion.verdict(counts),
            now,
            "{completion:?}: {counts:?}"
        );
    }
}

#[test]
fn without_criteria_the_first_failure_ends_the_batch() {
    let batch = play(
        thresholds(Completion::default()),
        3,
        &[(0, true), (1, false)],
    );
    assert_eq!(
        batch.verdict(),
        Some(CompletionReason::FailureToleranceExceeded)
    );
    assert_eq!(batch.status(), Some(BatchStatus::Failed));
    assert_eq!(letters(&batch), "SF-");
}

#[test]
fn any_criterion_removes_the_implicit_fail_fast() {
    let outcomes = [(0, true), (1, false), (2, true)];
    let batch = play(thresholds(Completion::min_successful(3)), 3, &outcomes);
    assert_eq!(batch.verdict(), Some(CompletionReason::AllCompleted));
    assert_eq!(batch.status(), Some(BatchStatus::Failed));
}

#[test]
fn tolerated_failures_are_tolerated_up_to_equality() {
    let rule = thresholds(Completion::tolerated_failures(2));
    let failures = [(0, false), (1, false), (2, false)];
    assert_eq!(play(rule, 5, &failures[..1]).verdict(), None);
    assert_eq!(play(rule, 5, &failures[..2]).verdict(), None);
    assert_eq!(
        play(rule, 5, &failures).verdict(),
        Some(CompletionReason::FailureToleranceExceeded)
    );
}

#[test]
fn a_tolerated_percentage_is_of_all_items_and_tolerates_equality() {
    // Every whole percentage of a hundred items, also those that are no binary fractions.
    for percent in 0..100u64 {
        let completion = Completion {
            tolerated_failure_percentage: Some(percent as f64),
            ..Completion::default()
        };
        let counts = |failed| Counts {
            total: 100,
            succeeded: 0,
            failed,
        };
        assert_eq!(completion.verdict(counts(percent)), None, "{percent}");
        assert_eq!(
            completion.verdict(counts(percent + 1)),
            Some(CompletionReason::FailureToleranceExceeded),
            "{percent}"
        );
    }
}

#[test]
fn the_reason_follows_its_priority() {
    let both = Completion {
        min_successful: Some(1),
        tolerated_failure_count: Some(0),
        tolerated_failure_percentage: None,
    };
    let counts = |succeeded, failed| Counts {
        total: 3,
        succeeded,
        failed,
    };
    let reason = |s, f| both.verdict(counts(s, f));
    assert_eq!(reason(1, 0), Some(CompletionReason::MinSuccessfulReached));
    assert_eq!(
        reason(1, 1),
        Some(CompletionReason::FailureToleranceExceeded)
    );
    assert_eq!(
        reason(2, 1),
        Some(CompletionReason::FailureToleranceExceeded)
    );
    assert_eq!(reason(3, 0), Some(CompletionReason::AllCompleted));
}

#[test]
fn an_empty_batch_is_over_at_once() {
    for rule in [thresholds(Completion::default()), Rule::Custom] {
        let mut batch = Batch::new(0, None, rule);
        assert_eq!(batch.verdict(), Some(CompletionReason::AllCompleted));
        assert_eq!(batch.status(), Some(BatchStatus::Succeeded));
        assert_eq!(batch.next_to_start(), None);
        assert!(!batch.finish(0, true));
    }
}

#[test]
fn a_custom_rule_decides_alone_and_beats_all_completed() {
    let mut batch = play(Rule::Custom, 2, &[(0, false)]);
    batch.judge(Custom::Continue);
    assert_eq!(batch.verdict(), None);
    batch.finish(1, false);
    batch.judge(Custom::Succeed);
    assert_eq!(
        batch.verdict(),
        Some(CompletionReason::CustomCompletionSucceeded)
    );
    assert_eq!(batch.status(), Some(BatchStatus::Succeeded));
    batch.judge(Custom::Fail);
    assert_eq!(batch.status(), Some(BatchStatus::Succeeded));
}

#[test]
fn a_custom_rule_may_end_the_batch_before_it_starts() {
    let mut batch = Batch::new(2, None, Rule::Custom);
    batch.judge(Custom::Fail);
    assert_eq!(
        batch.verdict(),
        Some(CompletionReason::CustomCompletionFailed)
    );
    assert_eq!(batch.status(), Some(BatchStatus::Failed));
    assert_eq!(batch.next_to_start(), None);
    assert_eq!(letters(&batch), "");
}

#[test]
fn a_custom_rule_that_never_fires_ends_with_all_completed() {
    let mut batch = play(Rule::Custom, 2, &[(0, false), (1, true)]);
    assert_eq!(batch.verdict(), Some(CompletionReason::AllCompleted));
    batch.judge(Custom::Continue);
    batch.judge(Custom::Succeed);
    assert_eq!(batch.verdict(), Some(CompletionReason::AllCompleted));
    assert_eq!(batch.status(), Some(BatchStatus::Failed));
}

#[test]
fn thresholds_do_not_listen_to_a_custom_decision() {
    let mut batch = play(thresholds(Completion::default()), 2, &[]);
    batch.judge(Custom::Succeed);
    assert_eq!(batch.verdict(), None);
}

#[test]
fn late_outcomes_change_statuses_and_never_the_reason() {
    let rule = thresholds(Completion::first_successful());
    let mut batch = play(rule, 3, &[(1, true)]);
    assert!(batch.finish(0, false));
    assert!(batch.finish(2, true));
    assert_eq!(
        batch.verdict(),
        Some(CompletionReason::MinSuccessfulReached)
    );
    assert_eq!(batch.status(), Some(BatchStatus::Failed));
    assert_eq!(letters(&batch), "FSS");
}

#[test]
fn finishing_twice_or_without_a_start_changes_nothing() {
    let mut batch = Batch::new(3, cap(1), thresholds(Completion::all_completed()));
    assert!(!batch.finish(0, true));
    assert_eq!(batch.next_to_start(), Some(0));
    assert!(batch.finish(0, true));
    assert!(!batch.finish(0, false));
    assert!(!batch.finish(1, false));
    assert!(!batch.finish(3, false));
    assert!(!batch.finish(usize::MAX, false));
    let counts = batch.counts();
    assert_eq!((counts.succeeded, counts.failed), (1, 0));
    assert_eq!(batch.in_flight(), 0);
}

#[test]
fn items_start_in_index_order_as_slots_become_free() {
    let mut batch = Batch::new(5, cap(2), thresholds(Completion::all_completed()));
    assert_eq!(start_all(&mut batch), [0, 1]);
    batch.finish(1, true);
    assert_eq!(start_all(&mut batch), [2]);
    assert_eq!(letters(&batch), "-S-");
    batch.finish(0, true);
    batch.finish(2, true);
    assert_eq!(start_all(&mut batch), [3, 4]);
    assert_eq!(batch.next_to_start(), None);
    batch.finish(3, true);
    assert_eq!(batch.next_to_start(), None);
}

#[test]
fn nothing_starts_once_the_batch_is_over() {
    let mut batch = Batch::new(5, cap(2), thresholds(Completion::default()));
    assert_eq!(start_all(&mut batch), [0, 1]);
    batch.finish(0, false);
    assert_eq!(batch.next_to_start(), None);
    assert_eq!(letters(&batch), "F-");
}

#[test]
fn resumed_items_are_admitted_first_and_all_below_count_as_started() {
    let mut batch = Batch::new(6, cap(2), thresholds(Completion::all_completed()));
    batch.resume([3, 1, 3, 6, usize::MAX]);
    assert_eq!(letters(&batch), "----");
    assert_eq!(start_all(&mut batch), [3, 1]);
    batch.finish(3, true);
    assert_eq!(start_all(&mut batch), [0]);
    batch.finish(0, true);
    assert_eq!(start_all(&mut batch), [2]);
    batch.finish(1, true);
    assert_eq!(start_all(&mut batch), [4]);
    batch.finish(2, true);
    batch.finish(4, true);
    assert_eq!(start_all(&mut batch), [5]);
    batch.finish(5, true);
    assert_eq!(batch.verdict(), Some(CompletionReason::AllCompleted));
}

#[test]
fn a_resumed_item_may_finish_from_its_record_without_a_slot() {
    let mut batch = Batch::new(3, cap(1), thresholds(Completion::all_completed()));
    batch.resume([0, 1]);
    assert!(batch.finish(0, true));
    assert_eq!(batch.in_flight(), 0);
    assert_eq!(start_all(&mut batch), [1]);
}

#[test]
fn criteria_are_checked_at_their_limits() {
    let check = |completion: Completion| completion.validate(3).map_err(|e| e.to_string());
    let percent = |value| Completion {
        tolerated_failure_percentage: Some(value),
        ..Completion::default()
    };
    assert_eq!(check(Completion::default()), Ok(()));
    assert_eq!(check(Completion::all_completed()), Ok(()));
    assert_eq!(check(Completion::first_successful()), Ok(()));
    assert_eq!(check(Completion::min_successful(3)), Ok(()));
    assert_eq!(check(Completion::tolerated_failures(99)), Ok(()));
    assert_eq!(check(percent(0.0)), Ok(()));
    assert_eq!(check(percent(100.0)), Ok(()));
    for value in [0, 4] {
        let message = format!("min_successful is {value}, allowed is 1 to 3, the number of items");
        assert_eq!(check(Completion::min_successful(value)), Err(message));
    }
    for value in [-0.1, 100.1, f64::NAN, f64::INFINITY] {
        let message = format!("tolerated_failure_percentage is {value}, allowed is 0 to 100");
        assert_eq!(check(percent(value)), Err(message));
    }
    assert_eq!(
        Completion::first_successful().validate(0),
        Err(InvalidCompletion::MinSuccessful { value: 1, total: 0 })
    );
}

#[test]
fn reasons_have_their_wire_names_and_an_alias() {
    let names = [
        (CompletionReason::AllCompleted, "ALL_COMPLETED"),
        (
            CompletionReason::MinSuccessfulReached,
            "MIN_SUCCESSFUL_REACHED",
        ),
        (
            CompletionReason::FailureToleranceExceeded,
            "FAILURE_TOLERANCE_EXCEEDED",
        ),
        (
            CompletionReason::CustomCompletionSucceeded,
            "CUSTOM_COMPLETION_SUCCEEDED",
        ),
        (
            CompletionReason::CustomCompletionFailed,
            "CUSTOM_COMPLETION_FAILED",
        ),
    ];
    for (reason, name) in names {
        let text = format!("\"{name}\"");
        assert_eq!(serde_json::to_string(&reason).unwrap(), text);
        assert_eq!(
            serde_json::from_str::<CompletionReason>(&text).unwrap(),
            reason
        );
    }
    assert_eq!(
        serde_json::from_str::<CompletionReason>("\"PREDICATE_MATCHED\"").unwrap(),
        CompletionReason::CustomCompletionSucceeded
    );
}

#[test]
fn a_summary_lists_whichever_indexes_are_fewer() {
    let rule = thresholds(Completion::first_successful());
    let few_started = play(rule, 3, &[(0, false), (2, true)]);
    insta::assert_snapshot!(
        Summary::write(&few_started, Kind::Map, None).unwrap(),
        @r#"{"type":"MapResult","totalCount":3,"completionReason":"MIN_SUCCESSFUL_REACHED","startedIndexes":[1],"startedCount":1,"successCount":1,"failureCount":1,"status":"FAILED","itemStatuses":"F-S"}"#
    );
    let many_started = play(rule, 3, &[(1, true)]);
    insta::assert_snapshot!(
        Summary::write(&many_started, Kind::Parallel, Some("one did")).unwrap(),
        @r#"{"type":"ParallelResult","totalCount":3,"completionReason":"MIN_SUCCESSFUL_REACHED","completedIndexes":[1],"startedCount":2,"successCount":1,"failureCount":0,"status":"SUCCEEDED","itemStatuses":"-S-","summary":"one did"}"#
    );
    let as_many = play(rule, 2, &[(1, true)]);
    let text = Summary::write(&as_many, Kind::Map, None).unwrap();
    assert!(text.contains(r#""startedIndexes":[0]"#), "{text}");
    let running = play(rule, 3, &[]);
    assert_eq!(Summary::write(&running, Kind::Map, None), None);
}

#[test]
fn a_summary_leaves_out_items_that_never_started() {
    let mut batch = Batch::new(9, cap(2), thresholds(Completion::default()));
    start_all(&mut batch);
    batch.finish(1, false);
    let text = Summary::write(&batch, Kind::Map, None).unwrap();
    let summary = Summary::read(&text).unwrap();
    assert_eq!(summary.total_count, 2);
    assert_eq!(
        summary.items,
        Some(vec![Recorded::Started, Recorded::Failed])
    );
}

#[test]
fn a_summary_too_large_for_a_payload_drops_only_its_index_list() {
    let total = 400_000;
    let mut batch = Batch::new(total, None, thresholds(Completion::first_successful()));
    batch.resume([total - 1]);
    for index in (0..total).step_by(2) {
        batch.finish(index, true);
    }
    let text = Summary::write(&batch, Kind::Map, None).unwrap();
    assert!(text.len() < PAYLOAD_BYTES_MAX && !text.contains("Indexes"));
    assert_eq!(Summary::read(&text).unwrap().items.unwrap().len(), total);
}

fn read(text: &str) -> String {
    match Summary::read(text) {
        Ok(summary) => {
            let items = summary.items.map(|items| {
                let letter = |item: Recorded| match item {
                    Recorded::Succeeded => 'S',
                    Recorded::Failed => 'F',
                    Recorded::Finished => 'x',
                    Recorded::Started => '-',
                    Recorded::Unfinished => '?',
                };
                items.into_iter().map(letter).collect::<String>()
            });
            format!(
                "{} {:?} {:?} {:?} {:?}",
                summary.total_count,
                summary.completion_reason,
                summary.status,
                items,
                summary.summary
            )
        }
        Err(error) => error.to_string(),
    }
}

#[test]
fn summaries_of_every_sdk_are_read() {
    let cases = [
        (
            r#"{"type":"MapResult","totalCount":4,"successCount":2,"failureCount":1,"completionReason":"ALL_COMPLETED","status":"FAILED","itemStatuses":"SF-S","summary":"mine"}"#,
            r#"4 AllCompleted Some(Failed) Some("SF-S") Some("mine")"#,
        ),
        (
            r#"{"type":"ParallelResult","totalCount":2,"completionReason":"MIN_SUCCESSFUL_REACHED","startedIndexes":[0],"startedCount":1,"successCount":1,"failureCount":0,"status":"SUCCEEDED"}"#,
            r#"2 MinSuccessfulReached Some(Succeeded) Some("-x") None"#,
        ),
        (
            r#"{"totalCount":3,"completionReason":"PREDICATE_MATCHED","completedIndexes":[2]}"#,
            r#"3 CustomCompletionSucceeded None Some("--x") None"#,
        ),
        (
            r#"{"items":[{"status":"SUCCEEDED","result":null,"error":null},{"status":"FAILED","result":null,"error":{"ErrorType":"E"}},{"status":"SKIPPED"},{"status":"NOT_STARTED"}],"completionReason":"FAILURE_TOLERANCE_EXCEEDED"}"#,
            r#"4 FailureToleranceExceeded None Some("SF??") None"#,
        ),
        (
            r#"{"size":3,"succeeded":3,"failed":0,"completionStatus":"ALL_COMPLETED"}"#,
            r#"3 AllCompleted None None None"#,
        ),
        (
            r#"{"type":"MapResult","totalCount":3,"successCount":3,"failureCount":0,"completionReason":"ALL_COMPLETED","status":"SUCCEEDED"}"#,
            r#"3 AllCompleted Some(Succeeded) None None"#,
        ),
        (
            r#"{"totalCount":2,"completionReason":"ALL_COMPLETED","itemStatuses":"S-F","summary":{"not":"text"}}"#,
            r#"2 AllCompleted None Some("S?F") None"#,
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(read(text), expected);
    }
}

#[test]
fn damaged_summaries_are_refused() {
    let cases = [
        ("", "batch summary is not in a known form"),
        ("[]", "batch summary is not in a known form"),
        (
            r#"{"totalCount":-1,"completionReason":"ALL_COMPLETED"}"#,
            "batch summary is not in a known form",
        ),
        (
            r#"{"totalCount":1,"completionReason":"TIRED"}"#,
            "batch summary is not in a known form",
        ),
        (
            r#"{"totalCount":1}"#,
            "batch summary has no completionReason",
        ),
        (
            r#"{"completionReason":"ALL_COMPLETED"}"#,
            "batch summary has no totalCount",
        ),
        (
            r#"{"totalCount":1,"completionReason":"ALL_COMPLETED","itemStatuses":"X"}"#,
            "batch summary has the unknown item status 'X'",
        ),
        (
            r#"{"totalCount":2,"completionReason":"ALL_COMPLETED","startedIndexes":[2]}"#,
            "batch summary names item 2 of 2",
        ),
        (
            r#"{"totalCount":1048577,"completionReason":"ALL_COMPLETED","startedIndexes":[]}"#,
            "batch summary counts 1048577 items, the most is 1048576",
        ),
        (
            r#"{"totalCount":2,"completionReason":"ALL_COMPLETED","startedIndexes":[1],"itemStatuses":"-S"}"#,
            "batch summary has item statuses that contradict its index list",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(read(text), expected, "{text}");
    }
    for total in [1_048_575, 1_048_576] {
        let text = format!(
            r#"{{"totalCount":{total},"completionReason":"ALL_COMPLETED","completedIndexes":[]}}"#
        );
        assert_eq!(Summary::read(&text).unwrap().items.unwrap().len(), total);
    }
}

fn any_completion() -> impl Strategy<Value = Completion> {
    let count = || proptest::option::of(0u64..40);
    (count(), count(), proptest::option::of(0.0f64..=100.0)).prop_map(
        |(min_successful, tolerated_failure_count, tolerated_failure_percentage)| Completion {
            min_successful,
            tolerated_failure_count,
            tolerated_failure_percentage,
        },
    )
}

fn outcomes_in_some_order() -> impl Strategy<Value = Vec<(usize, bool)>> {
    proptest::collection::vec(any::<bool>(), 0..40)
        .prop_map(|outcomes| outcomes.into_iter().enumerate().collect())
        .prop_shuffle()
}

proptest! {
    #[test]
    fn the_verdict_is_that_of_the_first_counts_that_decide(
        completion in any_completion(),
        outcomes in outcomes_in_some_order(),
    ) {
        let total = outcomes.len() as u64;
        let (mut succeeded, mut failed) = (0, 0);
        let mut expected = completion.verdict(Counts { total, succeeded, failed });
        for (_, ok) in &outcomes {
            succeeded += u64::from(*ok);
            failed += u64::from(!*ok);
            expected = expected.or(completion.verdict(Counts { total, succeeded, failed }));
        }
        // Items are resumed, so that all may finish even after the verdict.
        let mut batch = Batch::new(outcomes.len(), None, thresholds(completion));
        batch.resume(0..outcomes.len());
        for (index, ok) in &outcomes {
            batch.finish(*index, *ok);
        }
        prop_assert_eq!(batch.verdict(), expected);
    }

    #[test]
    fn a_batch_that_runs_to_its_end_does_not_depend_on_the_order(
        tolerated in 0u64..60,
        outcomes in outcomes_in_some_order(),
    ) {
        let failures = outcomes.iter().filter(|(_, ok)| !ok).count() as u64;
        let completion = Completion::tolerated_failures(tolerated);
        let shuffled = play(thresholds(completion), outcomes.len(), &outcomes);
        let mut sorted = outcomes.clone();
        sorted.sort_unstable();
        let ordered = play(thresholds(completion), outcomes.len(), &sorted);
        prop_assert_eq!(shuffled.verdict(), ordered.verdict());
        prop_assert_eq!(shuffled.status(), ordered.status());
        prop_assert_eq!(letters(&shuffled), letters(&ordered));
        prop_assert_eq!(
            ordered.verdict() == Some(CompletionReason::FailureToleranceExceeded),
            failures > tolerated
        );
    }

    #[test]
    fn a_verdict_never_goes_away_as_more_items_finish(
        completion in any_completion(),
        unfinished in 1u64..50,
        succeeded in 0u64..50,
        failed in 0u64..50,
    ) {
        let total = succeeded + failed + unfinished;
        let verdict = |succeeded, failed| completion.verdict(Counts { total, succeeded, failed });
        if verdict(succeeded, failed).is_some() {
            prop_assert!(verdict(succeeded + 1, failed).is_some());
            prop_assert!(verdict(succeeded, failed + 1).is_some());
        }
    }

    #[test]
    fn slots_are_never_exceeded_and_every_item_starts_once(
        total in 0usize..40,
        slots in 1usize..6,
        resumed in proptest::collection::vec(0usize..45, 0..10),
        picks in proptest::collection::vec(any::<usize>(), 200),
    ) {
        let mut batch = Batch::new(total, cap(slots), thresholds(Completion::all_completed()));
        batch.resume(resumed);
        let (mut running, mut seen) = (Vec::new(), Vec::new());
        for pick in picks {
            if let Some(index) = batch.next_to_start() {
                running.push(index);
                seen.push(index);
            } else if !running.is_empty() {
                let index = running.swap_remove(pick % running.len());
                prop_assert!(batch.finish(index, pick % 2 == 0));
            }
            prop_assert!(running.len() <= slots);
            prop_assert_eq!(running.len(), batch.in_flight());
        }
        prop_assert_eq!(batch.verdict(), Some(CompletionReason::AllCompleted));
        seen.sort_unstable();
        prop_assert_eq!(seen, (0..total).collect::<Vec<_>>());
    }

    #[test]
    fn what_is_written_reads_back(
        outcomes in outcomes_in_some_order(),
        finished in 0usize..40,
        text in proptest::option::of(".*"),
    ) {
        let mut batch = Batch::new(outcomes.len(), None, Rule::Custom);
        batch.resume(0..outcomes.len());
        for (index, ok) in outcomes.iter().take(finished) {
            batch.finish(*index, *ok);
        }
        batch.judge(Custom::Fail);
        let written = Summary::write(&batch, Kind::Map, text.as_deref()).unwrap();
        let found = Summary::read(&written).unwrap();
        let recorded = |status| match status {
            ItemStatus::Succeeded => Recorded::Succeeded,
            ItemStatus::Failed => Recorded::Failed,
            ItemStatus::Started => Recorded::Started,
        };
        prop_assert_eq!(found.items, Some(batch.statuses().map(recorded).collect::<Vec<_>>()));
        prop_assert_eq!(Some(found.completion_reason), batch.verdict());
        prop_assert_eq!(found.status, batch.status());
        prop_assert_eq!(found.summary, text);
        prop_assert_eq!(found.total_count, outcomes.len() as u64);
    }
}

//! When a failed step runs again.

use crate::{clock::whole_seconds, error::BoxError};
pub use outlast_core::retry::Jitter;
use outlast_core::{
    limits::DELAY_SECONDS_MAX,
    retry::{Filter, Growth, InvalidPolicy, Policy},
    wire::ErrorObject,
};
use std::{error::Error as StdError, fmt, sync::Arc, time::Duration};

/// Decides after each failed attempt of a step whether and when it runs again.
///
/// The default makes six attempts, five seconds apart at first, doubling up to a minute, with full
/// jitter. Jitter is drawn from the execution and the operation, so it needs no random source.
///
/// ```
/// use outlast::Retry;
/// use std::time::Duration;
///
/// let patient = Retry::exponential().max_attempts(8).initial_delay(Duration::from_secs(1));
/// let picky = Retry::default().on_messages(["timeout", "throttled"]);
/// # let _ = (patient, picky);
/// ```
#[derive(Clone, Default)]
pub struct Retry {
    policy: Policy,
    filter: Filter,
    when: Option<Rule<bool>>,
    custom: Option<Rule<RetryDecision>>,
    problem: Option<String>,
}

/// What a user's rule makes of a failed attempt.
type Rule<T> = Arc<dyn Fn(&Failure<'_>) -> T + Send + Sync>;

/// What a retry strategy decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryDecision {
    /// Run again after this long, rounded up to whole seconds, one at least.
    Retry(Duration),
    /// Give up.
    Stop,
}

/// A failed attempt.
#[derive(Debug)]
#[non_exhaustive]
pub struct Failure<'a> {
    /// The error as it is recorded.
    pub record: &'a ErrorObject,
    /// The error itself; absent when the attempt was interrupted.
    pub error: Option<&'a (dyn StdError + Send + Sync + 'static)>,
    /// Attempts made so far, this one included.
    pub attempts: u32,
}

impl Failure<'_> {
    /// Whether the error is of type `E`.
    pub fn is<E: StdError + 'static>(&self) -> bool {
        self.error.is_some_and(|error| error.is::<E>())
    }

    /// The error as type `E`.
    pub fn downcast_ref<E: StdError + 'static>(&self) -> Option<&E> {
        self.error.and_then(|error| error.downcast_ref())
    }
}

impl Retry {
    fn from_policy(policy: Policy) -> Self {
        Self {
            policy,
            ..Self::default()
        }
    }

    /// Never: one attempt.
    pub fn none() -> Self {
        Self::from_policy(Policy::none())
    }

    /// Three attempts, from 5 s doubling to 5 min, full jitter: a start for your own numbers.
    pub fn exponential() -> Self {
        Self::from_policy(Policy::exponential())
    }

    /// Six attempts, 1 s, 2 s, 3 s and so on, without jitter.
    pub fn linear() -> Self {
        Self::from_policy(Policy::linear())
    }

    /// For short disturbances: three attempts, half jitter.
    pub fn transient() -> Self {
        Self::from_policy(Policy::transient())
    }

    /// For resources that come and go: five attempts up to 5 min apart.
    pub fn resource_availability() -> Self {
        Self::from_policy(Policy::resource_availability())
    }

    /// For what must get through: ten attempts, from 1 s to a minute, without jitter.
    pub fn critical() -> Self {
        Self::from_policy(Policy::critical())
    }

    /// Five attempts, always this far apart.
    pub fn fixed(interval: Duration) -> Self {
        let mut retry = Self::default();
        let seconds = retry.seconds("interval", interval);
        retry.policy = Policy::fixed(seconds);
        retry
    }

    /// Your own rule. It runs once per failed attempt; its decision is recorded.
    pub fn custom(decide: impl Fn(&Failure<'_>) -> RetryDecision + Send + Sync + 'static) -> Self {
        Self {
            custom: Some(Arc::new(decide)),
            ..Self::default()
        }
    }

    /// How often the step runs at most.
    #[must_use]
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.policy.max_attempts = attempts;
        self
    }

    /// The delay before the second attempt.
    #[must_use]
    pub fn initial_delay(mut self, delay: Duration) -> Self {
        self.policy.initial_delay_seconds = self.seconds("initial_delay", delay);
        self
    }

    /// The longest delay.
    #[must_use]
    pub fn max_delay(mut self, delay: Duration) -> Self {
        self.policy.max_delay_seconds = self.seconds("max_delay", delay);
        self
    }

    /// Multiplies the delay by this much after each attempt.
    #[must_use]
    pub fn backoff_rate(mut self, rate: f64) -> Self {
        self.policy.growth = Growth::Exponential { rate };
        self
    }

    /// Adds this much to the delay after each attempt.
    #[must_use]
    pub fn increment(mut self, increment: Duration) -> Self {
        let increment_seconds = self.seconds("increment", increment);
        self.policy.growth = Growth::Linear { increment_seconds };
        self
    }

    /// How delays are spread.
    #[must_use]
    pub fn jitter(mut self, jitter: Jitter) -> Self {
        self.policy.jitter = jitter;
        self
    }

    /// Retries errors whose message contains one of these; with no filter everything is retried.
    #[must_use]
    pub fn on_messages<S: Into<String>>(mut self, messages: impl IntoIterator<Item = S>) -> Self {
        self.filter
            .messages
            .extend(messages.into_iter().map(Into::into));
        self
    }

    /// Retries errors whose recorded type is one of these. A concrete error is recorded by the name
    /// of its type without modules; a boxed one has lost its name and is called `Error`.
    #[must_use]
    pub fn on_types<S: Into<String>>(mut self, types: impl IntoIterator<Item = S>) -> Self {
        self.filter
            .error_types
            .extend(types.into_iter().map(Into::into));
        self
    }

    /// Retries only failures that `retryable` approves; attempts and delays stay as they are.
    ///
    /// ```
    /// # #[derive(Debug, PartialEq)] enum BankError { Unreachable, Declined }
    /// # impl std::fmt::Display for BankError {
    /// #     fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result { f.write_str("no") }
    /// # }
    /// # impl std::error::Error for BankError {}
    /// # use outlast::Retry;
    /// let retry = Retry::exponential()
    ///     .when(|failure| failure.downcast_ref() == Some(&BankError::Unreachable));
    /// # let _ = retry;
    /// ```
    #[must_use]
    pub fn when(
        mut self,
        retryable: impl Fn(&Failure<'_>) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.when = Some(Arc::new(retryable));
        self
    }

    fn seconds(&mut self, option: &str, duration: Duration) -> u32 {
        whole_seconds(duration, DELAY_SECONDS_MAX).unwrap_or_else(|| {
            self.problem.get_or_insert(format!(
                "the retry's {option} of {duration:?} is longer than 366 days"
            ));
            DELAY_SECONDS_MAX
        })
    }

    /// What is wrong with the numbers, if anything.
    pub(crate) fn problem(&self) -> Option<String> {
        let policy = || {
            self.policy
                .validate()
                .err()
                .map(|error: InvalidPolicy| format!("the retry is invalid: {error}"))
        };
        self.problem.clone().or_else(policy)
    }

    /// The delay before the next attempt in whole seconds, or `None` to give up.
    pub(crate) fn decide(
        &self,
        record: &ErrorObject,
        error: Option<&BoxError>,
        attempts: u32,
        seed: u64,
    ) -> Option<u32> {
        let failure = Failure {
            record,
            error: error.map(AsRef::as_ref),
            attempts,
        };
        if self.when.as_ref().is_some_and(|when| !when(&failure)) {
            return None;
        }
        if let Some(custom) = &self.custom {
            return match custom(&failure) {
                RetryDecision::Stop => None,
                RetryDecision::Retry(delay) => Some(
                    whole_seconds(delay, DELAY_SECONDS_MAX)
                        .unwrap_or(DELAY_SECONDS_MAX)
                        .max(1),
                ),
            };
        }
        let full = record.error_type.as_deref();
        let last = full.map(|name| name.rsplit("::").next().unwrap_or(name));
        let message = record.error_message.as_deref();
        let retryable =
            self.filter.is_retryable(full, message) || self.filter.is_retryable(last, message);
        if retryable {
            self.policy.delay_seconds(attempts, seed)
        } else {
            None
        }
    }
}

impl fmt::Debug for Retry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Retry");
        match &self.custom {
            Some(_) => debug.field("custom", &"…"),
            None => debug
                .field("policy", &self.policy)
                .field("filter", &self.filter),
        };
        debug.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delay(retry: &Retry, error_type: &str, message: &str, attempts: u32) -> Option<u32> {
        retry.decide(&ErrorObject::new(error_type, message), None, attempts, 1)
    }

    #[test]
    fn filters_match_messages_and_types_by_path_or_last_segment() {
        let base = || Retry::linear();
        assert_eq!(delay(&base(), "a::B", "boom", 1), Some(1));
        assert_eq!(
            delay(&base().on_messages(["oo"]), "a::B", "boom", 1),
            Some(1)
        );
        assert_eq!(delay(&base().on_messages(["xx"]), "a::B", "boom", 1), None);
        assert_eq!(delay(&base().on_types(["B"]), "a::B", "boom", 1), Some(1));
        assert_eq!(
            delay(&base().on_types(["a::B"]), "a::B", "boom", 1),
            Some(1)
        );
        assert_eq!(delay(&base().on_types(["C"]), "a::B", "boom", 1), None);
    }

    #[test]
    fn a_custom_rule_sees_the_error_and_its_delay_is_at_least_a_second() {
        let retry = Retry::custom(|failure| {
            if failure.is::<std::fmt::Error>() {
                RetryDecision::Retry(Duration::ZERO)
            } else {
                RetryDecision::Stop
            }
        });
        let record = ErrorObject::new("E", "m");
        let error: BoxError = Box::new(std::fmt::Error);
        assert_eq!(retry.decide(&record, Some(&error), 1, 0), Some(1));
        assert_eq!(retry.decide(&record, None, 1, 0), None);
    }

    #[test]
    fn a_condition_stops_what_it_does_not_approve_and_keeps_the_delays() {
        let retry = Retry::linear().when(|failure| failure.is::<std::fmt::Error>());
        let record = ErrorObject::new("E", "m");
        let error: BoxError = Box::new(std::fmt::Error);
        assert_eq!(retry.decide(&record, Some(&error), 2, 0), Some(2));
        let other: BoxError = "other".into();
        assert_eq!(retry.decide(&record, Some(&other), 2, 0), None);
        assert_eq!(retry.decide(&record, None, 2, 0), None);
    }

    #[test]
    fn impossible_numbers_are_reported() {
        assert!(Retry::default().problem().is_none());
        assert!(Retry::default().max_attempts(0).problem().is_some());
        assert!(Retry::default().backoff_rate(f64::NAN).problem().is_some());
        assert!(
            Retry::fixed(Duration::from_secs(31_622_401))
                .problem()
                .unwrap()
                .contains("366 days")
        );
    }
}

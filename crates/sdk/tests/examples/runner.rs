//! What the tests need from a home of durable functions.

use outlast::{
    Error, Function,
    core::{
        event::{Details, Event},
        wire::{ErrorObject, ExecutionStatus},
    },
    testing::{Answer, CrashReport, TestKit},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use std::{future::Future, time::Duration};

/// What the outside world does while an execution runs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Script {
    replies: Vec<(String, Reply, Duration)>,
}

impl Script {
    /// The replies by the names of their callbacks, in order.
    pub(crate) fn answers(self) -> impl Iterator<Item = (String, Answer)> {
        self.replies.into_iter().map(|(name, reply, after)| {
            let answer = match reply {
                Reply::Value(value) => Answer::json(value),
                Reply::Failure(message) => Answer::fail("DeskError", &message),
            };
            (name, answer.after(after))
        })
    }
}

/// What comes for a callback.
#[derive(Clone, Debug)]
enum Reply {
    Value(Value),
    Failure(String),
}

impl Script {
    /// Nothing comes from outside.
    pub(crate) fn silent() -> Self {
        Self::default()
    }

    /// The next callback of this name gets this value, so long after it was opened.
    pub(crate) fn reply(mut self, name: &str, value: impl Serialize, after: Duration) -> Self {
        let value = serde_json::to_value(value).unwrap();
        self.replies
            .push((name.to_owned(), Reply::Value(value), after));
        self
    }

    /// The next callback of this name is reported as failed.
    pub(crate) fn failure(mut self, name: &str, message: &str) -> Self {
        let reply = Reply::Failure(message.to_owned());
        self.replies.push((name.to_owned(), reply, Duration::ZERO));
        self
    }
}

/// How an execution ended, and its history in the service's words.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) status: ExecutionStatus,
    pub(crate) result: Option<Value>,
    pub(crate) error: Option<ErrorObject>,
    pub(crate) history: Vec<Event>,
}

impl Outcome {
    /// The result, of an execution that has one.
    #[track_caller]
    pub(crate) fn value<T: DeserializeOwned>(&self) -> T {
        assert_eq!(
            self.status,
            ExecutionStatus::Succeeded,
            "failed with {:?}",
            self.error
        );
        serde_json::from_value(self.result.clone().unwrap()).unwrap()
    }

    /// The message of an execution that failed.
    #[track_caller]
    pub(crate) fn message(&self) -> &str {
        assert_eq!(self.status, ExecutionStatus::Failed);
        let error = self.error.as_ref().unwrap();
        error.error_message.as_deref().unwrap()
    }

    /// Names of the steps that succeeded, in order.
    pub(crate) fn steps(&self) -> Vec<&str> {
        let done = |event: &&Event| {
            matches!(
                &event.details,
                Details::StepSucceeded { retry_details, .. }
                    if retry_details.next_attempt_delay_seconds.is_none()
            )
        };
        let done = self.history.iter().filter(done);
        done.filter_map(|event| event.name.as_deref()).collect()
    }

    /// How often an attempt of this step failed.
    pub(crate) fn failures(&self, step: &str) -> usize {
        let failed = |event: &&Event| {
            matches!(event.details, Details::StepFailed { .. })
                && event.name.as_deref() == Some(step)
        };
        self.history.iter().filter(failed).count()
    }

    /// How often the handler was invoked.
    pub(crate) fn invocations(&self) -> usize {
        let ended = |event: &&Event| matches!(event.details, Details::InvocationCompleted { .. });
        self.history.iter().filter(ended).count()
    }

    /// How long the execution took.
    pub(crate) fn elapsed(&self) -> Duration {
        let first = self.history.first().unwrap().event_timestamp;
        let last = self.history.last().unwrap().event_timestamp;
        Duration::from_millis(last.millis_since(first))
    }
}

/// A place where durable functions run.
pub(crate) trait Home {
    /// Runs one execution to its end.
    fn run(
        &self,
        function: Function,
        input: Value,
        script: Script,
    ) -> impl Future<Output = Outcome>;
}

/// The test kit with a script's replies.
pub(crate) fn kit(function: Function, script: Script) -> TestKit {
    let kit = TestKit::of(function);
    script
        .answers()
        .fold(kit, |kit, (name, answer)| kit.callback(&name, answer))
}

/// Runs one execution to its end, wherever these tests run.
pub(crate) async fn run(function: Function, input: impl Serialize, script: Script) -> Outcome {
    let input = serde_json::to_value(input).map_err(Error::other).unwrap();
    crate::home().run(function, input, script).await
}

/// Runs it again and again, each time with a crash at another checkpoint, and demands that it ends
/// the same way.
#[track_caller]
pub(crate) fn crash_everywhere(
    function: Function,
    input: impl Serialize,
    script: Script,
) -> impl Future<Output = CrashReport> {
    let input = serde_json::to_value(input).unwrap();
    async move {
        let report = kit(function, script).crash_everywhere(input).await;
        report.assert_same();
        assert!(report.crashes > 0, "there was nothing to crash");
        report
    }
}

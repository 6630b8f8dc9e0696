//! A backend in memory without a test kit around it: one execution, decided by the core, under a
//! clock that jumps to the next wake whenever the handler has suspended. For tests that need real
//! threads or that take an invocation apart.

use outlast::{
    Clock, Config, Executor, Function, Outcome, Request,
    backend::{Backend, BackendError, BoxFuture},
    core::{
        Env, Execution, Input, Outcome as Ended, Quotas, Rejection, Reply, Start, Target, arn,
        random::SplitMix64,
        record::nothing,
        time::Timestamp,
        token::{Key, Keys},
        wire::{
            CheckpointRequest, CheckpointResponse, DurableConfig, ErrorObject, InvocationInput,
            InvocationStatus, StatePage,
        },
    },
    invoke,
};
use std::sync::{
    Arc, Mutex, MutexGuard,
    atomic::{AtomicU64, Ordering},
};

/// Invocations after which an execution that never ends is given up.
const INVOCATIONS_MAX: u64 = 1_000;

/// A clock that stands still until it is moved.
#[derive(Clone, Debug)]
pub(crate) struct Hands(Arc<AtomicU64>);

impl Clock for Hands {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::SeqCst))
    }
}

/// One execution and its backend.
pub(crate) struct Direct {
    state: Mutex<State>,
    hands: Hands,
}

struct State {
    execution: Execution,
    random: SplitMix64,
    keys: Keys,
    requests: u64,
}

impl Direct {
    pub(crate) fn new() -> Arc<Self> {
        let hands = Hands(Arc::new(AtomicU64::new(1_767_225_600_000)));
        let keys = Keys::new(Key::new(1, [7; 32]));
        let start = Start {
            function: arn::Function {
                partition: "aws".into(),
                region: "us-east-1".into(),
                account: "000000000000".into(),
                name: "direct".into(),
                version: "$LATEST".into(),
            },
            name: None,
            input: Some("null".into()),
            config: DurableConfig {
                execution_timeout: 31_622_400,
                retention_period_in_days: None,
                kms_key_arn: None,
            },
            synchronous: false,
            tenant: None,
            trace: None,
            client_context: None,
            parent: None,
        };
        let quotas = Quotas::unlimited();
        let (execution, _) =
            Execution::start(&env(&hands, [1; 32], &keys, &quotas), start).unwrap();
        let state = State {
            execution,
            random: SplitMix64::new(1),
            keys,
            requests: 0,
        };
        Arc::new(Self {
            state: Mutex::new(state),
            hands,
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// A function on this backend's clock, with its spawned work in tasks of their own.
    pub(crate) fn equip(&self, function: Function) -> Function {
        let config = Config::new()
            .executor(Executor::Tasks)
            .clock(self.hands.clone());
        function.config(config)
    }

    fn decide(&self, input: Input) -> Result<Reply, Rejection> {
        let mut state = self.lock();
        let mut random = [0; 32];
        for chunk in random.chunks_mut(8) {
            chunk.copy_from_slice(&state.random.next_u64().to_be_bytes());
        }
        let State {
            execution, keys, ..
        } = &mut *state;
        let quotas = Quotas::unlimited();
        let decision = execution.decide(&env(&self.hands, random, keys, &quotas), input)?;
        Ok(decision.reply)
    }

    /// Begins the next invocation, jumping to the moment at which the execution wants one.
    pub(crate) fn begin(&self) -> Option<(Arc<str>, InvocationInput)> {
        while !self.lock().execution.wants_invocation(self.hands.now()) {
            let at = self.lock().execution.next_wake()?;
            self.hands.0.fetch_max(at.as_millis(), Ordering::SeqCst);
            self.decide(Input::Tick).unwrap();
        }
        let number = self.lock().execution.invocations() + 1;
        assert!(number <= INVOCATIONS_MAX, "the execution never ends");
        let invocation_id: Arc<str> = format!("request-{number}").into();
        let input = Input::Invoke {
            invocation_id: invocation_id.clone(),
        };
        let Reply::Invoke(input) = self.decide(input).unwrap() else {
            panic!("the core answered something else");
        };
        Some((invocation_id, *input))
    }

    /// Runs one invocation and tells the execution how it ended.
    pub(crate) async fn invoke(self: &Arc<Self>, function: &Function) -> Option<Outcome> {
        let (invocation_id, input) = self.begin()?;
        let outcome = invoke(function, input, self.clone(), Request::default()).await;
        let ended = match &outcome.answer {
            Ok(output) => Ended::Output(output.clone()),
            Err(failed) => Ended::Failed(failed.record.clone()),
        };
        let pending =
            matches!(&outcome.answer, Ok(output) if output.status == InvocationStatus::Pending);
        self.decide(Input::Complete {
            invocation_id,
            outcome: ended,
        })
        .unwrap();
        let state = self.lock();
        let is_stuck = state.execution.next_wake() == Some(state.execution.deadline())
            && !state.execution.wants_invocation(self.hands.now());
        assert!(
            !(pending && is_stuck),
            "PENDING with nothing pending: {}",
            outcome.report
        );
        Some(outcome)
    }

    /// Runs the execution to its end; gives every invocation.
    pub(crate) async fn run(self: &Arc<Self>, function: &Function) -> Vec<Outcome> {
        let mut outcomes = Vec::new();
        while !self.lock().execution.status().is_terminal() {
            outcomes.extend(self.invoke(function).await);
        }
        outcomes
    }

    /// The result of the execution, as JSON text.
    pub(crate) fn result(&self) -> Result<String, Option<ErrorObject>> {
        let state = self.lock();
        match state.execution.result() {
            Some(result) => Ok(result.to_string()),
            None => Err(state.execution.error().cloned()),
        }
    }
}

fn env<'a>(hands: &Hands, random: [u8; 32], keys: &'a Keys, limits: &'a Quotas) -> Env<'a> {
    Env {
        now: hands.now(),
        random,
        keys,
        limits,
        resolve: &|name| Target::Refused(ErrorObject::new("ResourceNotFoundException", name)),
        load: &nothing,
    }
}

fn refused(rejection: Rejection) -> BackendError {
    BackendError::service(
        rejection.code.http_status(),
        rejection.code.name(),
        rejection.message,
    )
}

impl Backend for Direct {
    fn checkpoint<'a>(
        &'a self,
        _: &'a str,
        request: CheckpointRequest,
    ) -> BoxFuture<'a, Result<CheckpointResponse, BackendError>> {
        Box::pin(async move {
            // Now and then the answer takes a turn of the scheduler, as a network would.
            let is_slow = {
                let mut state = self.lock();
                state.requests += 1;
                state.requests.is_multiple_of(3)
            };
            if is_slow {
                tokio::task::yield_now().await;
            }
            let reply = self.decide(Input::Checkpoint(request)).map_err(refused)?;
            let Reply::Checkpoint(response) = reply else {
                panic!("the core answered something else");
            };
            Ok(response)
        })
    }

    fn state<'a>(
        &'a self,
        _: &'a str,
        token: &'a str,
        marker: &'a str,
    ) -> BoxFuture<'a, Result<StatePage, BackendError>> {
        Box::pin(async move {
            let state = self.lock();
            let quotas = Quotas::unlimited();
            let env = env(&self.hands, [2; 32], &state.keys, &quotas);
            state
                .execution
                .state_page(&env, token, Some(marker), None)
                .map_err(refused)
        })
    }
}

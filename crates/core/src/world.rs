//! A small world for tests: one execution, a clock, some functions, and a check after every step
//! that the invariants hold, that the records fold to the same execution, and that a refused input
//! changed nothing.

use crate::{
    arn::Function,
    decide::{Decision, Env, Input, Reply, Target},
    delivery::{Arrival, Delivery, Receipt},
    error::Rejection,
    execution::Execution,
    history::Query,
    id::OperationId,
    intent::Intent,
    invocation::Outcome,
    limits::Quotas,
    record::{self, Record},
    start::Start,
    tenancy::Tenancy,
    time::Timestamp,
    token::{Key, Keys},
    transcript,
    wire::{
        self, CallbackOptions, ChainedInvokeOptions, CheckpointRequest, CheckpointResponse,
        ContextOptions, DurableConfig, ErrorObject, InvocationInput, InvocationOutput,
        OperationAction, OperationStatus, OperationType, OperationUpdate, StepOptions, WaitOptions,
    },
};
use alloc::{
    format,
    string::{String, ToString as _},
    sync::Arc,
    vec,
    vec::Vec,
};

/// The start of every test's clock: 2026-01-01.
pub(crate) const START_MS: u64 = 1_767_225_600_000;

pub(crate) fn at(ms: u64) -> Timestamp {
    Timestamp::from_millis(START_MS + ms)
}

pub(crate) fn function(name: &str) -> Function {
    Function {
        partition: "aws".into(),
        region: "us-east-1".into(),
        account: "123456789012".into(),
        name: name.into(),
        version: "1".into(),
    }
}

pub(crate) fn config(seconds: u32) -> DurableConfig {
    DurableConfig {
        execution_timeout: seconds,
        retention_period_in_days: None,
        kms_key_arn: None,
    }
}

pub(crate) fn start() -> Start {
    Start {
        function: function("order"),
        name: Some("run".into()),
        input: Some("{\"n\":1}".into()),
        config: config(100_000),
        synchronous: false,
        tenant: None,
        trace: None,
        client_context: None,
        parent: None,
    }
}

/// What the functions of the test world are.
pub(crate) fn resolve(name: &str) -> Target {
    match name {
        "durable:1" => Target::Durable {
            function: function("durable"),
            config: config(60),
            tenancy: Tenancy::Any,
        },
        "per-tenant:1" => Target::Durable {
            function: function("per-tenant"),
            config: config(60),
            tenancy: Tenancy::PerTenant,
        },
        "plain" => Target::Plain {
            version: "$LATEST".into(),
            tenancy: Tenancy::Any,
        },
        "shared" => Target::Plain {
            version: "$LATEST".into(),
            tenancy: Tenancy::Shared,
        },
        other => Target::Refused(ErrorObject::new(
            wire::error_type::RESOURCE_NOT_FOUND,
            format!("function not found: {other}"),
        )),
    }
}

pub(crate) struct World {
    pub(crate) execution: Execution,
    pub(crate) records: Vec<Record>,
    pub(crate) now: Timestamp,
    pub(crate) quotas: Quotas,
    pub(crate) keys: Keys,
    /// The token the running handler holds.
    pub(crate) token: Option<String>,
    pub(crate) invocation: Arc<str>,
    pub(crate) intents: Vec<Intent>,
    /// Whether every step is checked; off for large executions.
    pub(crate) checked: bool,
    decisions: u64,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::starting(start(), Quotas::unlimited())
    }

    pub(crate) fn with(change: impl FnOnce(&mut Quotas)) -> Self {
        let mut quotas = Quotas::unlimited();
        change(&mut quotas);
        Self::starting(start(), quotas)
    }

    pub(crate) fn starting(start: Start, quotas: Quotas) -> Self {
        let keys = Keys::new(Key::new(1, [9; 32]));
        let env = Env {
            now: at(0),
            random: [7; 32],
            keys: &keys,
            limits: &quotas,
            resolve: &resolve,
            load: &record::nothing,
        };
        let (execution, records) = Execution::start(&env, start).expect("a legal start");
        Self {
            execution,
            records,
            now: at(0),
            quotas,
            keys,
            token: None,
            invocation: "".into(),
            intents: Vec::new(),
            checked: true,
            decisions: 0,
        }
    }

    pub(crate) fn env<T>(&self, use_it: impl FnOnce(&Env<'_>) -> T) -> T {
        let mut random = [0; 32];
        for (to, from) in random.iter_mut().zip(self.decisions.to_be_bytes()) {
            *to = from;
        }
        use_it(&Env {
            now: self.now,
            random,
            keys: &self.keys,
            limits: &self.quotas,
            resolve: &resolve,
            load: &record::nothing,
        })
    }

    /// Decides an input and checks everything that must hold afterwards.
    pub(crate) fn decide(&mut self, input: Input) -> Result<Reply, Rejection> {
        self.decisions += 1;
        let mut execution = self.execution.clone();
        let decided = self.env(|env| execution.decide(env, input));
        match decided {
            Err(refused) => {
                assert_eq!(
                    execution, self.execution,
                    "a refused input changed something"
                );
                Err(refused)
            }
            Ok(Decision {
                records,
                reply,
                intents,
            }) => {
                self.execution = execution;
                self.records.extend(records);
                self.intents.extend(intents);
                if self.checked {
                    self.check();
                }
                Ok(reply)
            }
        }
    }

    pub(crate) fn check(&self) {
        if let Err(broken) = self.execution.check_invariants() {
            panic!("{broken}\n{}", self.history());
        }
        let folded = Execution::from_records(&self.records).expect("a sound journal");
        assert_eq!(folded, self.execution, "the fold differs");
    }

    pub(crate) fn advance(&mut self, ms: u64) -> &mut Self {
        self.now = self.now.plus_millis(ms);
        self
    }

    pub(crate) fn tick(&mut self) {
        self.decide(Input::Tick).expect("a tick is never refused");
    }

    pub(crate) fn invoke(&mut self) -> InvocationInput {
        self.try_invoke().expect("wants to be invoked")
    }

    pub(crate) fn try_invoke(&mut self) -> Result<InvocationInput, Rejection> {
        let invocation: Arc<str> =
            format!("invocation-{}", self.execution.invocations() + 1).into();
        let reply = self.decide(Input::Invoke {
            invocation_id: invocation.clone(),
        })?;
        let Reply::Invoke(input) = reply else {
            panic!("not an invocation: {reply:?}");
        };
        self.invocation = invocation;
        self.token = Some(input.checkpoint_token.clone());
        Ok(*input)
    }

    pub(crate) fn checkpoint(
        &mut self,
        updates: impl IntoIterator<Item = OperationUpdate>,
    ) -> CheckpointResponse {
        self.try_checkpoint(updates).expect("a legal checkpoint")
    }

    pub(crate) fn try_checkpoint(
        &mut self,
        updates: impl IntoIterator<Item = OperationUpdate>,
    ) -> Result<CheckpointResponse, Rejection> {
        self.send(CheckpointRequest {
            checkpoint_token: self.token.clone().expect("a token"),
            updates: updates.into_iter().collect(),
            client_token: None,
        })
    }

    /// Sends a request and keeps the next token.
    pub(crate) fn send(
        &mut self,
        request: CheckpointRequest,
    ) -> Result<CheckpointResponse, Rejection> {
        let reply = self.decide(Input::Checkpoint(request))?;
        let Reply::Checkpoint(response) = reply else {
            panic!("not a checkpoint: {reply:?}");
        };
        self.token = response.checkpoint_token.clone();
        Ok(response)
    }

    pub(crate) fn complete(&mut self, outcome: Outcome) -> bool {
        let reply = self.decide(Input::Complete {
            invocation_id: self.invocation.clone(),
            outcome,
        });
        self.token = None;
        matches!(reply, Ok(Reply::Completed { current: true }))
    }

    pub(crate) fn suspend(&mut self) {
        assert!(self.complete(Outcome::Output(InvocationOutput::pending())));
    }

    pub(crate) fn succeed(&mut self, result: &str) {
        let output = InvocationOutput::succeeded(Some(result.into()));
        assert!(self.complete(Outcome::Output(output)));
    }

    pub(crate) fn answer(&mut self, text: &str) {
        assert!(self.complete(Outcome::Answered(text.as_bytes().to_vec())));
    }

    pub(crate) fn crash(&mut self) {
        assert!(self.complete(Outcome::exited("exit status 1")));
    }

    pub(crate) fn deliver(&mut self, arrival: Arrival) -> Result<Receipt, Rejection> {
        let delivery = Delivery {
            at: self.now,
            arrival,
        };
        let Ok(Reply::Delivered(mut receipts)) = self.decide(Input::Deliver(vec![delivery])) else {
            panic!("deliveries are answered one by one");
        };
        receipts.pop().expect("one receipt")
    }

    pub(crate) fn signal(&mut self, name: &str, payload: &str) -> Receipt {
        self.deliver(Arrival::Signal {
            name: name.into(),
            payload: Some(payload.into()),
        })
        .expect("an accepted signal")
    }

    pub(crate) fn callback_id(&self, id: &str) -> Arc<str> {
        let details = self.operation(id).callback_details.expect("a callback");
        details.callback_id.expect("a callback id")
    }

    pub(crate) fn answer_callback(&mut self, id: &str, result: &str) -> Result<Receipt, Rejection> {
        let callback_id = self.callback_id(id);
        self.deliver(Arrival::CallbackSucceeded {
            callback_id,
            result: Some(result.into()),
        })
    }

    pub(crate) fn operation(&self, id: &str) -> wire::Operation {
        self.execution
            .operation(&OperationId::from(id), &record::nothing)
            .expect("in memory")
            .expect("a known operation")
    }

    pub(crate) fn status(&self, id: &str) -> OperationStatus {
        self.operation(id).status
    }

    pub(crate) fn events(&self) -> Vec<crate::event::Event> {
        let query = Query {
            max_items: Some(1_000),
            ..Query::default()
        };
        self.execution
            .history(&self.records, query, &record::nothing)
            .expect("a page")
            .events
    }

    pub(crate) fn history(&self) -> String {
        transcript::text(&self.events())
    }

    /// The history without ExecutionStarted, one word per event.
    pub(crate) fn event_types(&self) -> String {
        let types: Vec<&str> = self
            .events()
            .iter()
            .skip(1)
            .map(|event| event.event_type.as_str())
            .collect();
        types.join(" ")
    }
}

pub(crate) fn update(
    operation_type: OperationType,
    action: OperationAction,
    id: &str,
) -> OperationUpdate {
    OperationUpdate::new(OperationId::from(id), operation_type, action)
}

pub(crate) fn start_step(id: &str) -> OperationUpdate {
    update(OperationType::Step, OperationAction::Start, id)
}

pub(crate) fn succeed_step(id: &str, result: &str) -> OperationUpdate {
    OperationUpdate {
        payload: Some(result.into()),
        ..update(OperationType::Step, OperationAction::Succeed, id)
    }
}

pub(crate) fn fail_step(id: &str, message: &str) -> OperationUpdate {
    OperationUpdate {
        error: Some(Arc::new(ErrorObject::new("Boom", message))),
        ..update(OperationType::Step, OperationAction::Fail, id)
    }
}

pub(crate) fn retry_step(id: &str, seconds: u32) -> OperationUpdate {
    OperationUpdate {
        error: Some(Arc::new(ErrorObject::new("Boom", "again"))),
        step_options: Some(StepOptions {
            next_attempt_delay_seconds: Some(seconds),
        }),
        ..update(OperationType::Step, OperationAction::Retry, id)
    }
}

/// A poll of a condition that is not met yet.
pub(crate) fn poll_step(id: &str, state: &str, seconds: u32) -> OperationUpdate {
    OperationUpdate {
        error: None,
        payload: Some(state.into()),
        ..retry_step(id, seconds)
    }
}

pub(crate) fn start_wait(id: &str, seconds: u32) -> OperationUpdate {
    OperationUpdate {
        wait_options: Some(WaitOptions {
            wait_seconds: Some(seconds),
        }),
        ..update(OperationType::Wait, OperationAction::Start, id)
    }
}

pub(crate) fn start_context(id: &str) -> OperationUpdate {
    update(OperationType::Context, OperationAction::Start, id)
}

pub(crate) fn succeed_context(id: &str, replay_children: bool) -> OperationUpdate {
    OperationUpdate {
        context_options: Some(ContextOptions { replay_children }),
        payload: Some("\"done\"".into()),
        ..update(OperationType::Context, OperationAction::Succeed, id)
    }
}

pub(crate) fn start_callback(id: &str, timeout: u32, heartbeat: u32) -> OperationUpdate {
    OperationUpdate {
        callback_options: Some(CallbackOptions {
            timeout_seconds: Some(timeout),
            heartbeat_timeout_seconds: Some(heartbeat),
        }),
        ..update(OperationType::Callback, OperationAction::Start, id)
    }
}

pub(crate) fn wait_signal(id: &str, name: &str, timeout: u32) -> OperationUpdate {
    OperationUpdate {
        name: Some(name.into()),
        sub_type: Some(wire::sub_type::SIGNAL.into()),
        ..start_callback(id, timeout, 0)
    }
}

pub(crate) fn start_invoke(id: &str, function: &str) -> OperationUpdate {
    OperationUpdate {
        payload: Some("{\"x\":1}".into()),
        chained_invoke_options: Some(ChainedInvokeOptions {
            function_name: function.to_string(),
            ..ChainedInvokeOptions::default()
        }),
        ..update(OperationType::ChainedInvoke, OperationAction::Start, id)
    }
}

pub(crate) fn inside(parent: &str, update: OperationUpdate) -> OperationUpdate {
    OperationUpdate {
        parent_id: Some(OperationId::from(parent)),
        ..update
    }
}

pub(crate) fn named(name: &str, update: OperationUpdate) -> OperationUpdate {
    OperationUpdate {
        name: Some(name.into()),
        ..update
    }
}

pub(crate) fn ids(operations: &[wire::Operation]) -> Vec<&str> {
    operations
        .iter()
        .map(|operation| operation.id.as_str())
        .collect()
}

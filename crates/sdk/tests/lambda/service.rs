//! AWS Lambda in one socket: the Runtime API and the durable-execution API, for one execution that
//! the core decides. Its time is its own and jumps to the next timer, so nothing here sleeps.

use crate::http::{Answer, Request, decode};
use outlast::{
    Clock as _, SystemClock,
    core::{
        self, Env, Execution, Input, Outcome, Quotas, Rejection, Reply, Start, Target,
        arn::Function,
        delivery::{Arrival, Delivery},
        random::SplitMix64,
        time::Timestamp,
        token::{Key, Keys},
        wire::{
            CheckpointRequest, DurableConfig, ErrorObject, ExecutionStatus, OperationStatus,
            OperationType,
        },
    },
};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard},
};
use tokio::{
    io::BufReader,
    net::{TcpListener, TcpStream},
    sync::Notify,
    task::JoinSet,
};

/// What goes wrong with one request to the durable-execution API.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// It is refused: status, exception, message.
    Refuse(u16, &'static str, &'static str),
    /// It is applied, but its answer is lost on the way.
    LoseAnswer,
    /// It is applied, and this text of its answer is replaced by that.
    Garble(&'static str, &'static str),
}

/// What a test sets up.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    /// The function, by the name it is deployed under.
    pub(crate) function: &'static str,
    /// The execution's input.
    pub(crate) input: Value,
    /// What every callback is answered with.
    pub(crate) reply: &'static str,
    /// Faults, by the number of the request (from 1).
    pub(crate) faults: BTreeMap<usize, Fault>,
    /// Events that come before the execution's own.
    pub(crate) events: VecDeque<Value>,
    /// Bytes on one page of state.
    pub(crate) page_bytes: usize,
    /// More environment variables.
    pub(crate) variables: Vec<(&'static str, &'static str)>,
}

impl Script {
    pub(crate) fn of(function: &'static str, input: Value) -> Self {
        Self {
            function,
            input,
            reply: "yes",
            faults: BTreeMap::new(),
            events: VecDeque::new(),
            page_bytes: Quotas::aws().page_bytes_max,
            variables: Vec::new(),
        }
    }

    pub(crate) fn fault(mut self, request: usize, fault: Fault) -> Self {
        self.faults.insert(request, fault);
        self
    }
}

/// The platform.
pub(crate) struct Service {
    state: Mutex<State>,
    /// An invocation has ended.
    news: Notify,
    /// The execution has ended and the function asks for more to do.
    pub(crate) done: Notify,
}

pub(crate) struct State {
    script: Script,
    pub(crate) execution: Execution,
    /// Every request but those for the next event, in order.
    pub(crate) requests: Vec<Request>,
    now: Timestamp,
    keys: Keys,
    quotas: Quotas,
    random: SplitMix64,
    calls: usize,
    invocations: u32,
}

impl Service {
    pub(crate) fn new(script: Script) -> Arc<Self> {
        let now = Timestamp::from_millis(1_767_225_600_123);
        let keys = Keys::new(Key::new(1, [7; 32]));
        let quotas = Quotas {
            page_bytes_max: script.page_bytes,
            ..Quotas::aws()
        };
        let start = Start {
            function: Function {
                partition: "aws".into(),
                region: "us-east-1".into(),
                account: "000000000000".into(),
                name: script.function.into(),
                version: "$LATEST".into(),
            },
            name: Some("monday".into()),
            input: Some(script.input.to_string().into()),
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
        let env = env(now, [1; 32], &keys, &quotas);
        let (execution, _) = Execution::start(&env, start).unwrap();
        Arc::new(Self {
            state: Mutex::new(State {
                script,
                execution,
                requests: Vec::new(),
                now,
                keys,
                quotas,
                random: SplitMix64::new(1),
                calls: 0,
                invocations: 0,
            }),
            news: Notify::new(),
            done: Notify::new(),
        })
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Serves until dropped.
    pub(crate) async fn serve(self: Arc<Self>, listener: TcpListener) {
        let mut connections = JoinSet::new();
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            connections.spawn(self.clone().attend(stream));
        }
    }

    async fn attend(self: Arc<Self>, stream: TcpStream) {
        let mut stream = BufReader::new(stream);
        while let Some(request) = Request::read(&mut stream).await {
            let answer = match request.path() {
                "/2018-06-01/runtime/invocation/next" => self.next().await,
                _ => self.lock().answer(&request),
            };
            self.news.notify_waiters();
            if !answer.write(&mut stream).await {
                return;
            }
        }
    }

    /// Waits until there is something to do.
    async fn next(&self) -> Answer {
        loop {
            let news = self.news.notified();
            tokio::pin!(news);
            news.as_mut().enable();
            let (event, is_over) = {
                let mut state = self.lock();
                let event = state.next_event();
                (event, state.execution.status() != ExecutionStatus::Running)
            };
            match event {
                Some(answer) => return answer,
                None if is_over => self.done.notify_one(),
                None => {}
            }
            news.await;
        }
    }
}

fn env<'a>(now: Timestamp, random: [u8; 32], keys: &'a Keys, quotas: &'a Quotas) -> Env<'a> {
    Env {
        now,
        random,
        keys,
        limits: quotas,
        resolve: &|name| Target::Refused(ErrorObject::new("ResourceNotFoundException", name)),
        load: &core::record::nothing,
    }
}

impl State {
    fn decide(&mut self, input: Input) -> Result<Reply, Rejection> {
        let mut random = [0; 32];
        for chunk in random.chunks_mut(8) {
            chunk.copy_from_slice(&self.random.next_u64().to_be_bytes());
        }
        let env = env(self.now, random, &self.keys, &self.quotas);
        Ok(self.execution.decide(&env, input)?.reply)
    }

    /// The next event for the function, letting time pass and callbacks be answered until there is
    /// one; none while an invocation runs and when the execution is over.
    fn next_event(&mut self) -> Option<Answer> {
        if let Some(event) = self.script.events.pop_front() {
            return Some(self.event("scripted", &event));
        }
        while self.execution.invocation().is_none() {
            if self.execution.wants_invocation(self.now) {
                self.invocations += 1;
                let id = format!("request-{}", self.invocations);
                let invocation_id = id.as_str().into();
                let reply = self.decide(Input::Invoke { invocation_id }).unwrap();
                let Reply::Invoke(input) = reply else {
                    panic!("{reply:?}");
                };
                return Some(self.event(&id, &serde_json::to_value(input).unwrap()));
            }
            self.pass_time()?;
        }
        None
    }

    /// Answers an open callback, or jumps to the next timer.
    fn pass_time(&mut self) -> Option<()> {
        if self.execution.status() != ExecutionStatus::Running {
            return None;
        }
        let operations = self.execution.operations(&core::record::nothing).unwrap();
        let open = operations.into_iter().find(|operation| {
            operation.operation_type == OperationType::Callback
                && operation.status == OperationStatus::Started
        });
        if let Some(callback) = open {
            let callback_id = callback.callback_details?.callback_id?;
            let arrival = Arrival::CallbackSucceeded {
                callback_id,
                result: Some(self.script.reply.into()),
            };
            let at = self.now;
            self.decide(Input::Deliver(vec![Delivery { at, arrival }]))
                .unwrap();
        } else {
            self.now = self.execution.next_wake()?.max(self.now);
            self.decide(Input::Tick).unwrap();
        }
        Some(())
    }

    fn event(&self, id: &str, event: &Value) -> Answer {
        let function = &self.execution.profile().arn.function;
        Answer::new(200, event)
            .header("Content-Type", "application/json")
            .header("Lambda-Runtime-Aws-Request-Id", id)
            .header(
                "Lambda-Runtime-Deadline-Ms",
                SystemClock.now().plus_seconds(900).as_millis(),
            )
            .header("Lambda-Runtime-Invoked-Function-Arn", function)
            .header("Lambda-Runtime-Trace-Id", "Root=1-5bef4de7")
            .header("Lambda-Runtime-Aws-Tenant-Id", "blue")
            .header(
                "Lambda-Runtime-Client-Context",
                r#"{"custom":{"colour":"red"}}"#,
            )
    }

    fn answer(&mut self, request: &Request) -> Answer {
        self.requests.push(request.clone());
        let parts: Vec<_> = request.path().split('/').skip(1).collect();
        match (request.method.as_str(), parts.as_slice()) {
            ("POST", ["2018-06-01", "runtime", "invocation", id, ending]) => {
                self.complete(id, ending, request);
                Answer::new(202, json!({"status": "OK"}))
            }
            ("POST", ["2025-12-01", "durable-executions", arn, "checkpoint"]) => {
                self.call(arn, |state| {
                    let body: CheckpointRequest = serde_json::from_slice(&request.body).unwrap();
                    let reply = state.decide(Input::Checkpoint(body))?;
                    let Reply::Checkpoint(response) = reply else {
                        panic!("{reply:?}");
                    };
                    Ok(serde_json::to_value(response).unwrap())
                })
            }
            ("GET", ["2025-12-01", "durable-executions", arn, "state"]) => {
                self.call(arn, |state| {
                    let token = request.query("CheckpointToken").unwrap();
                    let items = request.query("MaxItems").unwrap().parse().ok();
                    let env = env(state.now, [0; 32], &state.keys, &state.quotas);
                    let marker = request.query("Marker");
                    let page =
                        state
                            .execution
                            .state_page(&env, &token, marker.as_deref(), items)?;
                    Ok(serde_json::to_value(page).unwrap())
                })
            }
            other => panic!("{other:?}"),
        }
    }

    fn complete(&mut self, id: &str, ending: &str, request: &Request) {
        if id == "scripted" {
            return;
        }
        let outcome = match ending {
            "response" => Outcome::Answered(request.body.clone()),
            "error" => {
                let body = request.json();
                let text = |name: &str| body[name].as_str().unwrap().to_owned();
                Outcome::Failed(ErrorObject::new(text("errorType"), text("errorMessage")))
            }
            other => panic!("{other}"),
        };
        let invocation_id = id.into();
        self.decide(Input::Complete {
            invocation_id,
            outcome,
        })
        .unwrap();
    }

    /// One call of the durable-execution API, with whatever goes wrong with it.
    fn call(
        &mut self,
        arn: &str,
        apply: impl FnOnce(&mut Self) -> Result<Value, Rejection>,
    ) -> Answer {
        assert_eq!(decode(arn), **self.execution.arn());
        self.calls += 1;
        let fault = self.script.faults.get(&self.calls).copied();
        if let Some(Fault::Refuse(status, code, message)) = fault {
            return refusal(status, code, message);
        }
        let answer = match apply(self) {
            Ok(body) => Answer::new(200, in_seconds(body)),
            Err(refused) => refusal(
                refused.code.http_status(),
                refused.code.name(),
                &refused.message,
            ),
        };
        match fault {
            Some(Fault::LoseAnswer) => refusal(503, "ServiceUnavailable", "lost"),
            Some(Fault::Garble(from, to)) => Answer {
                body: answer.body.replace(from, to),
                ..answer
            },
            Some(Fault::Refuse(..)) | None => answer,
        }
    }
}

fn refusal(status: u16, code: &str, message: &str) -> Answer {
    let body = json!({"Type": "User", "message": message});
    Answer::new(status, body).header("x-amzn-ErrorType", code)
}

/// The same value with its timestamps as HTTP bodies carry them: in seconds.
fn in_seconds(value: Value) -> Value {
    match value {
        Value::Array(items) => items.into_iter().map(in_seconds).collect(),
        Value::Object(members) => members
            .into_iter()
            .map(|(name, value)| match value.as_u64() {
                Some(ms) if name.ends_with("Timestamp") => (name, json!(ms as f64 / 1_000.0)),
                _ => (name, in_seconds(value)),
            })
            .collect(),
        scalar @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => scalar,
    }
}

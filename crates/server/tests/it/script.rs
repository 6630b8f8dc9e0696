//! A durable handler that does what its input says, one operation after another, and writes its
//! checkpoints over HTTP as any SDK would.
//!
//! The input is a list of operations: `{"step": VALUE}`, `{"wait": SECONDS}`,
//! `{"callback": OPTIONS}`, `{"signal": NAME}`, `{"invoke": FUNCTION, "payload": VALUE}` (and `"tenant"`),
//! `{"poll": SECONDS}` (a callback that the handler waits for without suspending),
//! `{"return": VALUE}`, `{"fail": MESSAGE}`, `{"raise": MESSAGE}`, `{"hang": true}`.

use crate::client::{Client, encode};
use outlast_core::{
    Outcome,
    intent::InvokeOutcome,
    wire::{ErrorObject, InvocationInput, InvocationOutput},
};
use outlast_engine::invoker::{BoxFuture, Call, Invoker, PlainCall};
use outlast_server::catalogue::{FunctionConfiguration, Hosts};
use serde_json::{Value, json};
use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, OnceLock},
};

/// Runs every function as its input says.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scripts {
    /// The server to write to.
    pub(crate) server: Arc<OnceLock<SocketAddr>>,
    /// What handlers were called with, besides their input.
    pub(crate) calls: Arc<Mutex<Vec<Value>>>,
}

impl Hosts for Scripts {
    fn invoker(&self, configuration: &FunctionConfiguration, version: &str) -> Arc<dyn Invoker> {
        Arc::new(Script {
            scripts: self.clone(),
            version: version.to_owned(),
            greeting: configuration.member("Greeting").cloned(),
        })
    }
}

struct Script {
    scripts: Scripts,
    version: String,
    greeting: Option<Value>,
}

impl Invoker for Script {
    fn invoke(&self, call: Call) -> BoxFuture<'_, Outcome> {
        Box::pin(async move {
            self.note(json!({
                "function": call.function.to_string(), "version": self.version,
                "greeting": self.greeting, "tenant": call.tenant.as_deref(),
                "trace": call.trace.as_deref(), "context": call.client_context.as_deref(),
            }));
            let server = Client(*self.scripts.server.get().unwrap());
            Play::new(server, call.input).run().await
        })
    }

    fn invoke_plain(&self, call: PlainCall) -> BoxFuture<'_, InvokeOutcome> {
        Box::pin(async move {
            self.note(json!({
                "function": call.function.to_string(), "version": self.version,
                "greeting": self.greeting, "tenant": call.tenant,
                "trace": call.trace, "context": call.client_context,
            }));
            let input: Value = serde_json::from_str(&call.input).unwrap();
            if let Some(message) = input.get("raise").and_then(Value::as_str) {
                return InvokeOutcome::Failed(ErrorObject::new("Oops", message));
            }
            if input.get("hang").is_some() {
                std::future::pending::<()>().await;
            }
            let result = input.get("return").map(|value| value.to_string().into());
            InvokeOutcome::Succeeded(result)
        })
    }
}

impl Script {
    fn note(&self, call: Value) {
        self.scripts.calls.lock().unwrap().push(call);
    }
}

/// One invocation.
struct Play {
    server: Client,
    path: String,
    token: String,
    operations: Vec<Value>,
    script: Vec<Value>,
}

/// How one line of a script went.
enum Went {
    On,
    Suspended,
    Ended(Outcome),
}

impl Play {
    fn new(server: Client, input: InvocationInput) -> Self {
        let path = encode(&input.durable_execution_arn);
        let token = input.checkpoint_token.clone();
        let operations = serde_json::to_value(&input.initial_execution_state.operations).unwrap();
        let operations = operations.as_array().unwrap().clone();
        let payload = operations[0]["ExecutionDetails"]["InputPayload"]
            .as_str()
            .unwrap();
        let script = serde_json::from_str(payload).unwrap();
        let Value::Array(script) = script else {
            // Whatever is not a script is answered as it is.
            let script = vec![json!({"return": script})];
            return Self {
                server,
                path,
                token,
                operations,
                script,
            };
        };
        Self {
            server,
            path,
            token,
            operations,
            script,
        }
    }

    async fn run(mut self) -> Outcome {
        for (index, line) in self.script.clone().into_iter().enumerate() {
            match self.line(&format!("op-{index}"), &line).await {
                Went::On => {}
                Went::Suspended => return Outcome::Output(InvocationOutput::pending()),
                Went::Ended(outcome) => return outcome,
            }
        }
        Outcome::Output(InvocationOutput::succeeded(None))
    }

    async fn line(&mut self, id: &str, line: &Value) -> Went {
        let (kind, value) = line.as_object().unwrap().iter().next_back().unwrap();
        match kind.as_str() {
            "return" => {
                let result = InvocationOutput::succeeded(Some(value.to_string().into()));
                return Went::Ended(Outcome::Output(result));
            }
            "fail" => {
                let error = ErrorObject::new("Failure", value.as_str().unwrap());
                return Went::Ended(Outcome::Output(InvocationOutput::failed(Some(error))));
            }
            "raise" => {
                let error = ErrorObject::new("Raised", value.as_str().unwrap());
                return Went::Ended(Outcome::Failed(error));
            }
            "hang" => std::future::pending::<()>().await,
            _ => {}
        }
        if self.status(id).is_none() {
            let updates = updates(id, line);
            if !self.checkpoint(updates).await {
                return Went::Ended(Outcome::Output(InvocationOutput::failed(None)));
            }
        }
        match self.status(id).unwrap().as_str() {
            "STARTED" if kind == "poll" => self.poll(value).await,
            "STARTED" | "PENDING" => Went::Suspended,
            _ => Went::On,
        }
    }

    /// Waits for a change and ends with what the server said and what it then knew.
    async fn poll(&mut self, seconds: &Value) -> Went {
        let path = format!(
            "/outlast/v1/executions/{}/changed?CheckpointToken={}&WaitSeconds={seconds}",
            self.path,
            encode(&self.token)
        );
        let reply = self.server.get(&path).await.json();
        self.checkpoint(json!([])).await;
        let last = self.operations.last().unwrap()["Status"].clone();
        let result = json!([reply["Changed"], last]).to_string();
        let output = InvocationOutput::succeeded(Some(result.into()));
        Went::Ended(Outcome::Output(output))
    }

    fn status(&self, id: &str) -> Option<String> {
        let operation = self
            .operations
            .iter()
            .rev()
            .find(|operation| operation["Id"] == id)?;
        Some(operation["Status"].as_str()?.to_owned())
    }

    async fn checkpoint(&mut self, updates: Value) -> bool {
        let path = format!("/2025-12-01/durable-executions/{}/checkpoint", self.path);
        let body = json!({"CheckpointToken": self.token, "Updates": updates});
        let reply = self.server.post(&path, body).await;
        if reply.status != 200 {
            return false;
        }
        let reply = reply.json();
        self.token = reply["CheckpointToken"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        let changed = reply["NewExecutionState"]["Operations"].as_array().unwrap();
        self.operations.extend(changed.iter().cloned());
        true
    }
}

fn updates(id: &str, line: &Value) -> Value {
    if let Some(value) = line.get("step") {
        let name = line.get("name").cloned().unwrap_or_else(|| id.into());
        return json!([
            {"Id": id, "Type": "STEP", "Name": name, "Action": "START"},
            {"Id": id, "Type": "STEP", "Action": "SUCCEED", "Payload": value.to_string()},
        ]);
    }
    let mut update = json!({"Id": id, "Action": "START"});
    let mut put = |name: &str, value: Value| update[name] = value;
    if let Some(seconds) = line.get("wait") {
        put("Type", "WAIT".into());
        put("WaitOptions", json!({"WaitSeconds": seconds}));
    } else if line.get("poll").is_some() {
        put("Type", "CALLBACK".into());
    } else if let Some(options) = line.get("callback") {
        put("Type", "CALLBACK".into());
        put("CallbackOptions", options.clone());
    } else if let Some(name) = line.get("signal") {
        put("Type", "CALLBACK".into());
        put("SubType", "Signal".into());
        put("Name", name.clone());
    } else if let Some(function) = line.get("invoke") {
        put("Type", "CHAINED_INVOKE".into());
        let mut options = json!({"FunctionName": function});
        if let Some(tenant) = line.get("tenant") {
            options["TenantId"] = tenant.clone();
        }
        put("ChainedInvokeOptions", options);
        put("Payload", line["payload"].to_string().into());
    }
    json!([update])
}

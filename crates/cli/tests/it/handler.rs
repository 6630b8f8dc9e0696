//! A handler in a process of its own: a minimal Lambda runtime client around the SDK.
//!
//! The test binary starts itself again, as a test that is told by a variable to be the handler.

#![expect(
    clippy::print_stdout,
    reason = "its output is what the tests look for in the logs"
)]

use outlast::{
    Context, Function, Request, Result, Retry,
    backend::{Backend, BackendError, BoxFuture},
    core::wire::{CheckpointRequest, CheckpointResponse, InvocationInput, StatePage},
};
use serde_json::{Value, json};
use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    sync::Arc,
    time::Duration,
};

/// The variable that makes this process the handler.
pub(crate) const ROLE: &str = "OUTLAST_TEST_HANDLER";
/// The test to run for that.
pub(crate) const TEST: &str = "handler::this_process_is_the_handler_when_told";

/// Not a test of its own: the handler's process.
#[test]
fn this_process_is_the_handler_when_told() {
    if std::env::var_os(ROLE).is_some() {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_all().build().unwrap();
        runtime.block_on(serve());
    }
}

async fn serve() {
    println!("the handler is ready");
    let function = Function::new("play", play);
    let mut api = Connection::open(&std::env::var("AWS_LAMBDA_RUNTIME_API").unwrap());
    let endpoint = std::env::var("AWS_ENDPOINT_URL_LAMBDA").unwrap();
    let endpoint = endpoint.strip_prefix("http://").unwrap().to_owned();
    loop {
        let next = api.ask("GET", "/2018-06-01/runtime/invocation/next", "");
        assert_eq!(next.status, 200, "{next:?}");
        let id = next.header("lambda-runtime-aws-request-id");
        let input: InvocationInput = serde_json::from_slice(&next.body).unwrap();
        let request = Request {
            request_id: id.as_str().into(),
            ..Request::default()
        };
        let backend = Arc::new(Durable(endpoint.clone()));
        let outcome = outlast::invoke(&function, input, backend, request).await;
        let output = serde_json::to_string(&outcome.answer.unwrap()).unwrap();
        let path = format!("/2018-06-01/runtime/invocation/{id}/response");
        assert_eq!(api.ask("POST", &path, &output).status, 202);
    }
}

/// Does what its input says.
async fn play(ctx: Context, input: Value) -> Result<Value, std::io::Error> {
    let failed = |error: outlast::Error| std::io::Error::other(error.to_string());
    match input["do"].as_str().unwrap_or_default() {
        "echo" => Ok(input["say"].clone()),
        "order" => order(ctx).await.map_err(failed),
        "signal" => ctx.wait_signal::<Value>("go").await.map_err(failed),
        "wait" => {
            ctx.wait(Duration::from_secs(3_600)).await.map_err(failed)?;
            Ok(Value::Null)
        }
        "exit" => {
            let marker = input["marker"].as_str().unwrap();
            if std::fs::write(marker, "").is_ok()
                && std::fs::metadata(format!("{marker}.done")).is_err()
            {
                std::fs::write(format!("{marker}.done"), "").unwrap();
                println!("about to exit");
                std::process::exit(3);
            }
            Ok(json!("survived"))
        }
        _ => Err(std::io::Error::other("it was told nothing it knows")),
    }
}

async fn order(ctx: Context) -> Result<Value> {
    let payment: String = ctx
        .step("charge", async |step| match step.attempt() {
            1 => Err(std::io::Error::other("the bank is asleep")),
            _ => Ok("paid".to_owned()),
        })
        .retry(Retry::fixed(Duration::from_secs(1)).max_attempts(3))
        .await?;
    let parcels = ctx
        .map("pack", &["lamp", "rug"], async |ctx, item| {
            ctx.step("wrap", async |_| {
                Ok::<_, std::io::Error>((*item).to_owned())
            })
            .await
        })
        .max_concurrency(1)
        .await?
        .into_values()?;
    let approval: Value = ctx
        .wait_for_callback("approve", async |id| {
            println!("asking with {id}");
            Ok::<_, std::io::Error>(())
        })
        .await?;
    Ok(json!({"payment": payment, "parcels": parcels, "approval": approval}))
}

/// The durable API over HTTP.
struct Durable(String);

impl Backend for Durable {
    fn checkpoint<'a>(
        &'a self,
        arn: &'a str,
        request: CheckpointRequest,
    ) -> BoxFuture<'a, Result<CheckpointResponse, BackendError>> {
        Box::pin(async move {
            let body = serde_json::to_string(&request).unwrap();
            let path = format!("/2025-12-01/durable-executions/{arn}/checkpoint");
            read(&Connection::open(&self.0).ask("POST", &path, &body))
        })
    }

    fn state<'a>(
        &'a self,
        arn: &'a str,
        token: &'a str,
        marker: &'a str,
    ) -> BoxFuture<'a, Result<StatePage, BackendError>> {
        Box::pin(async move {
            let path = format!(
                "/2025-12-01/durable-executions/{arn}/state?CheckpointToken={token}&Marker={marker}"
            );
            read(&Connection::open(&self.0).ask("GET", &path, ""))
        })
    }
}

fn read<T: serde::de::DeserializeOwned>(answer: &Answer) -> Result<T, BackendError> {
    let mut body: Value = serde_json::from_slice(&answer.body).unwrap();
    if answer.status != 200 {
        let code = answer.header("x-amzn-errortype");
        return Err(BackendError::service(answer.status, code, body.to_string()));
    }
    to_millis(&mut body);
    Ok(serde_json::from_value(body).unwrap())
}

/// HTTP carries seconds where the SDK's types have milliseconds.
fn to_millis(value: &mut Value) {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                match value.as_f64().filter(|_| name.ends_with("Timestamp")) {
                    #[expect(
                        clippy::cast_possible_truncation,
                        clippy::cast_sign_loss,
                        reason = "a moment of this century"
                    )]
                    Some(seconds) => *value = ((seconds * 1_000.0).round() as u64).into(),
                    None => to_millis(value),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(to_millis),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// One keep-alive connection.
pub(crate) struct Connection(BufReader<TcpStream>);

/// What came back over it.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Answer {
    fn header(&self, name: &str) -> String {
        let mut found = self.headers.iter().filter(|(key, _)| key == name);
        found
            .next()
            .map(|(_, value)| value.clone())
            .unwrap_or_default()
    }
}

impl Connection {
    pub(crate) fn open(address: &str) -> Self {
        Self(BufReader::new(TcpStream::connect(address).unwrap()))
    }

    pub(crate) fn ask(&mut self, method: &str, path: &str, body: &str) -> Answer {
        let length = body.len();
        write!(
            self.0.get_mut(),
            "{method} {path} HTTP/1.1\r\nhost: h\r\ncontent-length: {length}\r\n\r\n{body}"
        )
        .unwrap();
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            assert!(
                self.0.read_line(&mut line).unwrap() > 0,
                "the connection ended"
            );
            match line.trim_end() {
                "" => break,
                line => lines.push(line.to_owned()),
            }
        }
        let status = lines[0].split(' ').nth(1).unwrap().parse().unwrap();
        let pair = |line: &String| {
            let (name, value) = line.split_once(':').unwrap();
            (name.to_ascii_lowercase(), value.trim().to_owned())
        };
        let headers = lines[1..].iter().map(pair).collect();
        let mut answer = Answer {
            status,
            headers,
            body: Vec::new(),
        };
        let length = answer.header("content-length").parse().unwrap_or(0);
        answer.body = vec![0; length];
        self.0.read_exact(&mut answer.body).unwrap();
        answer
    }
}

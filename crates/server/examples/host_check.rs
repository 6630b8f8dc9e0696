//! Runs a command as the worker of a function and checks that every kind of end is noticed.
//!
//! For trying runtime clients that a Rust test cannot start by itself:
//!
//! ```sh
//! cargo run -p outlast-server --example host_check -- python -m awslambdaric app.handler
//! ```
//!
//! The handler looks at `CheckpointToken` in its event: `ok` answers an object whose `Result` is the
//! function's ARN from the context, `fail` raises an error, `exit` ends the process with status 3,
//! `hang` waits for longer than the function's ten seconds, `big` answers more than 6 MiB.

#![expect(
    clippy::print_stdout,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a check prints what it sees and fails by panicking"
)]

use outlast_core::{
    Outcome,
    arn::Function,
    id::{digest128, uuid},
    wire::{InvocationInput, StatePage},
};
use outlast_engine::{
    clock::EngineClock,
    invoker::{Call, Invoker as _},
    random::{Random as _, SystemRandom},
};
use outlast_server::host::{
    process::{Environment, Line, LineSink, Processes, Program, START_MAX_DEFAULT},
    runtime::{RuntimeHost, Settings, WAITING_MAX_DEFAULT},
};
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

const FUNCTION: &str = "arn:aws:lambda:eu-west-1:000000000000:function:check:1";

struct Shown;

impl LineSink for Shown {
    fn line(&self, line: Line<'_>) {
        println!("  | {} {}", line.process, line.text);
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut command = std::env::args_os().skip(1);
    let Some(program) = command.next() else {
        panic!("give the command that runs the worker")
    };
    let function: Function = FUNCTION.parse().unwrap();
    let settings = Settings {
        function: function.clone(),
        timeout: Duration::from_secs(10),
        waiting_max: WAITING_MAX_DEFAULT,
    };
    let random = Arc::new(SystemRandom::new().unwrap());
    let host = RuntimeHost::new(settings, Arc::new(EngineClock::system()), random);
    let arguments: Vec<_> = command.collect();
    let handler = arguments
        .last()
        .map(|last| last.to_string_lossy().into_owned());
    let program = Program {
        program,
        arguments,
        folder: None,
        environment: Environment {
            handler: handler.unwrap_or_default(),
            ..Environment::default()
        },
        processes: 1,
        start_max: START_MAX_DEFAULT,
        turn: None,
    };
    let processes = Processes::new(host.clone(), program, Arc::new(Shown));
    processes.run(check(&host)).await;
    println!("every end was noticed");
}

async fn check(host: &RuntimeHost) {
    let answered = |outcome: &Outcome| match outcome {
        Outcome::Answered(body) => String::from_utf8_lossy(body).contains(FUNCTION),
        Outcome::Output(_)
        | Outcome::Failed(_)
        | Outcome::FunctionMissing(_)
        | Outcome::NotStarted(_)
        | Outcome::Lost => false,
    };
    let failed = |kind: Option<&'static str>| {
        move |outcome: &Outcome| {
            matches!(outcome, Outcome::Failed(error)
                if kind.is_none_or(|kind| error.error_type.as_deref() == Some(kind)))
        }
    };
    expect(host, "ok", None, answered).await;
    expect(host, "ok", None, answered).await;
    expect(host, "fail", None, failed(None)).await;
    expect(host, "ok", None, answered).await;
    expect(host, "exit", None, failed(Some("Runtime.ExitError"))).await;
    expect(host, "hang", None, failed(Some("Sandbox.Timedout"))).await;
    let too_large = failed(Some("Function.ResponseSizeTooLarge"));
    expect(host, "big", None, too_large).await;
    expect(host, "ok", Some("x"), answered).await;
    expect(host, "ok", Some("y"), answered).await;
}

async fn expect(
    host: &RuntimeHost,
    token: &str,
    tenant: Option<&str>,
    is_expected: impl Fn(&Outcome) -> bool,
) {
    let random = SystemRandom::new().unwrap();
    let start = Instant::now();
    let call = Call {
        function: host.function().clone(),
        invocation_id: uuid(digest128(&[&random.bytes()])).into(),
        input: InvocationInput {
            durable_execution_arn: "arn".into(),
            checkpoint_token: token.to_owned(),
            initial_execution_state: StatePage::default(),
            updated_operation_ids: Vec::new(),
        },
        tenant: tenant.map(Into::into),
        trace: None,
        client_context: None,
    };
    let outcome = host.invoke(call).await;
    let shown = match &outcome {
        Outcome::Answered(body) => format!("answered {}", String::from_utf8_lossy(body)),
        Outcome::Failed(error) => format!("failed {error}"),
        Outcome::Output(_)
        | Outcome::FunctionMissing(_)
        | Outcome::NotStarted(_)
        | Outcome::Lost => format!("{outcome:?}"),
    };
    println!("{token} {tenant:?} after {:?}: {shown}", start.elapsed());
    assert!(is_expected(&outcome), "not what was expected of {token}");
}

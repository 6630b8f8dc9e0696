//! Plugins see everything, in order, and can harm nothing.

use crate::direct::Direct;
use outlast::{
    BoxError, Config, Context, Function, Request, Result, Retry,
    backend::BoxFuture,
    invoke,
    plugin::{
        AttemptInfo, AttemptOutcome, ChangeInfo, HookResult, InvocationEnd, InvocationInfo,
        OperationInfo, Plugin,
    },
    testing::{TestKit, TestRun},
};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

type Log = Arc<Mutex<Vec<String>>>;

/// Writes one line per hook.
struct Recorder(Log);

impl Recorder {
    fn note(&self, line: String) -> HookResult {
        self.0.lock().unwrap().push(line);
        Ok(())
    }
}

fn label(operation: &OperationInfo) -> String {
    let name = operation.name.as_deref().unwrap_or("-");
    let sub_type = operation.sub_type.as_deref().unwrap_or("-");
    let replay = if operation.is_replay { " replay" } else { "" };
    format!("{sub_type} {name}{replay}")
}

impl Plugin for Recorder {
    fn invocation_start(&self, info: &InvocationInfo) -> HookResult {
        let updated = info.updated_operations.len();
        self.note(format!(
            "invocation start first={} updated={updated}",
            info.is_first_invocation
        ))
    }

    fn invocation_end(&self, info: &InvocationInfo, end: &InvocationEnd) -> HookResult {
        let first = info.is_first_invocation;
        self.note(format!(
            "invocation end {:?} first={first} result={:?}",
            end.status, end.result
        ))
    }

    fn operation_start(&self, info: &OperationInfo) -> HookResult {
        self.note(format!("start {}", label(info)))
    }

    fn operation_end(&self, info: &OperationInfo) -> HookResult {
        let error = info.error.as_ref().map(ToString::to_string);
        let status = info.status.unwrap();
        self.note(format!(
            "end {} {status} result={:?} error={error:?}",
            label(info),
            info.result
        ))
    }

    fn attempt_start(&self, info: &AttemptInfo) -> HookResult {
        self.note(format!(
            "attempt {} of {}",
            info.attempt,
            label(&info.operation)
        ))
    }

    fn attempt_end(&self, info: &AttemptInfo, outcome: &AttemptOutcome) -> HookResult {
        let name = label(&info.operation);
        self.note(format!(
            "attempt {} of {name} {:?}",
            info.attempt, outcome.status
        ))
    }

    fn operations_changed(&self, info: &ChangeInfo) -> HookResult {
        // A panic would be swallowed, so what is wrong is noted.
        let fits = |changed: &OperationInfo| {
            let known = info.operations.iter().find(|known| known.id == changed.id);
            known.is_some_and(|known| {
                changed.status == Some(known.status)
                    && changed.name == known.name
                    && changed.start_timestamp == Some(known.start_timestamp)
                    && !changed.is_replay
            })
        };
        for wrong in info.changed.iter().filter(|changed| !fits(changed)) {
            self.note(format!("told wrongly of {}", label(wrong)))?;
        }
        Ok(())
    }
}

async fn flaky(ctx: Context, (): ()) -> Result<u32> {
    let value = ctx
        .step("flaky", async |step| {
            if step.attempt() == 1 {
                Err("no")
            } else {
                Ok(7)
            }
        })
        .retry(Retry::fixed(Duration::from_secs(1)))
        .await?;
    ctx.wait(Duration::from_secs(2)).await?;
    Ok(value)
}

async fn run(config: impl FnOnce(Config, Log) -> Config) -> (TestRun, Vec<String>) {
    let log = Log::default();
    let function = Function::new("flaky", flaky).config(config(Config::new(), log.clone()));
    let run = TestKit::of(function).run(()).await;
    let lines = log.lock().unwrap().clone();
    (run, lines)
}

#[tokio::test]
async fn hooks_come_in_order_and_a_finished_operation_is_silent_on_replay() {
    let (_, lines) = run(|config, log| config.plugin(move || Recorder(log.clone()))).await;
    insta::assert_snapshot!(lines.join("\n"), @r#"
    invocation start first=true updated=0
    start Step flaky
    attempt 1 of Step flaky
    attempt 1 of Step flaky Failed
    invocation end Pending first=true result=None
    invocation start first=false updated=1
    start Step flaky replay
    attempt 2 of Step flaky replay
    attempt 2 of Step flaky replay Succeeded
    end Step flaky SUCCEEDED result=Some("7") error=None
    start Wait -
    invocation end Pending first=false result=None
    invocation start first=false updated=1
    end Wait - SUCCEEDED result=None error=None
    invocation end Succeeded first=false result=Some("7")
    "#);
}

/// Fails in every hook, one way or the other.
struct Hostile;

impl Plugin for Hostile {
    fn invocation_start(&self, _: &InvocationInfo) -> HookResult {
        panic!("hostile")
    }
    fn invocation_end(&self, _: &InvocationInfo, _: &InvocationEnd) -> HookResult {
        Err("hostile".into())
    }
    fn operation_start(&self, _: &OperationInfo) -> HookResult {
        Err("hostile".into())
    }
    fn operation_end(&self, _: &OperationInfo) -> HookResult {
        panic!("hostile")
    }
    fn attempt_start(&self, _: &AttemptInfo) -> HookResult {
        panic!("hostile")
    }
    fn attempt_end(&self, _: &AttemptInfo, _: &AttemptOutcome) -> HookResult {
        Err(BoxError::from("hostile"))
    }
    fn operations_changed(&self, _: &ChangeInfo) -> HookResult {
        panic!("hostile")
    }
    fn around(&self, _: &str, _: Option<&AttemptInfo>) -> Option<Box<dyn std::any::Any>> {
        panic!("hostile")
    }
    fn log_fields(&self) -> Vec<(String, String)> {
        panic!("hostile")
    }
}

#[tokio::test]
async fn a_failing_plugin_harms_neither_the_execution_nor_other_plugins() {
    let (_, alone) = run(|config, log| config.plugin(move || Recorder(log.clone()))).await;
    let (run, beside) = run(|config, log| {
        config
            .plugin(|| Hostile)
            .plugin(move || Recorder(log.clone()))
            .plugin(|| Hostile)
    })
    .await;
    assert_eq!(run.result::<u32>().unwrap(), 7);
    assert_eq!(beside, alone);
}

#[tokio::test]
async fn every_plugin_gets_every_hook() {
    let (_, one) = run(|config, log| config.plugin(move || Recorder(log.clone()))).await;
    let (_, two) = run(|config, log| {
        let other = log.clone();
        config
            .plugin(move || Recorder(log.clone()))
            .plugin(move || Recorder(other.clone()))
    })
    .await;
    assert_eq!(two.len(), 2 * one.len());
}

#[tokio::test]
async fn one_instance_serves_one_invocation() {
    struct Counting;
    impl Plugin for Counting {}
    let made = Arc::new(Mutex::new(0));
    let count = made.clone();
    let config = Config::new().plugin(move || {
        *count.lock().unwrap() += 1;
        Counting
    });
    let run = TestKit::of(Function::new("flaky", flaky).config(config))
        .run(())
        .await;
    assert_eq!(*made.lock().unwrap() as usize, run.invocations().len());
}

#[tokio::test]
async fn contexts_announce_their_bodies_and_whether_their_children_replay() {
    struct Bodies(Log);
    impl Plugin for Bodies {
        fn attempt_start(&self, info: &AttemptInfo) -> HookResult {
            let replaying = info.is_replaying_children;
            let parent = info.operation.parent_id.is_some();
            let line = format!(
                "{} replaying={replaying} nested={parent}",
                label(&info.operation)
            );
            self.0.lock().unwrap().push(line);
            Ok(())
        }
    }
    let log = Log::default();
    let lines = log.clone();
    let config = Config::new().plugin(move || Bodies(log.clone()));
    let handler = async |ctx: Context, (): ()| -> Result<()> {
        ctx.parallel("ctx")
            .branch("a", async |ctx| {
                ctx.step("inner", async |_| Ok::<_, std::io::Error>(()))
                    .await?;
                ctx.wait(Duration::from_secs(2)).await
            })
            .branch("b", async |_| Ok(()))
            .max_concurrency(1)
            .await?
            .throw_if_error()
    };
    let run = TestKit::of(Function::new("f", handler).config(config))
        .run(())
        .await;
    run.result::<()>().unwrap();
    let lines = lines.lock().unwrap().join("\n");
    insta::assert_snapshot!(lines, @r"
    ParallelBranch a replaying=false nested=true
    Step inner replaying=false nested=true
    ParallelBranch a replay replaying=true nested=true
    ParallelBranch b replaying=false nested=true
    ");
}

/// Sends what it has, slowly, if it is asked to.
struct Sender(Log);

impl Plugin for Sender {
    fn invocation_end(&self, _: &InvocationInfo, _: &InvocationEnd) -> HookResult {
        self.0.lock().unwrap().push("end".to_owned());
        Ok(())
    }

    fn flush(&self) -> Option<BoxFuture<'static, ()>> {
        let log = self.0.clone();
        Some(Box::pin(async move {
            tokio::task::yield_now().await;
            log.lock().unwrap().push("sent".to_owned());
        }))
    }
}

/// Breaks while it sends.
struct Breaking;

impl Plugin for Breaking {
    fn flush(&self) -> Option<BoxFuture<'static, ()>> {
        Some(Box::pin(async { panic!("broken") }))
    }
}

#[tokio::test]
async fn only_a_process_that_is_frozen_afterwards_waits_until_plugins_have_sent() {
    for (lambda, expected) in [
        (None, vec!["end"]),
        (Some(Arc::default()), vec!["end", "sent"]),
    ] {
        let log = Log::default();
        let direct = Direct::new();
        let sender = log.clone();
        let config = Config::new()
            .plugin(|| Breaking)
            .plugin(move || Sender(sender.clone()));
        let function = Function::new("direct", async |_: Context, ()| Ok::<_, BoxError>(1));
        let (_, input) = direct.begin().unwrap();
        let request = Request {
            lambda,
            ..Request::default()
        };
        let outcome = invoke(&function.config(config), input, direct, request).await;
        outcome.answer.unwrap();
        assert_eq!(*log.lock().unwrap(), expected);
    }
}

//! What a user of a server does on an ordinary day.

use crate::server::{Server, serving};
use outlast::{
    App, Context, Error, ErrorKind, Function, Remote, Result, core::wire::ExecutionStatus,
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::{Notify, mpsc},
    task::JoinSet,
};

async fn double(ctx: Context, number: u32) -> Result<u32> {
    ctx.step("double", async |_| outlast::ok(number * 2)).await
}

#[tokio::test]
async fn a_step_runs_in_the_worker_and_its_result_is_the_executions() {
    let (_folder, server, worker) = serving(App::new().function("double", double)).await;
    let execution = server.remote.start("double", &21).await.unwrap();
    assert_eq!(execution.result::<u32>().await.unwrap(), 42);
    let status = execution.status().await.unwrap();
    assert_eq!(status, ExecutionStatus::Succeeded);
    let events = execution.history().await.unwrap();
    let ids: Vec<_> = events.iter().map(|event| event.event_id).collect();
    assert_eq!(ids, (1..=events.len() as u64).collect::<Vec<_>>());
    worker.shut_down().await;
}

#[tokio::test]
async fn the_same_start_finds_the_same_execution_and_another_input_is_refused() {
    let (_folder, server, _worker) = serving(App::new().function("double", double)).await;
    let server = &server.remote;
    let first = server.start("double", &1).name("once").await.unwrap();
    let again = server.start("double", &1).name("once").await.unwrap();
    assert!(!first.existed() && again.existed());
    assert_eq!(first.arn(), again.arn());
    let other = server.start("double", &2).name("once").await.unwrap_err();
    assert_eq!(other.kind(), ErrorKind::InvalidInput);
    let found = server.find("double", "once").await.unwrap().unwrap();
    assert_eq!(found.arn(), first.arn());
    assert!(server.find("double", "never").await.unwrap().is_none());
    assert_eq!(found.result::<u32>().await.unwrap(), 2);
}

#[tokio::test]
async fn a_worker_of_a_version_gets_its_calls_and_no_others() {
    let triple = async |_: Context, number: u32| outlast::ok(number * 3);
    let (_folder, server, _worker) = serving(App::new().function("double", double)).await;
    let of_version = App::new().function("double", triple).version("1");
    // It may come before its version, and makes none known.
    let _published = of_version.work_for(&server.remote).await.unwrap();
    server
        .post("/2015-03-31/functions/double/versions", "{}")
        .await;
    let first = server.remote.start("double:1", &7).await.unwrap();
    let latest = server.remote.start("double:$LATEST", &7).await.unwrap();
    assert_eq!(first.result::<u32>().await.unwrap(), 21);
    assert_eq!(latest.result::<u32>().await.unwrap(), 14);
    assert!(first.arn().contains(":double:1/"), "{}", first.arn());
}

#[tokio::test]
async fn callbacks_signals_and_stops_arrive_and_come_too_late_after_the_end() {
    let (sender, mut ids) = mpsc::unbounded_channel::<String>();
    let approve = move |ctx: Context, (): ()| {
        let sender = sender.clone();
        async move {
            let submit = async |id: String| sender.send(id).map_err(std::io::Error::other);
            let approved: bool = ctx.wait_for_callback("approve", submit).await?;
            let number: u32 = ctx.wait_signal("number").await?;
            outlast::ok((approved, number))
        }
    };
    let forever = async |ctx: Context, (): ()| ctx.wait(Duration::from_secs(3_600)).await;
    let app = App::new()
        .function("approve", approve)
        .function("forever", forever);
    let (_folder, server, _worker) = serving(app).await;
    let execution = server.remote.start("approve", &()).await.unwrap();
    execution.signal("number", &7).await.unwrap();
    let callback = server.remote.callback(&ids.recv().await.unwrap());
    callback.heartbeat().await.unwrap();
    callback.succeed(&true).await.unwrap();
    assert_eq!(execution.result::<(bool, u32)>().await.unwrap(), (true, 7));
    for late in [
        callback.succeed(&false).await,
        callback.fail("Late", "too late").await,
        execution.signal("number", &8).await,
        execution.resume().await,
    ] {
        assert_eq!(late.unwrap_err().kind(), ErrorKind::InvalidInput);
    }
    let stopped = server.remote.start("forever", &()).await.unwrap();
    stopped.stop("no longer needed").await.unwrap();
    let error = stopped.result::<()>().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Execution);
    assert_eq!(error.message(), "no longer needed");
    assert!(stopped.why().await.unwrap().contains("stopped"));
}

#[tokio::test]
async fn functions_call_each_other_and_errors_keep_their_types() {
    async fn parent(ctx: Context, number: u32) -> Result<u32> {
        let doubled: u32 = ctx.invoke("call", "double:$LATEST", &number).await?;
        let failed: Result<u32> = ctx.invoke("fail", "broken:$LATEST", &()).await;
        assert_eq!(failed.unwrap_err().kind(), ErrorKind::InvokeFailed);
        Ok(doubled + 1)
    }
    async fn broken(_: Context, (): ()) -> Result<u32> {
        Err(Error::new("Broken", "always"))
    }
    let app = App::new()
        .function("parent", parent)
        .function("double", double)
        .function("broken", broken);
    let (_folder, server, _worker) = serving(app).await;
    let execution = server.remote.start("parent", &4).await.unwrap();
    assert_eq!(execution.result::<u32>().await.unwrap(), 9);
    let failed = server.remote.start("broken", &()).await.unwrap();
    let error = failed.result::<u32>().await.unwrap_err();
    assert_eq!(
        (error.kind(), error.message()),
        (ErrorKind::Execution, "always")
    );
}

#[tokio::test]
async fn news_reach_a_handler_that_does_something_else_meanwhile() {
    let (sender, mut ids) = mpsc::unbounded_channel::<String>();
    let seen = Arc::new(Notify::new());
    let both = move |ctx: Context, (): ()| {
        let (sender, seen, told) = (sender.clone(), seen.clone(), seen.clone());
        async move {
            // The step ends only when the callback has been seen: the invocation never suspends.
            let busy = ctx
                .step("busy", move |_| {
                    let told = told.clone();
                    async move {
                        told.notified().await;
                        outlast::ok(())
                    }
                })
                .spawn();
            let submit = async |id: String| sender.send(id).map_err(std::io::Error::other);
            let answer: String = ctx.wait_for_callback("ask", submit).await?;
            seen.notify_one();
            busy.await?;
            outlast::ok(answer)
        }
    };
    let (_folder, server, _worker) = serving(App::new().function("both", both)).await;
    let execution = server.remote.start("both", &()).await.unwrap();
    let callback = server.remote.callback(&ids.recv().await.unwrap());
    callback.succeed("yes").await.unwrap();
    assert_eq!(execution.result::<String>().await.unwrap(), "yes");
    let invoked = |event: &outlast::core::event::Event| {
        event.event_type == outlast::core::event::EventType::InvocationCompleted
    };
    let events = execution.history().await.unwrap();
    assert_eq!(events.iter().filter(|event| invoked(event)).count(), 1);
}

#[tokio::test]
async fn one_worker_runs_many_executions_at_once_but_no_more_than_it_may() {
    let (now, most) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let seen = most.clone();
    let gate = Arc::new(tokio::sync::Barrier::new(5));
    let busy = move |ctx: Context, (): ()| {
        let (now, most, gate) = (now.clone(), most.clone(), gate.clone());
        async move {
            ctx.step("busy", async |_| {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                // Goes on only with four others: they do run at the same time.
                gate.wait().await;
                now.fetch_sub(1, Ordering::SeqCst);
                outlast::ok(())
            })
            .await
        }
    };
    let function = Function::new("busy", busy).max_concurrency(5).per_tenant();
    let (_folder, server, worker) = serving(App::new().register(function)).await;
    let mut executions = Vec::new();
    for number in 0..20 {
        let tenant = format!("tenant-{}", number % 3);
        let start = server.remote.start("busy", &()).tenant(&tenant);
        executions.push(start.await.unwrap());
    }
    for execution in executions {
        execution.result::<()>().await.unwrap();
    }
    assert_eq!(seen.load(Ordering::SeqCst), 5);
    worker.shut_down().await;
}

#[tokio::test]
async fn checkpoints_of_many_executions_travel_together() {
    let count = async |ctx: Context, from: u32| {
        let mut sum = from;
        for _ in 0..5 {
            sum = ctx.step("add", async |_| outlast::ok(sum + 1)).await?;
        }
        outlast::ok(sum)
    };
    let (_folder, server, worker) = serving(App::new().function("count", count)).await;
    let mut clients = JoinSet::new();
    for from in 0..100 {
        let remote = server.remote.clone();
        clients.spawn(async move {
            let execution = remote.start("count", &from).await.unwrap();
            assert_eq!(execution.result::<u32>().await.unwrap(), from + 5);
        });
    }
    clients.join_all().await;
    let metrics = server.metrics().await;
    let requests = |operation: &str| -> u64 {
        let start = format!("outlast_requests_total{{operation=\"{operation}\"");
        let lines = metrics.lines().filter(|line| line.starts_with(&start));
        let counts = lines.filter_map(|line| line.rsplit(' ').next());
        counts.map(|count| count.parse::<u64>().unwrap()).sum()
    };
    assert!(requests("CheckpointMany") > 0, "{metrics}");
    // Whoever hears nothing from a joint request asks again alone, so at least one was heard.
    let alone = requests("CheckpointDurableExecution");
    assert!(alone < 500, "all of them travelled alone: {metrics}");
    worker.shut_down().await;
}

#[tokio::test]
async fn an_execution_started_before_its_workers_waits_for_them() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::begin(folder.path(), "127.0.0.1:0", &[]);
    let app = App::new().function("double", double);
    app.clone()
        .work_for(&server.remote)
        .await
        .unwrap()
        .shut_down()
        .await;
    let execution = server.remote.start("double", &4).await.unwrap();
    let _worker = app.work_for(&server.remote).await.unwrap();
    assert_eq!(execution.result::<u32>().await.unwrap(), 8);
}

#[tokio::test]
async fn a_function_is_made_known_as_it_is_here_and_again_when_it_changed() {
    let function = |days| Function::new("double", double).retention_days(days);
    let app = |days| App::new().register(function(days));
    let (_folder, server, worker) = serving(app(3)).await;
    let days = async || {
        let path = "/2015-03-31/functions/double/configuration";
        let known = server.remote.get(path).await.unwrap();
        assert_eq!(known["Timeout"], 900);
        known["DurableConfig"]["RetentionPeriodInDays"]
            .as_u64()
            .unwrap()
    };
    assert_eq!(days().await, 3);
    worker.shut_down().await;
    let _worker = app(4).work_for(&server.remote).await.unwrap();
    assert_eq!(days().await, 4);
    let execution = server.remote.start("double", &1).await.unwrap();
    assert_eq!(execution.result::<u32>().await.unwrap(), 2);
}

#[tokio::test]
async fn what_a_server_refuses_and_that_it_is_away_are_told_apart() {
    let (_folder, server, _worker) = serving(App::new().function("double", double)).await;
    let unknown = server.remote.start("dubble", &1).await.unwrap_err();
    assert_eq!(unknown.kind(), ErrorKind::InvalidInput);
    let named = App::new().function("a.b", double);
    let refused = named.work_for(&server.remote).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidInput, "{refused}");
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = nobody.local_addr().unwrap();
    drop(nobody);
    let away = Remote::new(&format!("http://{address}")).unwrap();
    let error = away.start("double", &1).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Engine);
    assert!(error.message().contains("cannot be reached"), "{error}");
}

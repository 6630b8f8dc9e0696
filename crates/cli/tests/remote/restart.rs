//! A server that goes away and comes back, under a worker that stays.

use crate::server::Server;
use outlast::{App, Context, Result};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};
use tokio::sync::mpsc;

#[tokio::test]
async fn a_worker_comes_back_to_a_server_that_was_killed_and_repeats_nothing() {
    let runs = Arc::new(AtomicU32::new(0));
    let counted = runs.clone();
    let (sender, mut waiting) = mpsc::unbounded_channel::<()>();
    let handler = move |ctx: Context, (): ()| {
        let (counted, sender) = (counted.clone(), sender.clone());
        async move {
            ctx.step("first", async |_| {
                counted.fetch_add(1, Ordering::SeqCst);
                outlast::ok(())
            })
            .await?;
            let _ = sender.send(());
            ctx.wait(Duration::from_secs(1)).await?;
            Result::<&str>::Ok("done")
        }
    };
    let folder = tempfile::tempdir().unwrap();
    let server = Server::begin(folder.path(), "127.0.0.1:0", &[]);
    let address = server.address();
    let app = App::new().function("f", handler);
    let worker = app.work_for(&server.remote).await.unwrap();
    let execution = server.remote.start("f", &()).await.unwrap();
    waiting.recv().await.unwrap();
    server.kill();
    let again = Server::begin(folder.path(), &address, &[]);
    let execution = again.remote.execution(execution.arn()).unwrap();
    assert_eq!(execution.result::<String>().await.unwrap(), "done");
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    worker.shut_down().await;
}

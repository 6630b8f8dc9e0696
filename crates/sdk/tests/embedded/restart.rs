//! One process after another on the same folder: everything goes on.

use outlast::{App, Context, ErrorKind, Result};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

/// How often a body ran.
#[derive(Clone, Default)]
struct Count(Arc<AtomicU32>);

impl Count {
    fn one_more(&self) -> u32 {
        self.0.fetch_add(1, Ordering::SeqCst) + 1
    }

    fn so_far(&self) -> u32 {
        self.0.load(Ordering::SeqCst)
    }
}

fn sleeper(runs: &Count) -> App {
    let runs = runs.clone();
    App::new().function("sleeper", move |ctx: Context, (): ()| {
        let runs = runs.clone();
        async move {
            let run = ctx.step("before", async |_| outlast::ok(runs.one_more()));
            let run = run.await?;
            ctx.wait(Duration::from_secs(1)).await?;
            outlast::ok(run)
        }
    })
}

#[tokio::test]
async fn a_wait_goes_on_after_a_restart_and_the_step_before_it_does_not_run_again() {
    let (folder, runs) = (tempfile::tempdir().unwrap(), Count::default());
    let home = sleeper(&runs).open_at(folder.path()).await.unwrap();
    let execution = home.start("sleeper", &()).name("one").await.unwrap();
    while runs.so_far() == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    home.shut_down().await;
    // The handle is still held: that keeps nobody from opening the folder.
    let error = execution.result::<u32>().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Engine);
    let home = sleeper(&runs).open_at(folder.path()).await.unwrap();
    let found = home.find("sleeper", "one").await.unwrap().unwrap();
    assert_eq!(found.arn(), execution.arn());
    assert_eq!(found.result::<u32>().await.unwrap(), 1);
    assert_eq!(runs.so_far(), 1);
}

fn approve(ids: &UnboundedSender<String>) -> App {
    let ids = ids.clone();
    App::new().function("approve", move |ctx: Context, (): ()| {
        let ids = ids.clone();
        async move {
            let submit = async |id: String| ids.send(id).map_err(std::io::Error::other);
            let answer: Result<String> = ctx.wait_for_callback("approve", submit).await;
            answer
        }
    })
}

#[tokio::test]
async fn a_callback_is_answered_in_the_next_process_and_text_arrives_as_it_was_sent() {
    let (sender, mut ids) = unbounded_channel();
    let folder = tempfile::tempdir().unwrap();
    let home = approve(&sender).open_at(folder.path()).await.unwrap();
    let arn = home.start("approve", &()).await.unwrap().arn().to_owned();
    let id = ids.recv().await.unwrap();
    home.shut_down().await;
    let home = approve(&sender).open_at(folder.path()).await.unwrap();
    home.callback(&id).succeed("yes").await.unwrap();
    let execution = home.execution(&arn).unwrap();
    assert_eq!(execution.result::<String>().await.unwrap(), "yes");
}

#[tokio::test]
async fn an_answer_given_just_before_the_end_of_a_process_counts_in_the_next() {
    let (sender, mut ids) = unbounded_channel();
    let folder = tempfile::tempdir().unwrap();
    let home = approve(&sender).open_at(folder.path()).await.unwrap();
    let arn = home.start("approve", &()).await.unwrap().arn().to_owned();
    let id = ids.recv().await.unwrap();
    home.callback(&id).succeed("yes").await.unwrap();
    drop(home);
    let home = approve(&sender).open_at(folder.path()).await.unwrap();
    let execution = home.execution(&arn).unwrap();
    assert_eq!(execution.result::<String>().await.unwrap(), "yes");
    assert!(home.callback(&id).succeed("no").await.is_err());
}

#[tokio::test]
async fn a_signal_of_one_process_is_consumed_in_the_next() {
    async fn listen(ctx: Context, (): ()) -> Result<(u32, u32)> {
        let first = ctx.wait_signal("number").await?;
        let second = ctx.wait_signal("number").await?;
        Ok((first, second))
    }
    let folder = tempfile::tempdir().unwrap();
    let app = || App::new().function("listen", listen);
    let home = app().open_at(folder.path()).await.unwrap();
    let execution = home.start("listen", &()).await.unwrap();
    execution.signal("number", &1).await.unwrap();
    home.shut_down().await;
    let home = app().open_at(folder.path()).await.unwrap();
    let execution = home.execution(execution.arn()).unwrap();
    execution.signal("number", &2).await.unwrap();
    assert_eq!(execution.result::<(u32, u32)>().await.unwrap(), (1, 2));
}

#[tokio::test]
async fn dropping_the_home_abandons_what_runs_and_the_next_process_runs_it_again() {
    fn app(runs: &Count) -> App {
        let runs = runs.clone();
        App::new().function("stuck", move |ctx: Context, (): ()| {
            let runs = runs.clone();
            async move {
                let body = async |_| {
                    if runs.one_more() == 1 {
                        std::future::pending::<()>().await;
                    }
                    outlast::ok(7)
                };
                ctx.step("stuck at first", body).await
            }
        })
    }
    let (folder, runs) = (tempfile::tempdir().unwrap(), Count::default());
    let home = app(&runs).open_at(folder.path()).await.unwrap();
    let execution = home.start("stuck", &()).await.unwrap();
    while runs.so_far() == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    drop(home);
    let home = app(&runs).open_at(folder.path()).await.unwrap();
    let execution = home.execution(execution.arn()).unwrap();
    assert_eq!(execution.result::<u32>().await.unwrap(), 7);
    assert_eq!(runs.so_far(), 2);
}

#[tokio::test]
async fn a_second_opener_is_told_which_folder_is_in_use_and_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let runs = Count::default();
    let home = sleeper(&runs).open_at(folder.path()).await.unwrap();
    let error = sleeper(&runs).open_at(folder.path()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Engine);
    let path = folder.path().display().to_string();
    let process = format!("in use by process {}", std::process::id());
    for part in [&*path, &*process, "stop that process", "OUTLAST_DATA"] {
        assert!(error.message().contains(part), "{part}: {error}");
    }
    // It did no harm.
    let execution = home.start("sleeper", &()).await.unwrap();
    assert_eq!(execution.result::<u32>().await.unwrap(), 1);
}

//! Many of one kind in one execution.

use outlast::{
    App, Clock, Config, Context, Function, Result,
    core::time::Timestamp,
    engine::{
        clock::{Clock as _, EngineClock},
        store::memory::MemoryStore,
    },
};
use std::{sync::Arc, time::Duration};
use tokio::{sync::mpsc::unbounded_channel, task::JoinSet};

const MANY: u32 = 10_000;

#[tokio::test]
async fn ten_thousand_callbacks_of_one_execution_are_answered_at_once() {
    let (sender, mut ids) = unbounded_channel::<(u32, String)>();
    let ask = move |ctx: Context, count: u32| {
        let sender = sender.clone();
        async move {
            let mut callbacks = Vec::new();
            for number in 0..count {
                let callback = ctx.create_callback::<u64>("question").spawn();
                callbacks.push((number, callback));
            }
            let mut answers = Vec::new();
            for (number, callback) in callbacks {
                let callback = callback.await?;
                sender.send((number, callback.id().to_owned())).ok();
                answers.push(callback.result());
            }
            let mut sum = 0;
            for answer in answers {
                sum += answer.await?;
            }
            outlast::ok(sum)
        }
    };
    let folder = tempfile::tempdir().unwrap();
    let app = App::new().function("ask", ask);
    let home = Arc::new(app.open_at(folder.path()).await.unwrap());
    let execution = home.start("ask", &MANY).await.unwrap();
    let mut questions = Vec::new();
    while questions.len() < MANY as usize {
        questions.push(ids.recv().await.unwrap());
    }
    let mut answers = JoinSet::new();
    for (number, id) in questions {
        let home = home.clone();
        answers.spawn(async move { home.callback(&id).succeed(&number).await });
    }
    while let Some(answered) = answers.join_next().await {
        answered.unwrap().unwrap();
    }
    let sum = u64::from(MANY) * u64::from(MANY - 1) / 2;
    assert_eq!(execution.result::<u64>().await.unwrap(), sum);
}

#[tokio::test]
async fn ten_thousand_children_of_one_execution_finish_together() {
    async fn parent(ctx: Context, count: u32) -> Result<u64> {
        let calls = ctx.map("calls", 0..count, async |ctx, number| {
            ctx.invoke::<_, u64>("call", "child", number).await
        });
        Ok(calls.await?.into_values()?.iter().sum())
    }
    async fn child(_: Context, number: u64) -> Result<u64> {
        Ok(number)
    }
    let folder = tempfile::tempdir().unwrap();
    let app = App::new()
        .function("parent", parent)
        .function("child", child);
    let home = app.open_at(folder.path()).await.unwrap();
    let execution = home.start("parent", &MANY).await.unwrap();
    let sum = u64::from(MANY) * u64::from(MANY - 1) / 2;
    assert_eq!(execution.result::<u64>().await.unwrap(), sum);
}

/// The engine's paused time, for the SDK.
struct Tokio(EngineClock);

impl Clock for Tokio {
    fn now(&self) -> Timestamp {
        self.0.now()
    }
}

async fn waits(ctx: Context, count: u32) -> Result<u32> {
    for _ in 0..count {
        ctx.wait(Duration::from_secs(1)).await?;
    }
    Ok(count)
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_waits_follow_each_other_in_one_execution() {
    // In memory from one wait to the next: each would replay all before it otherwise.
    let alive = Config::new()
        .keep_alive(Duration::from_secs(5))
        .clock(Tokio(EngineClock::tokio()));
    let app = App::new().register(Function::new("waits", waits).config(alive));
    let home = app.open_on(Arc::new(MemoryStore::new())).await.unwrap();
    let begun = tokio::time::Instant::now();
    let execution = home.start("waits", &MANY).await.unwrap();
    assert_eq!(execution.result::<u32>().await.unwrap(), MANY);
    assert!(begun.elapsed() >= Duration::from_secs(MANY.into()));
}

#[tokio::test(start_paused = true)]
async fn a_thousand_waits_follow_each_other_with_a_suspension_at_each() {
    let app = App::new().function("waits", waits);
    let home = app.open_on(Arc::new(MemoryStore::new())).await.unwrap();
    let begun = tokio::time::Instant::now();
    let execution = home.start("waits", &1_000).await.unwrap();
    assert_eq!(execution.result::<u32>().await.unwrap(), 1_000);
    assert!(begun.elapsed() >= Duration::from_secs(1_000));
}

//! What doctor finds in a folder that was used, and in one that was damaged afterwards.

use super::*;
use outlast::{App, Context, Result};
use outlast_engine::store::{self, Run, layer::Layer};
use std::{path::Path, sync::Arc, time::Duration};

async fn order(ctx: Context, number: u32) -> Result<u32> {
    ctx.step("step", async |_| outlast::ok(number)).await
}

async fn sleeper(ctx: Context, _: u32) -> Result<()> {
    ctx.wait(Duration::from_secs(3_600)).await
}

/// Three executions that have ended and one that sleeps.
async fn use_folder(folder: &Path) {
    let app = App::new()
        .function("order", order)
        .function("sleeper", sleeper);
    let home = app.open_at(folder).await.unwrap();
    for number in 0..3 {
        let execution = home.start("order", &number).await.unwrap();
        assert_eq!(execution.result::<u32>().await.unwrap(), number);
    }
    home.start("sleeper", &0).await.unwrap();
    let query = Query {
        function: Some("sleeper".into()),
        max: 1,
        ..Query::default()
    };
    let sleeps = || {
        let heads = home.engine().list(&query).unwrap();
        heads
            .iter()
            .any(|(_, head)| head.wake.is_some_and(|wake| wake.as_millis() > 0))
    };
    while !sleeps() {
        tokio::task::yield_now().await;
    }
    home.shut_down().await;
}

fn deep() -> Doctor {
    Doctor {
        data: "data".into(),
        deep: true,
    }
}

fn examined(store: &dyn Store, now: Timestamp) -> Findings {
    examine(store, &deep(), now, Output::new(true)).unwrap()
}

/// A store whose disk has lost or changed something.
struct Faulty {
    inner: Arc<dyn Store>,
    /// The execution whose records have a changed byte.
    changed: Option<ExecutionId>,
    /// Whether the index has lost its first wake.
    forgetful: bool,
}

impl Layer for Faulty {
    fn behind(&self) -> &dyn Store {
        &*self.inner
    }
    fn records(&self, id: ExecutionId, from: u64, max: usize) -> Result<Vec<Run>, StoreError> {
        let mut runs = self.inner.records(id, from, max)?;
        if self.changed == Some(id)
            && let Some(byte) = runs.last_mut().and_then(|run| run.bytes.last_mut())
        {
            *byte ^= 1;
        }
        Ok(runs)
    }
    fn due(
        &self,
        after: Option<Wake>,
        until: Timestamp,
        max: usize,
    ) -> Result<Vec<Wake>, StoreError> {
        let mut wakes = self.inner.due(after, until, max)?;
        if self.forgetful && !wakes.is_empty() {
            wakes.remove(0);
        }
        Ok(wakes)
    }
}

#[tokio::test]
async fn a_folder_that_was_used_is_counted_and_sound() {
    let folder = tempfile::tempdir().unwrap();
    use_folder(folder.path()).await;
    let store = store::open(folder.path()).unwrap();
    let now = EngineClock::system().now();
    let findings = examined(&*store, now);
    assert_eq!(findings.problems, Vec::<String>::new());
    let counts: Vec<_> = findings.executions.into_iter().collect();
    assert_eq!(counts, [("RUNNING", 1), ("SUCCEEDED", 3)]);
    assert_eq!((findings.in_flight, findings.overdue), (0, 0));
    assert!(findings.records >= 3 * 4, "{} records", findings.records);
    // Two hours later the sleeper should long be awake.
    let later = examined(&*store, now.plus_millis(2 * 3_600_000));
    assert_eq!((later.overdue, later.expired), (1, 0));
}

#[tokio::test]
async fn a_damaged_execution_is_named_and_the_others_are_still_read() {
    let folder = tempfile::tempdir().unwrap();
    use_folder(folder.path()).await;
    let store = store::open(folder.path()).unwrap();
    let query = Query {
        max: 1,
        ..Query::default()
    };
    let (victim, _) = store.list(&query).unwrap().remove(0);
    let faulty = Faulty {
        inner: store,
        changed: Some(victim),
        forgetful: false,
    };
    let findings = examined(&faulty, EngineClock::system().now());
    assert_eq!(findings.damaged_count, 1);
    assert_eq!(findings.damaged[0].execution, victim.to_string());
    assert!(findings.damaged[0].reason.contains("checksum"));
    assert!(findings.records >= 2 * 4, "{} records", findings.records);
    assert_eq!(findings.problems.len(), 1, "{:?}", findings.problems);
    let shallow = Doctor {
        deep: false,
        ..deep()
    };
    let now = EngineClock::system().now();
    let findings = examine(&faulty, &shallow, now, Output::new(true)).unwrap();
    assert_eq!((findings.deep, findings.damaged_count), (false, 0));
}

#[tokio::test]
async fn a_wake_that_the_index_has_lost_is_a_problem() {
    let folder = tempfile::tempdir().unwrap();
    use_folder(folder.path()).await;
    let faulty = Faulty {
        inner: store::open(folder.path()).unwrap(),
        changed: None,
        forgetful: true,
    };
    let findings = examined(&faulty, EngineClock::system().now());
    assert_eq!(findings.problems.len(), 1, "{:?}", findings.problems);
    assert!(findings.problems[0].contains("index of wakes"));
}

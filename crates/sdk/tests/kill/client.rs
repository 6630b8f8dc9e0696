//! Who starts, answers, signals and stops: the load of one process, and the end of all of them.
//!
//! Everything is noted before it is asked of the engine and again when the engine has acknowledged
//! it. A process first catches up with what its predecessors owe, as the book says.

use crate::{
    book::{Debt, read_owed},
    functions::{FUNCTIONS, World, app, is_slow},
    ledger::Ledger,
};
use outlast::{Embedded, ErrorKind, Execution, core::random::SplitMix64};
use serde_json::Value;
use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::mpsc::{UnboundedReceiver, unbounded_channel},
    task::JoinSet,
};

/// Executions in flight at once, at least; those that sleep come on top.
const LANES: u64 = 64;
/// Executions one lane starts in one process.
const LANE_STARTS: u64 = 4;

/// What a process does besides what is owed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Load {
    /// Starts executions; `boot` makes their inputs its own.
    New { boot: u64 },
    /// Starts nothing new.
    Finish,
}

/// One process's view of the engine.
#[derive(Clone)]
struct Client {
    home: Arc<Embedded>,
    ledger: Arc<Ledger>,
    /// Distinguishes what this process sends from what others sent.
    mark: Arc<str>,
    sent: Arc<AtomicU64>,
}

/// Opens the engine in `place` and puts load on it, in the background, until the process ends.
pub(crate) async fn serve(place: &Path, load: Load) -> Arc<Embedded> {
    let ledger = Arc::new(Ledger::open(place));
    let (asked, questions) = unbounded_channel();
    let world = World {
        ledger: ledger.clone(),
        asked,
    };
    let home = Arc::new(app(&world).open_at(place.join("data")).await.unwrap());
    let mark = match load {
        Load::New { boot } => boot.to_string(),
        Load::Finish => "last".to_owned(),
    };
    let client = Client {
        home: home.clone(),
        ledger,
        mark: mark.into(),
        sent: Arc::default(),
    };
    let work = client.clone().work(read_owed(place), questions, load);
    client.ledger.note(["begun", &client.mark]);
    drop(tokio::runtime::Handle::current().spawn(work));
    home
}

impl Client {
    async fn work(
        self,
        owed: Vec<Debt>,
        questions: UnboundedReceiver<(String, String)>,
        load: Load,
    ) {
        let mut tasks = JoinSet::new();
        tasks.spawn(self.clone().answer_all(questions));
        for debt in owed {
            tasks.spawn(self.clone().settle(debt));
        }
        if let Load::New { boot } = load {
            for lane in 0..LANES {
                tasks.spawn(self.clone().run_lane(boot, lane));
            }
        }
        while let Some(done) = tasks.join_next().await {
            // A client that fails is a failure of the test, not of one execution.
            if let Err(error) = done {
                self.ledger.note(["broken", &error.to_string()]);
            }
        }
    }

    async fn run_lane(self, boot: u64, lane: u64) {
        let mut random = SplitMix64::new(boot * LANES + lane);
        for start in 0..LANE_STARTS {
            let function = FUNCTIONS[usize::try_from(random.below(9)).unwrap()];
            let input = (boot * LANES + lane) * LANE_STARTS + start;
            let Some(execution) = self.start(function, input).await else {
                return;
            };
            if is_slow(function) {
                tokio::time::sleep(Duration::from_millis(random.below(100))).await;
            } else {
                self.note_end(&execution).await;
            }
        }
    }

    /// Starts an execution, or finds the one that a killed process started, and sees to what it
    /// needs from outside.
    async fn start(&self, function: &str, input: u64) -> Option<Execution> {
        let name = input.to_string();
        self.ledger.note(["starting", function, &name]);
        let started = self.home.start(function, &input).name(&name).await;
        let execution = self.expect("start", started)?;
        self.ledger
            .note(["started", function, &name, execution.arn()]);
        match function {
            "listen" => self.signal(&execution).await,
            "forever" => self.stop(&execution).await,
            _ => {}
        }
        Some(execution)
    }

    async fn settle(self, debt: Debt) {
        match debt {
            Debt::Start { function, input } => {
                self.start(&function, input).await;
            }
            Debt::Answer { arn, id } => self.answer(&arn, &id).await,
            Debt::Signal { arn } => {
                let execution = self.home.execution(&arn).unwrap();
                self.signal(&execution).await;
            }
            Debt::Stop { arn } => {
                let execution = self.home.execution(&arn).unwrap();
                self.stop(&execution).await;
            }
        }
    }

    async fn answer_all(self, mut questions: UnboundedReceiver<(String, String)>) {
        while let Some((arn, id)) = questions.recv().await {
            self.answer(&arn, &id).await;
        }
    }

    async fn answer(&self, arn: &str, id: &str) {
        let value = self.value();
        self.ledger.note(["answering", arn, &value]);
        match self.home.callback(id).succeed(&value).await {
            Ok(()) => self.ledger.note(["answered", arn, &value]),
            // A killed process answered, and nobody heard that it was taken.
            Err(error) if error.kind() == ErrorKind::InvalidInput => {
                self.ledger.note(["refused", arn, &value]);
            }
            Err(error) => self.fault("answer", &error),
        }
    }

    /// Sends two signals; one that a killed process sent may have arrived besides.
    async fn signal(&self, execution: &Execution) {
        for _ in 0..2 {
            let value = self.value();
            self.ledger.note(["signalling", execution.arn(), &value]);
            match execution.signal("number", &value).await {
                Ok(()) => self.ledger.note(["signalled", execution.arn(), &value]),
                Err(error) if error.kind() == ErrorKind::InvalidInput => {
                    self.ledger.note(["refused", execution.arn(), &value]);
                }
                Err(error) => self.fault("signal", &error),
            }
        }
    }

    async fn stop(&self, execution: &Execution) {
        let value = self.value();
        self.ledger.note(["stopping", execution.arn(), &value]);
        match execution.stop(&value).await {
            Ok(()) => self.ledger.note(["stopped", execution.arn(), &value]),
            Err(error) => self.fault("stop", &error),
        }
    }

    async fn note_end(&self, execution: &Execution) {
        let end = match execution.result::<Value>().await {
            Ok(value) => value.to_string(),
            Err(error) if error.kind() == ErrorKind::Execution => error.message().to_owned(),
            Err(error) => return self.fault("result", &error),
        };
        self.ledger.note(["ended", execution.arn(), &end]);
    }

    /// Something that nobody has sent before.
    fn value(&self) -> String {
        let sent = self.sent.fetch_add(1, Ordering::Relaxed);
        format!("{}/{sent}", self.mark)
    }

    fn expect<T>(&self, what: &str, outcome: outlast::Result<T>) -> Option<T> {
        match outcome {
            Ok(value) => Some(value),
            Err(error) => {
                self.fault(what, &error);
                None
            }
        }
    }

    /// The engine refused what it must not refuse.
    fn fault(&self, what: &str, error: &outlast::Error) {
        let error = error.to_string().replace(['\t', '\n'], " ");
        self.ledger.note(["broken", &format!("{what}: {error}")]);
    }
}

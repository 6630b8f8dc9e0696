//! One execution in memory: its mailbox, and the turn in which mail is decided and committed.
//!
//! Whatever concerns an execution goes through its mailbox. One task at a time empties it: all mail
//! that waits is decided in order and committed together, and only then answered. So ten thousand
//! callbacks for one execution are a few commits, and nobody ever sees what is not durable: reads
//! are mail too and are answered after the commit of their turn.

use crate::{
    engine::Inner,
    error::Error,
    frame,
    store::{Commit, CommitError, Head, Stored},
};
use outlast_core::{Execution, Input, Intent, Record, Reply, arn::ExecutionId, time::Timestamp};
use std::{
    collections::VecDeque,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::AtomicU64},
};
use tokio::sync::oneshot;

/// Mail that is decided in one commit, at most.
const TURN_MAX: usize = 256;
/// The wake time of an execution that somebody works on: whoever opens the store after a crash
/// finds these first.
pub(crate) const ACTIVE: Timestamp = Timestamp::from_millis(0);
/// How often a turn is repeated that lost against another writer.
const CONFLICTS_MAX: u32 = 8;

/// An execution and who wants something of it.
pub(crate) struct Cell {
    pub(crate) id: ExecutionId,
    /// When it last came to rest, as its keeper counts.
    pub(crate) rested: AtomicU64,
    mailbox: Mutex<Mailbox>,
}

#[derive(Default)]
struct Mailbox {
    mail: VecDeque<Mail>,
    /// A task is emptying it; it has the execution.
    working: bool,
    loaded: Option<Box<Loaded>>,
}

/// The fold of an execution, and what the store has of it.
pub(crate) struct Loaded {
    pub(crate) execution: Execution,
    snapshot_at: u64,
    /// The wake time in the store's index.
    pub(crate) wake: Option<Timestamp>,
}

impl Loaded {
    pub(crate) fn new(execution: Execution, wake: Option<Timestamp>) -> Self {
        Self {
            execution,
            snapshot_at: 0,
            wake,
        }
    }
}

/// What somebody wants of an execution.
pub(crate) enum Mail {
    /// A decision, and where to send the answer.
    Decide(Input, Option<Answer>),
    /// A look at the execution as it is durable.
    Read(Reader),
}

pub(crate) type Answer = oneshot::Sender<Result<Reply, Error>>;
pub(crate) type Reader = Box<dyn FnOnce(Result<&Execution, Error>) + Send>;

impl fmt::Debug for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cell({})", self.id)
    }
}

impl Cell {
    pub(crate) fn new(id: ExecutionId, loaded: Option<Loaded>) -> Self {
        Self {
            id,
            rested: AtomicU64::new(0),
            mailbox: Mutex::new(Mailbox {
                loaded: loaded.map(Box::new),
                ..Mailbox::default()
            }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Mailbox> {
        self.mailbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds mail. Whether the caller has to see to it that the mailbox is emptied.
    pub(crate) fn post(&self, mail: impl IntoIterator<Item = Mail>) -> bool {
        let mut mailbox = self.lock();
        mailbox.mail.extend(mail);
        !std::mem::replace(&mut mailbox.working, true)
    }

    /// Whether nobody works on it and nobody waits.
    pub(crate) fn is_idle(&self) -> bool {
        !self.lock().working
    }

    fn begin_turn(&self) -> (Vec<Mail>, Option<Box<Loaded>>) {
        let mut mailbox = self.lock();
        let count = mailbox.mail.len().min(TURN_MAX);
        (mailbox.mail.drain(..count).collect(), mailbox.loaded.take())
    }

    /// Puts the execution back. Whether there is more mail; if not, the task is over.
    fn end_turn(&self, loaded: Option<Box<Loaded>>) -> bool {
        let mut mailbox = self.lock();
        mailbox.loaded = loaded;
        mailbox.working = !mailbox.mail.is_empty();
        mailbox.working
    }

    /// Empties the mailbox.
    pub(crate) async fn work(self: Arc<Self>, inner: Arc<Inner>) {
        while self.take_turn(&inner).await {}
        inner.cells.rests(&self);
    }

    /// Handles the mail that waits now, and leaves what comes meanwhile to a task.
    pub(crate) async fn work_once(self: Arc<Self>, inner: Arc<Inner>) {
        if self.take_turn(&inner).await {
            drop(inner.runtime.spawn(self.work(inner.clone())));
        } else {
            inner.cells.rests(&self);
        }
    }

    async fn take_turn(self: &Arc<Self>, inner: &Arc<Inner>) -> bool {
        let (mail, loaded) = self.begin_turn();
        let loaded = inner.turn(self, mail, loaded).await;
        self.end_turn(loaded)
    }
}

/// What a turn has decided and not yet committed.
struct Turn {
    records: Vec<Record>,
    intents: Vec<Intent>,
    answers: Vec<(Option<Answer>, Result<Reply, Error>)>,
    readers: Vec<Reader>,
    /// Mail in the order it came, to decide again if the commit loses.
    again: Vec<(Input, usize)>,
    /// Something other than the handler's own checkpoints happened.
    foreign: bool,
    /// Why the fold in memory cannot be trusted any more.
    defect: Option<Error>,
}

impl Inner {
    /// Decides mail, commits, answers, acts. Gives the execution back if it is as stored.
    async fn turn(
        self: &Arc<Self>,
        cell: &Arc<Cell>,
        mail: Vec<Mail>,
        loaded: Option<Box<Loaded>>,
    ) -> Option<Box<Loaded>> {
        let mut loaded = match loaded.map_or_else(|| self.load(cell.id), |loaded| Ok(Some(loaded)))
        {
            Ok(Some(loaded)) => loaded,
            Ok(None) => {
                refuse(mail, &Error::not_found("there is no such execution"));
                return None;
            }
            Err(error) => {
                refuse(mail, &error);
                if matches!(error, Error::Unreadable(_)) {
                    self.look_again(cell.id);
                }
                return None;
            }
        };
        let was_running = !loaded.execution.status().is_terminal();
        let mut turn = self.decide_all(&mut loaded, mail);
        if turn.again.is_empty() {
            // Looking changes nothing, so nothing follows from it.
            for reader in turn.readers {
                reader(Ok(&loaded.execution));
            }
            return Some(loaded);
        }
        for attempt in 0.. {
            if let Some(defect) = turn.defect.take() {
                if matches!(defect, Error::Unreadable(_)) {
                    self.look_again(cell.id);
                }
                turn.fail(&defect);
                return None;
            }
            match self.commit(&mut loaded, &turn.records).await {
                Ok(()) => break,
                // Somebody else wrote: what was decided on is not what is stored.
                Err(CommitError::Conflict { .. }) if attempt < CONFLICTS_MAX => {
                    match self.load(cell.id) {
                        Ok(Some(fresh)) => loaded = fresh,
                        Ok(None) => {
                            turn.fail(&Error::not_found("the execution has been deleted"));
                            return None;
                        }
                        Err(error) => {
                            turn.fail(&error);
                            return None;
                        }
                    }
                    self.decide_again(&mut loaded, &mut turn);
                }
                Err(error) => {
                    let readers = std::mem::take(&mut turn.readers);
                    turn.fail(&self.not_written(cell.id, error));
                    return self.show_stored(cell.id, readers);
                }
            }
        }
        let closed = was_running && loaded.execution.status().is_terminal();
        self.act(&loaded, closed, turn.foreign, turn.intents);
        for (answer, reply) in turn.answers {
            if let Some(answer) = answer {
                let _ = answer.send(reply);
            }
        }
        for reader in turn.readers {
            reader(Ok(&loaded.execution));
        }
        Some(loaded)
    }

    /// Answers readers whose turn wrote nothing: a disk that takes no writes can still be read.
    fn show_stored(&self, id: ExecutionId, readers: Vec<Reader>) -> Option<Box<Loaded>> {
        let loaded = match self.load(id) {
            Ok(Some(loaded)) => Ok(loaded),
            Ok(None) => Err(Error::not_found("there is no such execution")),
            Err(error) => Err(error),
        };
        for reader in readers {
            reader(match &loaded {
                Ok(loaded) => Ok(&loaded.execution),
                Err(error) => Err(error.clone()),
            });
        }
        loaded.ok()
    }

    fn decide_all(&self, loaded: &mut Loaded, mail: Vec<Mail>) -> Turn {
        let mut turn = Turn {
            records: Vec::new(),
            intents: Vec::new(),
            answers: Vec::new(),
            readers: Vec::new(),
            again: Vec::new(),
            foreign: false,
            defect: None,
        };
        for mail in mail {
            match mail {
                Mail::Read(reader) => turn.readers.push(reader),
                Mail::Decide(input, answer) => {
                    turn.again.push((input, turn.answers.len()));
                    turn.answers.push((answer, Ok(Reply::Done)));
                }
            }
        }
        self.decide_again(loaded, &mut turn);
        turn
    }

    /// Decides the mail of a turn on the execution as it is now.
    fn decide_again(&self, loaded: &mut Loaded, turn: &mut Turn) {
        turn.records.clear();
        turn.intents.clear();
        for (input, answer) in &turn.again {
            let own = matches!(input, Input::Checkpoint(_) | Input::Invoke { .. });
            let reply = match self.decide_one(&mut loaded.execution, input.clone()) {
                Ok(decision) => {
                    turn.foreign |= !own && !decision.records.is_empty();
                    turn.records.extend(decision.records);
                    turn.intents.extend(decision.intents);
                    Ok(decision.reply)
                }
                Err(Error::Rejected(rejection)) => Err(Error::Rejected(rejection)),
                Err(defect) => {
                    turn.defect = Some(defect);
                    return;
                }
            };
            if let Some((_, place)) = turn.answers.get_mut(*answer) {
                *place = reply;
            }
        }
    }

    /// Makes what was decided durable, with the head and, now and then, a snapshot.
    async fn commit(&self, loaded: &mut Loaded, records: &[Record]) -> Result<(), CommitError> {
        let execution = &loaded.execution;
        let wake = self.wake_of(execution);
        if records.is_empty() && wake == loaded.wake {
            return Ok(());
        }
        let version = execution.records();
        let grown = version - loaded.snapshot_at;
        let least = self.options.snapshot_records.max(loaded.snapshot_at / 2);
        let snapshot = (grown >= least).then(|| {
            let mut bytes = Vec::new();
            execution.snapshot(&mut bytes);
            bytes
        });
        let taken = snapshot.is_some();
        let commit = Commit {
            execution: execution.id(),
            expected: version - records.len() as u64,
            records: frame::run(records),
            head: head(execution, wake),
            snapshot,
        };
        self.store.commit(commit).await?;
        loaded.wake = wake;
        if taken {
            loaded.snapshot_at = version;
            loaded.execution.release_payloads();
        }
        Ok(())
    }

    /// When this execution has to be looked at, as the store keeps it.
    pub(crate) fn wake_of(&self, execution: &Execution) -> Option<Timestamp> {
        let now = self.now();
        let busy = execution.invocation().is_some()
            || execution.has_intents()
            || execution.wants_invocation(now);
        if busy {
            return Some(ACTIVE);
        }
        execution.next_wake().or_else(|| execution.retention_due())
    }

    /// Folds an execution from the store.
    pub(crate) fn load(&self, id: ExecutionId) -> Result<Option<Box<Loaded>>, Error> {
        if let Some(reason) = self.quarantine.reason(id) {
            return Err(Error::Quarantined {
                execution: id,
                reason,
            });
        }
        let Some(stored) = self
            .store
            .load(id)
            .map_err(|error| self.damaged(id, error))?
        else {
            return Ok(None);
        };
        match fold(id, &stored) {
            Ok(execution) => Ok(Some(Box::new(Loaded {
                execution,
                snapshot_at: stored.snapshot.as_ref().map_or(0, |(version, _)| *version),
                wake: stored.head.wake,
            }))),
            Err(reason) => Err(self.put_in_quarantine(id, reason.into())),
        }
    }
}

/// The head that goes with an execution.
pub(crate) fn head(execution: &Execution, wake: Option<Timestamp>) -> Head {
    let arn = &execution.profile().arn;
    Head {
        version: execution.records(),
        function: arn.function.name.clone(),
        function_version: arn.function.version.clone(),
        name: arn.name.clone(),
        status: execution.status(),
        started: execution.started(),
        ended: execution.ended(),
        wake,
    }
}

pub(crate) fn fold(id: ExecutionId, stored: &Stored) -> Result<Execution, String> {
    let mut execution = match &stored.snapshot {
        Some((_, bytes)) => {
            Some(Execution::from_snapshot(bytes).map_err(|error| error.to_string())?)
        }
        None => None,
    };
    for run in &stored.records {
        let from = execution.as_ref().map_or(0, Execution::records);
        for record in frame::records(id, run, from) {
            let record = record.map_err(|error| error.to_string())?;
            match &mut execution {
                Some(execution) => execution
                    .apply(&record)
                    .map_err(|error| error.to_string())?,
                None => {
                    let opened = Execution::from_records([&record]);
                    execution = Some(opened.map_err(|error| error.to_string())?);
                }
            }
        }
    }
    let execution = execution.ok_or("it has no records")?;
    if execution.records() != stored.head.version {
        return Err(format!(
            "{} of {} records are there",
            execution.records(),
            stored.head.version
        ));
    }
    Ok(execution)
}

impl Turn {
    fn fail(self, error: &Error) {
        for (answer, _) in self.answers {
            if let Some(answer) = answer {
                let _ = answer.send(Err(error.clone()));
            }
        }
        for reader in self.readers {
            reader(Err(error.clone()));
        }
    }
}

fn refuse(mail: Vec<Mail>, error: &Error) {
    for mail in mail {
        match mail {
            Mail::Decide(_, Some(answer)) => {
                let _ = answer.send(Err(error.clone()));
            }
            Mail::Decide(_, None) => {}
            Mail::Read(reader) => reader(Err(error.clone())),
        }
    }
}

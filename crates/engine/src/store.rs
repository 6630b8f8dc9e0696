//! What an engine keeps, and what it asks of whoever keeps it.
//!
//! A store keeps; it never decides. It compares versions, because that is what makes a commit safe
//! against a second writer, and it does not look into records or snapshots. Every store passes the
//! same suite (`suite`), and an engine cannot tell them apart.
//!
//! # Contract
//!
//! - A commit is all or nothing. Its future resolves when it is durable, and what it acknowledged
//!   is there after any crash.
//! - Commits of one execution take effect in the order they were handed over. Reads see every
//!   commit whose future has resolved.
//! - Reads do not wait for commits and may block for the length of a local read.
//! - A failed sync poisons the store: nothing is acknowledged any more, and reads go on.
//! - A full disk refuses commits ([`CommitError::Full`]) and changes nothing; commits work again
//!   when there is room.
//! - Handing over a commit never loses it: when a store's queue is full, the call itself waits. The
//!   queue is emptied by a thread of the store's own, so waiting cannot block it.

pub mod counted;
pub mod folder;
pub mod journaled;
pub mod layer;
pub mod memory;
mod queue;
pub mod sqlite;
#[cfg(any(test, feature = "suite"))]
pub mod suite;

pub use folder::OpenError;
use outlast_core::{arn::ExecutionId, time::Timestamp, wire::ExecutionStatus};
use std::{
    future::Future,
    path::Path,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};
use tokio::sync::oneshot;

/// Opens the store in a folder, making it if it is not there.
///
/// # Errors
/// When somebody else has it open, its format is newer, it is damaged, or the disk refuses.
pub fn open(folder: &Path) -> Result<Arc<dyn Store>, OpenError> {
    Ok(Arc::new(journaled::JournaledStore::open(
        folder,
        journaled::Options::default(),
    )?))
}

/// Keeps executions.
pub trait Store: Send + Sync + 'static {
    /// Appends to an execution, or creates it.
    fn commit(&self, commit: Commit) -> Committing;

    /// Removes everything about an execution, its name included, if its version is `expected`.
    fn delete(&self, execution: ExecutionId, expected: u64) -> Committing;

    /// The head of an execution.
    ///
    /// # Errors
    /// When it cannot be read.
    fn head(&self, execution: ExecutionId) -> Result<Option<Head>, StoreError>;

    /// What is needed to fold an execution: its newest snapshot and the records after it, or all
    /// records.
    ///
    /// # Errors
    /// When it cannot be read.
    fn load(&self, execution: ExecutionId) -> Result<Option<Stored>, StoreError>;

    /// Runs of records in order, beginning with the one that contains record `from`, as many as fit
    /// into `bytes_max` bytes; at least one run if there is one.
    ///
    /// # Errors
    /// When they cannot be read.
    fn records(
        &self,
        execution: ExecutionId,
        from: u64,
        bytes_max: usize,
    ) -> Result<Vec<Run>, StoreError>;

    /// The execution that has this name among those of a function.
    ///
    /// # Errors
    /// When the index cannot be read.
    fn find(&self, function: &str, name: &str) -> Result<Option<ExecutionId>, StoreError>;

    /// Executions whose wake time lies in `after..=until`, in order of (wake time, id), those up to
    /// and including `after` left out.
    ///
    /// # Errors
    /// When the index cannot be read.
    fn due(
        &self,
        after: Option<Wake>,
        until: Timestamp,
        max: usize,
    ) -> Result<Vec<Wake>, StoreError>;

    /// Heads of executions in order of (start, id), as `query` asks.
    ///
    /// # Errors
    /// When the index cannot be read.
    fn list(&self, query: &Query) -> Result<Vec<(ExecutionId, Head)>, StoreError>;

    /// A value the engine keeps beside the executions, such as its keys.
    ///
    /// # Errors
    /// When it cannot be read.
    fn setting(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError>;

    /// Sets such a value.
    fn put_setting(&self, key: &str, value: Vec<u8>) -> Committing;

    /// How the store is.
    fn status(&self) -> Status;

    /// What kind of store it is, and how it was found.
    fn about(&self) -> About;

    /// Brings everything in order before a clean end: the next open is then quick. Commits that
    /// were handed over before are durable when this returns; later ones are refused.
    /// Somebody else may then open what is kept, although this store can still be read.
    fn close(&self);
}

/// What one commit does to one execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// Which one.
    pub execution: ExecutionId,
    /// The version it must have: the number of its records. 0 creates it and claims its name.
    pub expected: u64,
    /// The records to append, the first numbered `expected`; may be none if only the head of an
    /// existing execution changes.
    pub records: Run,
    /// The head from now on. Its version is `expected` plus the records; function, name and start
    /// are what they were.
    pub head: Head,
    /// The execution as it is after these records, to fold it from later.
    pub snapshot: Option<Vec<u8>>,
}

impl Commit {
    /// Whether the commit agrees with itself. A store that kept one that does not could not say
    /// later which part was meant, so every store asks this first.
    ///
    /// # Errors
    /// [`CommitError::Malformed`], with the reason.
    pub fn check(&self) -> Result<(), CommitError> {
        let head = &self.head;
        let times = [Some(head.started), head.ended, head.wake];
        let reason = if self.expected == 0 && self.records.count == 0 {
            "it creates an execution without a record"
        } else if self.records.count == 0 && !self.records.bytes.is_empty() {
            "it has bytes of no record"
        } else if self.records.count > 0 && self.records.first != self.expected {
            "its records do not follow those before"
        } else if self.expected.checked_add(u64::from(self.records.count)) != Some(head.version) {
            "its head has another version than its records"
        } else if head.version > INTEGER_MAX {
            "its version is beyond what a store can count"
        } else if times
            .into_iter()
            .flatten()
            .any(|time| time.as_millis() > INTEGER_MAX)
        {
            "one of its times is beyond what a store can order"
        } else {
            return Ok(());
        };
        Err(CommitError::Malformed(reason))
    }
}

/// The greatest time and version a store keeps: databases order signed integers.
pub const INTEGER_MAX: u64 = i64::MAX as u64;

/// One thing that a store can be asked to do, for stores that queue them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// [`Store::commit`].
    Commit(Commit),
    /// [`Store::delete`].
    Delete {
        /// Which execution.
        execution: ExecutionId,
        /// The version it must have.
        expected: u64,
    },
    /// [`Store::put_setting`].
    Setting {
        /// Which one.
        key: Arc<str>,
        /// Its value from now on.
        value: Vec<u8>,
    },
}

/// Records that lie together, opaque to the store. A store may join runs that follow each other
/// into one, the bytes one after the other, though never across the newest snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Run {
    /// Number of the first.
    pub first: u64,
    /// How many.
    pub count: u32,
    /// All of them, framed by the engine.
    pub bytes: Vec<u8>,
}

/// What is known of an execution without its records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// Records so far.
    pub version: u64,
    /// The name of its function; execution names are unique within it.
    pub function: Arc<str>,
    /// The version of its function.
    pub function_version: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// Where it is in its life.
    pub status: ExecutionStatus,
    /// When it started.
    pub started: Timestamp,
    /// When it ended.
    pub ended: Option<Timestamp>,
    /// When it wants to be looked at again, or earlier; never, if absent.
    pub wake: Option<Timestamp>,
}

/// An execution as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Its head.
    pub head: Head,
    /// Its newest snapshot and the version it was taken at.
    pub snapshot: Option<(u64, Vec<u8>)>,
    /// The records after the snapshot, or all.
    pub records: Vec<Run>,
}

/// An entry of the wake index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Wake {
    /// When.
    pub at: Timestamp,
    /// Who.
    pub execution: ExecutionId,
}

/// Which executions to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    /// Only those of this function.
    pub function: Option<Arc<str>>,
    /// Only those of this version of the function.
    pub function_version: Option<Arc<str>>,
    /// Only the one with this name.
    pub name: Option<Arc<str>>,
    /// Only those in one of these states; all if empty.
    pub statuses: Vec<ExecutionStatus>,
    /// Only those started at this time or later.
    pub started_from: Option<Timestamp>,
    /// Only those started at this time or earlier.
    pub started_until: Option<Timestamp>,
    /// Newest first.
    pub newest_first: bool,
    /// Only those that follow this (start, id) in the order asked for.
    pub after: Option<(Timestamp, ExecutionId)>,
    /// At most so many.
    pub max: usize,
}

impl Query {
    /// Whether an execution is one of those asked for; order and paging aside.
    pub fn matches(&self, head: &Head) -> bool {
        self.function
            .as_ref()
            .is_none_or(|function| *function == head.function)
            && self
                .function_version
                .as_ref()
                .is_none_or(|version| *version == head.function_version)
            && self.name.as_ref().is_none_or(|name| *name == head.name)
            && (self.statuses.is_empty() || self.statuses.contains(&head.status))
            && self.started_from.is_none_or(|from| head.started >= from)
            && self.started_until.is_none_or(|until| head.started <= until)
    }

    /// Whether an execution with this start and id comes after [`after`](Self::after) in the order
    /// asked for.
    pub fn follows(&self, started: Timestamp, execution: ExecutionId) -> bool {
        self.after.is_none_or(|after| {
            if self.newest_first {
                (started, execution) < after
            } else {
                (started, execution) > after
            }
        })
    }
}

/// How a store is and what it has done since it was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Why nothing is acknowledged any more, if so.
    pub poisoned: Option<Arc<str>>,
    /// Whether the last commit found the disk full.
    pub full: bool,
    /// Bytes that are durable and not yet indexed.
    pub index_lag_bytes: u64,
    /// Bytes written to files.
    pub written_bytes: u64,
    /// Bytes the store takes on disk.
    pub disk_bytes: u64,
    /// Syncs that commits waited for.
    pub syncs: u64,
    /// Commits that were handed over, and their bytes; known where a
    /// [`Counted`](counted::Counted) stands before the store.
    pub commits: u64,
    /// Bytes of those commits.
    pub commit_bytes: u64,
}

/// What a store is, for whoever looks after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct About {
    /// What keeps the executions, in a few words.
    pub kind: &'static str,
    /// The version of what lies on disk, if anything does.
    pub format: Option<u64>,
    /// What happens before a commit is acknowledged, in a few words.
    pub sync: &'static str,
    /// Whether whoever had it open before closed it; nothing if nobody had.
    pub closed_cleanly: Option<bool>,
}

/// Why a commit was refused; it changed nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommitError {
    /// The execution is at another version: somebody else wrote, or it is not there.
    #[error("the execution is at version {found:?}, not at {expected}")]
    Conflict {
        /// The version the commit named.
        expected: u64,
        /// The version found, if the execution exists.
        found: Option<u64>,
    },
    /// Another execution of this function has the name.
    #[error("the name belongs to another execution")]
    NameTaken(ExecutionId),
    /// The commit contradicts itself or the execution it is for: a defect of the caller.
    #[error("the commit makes no sense: {0}")]
    Malformed(&'static str),
    /// Part of what was stored about the execution is lost; only a delete is accepted.
    #[error("the execution is damaged: {0}")]
    Damaged(Arc<str>),
    /// There is no room on the disk; try again when there is.
    #[error("the disk is full: {0}")]
    Full(Arc<str>),
    /// The store does not know what is durable and acknowledges nothing any more.
    #[error("the store stopped after a failed write: {0}")]
    Poisoned(Arc<str>),
    /// The store has been closed.
    #[error("the store is closed")]
    Closed,
}

impl CommitError {
    /// The refusal of a commit that gives an existing execution another identity.
    pub(crate) const CHANGED_IDENTITY: Self =
        Self::Malformed("it changes the function, name or start of an execution");
}

/// Why a read failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// What is stored about this execution makes no sense.
    #[error("execution {execution} is damaged: {reason}")]
    Damaged {
        /// Which one.
        execution: ExecutionId,
        /// What is wrong with it.
        reason: Arc<str>,
    },
    /// The store cannot be read.
    #[error("the store cannot be read: {0}")]
    Unreadable(Arc<str>),
}

/// A commit on its way to the disk.
#[derive(Debug)]
#[must_use = "nothing may be acknowledged before the commit is durable"]
pub struct Committing(Waiting);

#[derive(Debug)]
enum Waiting {
    Done(Option<Result<(), CommitError>>),
    Queued(oneshot::Receiver<Result<(), CommitError>>),
}

impl Committing {
    /// A commit whose outcome is known.
    pub fn done(outcome: Result<(), CommitError>) -> Self {
        Self(Waiting::Done(Some(outcome)))
    }

    /// A commit whose outcome will be sent. If the sender goes away, the store has stopped.
    pub fn queued() -> (oneshot::Sender<Result<(), CommitError>>, Self) {
        let (sender, receiver) = oneshot::channel();
        (sender, Self(Waiting::Queued(receiver)))
    }

    /// Waits for the outcome on a thread that may block.
    ///
    /// # Errors
    /// When the commit was refused.
    pub fn wait(self) -> Result<(), CommitError> {
        match self.0 {
            Waiting::Done(outcome) => outcome.unwrap_or(Err(CommitError::Closed)),
            Waiting::Queued(receiver) => {
                receiver.blocking_recv().unwrap_or(Err(CommitError::Closed))
            }
        }
    }
}

impl Future for Committing {
    type Output = Result<(), CommitError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            Waiting::Done(outcome) => {
                Poll::Ready(outcome.take().unwrap_or(Err(CommitError::Closed)))
            }
            Waiting::Queued(receiver) => Pin::new(receiver)
                .poll(context)
                .map(|outcome| outcome.unwrap_or(Err(CommitError::Closed))),
        }
    }
}

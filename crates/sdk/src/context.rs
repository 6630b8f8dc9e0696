//! The context a handler works with: it hands out positions, knows whether it is replaying, and
//! gives access to what is safe to use in deterministic code.

use crate::{
    actor::misuse,
    codec::Coding,
    error::{Error, ErrorKind},
    future::Stop,
    invocation::{Invocation, LambdaContext},
    lifecycle::Report,
    operation::Claim,
    plugin::OperationInfo,
};
use outlast_core::{
    id::{OperationId, Position, digest128, uuid},
    limits,
    random::SplitMix64,
    time::Timestamp,
};
use std::{
    collections::BTreeSet,
    fmt,
    sync::{
        Arc, Mutex, OnceLock, PoisonError, Weak,
        atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

/// What a handler, a child context or a batch item uses to perform durable operations.
///
/// Cloning is cheap. A context belongs to one invocation and to the code it was given to: use the
/// context that a body receives, not one captured from outside.
///
/// Every operation takes its name first (`""` for none; a wait takes none) and returns a builder.
/// The operation's position is claimed when the builder is made, so the order of the *calls*
/// matters, not the order of the awaits. Awaiting a builder runs the operation in place, and its
/// body may borrow; [`spawn`](crate::Step::spawn) starts it in the background.
#[derive(Clone)]
pub struct Context {
    pub(crate) scope: Arc<Scope>,
    key: Option<Arc<str>>,
}

impl Context {
    pub(crate) fn new(scope: Arc<Scope>) -> Self {
        Self { scope, key: None }
    }

    /// This context, with the next operation identified by `key` instead of by its position.
    ///
    /// A keyed operation keeps its identity when other operations are added, removed or reordered
    /// around it. A key can be used once per context.
    ///
    /// ```
    /// # use outlast::{Context, Result};
    /// # async fn example(ctx: Context) -> Result<()> {
    /// let receipt: String = ctx.keyed("invoice-7").step("charge", async |_| charge(7).await).await?;
    /// # Ok(()) }
    /// # async fn charge(_: u32) -> Result<String, std::io::Error> { Ok(String::new()) }
    /// ```
    #[must_use]
    pub fn keyed(&self, key: &str) -> Self {
        Self {
            scope: self.scope.clone(),
            key: Some(key.into()),
        }
    }

    /// Claims the next position for an operation of this context.
    pub(crate) fn claim(&self, name: &str) -> Claim {
        let scope = self.scope.clone();
        let bad_name = invalid_name(name);
        // An error that says what is wrong with a name does not need it a second time.
        let named = !name.is_empty() && bad_name.is_none();
        let problem = misuse(&scope).or(bad_name);
        let mut claim = Claim {
            position: Position::root(),
            name: named.then(|| name.into()),
            since: scope.now(),
            scope,
            problem,
        };
        // Misuse must not consume a position: that would shift every later operation.
        let misused = claim
            .problem
            .as_ref()
            .is_some_and(|error| error.kind() != ErrorKind::InvalidInput);
        if misused {
            return claim;
        }
        match &self.key {
            None => claim.position = claim.scope.position.child(claim.scope.next_number()),
            Some(key) => {
                claim.position = claim.scope.position.keyed(key);
                let fresh = lock(&claim.scope.keys).insert(key.clone());
                let problem = if key.is_empty() {
                    Some("an operation key must not be empty".to_owned())
                } else if !fresh {
                    Some(format!(
                        "the operation key '{key}' is used twice in this context"
                    ))
                } else {
                    None
                };
                if let Some(problem) = problem {
                    claim.problem.get_or_insert(Error::of_kind(
                        ErrorKind::InvalidInput,
                        None,
                        problem,
                    ));
                }
            }
        }
        claim
    }

    /// The execution's ARN.
    pub fn execution_arn(&self) -> &str {
        &self.scope.invocation.arn
    }

    /// Id of this invocation of the handler.
    pub fn request_id(&self) -> &str {
        &self.scope.invocation.request.request_id
    }

    /// The tenant this execution runs for.
    pub fn tenant_id(&self) -> Option<&str> {
        self.scope.invocation.request.tenant_id.as_deref()
    }

    /// Time left before the platform ends this invocation, if it has a limit.
    pub fn remaining_time(&self) -> Option<Duration> {
        let invocation = &self.scope.invocation;
        let left = invocation
            .request
            .deadline?
            .millis_since(invocation.config.clock.now());
        Some(Duration::from_millis(left))
    }

    /// Whether the code that runs now only repeats what is already recorded.
    pub fn is_replaying(&self) -> bool {
        self.scope.is_replaying()
    }

    /// What AWS Lambda said about this invocation, when it runs there.
    pub fn lambda_context(&self) -> Option<&LambdaContext> {
        self.scope.invocation.request.lambda.as_deref()
    }

    /// The time, safe to use in deterministic code: when the last operation this context awaited
    /// ended, or when the execution started before that. It stands still between operations.
    pub fn now(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_millis(self.scope.now().as_millis())
    }

    /// A random UUID that is the same on every replay.
    pub fn uuid(&self) -> String {
        uuid(self.scope.draw())
    }

    /// A random number that is the same on every replay.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "64 of 128 random bits are wanted"
    )]
    pub fn random(&self) -> u64 {
        SplitMix64::new(self.scope.draw() as u64).next_u64()
    }

    /// Why this invocation has or has not suspended, who holds it, and which operations are open.
    pub fn lifecycle(&self) -> Report {
        self.scope.invocation.lifecycle.with(|state| state.report())
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("execution_arn", &self.scope.invocation.arn)
            .field("position", &self.scope.position)
            .finish_non_exhaustive()
    }
}

pub(crate) fn invalid_name(name: &str) -> Option<Error> {
    let problem = if let Some(bad) = name.chars().find(|c| !(' '..='~').contains(c)) {
        format!("the operation name {name:?} contains {bad:?}: only printable ASCII is allowed")
    } else if name.len() > limits::NAME_LENGTH_MAX {
        let beginning: String = name.chars().take(20).collect();
        format!(
            "the operation name \"{beginning}…\" has {} characters, {} are allowed",
            name.len(),
            limits::NAME_LENGTH_MAX
        )
    } else {
        return None;
    };
    Some(Error::of_kind(ErrorKind::InvalidInput, None, problem))
}

/// How a context meets its operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Mode {
    /// New operations run.
    Execution = 0,
    /// The recorded ones are being repeated.
    Replay = 1,
    /// A finished body runs again to rebuild its large result; nothing is written.
    ReplaySucceeded = 2,
}

/// What a context is: a namespace of positions with a replay mode.
pub(crate) struct Scope {
    pub(crate) invocation: Arc<Invocation>,
    pub(crate) position: Position,
    /// The nearest recorded context: what operations of this scope name as their parent.
    pub(crate) record_id: Option<OperationId>,
    pub(crate) parent: Option<Arc<Self>>,
    pub(crate) coding: Coding,
    numbers: AtomicU64,
    keys: Mutex<BTreeSet<Arc<str>>>,
    mode: AtomicU8,
    /// The last operation met is finished; whether replay is over depends on the next.
    between: AtomicBool,
    closed: AtomicBool,
    last_end: AtomicU64,
    draws: AtomicU64,
    spawned: Mutex<Vec<Weak<dyn Stop>>>,
    unrecorded: OnceLock<Box<Unrecorded>>,
}

/// What plugins hear of a virtual context: no record says whether an earlier invocation ended it.
struct Unrecorded {
    info: OperationInfo,
    is_told: AtomicBool,
}

impl fmt::Debug for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Scope({})", self.position)
    }
}

impl Scope {
    pub(crate) fn root(invocation: Arc<Invocation>, mode: Mode) -> Arc<Self> {
        let start = invocation.execution_start;
        let coding = invocation.config.coding.clone();
        Arc::new(Self::bare(
            invocation,
            Position::root(),
            (mode, start, coding),
        ))
    }

    fn bare(
        invocation: Arc<Invocation>,
        position: Position,
        (mode, start, coding): (Mode, Timestamp, Coding),
    ) -> Self {
        Self {
            invocation,
            position,
            record_id: None,
            parent: None,
            coding,
            numbers: AtomicU64::new(0),
            keys: Mutex::default(),
            mode: AtomicU8::new(mode as u8),
            between: AtomicBool::new(true),
            closed: AtomicBool::new(false),
            last_end: AtomicU64::new(start.as_millis()),
            draws: AtomicU64::new(0),
            spawned: Mutex::default(),
            unrecorded: OnceLock::new(),
        }
    }

    /// When the last operation that this context awaited ended.
    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.last_end.load(Ordering::Relaxed))
    }

    /// A context inside this one, whose time begins at `since`. A virtual one has positions of its
    /// own but no record.
    pub(crate) fn child(
        self: &Arc<Self>,
        position: Position,
        record: Option<OperationId>,
        mode: Mode,
        since: Timestamp,
    ) -> Arc<Self> {
        let bare = Self::bare(
            self.invocation.clone(),
            position,
            (mode, since, self.coding.clone()),
        );
        Arc::new(Self {
            record_id: record.or_else(|| self.record_id.clone()),
            parent: Some(self.clone()),
            ..bare
        })
    }

    fn next_number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(crate) fn mode(&self) -> Mode {
        match self.mode.load(Ordering::Acquire) {
            0 => Mode::Execution,
            1 => Mode::Replay,
            _ => Mode::ReplaySucceeded,
        }
    }

    /// Replay is over, for good.
    pub(crate) fn leave_replay(&self) {
        let _ = self.mode.compare_exchange(
            Mode::Replay as u8,
            Mode::Execution as u8,
            Ordering::AcqRel,
            Ordering::Acquire,
        );
    }

    /// An operation was met and is not finished yet.
    pub(crate) fn meet(&self) {
        self.between.store(false, Ordering::Release);
    }

    /// An operation of this context finished at `end`.
    pub(crate) fn passed(&self, end: Option<Timestamp>) {
        self.between.store(true, Ordering::Release);
        if let Some(end) = end {
            self.last_end.fetch_max(end.as_millis(), Ordering::Relaxed);
        }
    }

    /// Replay ends when the next operation is not recorded; only asked when somebody wants to know.
    pub(crate) fn is_replaying(&self) -> bool {
        match self.mode() {
            Mode::Execution => false,
            Mode::ReplaySucceeded => true,
            Mode::Replay => {
                if !self.between.load(Ordering::Acquire) {
                    return true;
                }
                let next = self
                    .position
                    .child(self.numbers.load(Ordering::Relaxed) + 1);
                if !self.invocation.has_record_at_or_below(&next) && !self.has_more() {
                    self.leave_replay();
                }
                self.mode() == Mode::Replay
            }
        }
    }

    /// Whether something is recorded here that the code has not come to. The next number does not
    /// tell when operations are known by keys. A virtual context cannot tell its own from those of
    /// the context around it.
    fn has_more(&self) -> bool {
        !self.is_virtual()
            && self
                .invocation
                .lifecycle
                .with(|state| state.is_ahead(&self.record_id))
    }

    fn is_virtual(&self) -> bool {
        let around = self.parent.as_ref();
        around.is_some_and(|around| around.record_id == self.record_id)
    }

    /// Plugins hear of this virtual context once something in it is news.
    pub(crate) fn announce_with_news(&self, info: OperationInfo) {
        let is_told = AtomicBool::new(false);
        let _ = self.unrecorded.set(Box::new(Unrecorded { info, is_told }));
    }

    /// Something in this context is news: it was not over when the last invocation ended.
    pub(crate) fn has_news(&self) {
        if self.is_virtual()
            && let Some(around) = &self.parent
        {
            around.has_news();
        }
        if let Some(Unrecorded { info, is_told }) =
            self.unrecorded.get().map(|unrecorded| &**unrecorded)
            && !is_told.swap(true, Ordering::AcqRel)
        {
            let hooks = &self.invocation.hooks;
            hooks.each("operation_start", |plugin| plugin.operation_start(info));
        }
    }

    /// This virtual context, if plugins have heard of it.
    pub(crate) fn announced(&self) -> Option<OperationInfo> {
        let unrecorded = self.unrecorded.get()?;
        let is_told = unrecorded.is_told.load(Ordering::Acquire);
        is_told.then(|| unrecorded.info.clone())
    }

    fn draw(&self) -> u128 {
        let number = self.draws.fetch_add(1, Ordering::Relaxed);
        let parts: [&[u8]; 3] = [
            self.invocation.arn.as_bytes(),
            self.position.as_str().as_bytes(),
            &number.to_be_bytes(),
        ];
        digest128(&parts)
    }

    /// Closes the context: whatever still runs below it may write no more, and what it spawned is
    /// dropped.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        for work in lock(&self.spawned)
            .drain(..)
            .filter_map(|work| work.upgrade())
        {
            work.stop();
        }
    }

    /// Whether this context or one around it is closed.
    pub(crate) fn is_orphaned(&self) -> bool {
        let mut scope = Some(self);
        while let Some(current) = scope {
            if current.closed.load(Ordering::Acquire) {
                return true;
            }
            scope = current.parent.as_deref();
        }
        false
    }

    /// Spawned work that ends with this context.
    pub(crate) fn adopt(&self, work: Weak<dyn Stop>) {
        let mut spawned = lock(&self.spawned);
        // Closing marks first and drains then, so one of the two stops it.
        if self.closed.load(Ordering::Acquire) {
            if let Some(work) = work.upgrade() {
                work.stop();
            }
            return;
        }
        // Forget finished ones now and then, so that the list stays as long as what is alive.
        if spawned.len() == spawned.capacity() {
            spawned.retain(|known| known.upgrade().is_some_and(|work| !work.is_stopped()));
        }
        spawned.push(work);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Closes a context's spawned work when its body is finished or dropped.
pub(crate) struct CloseOnDrop(pub(crate) Arc<Scope>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.0.close();
    }
}

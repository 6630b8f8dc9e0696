//! What every operation does the same way: meet its record, send updates, wait for changes.
//!
//! Nothing here resolves in a way that user code could catch when the invocation is being torn
//! down: a mismatch, a lost token or an orphaned context leave the future pending for ever, and the
//! driver drops it.

use crate::{
    actor::Current,
    checkpoint::Delivery,
    codec::{CodecError, Coding, Place},
    context::{Mode, Scope},
    error::{Error, ErrorKind, OperationRef, Result},
    lifecycle::{Fault, OperationState},
    plugin::OperationInfo,
};
use futures_util::future::Either;
use outlast_core::{
    id::{OperationId, Position, digest128},
    limits,
    replay::{Identity, Mismatch, describe},
    time::Timestamp,
    wire::{
        ContextOptions, ErrorObject, Operation, OperationAction, OperationStatus, OperationType,
        OperationUpdate, Payload,
    },
};
use serde::{Serialize, de::DeserializeOwned};
use std::{
    cell::RefCell,
    future::{Future, Pending, Ready, pending, ready},
    pin::Pin,
    sync::Arc,
    task::{Context as Poller, Poll},
};

/// A position that a builder holds, before its operation is known.
#[derive(Debug)]
pub(crate) struct Claim {
    pub(crate) scope: Arc<Scope>,
    pub(crate) position: Position,
    pub(crate) name: Option<Arc<str>>,
    pub(crate) problem: Option<Error>,
    /// The context's time when the position was claimed, which is the same on every replay.
    pub(crate) since: Timestamp,
}

impl Claim {
    /// The operation at this position.
    pub(crate) fn operation(self, operation_type: OperationType, sub_type: &'static str) -> Op {
        let identity = Identity {
            id: self.position.id(),
            position: self.position,
            operation_type,
            sub_type: shared(sub_type),
            name: self.name,
            parent_id: self.scope.record_id.clone(),
        };
        if self.scope.mode() == Mode::Replay && self.problem.is_none() {
            let lifecycle = &self.scope.invocation.lifecycle;
            lifecycle.with(|state| state.claimed(&identity));
        }
        Op {
            identity: Arc::new(identity),
            scope: self.scope,
            problem: self.problem,
            since: self.since,
            spawned: false,
        }
    }
}

/// One copy of a label for all operations that bear it.
fn shared(label: &'static str) -> Arc<str> {
    thread_local! {
        static LABELS: RefCell<Vec<Arc<str>>> = const { RefCell::new(Vec::new()) };
    }
    LABELS.with_borrow_mut(|labels| {
        if let Some(known) = labels.iter().find(|known| ***known == *label) {
            return known.clone();
        }
        let label: Arc<str> = label.into();
        labels.push(label.clone());
        label
    })
}

/// One durable operation of this invocation.
#[derive(Debug)]
pub(crate) struct Op {
    pub(crate) scope: Arc<Scope>,
    pub(crate) identity: Arc<Identity>,
    /// Why it must not start, if so.
    pub(crate) problem: Option<Error>,
    pub(crate) since: Timestamp,
    pub(crate) spawned: bool,
}

impl Op {
    pub(crate) fn reference(&self) -> OperationRef {
        OperationRef::of(&self.identity)
    }

    pub(crate) fn id(&self) -> &OperationId {
        &self.identity.id
    }

    /// An error of this operation, from its record or from nothing.
    pub(crate) fn failure(&self, kind: ErrorKind, record: Option<&ErrorObject>) -> Error {
        Error::from_record(
            kind,
            Some(self.reference()),
            record.cloned().unwrap_or_default(),
        )
    }

    /// A mistake in how the operation was asked for.
    pub(crate) fn invalid(&self, message: impl Into<String>) -> Error {
        Error::of_kind(ErrorKind::InvalidInput, Some(self.reference()), message)
    }

    /// Notes a mistake found while the builder was being filled; the first one is reported.
    pub(crate) fn reject(&mut self, message: impl Into<String>) {
        if self.problem.is_none() {
            self.problem = Some(self.invalid(message));
        }
    }

    /// Fails if the operation must not start. Nothing has been written.
    pub(crate) fn check(&mut self) -> Result<()> {
        match self.problem.take() {
            None => Ok(()),
            Some(error) => {
                let kind = error.kind();
                Err(error.with_kind(kind, self.reference()))
            }
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.scope.invocation.config.clock.now()
    }

    /// The context that this operation is, for its body.
    pub(crate) fn inner_scope(&self, mode: Mode, flat: bool) -> Arc<Scope> {
        let record = (!flat).then(|| self.id().clone());
        let position = self.identity.position.clone();
        self.scope.child(position, record, mode, self.since)
    }

    /// Random bits that belong to this operation and attempt, the same on every replay.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "64 of 128 random bits are wanted"
    )]
    pub(crate) fn seed(&self, attempt: u32) -> u64 {
        let parts: [&[u8]; 3] = [
            self.scope.invocation.arn.as_bytes(),
            self.id().as_str().as_bytes(),
            &attempt.to_be_bytes(),
        ];
        digest128(&parts) as u64
    }

    fn place(&self) -> Place<'_> {
        Place::new(&self.scope.invocation.arn, self.id().as_str())
    }

    // --- records ------------------------------------------------------------------------------

    /// The operation's record, if it has one. Never resolves when the record belongs to another
    /// operation, or when a finished body is only being rebuilt and this operation lost its race.
    pub(crate) async fn meet(&self) -> Option<Arc<Operation>> {
        self.scope.meet();
        let met = self.scope.invocation.lifecycle.with(|state| {
            state
                .journal
                .meet(&self.identity)
                .map_err(|mismatch| state.fail(Fault::Mismatch(mismatch)))
        });
        let Ok(record) = met else {
            return pending().await;
        };
        let open = record
            .as_ref()
            .is_none_or(|record| !record.status.is_terminal());
        if open && self.scope.mode() == Mode::ReplaySucceeded {
            return self.never().await;
        }
        let invocation = &self.scope.invocation;
        if !invocation.hooks.is_empty() && (open || invocation.updated.contains(self.id())) {
            self.scope.has_news();
        }
        match &record {
            None => self.scope.leave_replay(),
            Some(record) if open => {
                if record.operation_type == OperationType::Step {
                    self.scope.leave_replay();
                }
                let info = OperationInfo::from_record(record, true);
                invocation
                    .hooks
                    .each("operation_start", |plugin| plugin.operation_start(&info));
            }
            Some(_) => {}
        }
        record
    }

    /// Fails if a record stands where a block without one is about to run: the code changed.
    pub(crate) async fn meet_virtual(&self) {
        let Some(record) = self.record() else {
            return;
        };
        let mismatch = Mismatch {
            position: self.identity.position.clone(),
            id: self.id().clone(),
            attribute: "nesting",
            recorded_operation: describe(
                record.operation_type,
                record.sub_type.as_deref(),
                record.name.as_deref(),
            ),
            recorded: "nested".to_owned(),
            current_operation: describe(
                self.identity.operation_type,
                Some(&self.identity.sub_type),
                self.identity.name.as_deref(),
            ),
            current: "flat".to_owned(),
        };
        self.abort(Fault::Mismatch(Box::new(mismatch))).await
    }

    /// Parks for ever, as an operation whose outcome no longer matters.
    pub(crate) fn never<T>(&self) -> Pending<T> {
        pending()
    }

    /// The newest record.
    pub(crate) fn record(&self) -> Option<Arc<Operation>> {
        self.scope
            .invocation
            .lifecycle
            .with(|state| state.journal.get(self.id()).cloned())
    }

    /// A status that no version of the protocol gives this operation: the execution cannot go on.
    pub(crate) fn unexpected<T>(&self, status: OperationStatus) -> Pending<T> {
        let message = format!(
            "{} has the status {status}, which such an operation never has",
            self.reference()
        );
        self.abort(Fault::Execution(ErrorObject::new(
            "UnexpectedStatusError",
            message,
        )))
    }

    /// Ends the invocation from here; never resolves.
    pub(crate) fn abort<T>(&self, fault: Fault) -> Pending<T> {
        self.scope
            .invocation
            .lifecycle
            .with(|state| state.fail(fault));
        pending()
    }

    // --- updates ------------------------------------------------------------------------------

    /// An update of this operation.
    pub(crate) fn update(&self, action: OperationAction) -> OperationUpdate {
        let identity = &self.identity;
        let mut update = OperationUpdate::new(identity.id.clone(), identity.operation_type, action);
        update.parent_id.clone_from(&identity.parent_id);
        update.name.clone_from(&identity.name);
        update.sub_type = Some(identity.sub_type.clone());
        update
    }

    /// Hands an update to the writer now; the future waits until it is durable if `delivery` says so.
    /// It never resolves below a context that has already been closed: the backend would refuse the
    /// write.
    pub(crate) fn send(&self, update: OperationUpdate, delivery: Delivery) -> Sent<'_> {
        let invocation = &self.scope.invocation;
        // The start of a later attempt is not the start of the operation.
        let starts = update.action == OperationAction::Start && !invocation.hooks.is_empty();
        if starts && self.record().is_none() {
            let info = self.info();
            invocation
                .hooks
                .each("operation_start", |plugin| plugin.operation_start(&info));
        }
        let queued = invocation.lifecycle.with(|state| {
            if self.scope.is_orphaned() {
                return Awaits::Nothing;
            }
            let number = state
                .queue
                .push(update, delivery, invocation.config.clock.now());
            state.notify_driver();
            if delivery == Delivery::Synchronous || state.queue.is_congested() {
                Awaits::Update(number)
            } else {
                Awaits::Done
            }
        });
        Sent {
            op: self,
            awaits: queued,
        }
    }

    /// The operation as plugins see it before it is recorded.
    pub(crate) fn info(&self) -> OperationInfo {
        let identity = &self.identity;
        let mut operation = Operation::new(
            identity.id.clone(),
            identity.operation_type,
            OperationStatus::Started,
            self.now(),
        );
        operation.name.clone_from(&identity.name);
        operation.parent_id.clone_from(&identity.parent_id);
        operation.sub_type = Some(identity.sub_type.clone());
        OperationInfo::from_record(&operation, false)
    }

    /// Sends synchronously and gives the record that the backend answered with.
    pub(crate) fn commit(
        &self,
        update: OperationUpdate,
    ) -> impl Future<Output = Arc<Operation>> + Send {
        let sent = self.send(update, Delivery::Synchronous);
        async move {
            sent.await;
            match self.record() {
                Some(record) => record,
                None => {
                    let message = format!(
                        "the backend accepted {} but did not show its record",
                        self.reference()
                    );
                    self.abort(Fault::Invocation(ErrorObject::new(
                        "ProtocolError",
                        message,
                    )))
                    .await
                }
            }
        }
    }

    /// Closes a context with its result, or with `stripped` in place of one that is too large to
    /// store: replay then rebuilds it from the context's children.
    pub(crate) async fn close(
        &self,
        payload: Option<Payload>,
        stripped: impl FnOnce() -> Option<String> + Send,
    ) {
        let mut update = self.update(OperationAction::Succeed);
        let bytes = payload.as_ref().map_or(0, |payload| payload.len());
        if bytes > limits::INLINE_RESULT_BYTES_MAX {
            update.payload = Some(stripped().unwrap_or_default().into());
            update.context_options = Some(ContextOptions {
                replay_children: true,
            });
        } else {
            update.payload = payload;
        }
        let record = self.commit(update).await;
        self.finish(&record);
    }

    /// Closes a context with an error, and gives the error as its record tells it.
    pub(crate) async fn close_failed(&self, kind: ErrorKind, error: Error) -> Error {
        let mut update = self.update(OperationAction::Fail);
        update.error = Some(Arc::new(error.into_record()));
        let record = self.commit(update).await;
        self.finish(&record);
        self.failure(kind, record.error())
    }

    // --- waiting ------------------------------------------------------------------------------

    pub(crate) fn mark(&self, state: OperationState) {
        self.scope
            .invocation
            .lifecycle
            .with(|lifecycle| lifecycle.mark(&self.identity, state));
    }

    /// Waits until the backend finishes the operation or makes its retry ready.
    pub(crate) async fn change(&self, waiting: OperationState) -> Arc<Operation> {
        self.scope.invocation.lifecycle.with(|state| {
            // A spawned operation is awaited through the handle to the actor that runs it.
            let handle = Current::peek(|current| current.map(|current| current.actor));
            let awaited = !self.spawned || handle.is_some_and(|actor| state.is_awaited(actor));
            let waiting = if waiting == OperationState::IdleAwaited && !awaited {
                OperationState::IdleNotAwaited
            } else {
                waiting
            };
            state.mark(&self.identity, waiting);
        });
        let record = Changed {
            op: self,
            waits: false,
        }
        .await;
        // It was open when it was met, so what follows it has not run before.
        self.scope.leave_replay();
        record
    }

    /// The operation is over: its resources go, its context moves on.
    pub(crate) fn finish(&self, record: &Operation) {
        self.mark(OperationState::Completed);
        // A spawned operation ends for its context when its handle is awaited, not before.
        self.scope
            .passed(record.end_timestamp.filter(|_| !self.spawned));
    }

    // --- values -------------------------------------------------------------------------------

    /// Serialises a value, or says why it cannot be. Never resolves if trying again may help.
    pub(crate) fn encode<'s, T: Serialize + ?Sized>(
        &'s self,
        coding: &Coding,
        value: &T,
    ) -> impl Future<Output = Result<Payload>> + Send + use<'s, T> {
        // Written here and now: the future must not hold on to the value, which need not be `Sync`.
        let text = coding.encode(value, &self.place());
        async move {
            match text {
                Ok(text) => Ok(text.into()),
                Err(error) => Err(self.codec_failure("written", error).await),
            }
        }
    }

    /// Reads a value that this program wrote.
    pub(crate) async fn decode<T: DeserializeOwned>(
        &self,
        coding: &Coding,
        text: Option<&Payload>,
    ) -> Result<T> {
        match coding.decode(text.map(AsRef::as_ref), &self.place()) {
            Ok(value) => Ok(value),
            Err(error) => Err(self.codec_failure("read", error).await),
        }
    }

    /// Reads a value that came from outside.
    pub(crate) async fn decode_external<T>(
        &self,
        coding: &Coding,
        text: Option<&Payload>,
    ) -> Result<T>
    where
        T: DeserializeOwned + 'static,
    {
        match coding.decode_external(text.map(AsRef::as_ref), &self.place()) {
            Ok(value) => Ok(value),
            Err(error) => Err(self.codec_failure("read", error).await),
        }
    }

    fn codec_failure(&self, what: &str, error: CodecError) -> Either<Ready<Error>, Pending<Error>> {
        let message = format!("its value cannot be {what}: {error}");
        if error.retryable {
            let message = format!("{}: {message}", self.reference());
            return Either::Right(self.abort(Fault::Invocation(ErrorObject::new(
                "RetryableSerDesError",
                message,
            ))));
        }
        let operation = Some(self.reference());
        Either::Left(ready(Error::of_kind(ErrorKind::Codec, operation, message)))
    }

    /// Fails if a payload is larger than the backend takes.
    pub(crate) fn check_size(&self, payload: &Payload) -> Result<()> {
        let max = self.scope.invocation.config.payload_bytes_max;
        if payload.len() <= max {
            return Ok(());
        }
        let message = format!(
            "its value has {} bytes, {max} are allowed: store large data elsewhere and keep a reference",
            payload.len()
        );
        Err(Error::of_kind(
            ErrorKind::Codec,
            Some(self.reference()),
            message,
        ))
    }
}

/// An update that was handed to the writer.
#[must_use = "an update that was sent is to be awaited"]
pub(crate) struct Sent<'a> {
    op: &'a Op,
    awaits: Awaits,
}

/// What the sender of an update waits for.
enum Awaits {
    /// For nothing: the writer has it.
    Done,
    /// Until the update with this number is durable.
    Update(u64),
    /// For nothing that will ever come: it was not taken.
    Nothing,
}

impl Future for Sent<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, poller: &mut Poller<'_>) -> Poll<()> {
        let number = match self.awaits {
            Awaits::Done => return Poll::Ready(()),
            Awaits::Nothing => return Poll::Pending,
            Awaits::Update(number) => number,
        };
        let lifecycle = &self.op.scope.invocation.lifecycle;
        let done =
            lifecycle.with(|state| !state.has_fault() && state.queue.wait(number, poller.waker()));
        if !done {
            return Poll::Pending;
        }
        self.awaits = Awaits::Done;
        Poll::Ready(())
    }
}

impl Drop for Sent<'_> {
    fn drop(&mut self) {
        if let Awaits::Update(number) = self.awaits {
            self.op
                .scope
                .invocation
                .lifecycle
                .with(|state| state.queue.abandon(number));
        }
    }
}

/// Resolves when an operation's record is settled.
struct Changed<'a> {
    op: &'a Op,
    waits: bool,
}

impl Future for Changed<'_> {
    type Output = Arc<Operation>;

    fn poll(mut self: Pin<&mut Self>, poller: &mut Poller<'_>) -> Poll<Arc<Operation>> {
        let op = self.op;
        let invocation = &op.scope.invocation;
        let record = invocation.lifecycle.with(|state| {
            state.wait_for_change(&op.identity, poller.waker(), |record| {
                invocation.first_poll(record)
            })
        });
        self.waits = record.is_none();
        record.map_or(Poll::Pending, Poll::Ready)
    }
}

impl Drop for Changed<'_> {
    fn drop(&mut self) {
        if self.waits {
            self.op
                .scope
                .invocation
                .lifecycle
                .with(|state| state.stop_waiting(&self.op.identity));
        }
    }
}

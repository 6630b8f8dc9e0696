//! Random lives: a handler, an outside world, crashes, late and repeated messages.
//!
//! Whatever they do, in whatever order, the invariants hold, the records fold to the same
//! execution, a refused input changes nothing (all three checked by the test world after every
//! step), the handler's picture of the state is exact, and what has ended stays as it was. When the
//! trouble stops, the execution finishes.

use crate::{
    decide::{Input, Reply},
    delivery::{Arrival, Delivery},
    id::OperationId,
    intent::InvokeOutcome,
    invocation::Outcome,
    limits::Quotas,
    record::{IntentKey, Record, nothing},
    time::Timestamp,
    wire::{
        self, CheckpointRequest, ErrorObject, ExecutionStatus, InvocationOutput,
        OperationAction as Action, OperationStatus as Status, OperationType as Type,
        OperationUpdate, error_type,
    },
    world::*,
};
use alloc::{
    collections::BTreeMap,
    format,
    string::{String, ToString as _},
    sync::Arc,
    vec,
    vec::Vec,
};
use proptest::prelude::*;

/// Operations a life may have, by number.
const OPERATIONS: u8 = 14;

/// One thing that happens.
#[derive(Clone, Debug)]
enum Happening {
    Advance(u64),
    Invoke,
    Checkpoint {
        wishes: Vec<Wish>,
        client_token: bool,
        stale: bool,
    },
    Again,
    End(Ending, bool),
    Arrive(Vec<(Message, u64)>),
    Tick,
    Stop,
    Hold,
    Resume,
    FailHeld,
    Acknowledge(u8),
    RotateKeys,
}

#[derive(Clone, Copy, Debug)]
enum Ending {
    Pending,
    Succeeded,
    Failed,
    Garbage,
    Crash,
    Mismatch,
    NotStarted,
    Lost,
}

#[derive(Clone, Debug)]
enum Message {
    Answer(u8),
    Refuse(u8),
    Beat(u8),
    Signal(u8),
    Invoked(u8, bool),
}

fn id(number: u8) -> String {
    format!("op{number}")
}

/// What a handler would like to do with an operation; what exactly depends on where that is.
#[derive(Clone, Debug)]
struct Wish {
    kind: u8,
    number: u8,
    seconds: u32,
    parent: Option<u8>,
    /// Whether to ask for it even where it makes no sense.
    blind: bool,
}

fn any_wish() -> impl Strategy<Value = Wish> {
    let seconds = prop_oneof![Just(0u32), Just(1), 2..40u32];
    let parent = prop_oneof![3 => Just(None), 2 => (0..OPERATIONS).prop_map(Some)];
    (
        0..32u8,
        0..OPERATIONS,
        seconds,
        parent,
        prop::bool::weighted(0.1),
    )
        .prop_map(|(kind, number, seconds, parent, blind)| Wish {
            kind,
            number,
            seconds,
            parent,
            blind,
        })
}

/// Any update at all.
fn blind_update(wish: &Wish) -> OperationUpdate {
    let id = id(wish.number);
    let seconds = wish.seconds;
    match wish.kind {
        0..=3 => start_step(&id),
        4 => succeed_step(&id, "1"),
        5 => fail_step(&id, "no"),
        6 | 7 => retry_step(&id, seconds),
        8 => poll_step(&id, "2", seconds),
        9..=12 => start_wait(&id, seconds.max(1)),
        13 => update(Type::Wait, Action::Cancel, &id),
        14..=17 => start_callback(&id, seconds * 2, seconds),
        18..=21 => wait_signal(&id, &format!("signal{}", wish.number % 2), seconds),
        22..=25 => start_invoke(
            &id,
            ["durable:1", "plain", "missing"][usize::from(wish.kind) % 3],
        ),
        26..=29 => start_context(&id),
        30 => succeed_context(&id, seconds.is_multiple_of(2)),
        _ => update(Type::Execution, Action::Succeed, &id),
    }
}

/// An update that moves an operation of this type and status on.
fn next_update(wish: &Wish, operation: &wire::Operation) -> Option<OperationUpdate> {
    let id = operation.id.as_str();
    Some(match (operation.operation_type, operation.status) {
        (Type::Step, Status::Ready) if wish.kind < 20 => start_step(id),
        (Type::Step, Status::Started | Status::Ready) => match wish.kind % 4 {
            0 => succeed_step(id, "1"),
            1 => fail_step(id, "no"),
            2 => retry_step(id, wish.seconds),
            _ => poll_step(id, "2", wish.seconds),
        },
        (Type::Context, Status::Started) => succeed_context(id, wish.kind.is_multiple_of(2)),
        (Type::Wait, Status::Started) => update(Type::Wait, Action::Cancel, id),
        _ => return None,
    })
}

fn any_message() -> impl Strategy<Value = Message> {
    let number = 0..OPERATIONS;
    prop_oneof![
        number.clone().prop_map(Message::Answer),
        number.clone().prop_map(Message::Refuse),
        number.clone().prop_map(Message::Beat),
        (0..2u8).prop_map(Message::Signal),
        (number, any::<bool>()).prop_map(|(number, good)| Message::Invoked(number, good)),
    ]
}

fn any_happening() -> impl Strategy<Value = Happening> {
    let ms = prop_oneof![Just(0u64), Just(1), Just(999), 1_000..70_000u64];
    let wishes = prop::collection::vec(any_wish(), 0..4);
    let ending = prop_oneof![
        16 => Just(Ending::Pending),
        1 => Just(Ending::Succeeded),
        1 => Just(Ending::Failed),
        1 => Just(Ending::Garbage),
        8 => Just(Ending::Crash),
        1 => Just(Ending::Mismatch),
        2 => Just(Ending::NotStarted),
        2 => Just(Ending::Lost),
    ];
    let messages = prop::collection::vec((any_message(), 0..3_000u64), 1..4);
    prop_oneof![
        8 => ms.prop_map(Happening::Advance),
        4 => Just(Happening::Invoke),
        30 => (wishes, any::<bool>(), prop::bool::weighted(0.05)).prop_map(
            |(wishes, client_token, stale)| Happening::Checkpoint { wishes, client_token, stale }
        ),
        3 => Just(Happening::Again),
        8 => (ending, prop::bool::weighted(0.05)).prop_map(|(how, old)| Happening::End(how, old)),
        8 => messages.prop_map(Happening::Arrive),
        2 => Just(Happening::Tick),
        1 => prop::bool::weighted(0.2).prop_map(|stop| if stop { Happening::Stop } else { Happening::Tick }),
        1 => Just(Happening::Hold),
        6 => Just(Happening::Resume),
        1 => prop::bool::weighted(0.1).prop_map(|fail| if fail { Happening::FailHeld } else { Happening::Resume }),
        2 => (0..OPERATIONS).prop_map(Happening::Acknowledge),
        1 => Just(Happening::RotateKeys),
    ]
}

/// The world plus what its inhabitants remember.
struct Life {
    world: World,
    /// The handler's picture of the state.
    view: BTreeMap<String, wire::Operation>,
    /// Tokens and invocations of the past.
    old_token: Option<String>,
    old_invocation: Option<Arc<str>>,
    last: Option<(CheckpointRequest, wire::CheckpointResponse)>,
    /// Operations that have ended, and the execution's own end.
    ended: BTreeMap<String, wire::Operation>,
    end: Option<(ExecutionStatus, Option<Timestamp>)>,
    requests: u32,
}

impl Life {
    fn new(quotas: Quotas) -> Self {
        Self {
            world: World::starting(start(), quotas),
            view: BTreeMap::new(),
            old_token: None,
            old_invocation: None,
            last: None,
            ended: BTreeMap::new(),
            end: None,
            requests: 0,
        }
    }

    fn happen(&mut self, happening: Happening) {
        let sequence = self.world.execution.sequence();
        match happening {
            Happening::Advance(ms) => drop(self.world.advance(ms)),
            Happening::Invoke => self.invoke(),
            Happening::Checkpoint {
                wishes,
                client_token,
                stale,
            } => {
                if self.world.execution.invocation().is_none() {
                    self.invoke();
                }
                let updates = wishes.iter().filter_map(|wish| self.grant(wish)).collect();
                self.checkpoint(updates, client_token, stale);
            }
            Happening::Again => self.again(),
            Happening::End(ending, old) => self.end(ending, old),
            Happening::Arrive(messages) => self.arrive(messages),
            Happening::Tick => self.world.tick(),
            Happening::Stop => drop(self.world.decide(Input::Stop { error: None })),
            Happening::Hold => {
                let reason = ErrorObject::new("Operator", "wait");
                drop(self.world.decide(Input::Hold { reason }));
            }
            Happening::Resume => drop(self.world.decide(Input::Resume)),
            Happening::FailHeld => drop(self.world.decide(Input::FailHeld)),
            Happening::Acknowledge(number) => {
                let intent = IntentKey::Invoke(OperationId::from(id(number).as_str()));
                drop(self.world.decide(Input::Acknowledge(vec![intent])));
            }
            Happening::RotateKeys => {
                let key = crate::token::Key::new(self.requests + 2, [3; 32]);
                self.world.keys = self.world.keys.clone().rotated(key);
            }
        }
        assert!(self.world.execution.sequence() <= sequence + 1);
        self.check_endings();
    }

    fn invoke(&mut self) {
        let wanted = self.world.execution.wants_invocation(self.world.now);
        let invoked = self.world.try_invoke();
        assert_eq!(invoked.is_ok(), wanted);
        let Ok(input) = invoked else {
            return;
        };
        self.view.clear();
        self.last = None;
        let state = input.initial_execution_state;
        assert_eq!(state.next_marker, None, "small executions fit one page");
        assert_eq!(state.operations[0].operation_type, Type::Execution);
        self.see(state.operations);
        for updated in input.updated_operation_ids {
            assert!(
                self.view.contains_key(updated.as_str()),
                "{updated} is not in the state"
            );
        }
        self.check_view();
    }

    /// The update a handler sends for a wish: for what exists the next move, else its creation.
    fn grant(&self, wish: &Wish) -> Option<OperationUpdate> {
        let known = |number: u8| {
            let id = OperationId::from(id(number).as_str());
            self.world.execution.operation(&id, &nothing).unwrap()
        };
        if !wish.blind
            && let Some(operation) = known(wish.number)
        {
            return next_update(wish, &operation);
        }
        let update = blind_update(wish);
        let parent = wish.parent.filter(|parent| {
            wish.blind
                || known(*parent).is_some_and(|parent| parent.operation_type == Type::Context)
        });
        Some(match parent {
            Some(parent) => inside(&id(parent), update),
            None => update,
        })
        .filter(|update| wish.blind || update.operation_type != Type::Execution)
    }

    fn checkpoint(&mut self, updates: Vec<OperationUpdate>, client_token: bool, stale: bool) {
        let token = if stale {
            self.old_token.clone()
        } else {
            self.world.token.clone()
        };
        let Some(checkpoint_token) = token else {
            return;
        };
        self.requests += 1;
        let request = CheckpointRequest {
            checkpoint_token: checkpoint_token.clone(),
            updates: updates.clone(),
            client_token: client_token.then(|| format!("client-{}", self.requests)),
        };
        let before = self.world.execution.sequence();
        let current = self.world.token.clone();
        let Ok(response) = self.world.send(request.clone()) else {
            assert_eq!(self.world.token, current);
            return;
        };
        assert!(
            !stale || Some(checkpoint_token.clone()) == current,
            "a stale token wrote"
        );
        assert_eq!(self.world.execution.sequence(), before + 1);
        self.old_token = Some(checkpoint_token);
        let delivered = &response.new_execution_state.operations;
        let failed = self.world.execution.status() == ExecutionStatus::Failed;
        for update in updates {
            let told = delivered.iter().any(|operation| operation.id == update.id);
            assert!(told || update.operation_type == Type::Execution || failed);
        }
        self.see(delivered.clone());
        self.check_view();
        let open = response.checkpoint_token.is_some();
        assert_eq!(
            open,
            self.world.execution.status() == ExecutionStatus::Running
        );
        self.last = Some((request, response));
    }

    /// An HTTP client repeats its last request: the same answer, or a stale token.
    fn again(&mut self) {
        let Some((request, response)) = self.last.clone() else {
            return;
        };
        let records = self.world.records.len();
        match self.world.decide(Input::Checkpoint(request.clone())) {
            Ok(Reply::Checkpoint(again)) => {
                assert_eq!(again, response);
                assert!(request.client_token.is_some());
            }
            Ok(other) => panic!("{other:?}"),
            Err(refused) => assert!(refused.is_stale_token(), "{refused}"),
        }
        assert_eq!(self.world.records.len(), records);
    }

    fn end(&mut self, ending: Ending, old: bool) {
        let outcome = match ending {
            Ending::Pending => Outcome::Output(InvocationOutput::pending()),
            Ending::Succeeded => Outcome::Output(InvocationOutput::succeeded(Some("1".into()))),
            Ending::Failed => Outcome::Output(InvocationOutput::failed(None)),
            Ending::Garbage => Outcome::Answered(b"{\"Status\":3}".to_vec()),
            Ending::Crash => Outcome::exited("killed"),
            Ending::Mismatch => {
                Outcome::Failed(ErrorObject::new(error_type::REPLAY_MISMATCH, "diff"))
            }
            Ending::NotStarted => Outcome::NotStarted(ErrorObject::new("Throttled", "later")),
            Ending::Lost => Outcome::Lost,
        };
        if old {
            let Some(invocation_id) = self.old_invocation.clone() else {
                return;
            };
            let records = self.world.records.len();
            let current = Some(&invocation_id) == self.world.execution.invocation();
            let reply = self.world.decide(Input::Complete {
                invocation_id,
                outcome,
            });
            assert!(current || reply == Ok(Reply::Completed { current: false }));
            assert!(current || self.world.records.len() == records);
            return;
        }
        self.old_token = self.world.token.take().or(self.old_token.take());
        self.old_invocation = Some(self.world.invocation.clone());
        self.world.complete(outcome);
    }

    fn arrive(&mut self, messages: Vec<(Message, u64)>) {
        let mut at = self.world.now;
        let mut deliveries = Vec::new();
        for (message, ms) in messages {
            at = at.plus_millis(ms);
            if let Some(arrival) = self.arrival(message) {
                deliveries.push(Delivery { at, arrival });
            }
        }
        self.world.now = at;
        let count = deliveries.len();
        match self.world.decide(Input::Deliver(deliveries)) {
            Ok(Reply::Delivered(receipts)) => assert_eq!(receipts.len(), count),
            other => panic!("{other:?}"),
        }
    }

    fn arrival(&self, message: Message) -> Option<Arrival> {
        let operation = |number: u8| {
            let id = OperationId::from(id(number).as_str());
            self.world.execution.operation(&id, &nothing).unwrap()
        };
        let callback_id = |number: u8| operation(number)?.callback_details?.callback_id;
        Some(match message {
            Message::Answer(number) => Arrival::CallbackSucceeded {
                callback_id: callback_id(number)?,
                result: Some("1".into()),
            },
            Message::Refuse(number) => Arrival::CallbackFailed {
                callback_id: callback_id(number)?,
                error: ErrorObject::default(),
            },
            Message::Beat(number) => Arrival::CallbackHeartbeat {
                callback_id: callback_id(number)?,
            },
            Message::Signal(number) => Arrival::Signal {
                name: format!("signal{number}").into(),
                payload: Some("1".into()),
            },
            Message::Invoked(number, good) => Arrival::Invoked {
                operation: OperationId::from(id(number).as_str()),
                outcome: if good {
                    InvokeOutcome::Succeeded(Some("1".into()))
                } else {
                    InvokeOutcome::timed_out(60)
                },
            },
        })
    }

    fn see(&mut self, operations: Vec<wire::Operation>) {
        for operation in operations {
            self.view.insert(operation.id.to_string(), operation);
        }
    }

    /// The handler knows every operation as it is, save those hidden from its replay; and nothing
    /// that is due has been kept from it.
    fn check_view(&self) {
        let execution = &self.world.execution;
        for operation in execution.operations(&nothing).unwrap() {
            match self.view.get(operation.id.as_str()) {
                Some(seen) => assert_eq!(*seen, operation),
                None => assert!(operation.parent_id.is_some(), "{} is unknown", operation.id),
            }
        }
        // A retry without delay is due at the moment it is asked for, and seen at the next check.
        assert!(
            execution
                .next_wake()
                .is_none_or(|due| due >= self.world.now)
        );
    }

    /// What has ended never changes.
    fn check_endings(&mut self) {
        let execution = &self.world.execution;
        for operation in execution.operations(&nothing).unwrap() {
            if !operation.status.is_terminal() {
                continue;
            }
            let id = operation.id.to_string();
            if let Some(before) = self.ended.get(&id) {
                assert_eq!(*before, operation);
            }
            self.ended.insert(id, operation);
        }
        let end = (execution.status(), execution.ended());
        if let Some(before) = self.end {
            assert_eq!(before, end);
        }
        self.end = execution.status().is_terminal().then_some(end);
        let times: Vec<Timestamp> = self
            .world
            .events()
            .iter()
            .map(|event| event.event_timestamp)
            .collect();
        assert!(times.is_sorted());
    }

    /// The trouble is over: somebody resumes what is held, and handlers answer.
    fn finish(mut self) -> World {
        for _ in 0..20 {
            if self.world.execution.status().is_terminal() {
                return self.world;
            }
            if self.world.execution.hold().is_some() {
                self.happen(Happening::Resume);
            } else if self.world.execution.invocation().is_some() {
                self.happen(Happening::End(Ending::Succeeded, false));
            } else if self.world.execution.wants_invocation(self.world.now) {
                self.happen(Happening::Invoke);
            } else {
                self.world.now = self
                    .world
                    .execution
                    .next_wake()
                    .expect("something to wait for");
                self.happen(Happening::Tick);
            }
        }
        panic!("it never ends:\n{}", self.world.history());
    }
}

fn live(quotas: Quotas, happenings: Vec<Happening>) -> World {
    let mut life = Life::new(quotas);
    for happening in happenings {
        life.happen(happening);
    }
    life.finish()
}

/// The records of a random life.
pub(crate) fn any_journal() -> impl Strategy<Value = Vec<Record>> {
    prop::collection::vec(any_happening(), 1..60)
        .prop_map(|happenings| live(Quotas::unlimited(), happenings).records)
}

/// A quarter of the usual number of cases, for a quick test run; PROPTEST_CASES still scales it.
pub(crate) fn config() -> ProptestConfig {
    let usual = ProptestConfig::default();
    ProptestConfig {
        cases: usual.cases.div_ceil(4),
        failure_persistence: None,
        ..usual
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn no_life_breaks_an_invariant(happenings in prop::collection::vec(any_happening(), 1..120)) {
        live(Quotas::unlimited(), happenings);
    }

    #[test]
    fn no_life_breaks_an_invariant_under_tight_limits(happenings in prop::collection::vec(any_happening(), 1..120)) {
        let quotas = Quotas {
            operations_max: Some(12),
            data_bytes_max: Some(400),
            stalled_invocations_max: Some(3),
            invocation_attempts_max: Some(6),
            signals_buffered_max: 2,
            zero_retry_delay: false,
            ..Quotas::unlimited()
        };
        live(quotas, happenings);
    }
}

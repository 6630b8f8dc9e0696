//! The test kit's world: executions, functions and scripted replies, decided by the core.
//!
//! Everything here is state behind one lock; nothing waits. The stage lets time pass.

use super::{Answer, fault::Fault};
use crate::{
    backend::BoxFuture, checkpoint::Delivery as Sent, clock::Clock, function::Function,
    invocation::Outcome as Ran, log::Line, plugin::AttemptInfo,
};
use outlast_core::{
    Decision, Env, Execution, Input, Intent, Quotas, Record, Rejection, Reply, Start, Target,
    Tenancy,
    arn::{self, FunctionReference, LATEST},
    delivery::{Arrival, Delivery},
    id::OperationId,
    intent::{InvokeOutcome, PlainInvoke},
    random::SplitMix64,
    record::{Change, Subject},
    schedule::{Dispatcher, WakeQueue},
    time::Timestamp,
    token::{Key, Keys},
    wire::{
        DurableConfig, ErrorObject, OperationType, OperationUpdate, Payload, StatePage, error_type,
        sub_type,
    },
};
use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::sync::Notify;

/// Invocations that may run at the same time.
const SLOTS: usize = 256;
/// Executions that may wait for a slot.
const QUEUE_MAX: usize = 1_000_000;

pub(super) type PlainHandler = Arc<
    dyn Fn(Option<Payload>) -> BoxFuture<'static, Result<Option<Payload>, ErrorObject>>
        + Send
        + Sync,
>;

/// What a name can be invoked as.
#[derive(Clone)]
pub(super) enum Registered {
    Durable(Function),
    Plain(PlainHandler),
    /// Answers in order; the last one is kept.
    Scripted(Vec<Answer>),
}

/// What a kit is set up with.
#[derive(Clone)]
pub(super) struct Setup {
    pub(super) functions: BTreeMap<String, Registered>,
    pub(super) callbacks: BTreeMap<String, VecDeque<Answer>>,
    pub(super) faults: Vec<Fault>,
    pub(super) quotas: Quotas,
    pub(super) config: DurableConfig,
    pub(super) seed: u64,
    pub(super) real_time: bool,
    pub(super) invocation_limit: u32,
    pub(super) function_timeout: Option<Duration>,
    pub(super) tenant: Option<String>,
    pub(super) trace: Option<String>,
    /// Signals to send, by name, with how long after the start.
    pub(super) signals: Vec<(String, Payload, Duration)>,
}

/// One invocation that has run, as it can be looked at afterwards.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Invocation {
    /// Its id.
    pub request_id: String,
    /// How it ended; absent when it was killed.
    pub outcome: Option<Ran>,
    /// The checkpoint requests it made, in order.
    pub requests: Vec<Request>,
}

/// One checkpoint request.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Request {
    /// Its updates, with whether the caller waited for each.
    pub updates: Vec<(OperationUpdate, bool)>,
}

impl fmt::Display for Request {
    /// One line: `STEP charge START~, STEP charge SUCCEED!` (`!` waited for, `~` not).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.updates.is_empty() {
            return f.write_str("(refresh)");
        }
        for (index, (update, waited)) in self.updates.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            let label = update
                .sub_type
                .as_deref()
                .unwrap_or(update.operation_type.as_str());
            let name = update
                .name
                .as_deref()
                .map(|name| format!(" {name}"))
                .unwrap_or_default();
            let mark = if *waited { '!' } else { '~' };
            write!(f, "{comma}{label}{name} {}{mark}", update.action)?;
        }
        Ok(())
    }
}

/// An execution with its records.
pub(super) struct Entry {
    pub(super) execution: Execution,
    pub(super) records: Vec<Record>,
    pub(super) function: String,
    pub(super) token: String,
    pub(super) invocations: Vec<Invocation>,
    /// Callbacks that were opened and have no scripted reply on its way.
    unanswered: Vec<OperationId>,
}

pub(super) struct World {
    state: Mutex<State>,
    pub(super) clock: Arc<dyn Clock>,
    /// Something happened that the stage should look at.
    pub(super) news: Notify,
}

pub(super) struct State {
    pub(super) setup: Setup,
    pub(super) executions: BTreeMap<Arc<str>, Entry>,
    pub(super) wakes: WakeQueue<Arc<str>>,
    /// Executions for which nothing is scheduled but their own timeout.
    pub(super) deadlines: WakeQueue<Arc<str>>,
    pub(super) dispatcher: Dispatcher<String, Arc<str>>,
    /// Deliveries on their way, by time and order.
    pub(super) mail: BTreeMap<(Timestamp, u64), (Arc<str>, Arrival)>,
    pub(super) logs: Vec<Line>,
    pub(super) errands: Vec<(Arc<str>, Box<PlainInvoke>)>,
    pub(super) requests: u64,
    /// Refreshes in a row that brought no news.
    pub(super) refreshes: u32,
    pub(super) main: Option<Arc<str>>,
    /// How often the body of an at-most-once step ran, by name, id and attempt.
    pub(super) bodies: BTreeMap<(String, OperationId, u32), u32>,
    /// A step whose body ran although the outcome of that attempt was already recorded.
    pub(super) rerun: Option<String>,
    posted: u64,
    keys: Keys,
    random: SplitMix64,
    /// How often a scripted function was invoked.
    asked: BTreeMap<String, usize>,
}

impl World {
    pub(super) fn new(setup: Setup, clock: Arc<dyn Clock>) -> Self {
        let random = SplitMix64::new(setup.seed);
        let state = State {
            setup,
            executions: BTreeMap::new(),
            wakes: WakeQueue::default(),
            deadlines: WakeQueue::default(),
            dispatcher: Dispatcher::new(SLOTS, QUEUE_MAX),
            mail: BTreeMap::new(),
            errands: Vec::new(),
            logs: Vec::new(),
            requests: 0,
            refreshes: 0,
            main: None,
            bodies: BTreeMap::new(),
            rerun: None,
            posted: 0,
            keys: Keys::new(Key::new(1, [7; 32])),
            random,
            asked: BTreeMap::new(),
        };
        Self {
            state: Mutex::new(state),
            clock,
            news: Notify::new(),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Decides one input of one execution.
    pub(super) fn decide(&self, arn: &str, input: Input) -> Result<Reply, Rejection> {
        let now = self.clock.now();
        let reply = self.lock().decide(now, arn, input);
        self.news.notify_one();
        reply
    }
}

impl World {
    /// A page of state for the handler of an execution.
    pub(super) fn state_page(
        &self,
        arn: &str,
        token: &str,
        marker: &str,
    ) -> Result<StatePage, Rejection> {
        let now = self.clock.now();
        let mut state = self.lock();
        let random = state.random_bytes();
        let State {
            setup,
            executions,
            keys,
            ..
        } = &*state;
        let entry = executions
            .get(arn)
            .ok_or_else(|| Rejection::stale_token("unknown execution"))?;
        let env = Env {
            now,
            random,
            keys,
            limits: &setup.quotas,
            resolve: &|name| resolve(&setup.functions, &setup.config, name),
            load: &outlast_core::record::nothing,
        };
        entry.execution.state_page(&env, token, Some(marker), None)
    }
}

impl State {
    /// Starts the execution under test.
    pub(super) fn start(
        &mut self,
        now: Timestamp,
        function: &str,
        input: Option<Payload>,
    ) -> Result<Arc<str>, Rejection> {
        let start = Start {
            function: function_arn(function, LATEST),
            name: None,
            input,
            config: self.setup.config.clone(),
            synchronous: false,
            tenant: self.setup.tenant.clone(),
            trace: self.setup.trace.clone(),
            client_context: None,
            parent: None,
        };
        self.insert(now, start)
    }

    /// The trace that an execution was started from.
    pub(super) fn trace_header(&self, arn: &str) -> Option<Arc<str>> {
        let profile = self.executions.get(arn)?.execution.profile();
        profile.trace.as_deref().map(Into::into)
    }

    /// Makes `arn` the execution under test: faults are for it, and so are the scripted signals.
    pub(super) fn watch(&mut self, now: Timestamp, arn: &Arc<str>) {
        self.main = Some(arn.clone());
        for (name, payload, delay) in std::mem::take(&mut self.setup.signals) {
            let at = now.plus_millis(u64::try_from(delay.as_millis()).unwrap_or(u64::MAX));
            let arrival = Arrival::Signal {
                name: name.as_str().into(),
                payload: Some(payload),
            };
            self.post(at, arn, arrival);
        }
    }

    /// Notes that the body of a step runs, and whether it should not have.
    pub(super) fn body_runs(&mut self, arn: &str, info: &AttemptInfo) {
        let operation = &info.operation;
        if operation.operation_type != OperationType::Step {
            return;
        }
        let name = operation.name.as_deref().unwrap_or_default();
        if info.at_most_once {
            let key = (name.to_owned(), operation.id.clone(), info.attempt);
            *self.bodies.entry(key).or_default() += 1;
        }
        let recorded = self
            .executions
            .get(arn)
            .and_then(|entry| {
                let load = &outlast_core::record::nothing;
                entry.execution.operation(&operation.id, load).transpose()
            })
            .and_then(Result::ok);
        let over = recorded.is_some_and(|recorded| {
            recorded.status.is_terminal() || recorded.attempts_finished() >= info.attempt
        });
        if over && self.rerun.is_none() {
            self.rerun = Some(name.to_owned());
        }
    }

    fn insert(&mut self, now: Timestamp, start: Start) -> Result<Arc<str>, Rejection> {
        let function = start.function.name.to_string();
        let random = self.random_bytes();
        let started = {
            let functions = &self.setup.functions;
            let env = Env {
                now,
                random,
                keys: &self.keys,
                limits: &self.setup.quotas,
                resolve: &|name| resolve(functions, &self.setup.config, name),
                load: &outlast_core::record::nothing,
            };
            Execution::start(&env, start)
        };
        let (execution, records) = started?;
        let arn = execution.arn().clone();
        if self.executions.contains_key(&arn) {
            return Ok(arn);
        }
        let entry = Entry {
            execution,
            records,
            function,
            token: String::new(),
            invocations: Vec::new(),
            unanswered: Vec::new(),
        };
        self.executions.insert(arn.clone(), entry);
        self.schedule(now, &arn);
        Ok(arn)
    }

    fn random_bytes(&mut self) -> [u8; 32] {
        let mut bytes = [0; 32];
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.random.next_u64().to_be_bytes());
        }
        bytes
    }

    /// Lets the core decide, keeps its records, and carries out what follows.
    pub(super) fn decide(
        &mut self,
        now: Timestamp,
        arn: &str,
        input: Input,
    ) -> Result<Reply, Rejection> {
        let random = self.random_bytes();
        let Decision {
            records: _,
            reply,
            intents,
        } = {
            let Self {
                setup,
                executions,
                keys,
                ..
            } = self;
            let Some(entry) = executions.get_mut(arn) else {
                return Err(Rejection::stale_token("unknown execution"));
            };
            let env = Env {
                now,
                random,
                keys,
                limits: &setup.quotas,
                resolve: &|name| resolve(&setup.functions, &setup.config, name),
                load: &outlast_core::record::nothing,
            };
            let decision = entry.execution.decide(&env, input)?;
            entry.unanswered.extend(opened(&decision.records));
            entry.records.extend(decision.records.iter().cloned());
            match &decision.reply {
                Reply::Invoke(input) => entry.token.clone_from(&input.checkpoint_token),
                Reply::Checkpoint(response) => {
                    entry.token = response.checkpoint_token.clone().unwrap_or_default()
                }
                Reply::Completed { .. }
                | Reply::Delivered(_)
                | Reply::Stopped { .. }
                | Reply::Done => {}
            }
            decision
        };
        let arn: Arc<str> = arn.into();
        for intent in intents {
            self.carry_out(now, &arn, intent)?;
        }
        self.schedule(now, &arn);
        Ok(reply)
    }

    /// Notes when an execution wants attention next.
    fn schedule(&mut self, now: Timestamp, arn: &Arc<str>) {
        let Some(entry) = self.executions.get(arn) else {
            return;
        };
        self.wakes.forget(arn);
        self.deadlines.forget(arn);
        match entry.execution.next_wake() {
            Some(at) if at == entry.execution.deadline() => self.deadlines.reset(arn.clone(), at),
            Some(at) => self.wakes.reset(arn.clone(), at),
            None => {}
        }
        if entry.execution.wants_invocation(now) {
            let function = entry.function.clone();
            let _ = self.dispatcher.ready(&function, arn.clone());
        }
    }

    fn carry_out(
        &mut self,
        now: Timestamp,
        arn: &Arc<str>,
        intent: Intent,
    ) -> Result<(), Rejection> {
        let key = intent.key();
        match intent {
            Intent::StartChild(start) => {
                self.insert(now, *start)?;
                self.decide(now, arn, Input::Acknowledge(vec![key]))?;
            }
            Intent::NotifyParent(notice) => {
                let parent: Arc<str> = notice.parent.execution.to_string().into();
                let arrival = Arrival::Invoked {
                    operation: notice.parent.operation.clone(),
                    outcome: notice.outcome,
                };
                self.decide(
                    now,
                    &parent,
                    Input::Deliver(vec![Delivery { at: now, arrival }]),
                )?;
                self.decide(now, arn, Input::Acknowledge(vec![key]))?;
            }
            Intent::InvokePlain(invoke) => self.errands.push((arn.clone(), invoke)),
        }
        Ok(())
    }

    /// Puts a delivery on its way.
    pub(super) fn post(&mut self, at: Timestamp, arn: &Arc<str>, arrival: Arrival) {
        self.posted += 1;
        self.mail.insert((at, self.posted), (arn.clone(), arrival));
    }

    /// Looks for newly opened callbacks that a script answers and posts the answers.
    pub(super) fn answer_callbacks(&mut self, now: Timestamp, arn: &Arc<str>) {
        let Some(entry) = self.executions.get_mut(arn) else {
            return;
        };
        if self.setup.callbacks.is_empty() {
            return;
        }
        let load = &outlast_core::record::nothing;
        let mut posts = Vec::new();
        for id in std::mem::take(&mut entry.unanswered) {
            let Ok(Some(operation)) = entry.execution.operation(&id, load) else {
                continue;
            };
            let name = operation.name.as_deref().unwrap_or_default();
            let short = name.strip_suffix("-callback").unwrap_or(name).to_owned();
            let Some(script) = [name, &short]
                .into_iter()
                .find(|name| self.setup.callbacks.contains_key(*name))
            else {
                continue;
            };
            let Some(answer) = self
                .setup
                .callbacks
                .get_mut(script)
                .and_then(VecDeque::pop_front)
            else {
                continue;
            };
            let id = operation
                .callback_details
                .and_then(|details| details.callback_id)
                .unwrap_or_default();
            posts.extend(answer.arrivals(now, &id));
        }
        for (at, arrival) in posts {
            self.post(at, arn, arrival);
        }
    }

    /// What a scripted function answers now, and after how long.
    pub(super) fn scripted(
        &mut self,
        name: &str,
        answers: &[Answer],
    ) -> Option<(Duration, InvokeOutcome)> {
        let asked = self.asked.entry(name.to_owned()).or_default();
        let answer = answers.get(*asked).or(answers.last());
        *asked += 1;
        answer.and_then(Answer::as_invoke_outcome)
    }
}

/// The callbacks that these records opened.
fn opened(records: &[Record]) -> impl Iterator<Item = OperationId> {
    records.iter().filter_map(|record| {
        let Change::Operation {
            subject: Subject::New(identity),
            ..
        } = &record.change
        else {
            return None;
        };
        let opened = identity.operation_type == OperationType::Callback
            && identity.sub_type.as_deref() != Some(sub_type::SIGNAL);
        opened.then(|| identity.id.clone())
    })
}

/// The kit's functions live in an account of their own.
fn function_arn(name: &str, version: &str) -> arn::Function {
    arn::Function {
        partition: "aws".into(),
        region: "us-east-1".into(),
        account: "000000000000".into(),
        name: name.into(),
        version: version.into(),
    }
}

/// What a name stands for, as strict as the service: a durable function needs a qualifier.
fn resolve(
    functions: &BTreeMap<String, Registered>,
    config: &DurableConfig,
    written: &str,
) -> Target {
    let refused = |code: &str, message: String| Target::Refused(ErrorObject::new(code, message));
    let Ok(reference) = written.parse::<FunctionReference>() else {
        return refused(
            error_type::INVALID_PARAMETER,
            format!("not a function name: {written}"),
        );
    };
    let qualifier = reference.qualifier.as_deref();
    match functions.get(&reference.name) {
        None => refused(
            error_type::RESOURCE_NOT_FOUND,
            format!("function not found: {written}; register it with the test kit"),
        ),
        Some(Registered::Plain(_) | Registered::Scripted(_)) => Target::Plain {
            version: qualifier.unwrap_or(LATEST).into(),
            tenancy: Tenancy::Any,
        },
        Some(Registered::Durable(_)) if qualifier.is_none() => refused(
            error_type::INVALID_PARAMETER,
            format!(
                "a durable function must be invoked with a qualifier, for example {written}:{LATEST}"
            ),
        ),
        Some(Registered::Durable(function)) => Target::Durable {
            function: function_arn(function.name(), LATEST),
            config: config.clone(),
            tenancy: Tenancy::Any,
        },
    }
}

/// The updates of a batch, with whether their callers wait.
pub(super) fn traced(updates: &[OperationUpdate], sent: &[Sent]) -> Request {
    let waited = sent.iter().map(|sent| *sent == Sent::Synchronous);
    Request {
        updates: updates.iter().cloned().zip(waited).collect(),
    }
}

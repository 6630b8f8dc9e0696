//! The stage of the test kit: a runtime of its own, on which time is virtual.
//!
//! Tokio's clock is paused there and jumps to the next timer whenever nothing else can run, so the
//! SDK's timers, the kit's waits and `tokio::time` in user code share one timeline, and a wait of a
//! year takes no time. On request the clock is real.

use super::{
    fault::{Fault, Plan, plan},
    world::{Invocation, Registered, Setup, State, World, traced},
};
use crate::{
    backend::{Backend, BackendError, BoxFuture},
    clock::Clock,
    config::Executor,
    function::Function,
    invocation::{Request, invoke},
    log::{Line, ReplayFilter},
    plugin::{AttemptInfo, HookResult, Plugin},
};
use futures_util::{StreamExt as _, future::LocalBoxFuture, stream::FuturesUnordered};
use outlast_core::{
    Input, Outcome, Rejection, Reply,
    delivery::{Arrival, Delivery},
    id::OperationId,
    intent::InvokeOutcome,
    time::Timestamp,
    wire::{
        CheckpointRequest, CheckpointResponse, ErrorObject, InvocationInput, OperationAction,
        StatePage,
    },
};
use std::{
    convert::Infallible,
    fmt,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Duration,
};
use tokio::{
    runtime::Runtime,
    sync::{Notify, mpsc, oneshot},
    time::Instant,
};

use tracing::level_filters::LevelFilter;
use tracing_subscriber::{
    Layer,
    layer::{Context as LayerContext, SubscriberExt as _},
};

/// The moment at which every test starts.
const ORIGIN: Timestamp = Timestamp::from_millis(1_767_225_600_000);

/// Answers without news after which the kit stops waiting for an invocation.
const REFRESHES_MAX: u32 = 10_000;

type Job = Box<dyn for<'a> FnOnce(&'a Arc<World>) -> LocalBoxFuture<'a, ()> + Send>;

/// Where a world plays: on a thread of its own, or for a blocking test on the test's.
#[derive(Debug)]
pub(super) struct Stage {
    theatre: Mutex<Option<Theatre>>,
    jobs: OnceLock<mpsc::UnboundedSender<Job>>,
}

impl Stage {
    pub(super) fn new(setup: Setup) -> Self {
        Self {
            theatre: Mutex::new(Some(Theatre::Planned(Box::new(setup)))),
            jobs: OnceLock::new(),
        }
    }

    /// Runs `job` on the stage's thread and waits for its result.
    ///
    /// # Panics
    /// When the thread is gone, which only a panic of the kit itself brings about.
    #[expect(
        clippy::panic,
        reason = "a test whose kit is broken must end, not hang"
    )]
    pub(super) async fn run<R: Send + 'static>(
        &self,
        job: impl for<'a> FnOnce(&'a Arc<World>) -> LocalBoxFuture<'a, R> + Send + 'static,
    ) -> R {
        let (done, result) = oneshot::channel();
        let job: Job = Box::new(move |world| {
            let running = job(world);
            Box::pin(async move {
                let _ = done.send(running.await);
            })
        });
        let _ = self.jobs.get_or_init(|| self.move_to_thread()).send(job);
        match result.await {
            Ok(result) => result,
            Err(_) => panic!("the test kit panicked on its own thread; see above"),
        }
    }

    fn move_to_thread(&self) -> mpsc::UnboundedSender<Job> {
        let (jobs, mut queue) = mpsc::unbounded_channel::<Job>();
        let theatre = self.take();
        std::thread::spawn(move || {
            let Some((runtime, world)) = theatre.and_then(Theatre::open) else {
                return;
            };
            perform(&runtime, &world, async {
                while let Some(job) = queue.recv().await {
                    job(&world).await;
                }
            });
        });
        jobs
    }

    /// Runs `job` here and now, on the caller's thread. Only before anything ran on the stage's
    /// own; `None` after that, or when no runtime could be made.
    pub(super) fn run_here<R>(&self, job: impl AsyncFnOnce(&Arc<World>) -> R) -> Option<R> {
        let (runtime, world) = self.take()?.open()?;
        let result = perform(&runtime, &world, job(&world));
        *self.lock() = Some(Theatre::Open(runtime, world));
        Some(result)
    }

    fn take(&self) -> Option<Theatre> {
        self.lock().take()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Theatre>> {
        self.theatre.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // A runtime that waits for its threads must not be dropped where blocking is not allowed.
        if let Some(Theatre::Open(runtime, _)) = self.take() {
            runtime.shutdown_background();
        }
    }
}

/// A world with a runtime on which its clock starts at the origin.
enum Theatre {
    Planned(Box<Setup>),
    Open(Runtime, Arc<World>),
}

impl Theatre {
    fn open(self) -> Option<(Runtime, Arc<World>)> {
        let setup = match self {
            Self::Open(runtime, world) => return Some((runtime, world)),
            Self::Planned(setup) => *setup,
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(!setup.real_time)
            .build()
            .ok()?;
        let clock = runtime.block_on(async {
            Arc::new(StageClock {
                start: Instant::now(),
            })
        });
        Some((runtime, Arc::new(World::new(setup, clock))))
    }
}

/// Runs a part of the play on this thread, and keeps what it logs.
fn perform<R>(runtime: &Runtime, world: &Arc<World>, part: impl Future<Output = R>) -> R {
    let lines = Capture(world.clone())
        .with_filter(ReplayFilter)
        .with_filter(LevelFilter::INFO);
    let _subscriber = tracing::subscriber::set_default(tracing_subscriber::registry().with(lines));
    runtime.block_on(part)
}

impl fmt::Debug for Theatre {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Theatre")
    }
}

/// Keeps the log lines of everything that runs on the stage.
struct Capture(Arc<World>);

impl<S: tracing::Subscriber> Layer<S> for Capture {
    fn on_event(&self, event: &tracing::Event<'_>, _: LayerContext<'_, S>) {
        let line = Line::of(event);
        self.0.lock().logs.push(line);
    }
}

/// The stage's time: the origin, plus what tokio's clock says has passed.
#[derive(Clone, Debug)]
struct StageClock {
    start: Instant,
}

impl Clock for StageClock {
    fn now(&self) -> Timestamp {
        ORIGIN.plus_millis(u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX))
    }
}

impl World {
    async fn sleep_until(&self, at: Timestamp) {
        let delay = at.millis_since(self.clock.now());
        tokio::time::sleep(Duration::from_millis(delay)).await;
    }
}

/// How far to play.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Until {
    /// Everything that can happen without time passing between invocations.
    Idle,
    /// To this moment.
    Moment(Timestamp),
    /// Until nothing will ever happen again.
    Rest,
}

/// Lets the world run.
pub(super) async fn play(world: &Arc<World>, until: Until) {
    let mut running: FuturesUnordered<LocalBoxFuture<'_, ()>> = FuturesUnordered::new();
    loop {
        let now = world.clock.now();
        let (claimed, errands, next) = {
            let mut state = world.lock();
            state.wake_due(now);
            let claimed = state.dispatcher.claim(usize::MAX);
            (
                claimed,
                std::mem::take(&mut state.errands),
                state.next_moment(until),
            )
        };
        if !claimed.is_empty() || !errands.is_empty() {
            for (function, arn) in claimed {
                running.push(Box::pin(run_invocation(world.clone(), function, arn)));
            }
            for (arn, errand) in errands {
                running.push(Box::pin(run_errand(world.clone(), arn, errand)));
            }
            continue;
        }
        let next = match until {
            Until::Idle if running.is_empty() => return,
            Until::Moment(end) if running.is_empty() && now >= end => return,
            Until::Moment(end) => Some(next.map_or(end, |at| at.min(end))).filter(|at| *at > now),
            Until::Idle | Until::Rest => next,
        };
        if running.is_empty() && next.is_none() {
            return;
        }
        let time = async {
            match next {
                Some(at) => world.sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            Some(()) = running.next() => {}
            () = world.news.notified() => {}
            () = time => {}
        }
    }
}

impl State {
    /// Fires timers and delivers mail that are due.
    fn wake_due(&mut self, now: Timestamp) {
        while let Some(((at, order), (arn, arrival))) = self
            .mail
            .first_key_value()
            .filter(|((at, _), _)| *at <= now)
            .map(|(key, value)| (*key, value.clone()))
        {
            self.mail.remove(&(at, order));
            // A reply that comes too late is refused; that is the sender's problem.
            let _ = self.decide(now, &arn, Input::Deliver(vec![Delivery { at, arrival }]));
        }
        let due = self
            .wakes
            .due(now, usize::MAX)
            .into_iter()
            .chain(self.deadlines.due(now, usize::MAX));
        for arn in due.collect::<Vec<_>>() {
            let _ = self.decide(now, &arn, Input::Tick);
        }
    }

    /// When something happens next. Executions that only wait for their own deadline do not count,
    /// unless time passes on purpose: a test that lacks a reply should not jump a year ahead.
    fn next_moment(&self, until: Until) -> Option<Timestamp> {
        let mail = self.mail.first_key_value().map(|((at, _), _)| *at);
        let deadline = self
            .deadlines
            .next()
            .filter(|_| matches!(until, Until::Moment(_)));
        self.wakes
            .next()
            .into_iter()
            .chain(mail)
            .chain(deadline)
            .min()
    }
}

tokio::task_local! {
    /// The process in which the code on stage runs.
    static PROCESS: Arc<Link>;
}

/// Kills the process of the handler that awaits this, as a crash in the middle of its code would:
/// the invocation ends with `Runtime.ExitError` and is repeated. What was checkpointed by then is
/// kept, the rest is lost; a body that wants its own start to be kept lets the
/// [linger](crate::Config::linger) pass first.
///
/// Elsewhere than on the test kit nothing is killed and this never returns.
///
/// ```
/// use outlast::{Context, Result, testing::{self, TestKit}};
/// use std::sync::atomic::{AtomicBool, Ordering};
///
/// static CRASHED: AtomicBool = AtomicBool::new(false);
///
/// async fn fragile(ctx: Context, (): ()) -> Result<u32> {
///     ctx.step("body", async |_| {
///         if !CRASHED.swap(true, Ordering::Relaxed) {
///             testing::crash().await;
///         }
///         Ok::<_, std::io::Error>(7)
///     })
///     .await
/// }
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let run = TestKit::new("fragile", fragile).run(()).await;
/// assert_eq!(run.result::<u32>().unwrap(), 7);
/// assert_eq!(run.invocations().len(), 2);
/// # });
/// ```
pub async fn crash() -> Infallible {
    if let Ok(process) = PROCESS.try_with(Arc::clone) {
        process.crash.notify_one();
    }
    std::future::pending().await
}

/// Calls a handler once for an execution that wants it.
async fn run_invocation(world: Arc<World>, function: String, arn: Arc<str>) {
    let begun = begin(&world, &function, &arn);
    if let Some((handler, input, request_id)) = begun {
        let is_main = world.lock().main.as_ref() == Some(&arn);
        let link = Arc::new(Link {
            world: world.clone(),
            arn: arn.clone(),
            is_main,
            crash: Notify::new(),
            condemned: Mutex::default(),
            clock: world.clock.clone(),
        });
        let handler = equip(&handler, &link);
        let timeout = world.lock().setup.function_timeout;
        let deadline = timeout.map(|limit| {
            world
                .clock
                .now()
                .plus_millis(u64::try_from(limit.as_millis()).unwrap_or(u64::MAX))
        });
        let tenant_id = world.lock().setup.tenant.as_deref().map(Into::into);
        let trace_header = world.lock().trace_header(&arn);
        let request = Request {
            request_id: request_id.clone(),
            deadline,
            tenant_id,
            trace_header,
            lambda: None,
        };
        let limit = async {
            match timeout {
                Some(limit) => tokio::time::sleep(limit).await,
                None => std::future::pending().await,
            }
        };
        let outcome = tokio::select! {
            biased;
            () = link.crash.notified() => Outcome::exited("the test kit killed the process"),
            outcome = PROCESS.scope(link.clone(), invoke(&handler, input, link.clone(), request)) => {
                let answer = outcome.answer.clone();
                record(&world, &arn, |invocation| invocation.outcome = Some(outcome));
                match answer {
                    Ok(output) => Outcome::Output(output),
                    Err(failed) => Outcome::Failed(failed.record),
                }
            }
            () = limit => Outcome::timed_out(u32::try_from(timeout.unwrap_or_default().as_secs()).unwrap_or(u32::MAX)),
        };
        let _ = world.decide(
            &arn,
            Input::Complete {
                invocation_id: request_id,
                outcome,
            },
        );
    }
    let now = world.clock.now();
    let mut state = world.lock();
    state.dispatcher.finished(&function);
    state.answer_callbacks(now, &arn);
    if state
        .executions
        .get(&arn)
        .is_some_and(|entry| entry.execution.wants_invocation(now))
    {
        let _ = state.dispatcher.ready(&function, arn);
    }
}

/// Begins an invocation, unless the execution no longer wants one or has had too many.
fn begin(
    world: &World,
    function: &str,
    arn: &Arc<str>,
) -> Option<(Function, InvocationInput, Arc<str>)> {
    let now = world.clock.now();
    let mut state = world.lock();
    let entry = state.executions.get_mut(arn)?;
    if !entry.execution.wants_invocation(now) {
        return None;
    }
    let number = entry.execution.invocations() + 1;
    if number > u64::from(state.setup.invocation_limit) {
        let message = format!("the test kit gave up after {} invocations", number - 1);
        let _ = state.decide(
            now,
            arn,
            Input::Stop {
                error: Some(ErrorObject::new("InvocationLimit", message)),
            },
        );
        return None;
    }
    let request_id: Arc<str> = format!("request-{number}").into();
    let Ok(Reply::Invoke(input)) = state.decide(
        now,
        arn,
        Input::Invoke {
            invocation_id: request_id.clone(),
        },
    ) else {
        return None;
    };
    let invocation = Invocation {
        request_id: request_id.to_string(),
        outcome: None,
        requests: Vec::new(),
    };
    state.executions.get_mut(arn)?.invocations.push(invocation);
    match state.setup.functions.get(function) {
        Some(Registered::Durable(handler)) => Some((handler.clone(), *input, request_id)),
        _ => {
            let outcome = Outcome::function_missing(function);
            let _ = state.decide(
                now,
                arn,
                Input::Complete {
                    invocation_id: request_id,
                    outcome,
                },
            );
            None
        }
    }
}

fn record(world: &World, arn: &Arc<str>, change: impl FnOnce(&mut Invocation)) {
    if let Some(invocation) = world
        .lock()
        .executions
        .get_mut(arn)
        .and_then(|entry| entry.invocations.last_mut())
    {
        change(invocation);
    }
}

/// The function with the stage's clock, an executor that can be repeated, and the kit's eyes.
fn equip(function: &Function, link: &Arc<Link>) -> Function {
    function.with_config(|mut config| {
        config.clock = crate::clock::SharedClock(link.clock.clone());
        if matches!(config.executor, Executor::Tasks) {
            config.executor = Executor::Inline;
        }
        let watched = link.clone();
        config.trace = Some(Arc::new(move |updates, sent| {
            record(&watched.world, &watched.arn, |invocation| {
                invocation.requests.push(traced(updates, sent))
            });
        }));
        let watched = link.clone();
        config.plugin(move || Executioner(watched.clone()))
    })
}

/// Kills the process in the body of a step that a fault names.
struct Executioner(Arc<Link>);

impl Plugin for Executioner {
    fn attempt_start(&self, info: &AttemptInfo) -> HookResult {
        let Link {
            world,
            arn,
            is_main,
            condemned,
            ..
        } = &*self.0;
        let operation = &info.operation;
        let name = operation.name.as_deref().unwrap_or_default();
        let doomed = Fault::CrashInBody {
            step: name.to_owned(),
            attempt: info.attempt,
        };
        let mut state = world.lock();
        state.body_runs(arn, info);
        if let Some(at) = state
            .setup
            .faults
            .iter()
            .position(|fault| *fault == doomed)
            .filter(|_| *is_main)
        {
            state.setup.faults.remove(at);
            *condemned.lock().unwrap_or_else(PoisonError::into_inner) = Some(operation.id.clone());
        }
        Ok(())
    }
}

/// The kit's backend for one invocation.
struct Link {
    world: Arc<World>,
    arn: Arc<str>,
    is_main: bool,
    crash: Notify,
    /// The step in whose body the process dies: its outcome is never written.
    condemned: Mutex<Option<OperationId>>,
    clock: Arc<dyn Clock>,
}

impl Backend for Link {
    fn checkpoint<'a>(
        &'a self,
        arn: &'a str,
        request: CheckpointRequest,
    ) -> BoxFuture<'a, Result<CheckpointResponse, BackendError>> {
        Box::pin(async move {
            let Plan {
                crash_before,
                crash_after,
                lose_response,
                duplicate_request,
                duplicate_response,
                stale_token,
                missing_token,
                refuse,
                slow,
            } = self.next_plan();
            if let Some(delay) = slow {
                tokio::time::sleep(delay).await;
            }
            if crash_before {
                return self.die().await;
            }
            if let Some(error) = refuse {
                return Err(error);
            }
            let mut request = self.lose_starts(request);
            let condemned = self
                .condemned
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone();
            if let Some(id) = condemned {
                request
                    .updates
                    .retain(|update| update.id != id || update.action == OperationAction::Start);
                let _ = self.apply(arn, request);
                return self.die().await;
            }
            if duplicate_request {
                request.client_token = Some("repeated".to_owned());
                let _ = self.apply(arn, request.clone());
            }
            if stale_token {
                "AAAA".clone_into(&mut request.checkpoint_token);
            }
            let mut response = self.apply(arn, request)?;
            if crash_after {
                return self.die().await;
            }
            if lose_response {
                return Err(BackendError::transport("the answer was lost"));
            }
            if duplicate_response {
                let operations = response.new_execution_state.operations.clone();
                response.new_execution_state.operations.extend(operations);
            }
            if missing_token {
                response.checkpoint_token = None;
            }
            Ok(response)
        })
    }

    fn state<'a>(
        &'a self,
        arn: &'a str,
        token: &'a str,
        marker: &'a str,
    ) -> BoxFuture<'a, Result<StatePage, BackendError>> {
        Box::pin(async move { self.world.state_page(arn, token, marker).map_err(refused) })
    }
}

fn refused(rejection: Rejection) -> BackendError {
    BackendError::service(
        rejection.code.http_status(),
        rejection.code.name(),
        rejection.message,
    )
}

impl Link {
    fn next_plan(&self) -> Plan {
        if !self.is_main {
            return Plan::default();
        }
        let mut state = self.world.lock();
        state.requests += 1;
        plan(&state.setup.faults, state.requests)
    }

    fn apply(
        &self,
        arn: &str,
        request: CheckpointRequest,
    ) -> Result<CheckpointResponse, BackendError> {
        let refresh = request.updates.is_empty();
        let reply = self
            .world
            .decide(arn, Input::Checkpoint(request))
            .map_err(refused)?;
        let now = self.clock.now();
        self.world.lock().answer_callbacks(now, &self.arn);
        let Reply::Checkpoint(response) = reply else {
            return Err(BackendError::transport("the core answered something else"));
        };
        let news = !refresh || !response.new_execution_state.operations.is_empty();
        self.give_up_on_a_held_invocation(now, news);
        Ok(response)
    }

    /// An invocation that asks for news again and again is held by something that never ends; a
    /// test must not hang on it.
    fn give_up_on_a_held_invocation(&self, now: Timestamp, news: bool) {
        let mut state = self.world.lock();
        state.refreshes = if news { 0 } else { state.refreshes + 1 };
        if state.refreshes == REFRESHES_MAX {
            let message = format!(
                "the invocation asked {REFRESHES_MAX} times for news and there was none: some code keeps it from \
                 suspending (Context::lifecycle names it)"
            );
            let error = Some(ErrorObject::new("HeldInvocation", message));
            let _ = state.decide(now, &self.arn, Input::Stop { error });
            self.crash.notify_one();
        }
    }

    /// The process is gone: this never returns.
    async fn die<T>(&self) -> T {
        self.crash.notify_one();
        std::future::pending().await
    }

    fn lose_starts(&self, mut request: CheckpointRequest) -> CheckpointRequest {
        let state = self.world.lock();
        request.updates.retain(|update| {
            let name = update.name.as_deref().unwrap_or_default();
            let lost = self.is_main
                && update.action == OperationAction::Start
                && state
                    .setup
                    .faults
                    .contains(&Fault::LoseStart(name.to_owned()));
            !lost
        });
        request
    }
}

/// Runs an ordinary function for a chained invoke and delivers its outcome.
async fn run_errand(
    world: Arc<World>,
    arn: Arc<str>,
    errand: Box<outlast_core::intent::PlainInvoke>,
) {
    let name = errand
        .function_name
        .parse::<outlast_core::arn::FunctionReference>()
        .map(|reference| reference.name)
        .unwrap_or_default();
    let registered = world.lock().setup.functions.get(&name).cloned();
    let outcome = match registered {
        Some(Registered::Plain(handler)) => match handler(Some(errand.input)).await {
            Ok(result) => Some(InvokeOutcome::Succeeded(result)),
            Err(error) => Some(InvokeOutcome::Failed(error)),
        },
        Some(Registered::Scripted(answers)) => {
            let answer = world.lock().scripted(&name, &answers);
            match answer {
                None => None,
                Some((delay, outcome)) => {
                    if !delay.is_zero() {
                        tokio::time::sleep(delay).await;
                    }
                    Some(outcome)
                }
            }
        }
        Some(Registered::Durable(_)) | None => Some(InvokeOutcome::Failed(ErrorObject::new(
            "ResourceNotFoundException",
            format!("function not found: {name}"),
        ))),
    };
    if let Some(outcome) = outcome {
        let at = world.clock.now();
        let arrival = Arrival::Invoked {
            operation: errand.operation,
            outcome,
        };
        let _ = world.decide(&arn, Input::Deliver(vec![Delivery { at, arrival }]));
    }
}

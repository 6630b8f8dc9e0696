//! What the SDK costs per operation, on a backend that costs next to nothing.
//!
//! `cargo bench -p outlast` prints a table, `-- --json` one line of JSON, `-- replay` only the
//! measurements whose name contains that word. Every number is the best of several runs: on a
//! shared machine the fastest run is the one that was disturbed least. A measurement at several
//! sizes must be flat: the cost of one operation must not depend on how many there are.
//! Larger runs touch more memory, though. What that alone costs here is the yardstick's spread:
//! plain tokio tasks, so many alive at once. Counted instructions (`valgrind --tool=callgrind`) do
//! not grow with the size.

use outlast::{
    Config, Context, Error, Function, Outcome, Request, Result,
    backend::{Backend, BackendError, BoxFuture},
    core::{
        id::Position,
        time::Timestamp,
        wire::{
            CheckpointRequest, CheckpointResponse, ContextDetails, ExecutionDetails,
            InvocationInput, InvocationStatus, Operation, OperationAction, OperationStatus,
            OperationType, OperationUpdate, StatePage, StepDetails, WaitDetails, sub_type,
        },
    },
    invoke,
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

const ARN: &str =
    "arn:aws:lambda:eu-west-1:123456789012:function:bench:1/durable-execution/bench/execution-1";

/// How long each size is measured, at least.
const MEASURE: Duration = Duration::from_millis(1_500);
/// How often each size is measured, at least.
const SAMPLES_MIN: u32 = 5;
/// Operations that are measured together, at least.
const OPERATIONS_MIN: u32 = 100_000;
/// How much dearer an operation may be at one size than at another.
const FLAT: f64 = 1.5;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let json = arguments.iter().any(|argument| argument == "--json");
    let wanted = arguments
        .iter()
        .find(|argument| !argument.starts_with("--"));
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
    else {
        return;
    };
    let mut rows = Vec::new();
    let wanted_rows = |name: &'static str, sizes: &[u32]| -> Vec<Row> {
        let all = sizes.iter().map(|size| Row::new(name, *size));
        all.filter(|row| {
            let label = format!("{name} {}", row.size);
            wanted.is_none_or(|word| label.contains(word.as_str()))
        })
        .collect()
    };
    for case in CASES {
        let function = (case.function)().config(Config::new());
        let mut new = wanted_rows(case.name, case.sizes);
        runtime.block_on(measure(&mut new, async |row| {
            sample(case, &function, row).await
        }));
        rows.extend(new);
    }
    let mut yardstick = wanted_rows(YARDSTICK, SIZES);
    runtime.block_on(measure(&mut yardstick, sample_tasks));
    rows.extend(yardstick);
    if json {
        print_json(&rows);
    } else {
        print_table(&rows);
    }
}

/// One thing to measure.
struct Case {
    name: &'static str,
    sizes: &'static [u32],
    /// Whether everything is recorded already.
    recorded: fn(u32) -> Vec<Operation>,
    function: fn() -> Function,
    status: InvocationStatus,
    /// Whether all operations are alive at the same time.
    at_once: bool,
}

const YARDSTICK: &str = "yardstick: plain tokio tasks";

const SIZES: &[u32] = &[100, 1_000, 10_000];

const CASES: &[Case] = &[
    Case {
        name: "replay steps",
        sizes: &[100, 1_000, 10_000, 100_000],
        recorded: recorded_steps,
        function: || Function::new("bench", steps),
        status: InvocationStatus::Succeeded,
        at_once: false,
    },
    Case {
        name: "sequential live steps",
        sizes: SIZES,
        recorded: nothing,
        function: || Function::new("bench", steps),
        status: InvocationStatus::Succeeded,
        at_once: false,
    },
    Case {
        name: "spawned live steps",
        sizes: SIZES,
        recorded: nothing,
        function: || Function::new("bench", spawned_steps),
        status: InvocationStatus::Succeeded,
        at_once: true,
    },
    Case {
        name: "spawned timers, then suspend",
        sizes: SIZES,
        recorded: nothing,
        function: || Function::new("bench", spawned_timers),
        status: InvocationStatus::Pending,
        at_once: true,
    },
    Case {
        name: "map items of one live step",
        sizes: SIZES,
        recorded: nothing,
        function: || Function::new("bench", map),
        status: InvocationStatus::Succeeded,
        at_once: true,
    },
    Case {
        name: "map items, 10 at a time",
        sizes: SIZES,
        recorded: nothing,
        function: || Function::new("bench", narrow_map),
        status: InvocationStatus::Succeeded,
        at_once: false,
    },
];

// --- the handlers -------------------------------------------------------------------------------

async fn steps(ctx: Context, count: u32) -> Result<u64> {
    let mut sum = 0;
    for number in 0..count {
        let value: u64 = ctx
            .step("step", async |_| Ok::<_, Error>(u64::from(number)))
            .await?;
        sum += value;
    }
    Ok(sum)
}

async fn spawned_steps(ctx: Context, count: u32) -> Result<u64> {
    let handles: Vec<_> = (0..count)
        .map(|number| {
            ctx.step(
                "step",
                move |_| async move { Ok::<_, Error>(u64::from(number)) },
            )
            .spawn()
        })
        .collect();
    let mut sum = 0;
    for handle in handles {
        sum += handle.await?;
    }
    Ok(sum)
}

async fn spawned_timers(ctx: Context, count: u32) -> Result<()> {
    let handles: Vec<_> = (0..count)
        .map(|number| {
            ctx.wait(Duration::from_secs(3_600 + u64::from(number)))
                .spawn()
        })
        .collect();
    for handle in handles {
        handle.await?;
    }
    Ok(())
}

async fn map(ctx: Context, count: u32) -> Result<u64> {
    let items = ctx.map("map", 0..count, async |ctx, number| {
        ctx.step("step", async |_| Ok::<_, Error>(u64::from(number)))
            .await
    });
    Ok(items.await?.into_values()?.iter().sum())
}

async fn narrow_map(ctx: Context, count: u32) -> Result<u64> {
    let items = ctx.map("map", 0..count, async |ctx, number| {
        ctx.step("step", async |_| Ok::<_, Error>(u64::from(number)))
            .await
    });
    Ok(items.max_concurrency(10).await?.into_values()?.iter().sum())
}

// --- the history --------------------------------------------------------------------------------

fn nothing(_: u32) -> Vec<Operation> {
    Vec::new()
}

fn recorded_steps(count: u32) -> Vec<Operation> {
    (1..=u64::from(count))
        .map(|number| {
            let id = Position::root().child(number).id();
            let at = Timestamp::from_millis(1_000 + number);
            let status = OperationStatus::Succeeded;
            let mut operation = Operation::new(id, OperationType::Step, status, at);
            operation.end_timestamp = Some(at);
            operation.name = Some("step".into());
            operation.sub_type = Some(sub_type::STEP.into());
            operation.step_details = Some(StepDetails {
                attempt: 1,
                result: Some((number - 1).to_string().into()),
                ..StepDetails::default()
            });
            operation
        })
        .collect()
}

fn input(size: u32, recorded: Vec<Operation>) -> InvocationInput {
    let mut execution = Operation::new(
        "execution-1".into(),
        OperationType::Execution,
        OperationStatus::Started,
        Timestamp::from_millis(1_000),
    );
    execution.execution_details = Some(ExecutionDetails {
        input_payload: Some(size.to_string().into()),
    });
    let operations = std::iter::once(execution).chain(recorded).collect();
    InvocationInput {
        durable_execution_arn: ARN.into(),
        checkpoint_token: "token".to_owned(),
        initial_execution_state: StatePage {
            operations,
            next_marker: None,
        },
        updated_operation_ids: Vec::new(),
    }
}

// --- the backend --------------------------------------------------------------------------------

/// Accepts everything at once and keeps nothing.
#[derive(Default)]
struct Memory {
    requests: AtomicU64,
}

impl Backend for Memory {
    fn checkpoint<'a>(
        &'a self,
        _: &'a str,
        request: CheckpointRequest,
    ) -> BoxFuture<'a, Result<CheckpointResponse, BackendError>> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let mut operations: Vec<Operation> = Vec::with_capacity(request.updates.len());
        for update in request.updates {
            let operation = accepted(update);
            // A start and its end in one request: only the end is seen.
            match operations.last_mut().filter(|last| last.id == operation.id) {
                Some(last) => *last = operation,
                None => operations.push(operation),
            }
        }
        let response = CheckpointResponse {
            checkpoint_token: Some(request.checkpoint_token),
            new_execution_state: StatePage {
                operations,
                next_marker: None,
            },
        };
        Box::pin(std::future::ready(Ok(response)))
    }

    fn state<'a>(
        &'a self,
        _: &'a str,
        _: &'a str,
        _: &'a str,
    ) -> BoxFuture<'a, Result<StatePage, BackendError>> {
        Box::pin(std::future::ready(Ok(StatePage::default())))
    }
}

/// The record that an update leaves behind.
fn accepted(update: OperationUpdate) -> Operation {
    let at = Timestamp::from_millis(2_000);
    let status = match update.action {
        OperationAction::Start => OperationStatus::Started,
        OperationAction::Succeed => OperationStatus::Succeeded,
        OperationAction::Fail => OperationStatus::Failed,
        OperationAction::Retry => OperationStatus::Pending,
        OperationAction::Cancel => OperationStatus::Cancelled,
    };
    let mut operation = Operation::new(update.id, update.operation_type, status, at);
    operation.parent_id = update.parent_id;
    operation.name = update.name;
    operation.sub_type = update.sub_type;
    operation.end_timestamp = status.is_terminal().then_some(at);
    match update.operation_type {
        OperationType::Step => {
            operation.step_details = Some(StepDetails {
                attempt: u32::from(status.is_terminal()),
                result: update.payload,
                error: update.error,
                ..StepDetails::default()
            });
        }
        OperationType::Context => {
            operation.context_details = Some(ContextDetails {
                result: update.payload,
                error: update.error,
                ..ContextDetails::default()
            });
        }
        OperationType::Wait => {
            operation.wait_details = Some(WaitDetails {
                // Further away than any run takes.
                scheduled_end_timestamp: Some(Timestamp::from_millis(u64::MAX / 2)),
            });
        }
        OperationType::Execution | OperationType::Callback | OperationType::ChainedInvoke => {}
    }
    operation
}

// --- measuring ----------------------------------------------------------------------------------

/// One line of the result.
struct Row {
    name: &'static str,
    size: u32,
    best: Duration,
    requests: u64,
    samples: u32,
}

impl Row {
    fn new(name: &'static str, size: u32) -> Self {
        Self {
            name,
            size,
            best: Duration::MAX,
            requests: 0,
            samples: 0,
        }
    }

    /// How many runs make one sample.
    fn together(&self) -> u32 {
        (OPERATIONS_MIN / self.size).max(1)
    }

    fn took(&mut self, time: Duration) {
        self.best = self.best.min(time);
        self.samples += 1;
    }

    fn nanoseconds(&self) -> f64 {
        let operations = f64::from(self.size) * f64::from(self.together());
        self.best.as_secs_f64() * 1e9 / operations
    }

    fn requests_per_operation(&self) -> f64 {
        self.requests as f64 / f64::from(self.size)
    }
}

/// Measures all sizes in turns, so that a slow minute of the machine hits all of them.
async fn measure(rows: &mut [Row], sample: impl AsyncFn(&mut Row)) {
    let begin = wall_time();
    let enough = MEASURE * u32::try_from(rows.len()).unwrap_or(1);
    while rows.iter().any(|row| row.samples < SAMPLES_MIN) || wall_time() - begin < enough {
        for row in &mut *rows {
            sample(row).await;
        }
    }
}

/// What so many tasks cost that hold a kibibyte each, wait once and end: the memory alone.
async fn sample_tasks(row: &mut Row) {
    let start = time();
    for _ in 0..row.together() {
        let (open, gate) = tokio::sync::watch::channel(false);
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..row.size {
            let mut gate = gate.clone();
            tasks.spawn(async move {
                let memory = std::hint::black_box([1u8; 1_024]);
                let _ = gate.wait_for(|open| *open).await;
                std::hint::black_box(memory);
            });
        }
        tokio::task::yield_now().await;
        let _ = open.send(true);
        while tasks.join_next().await.is_some() {}
    }
    row.took(time() - start);
}

async fn sample(case: &Case, function: &Function, row: &mut Row) {
    let input = input(row.size, (case.recorded)(row.size));
    // Every size handles as many operations, so that each finds as little of them in the caches.
    let inputs: Vec<_> = (0..row.together()).map(|_| input.clone()).collect();
    let mut outcomes = Vec::with_capacity(inputs.len());
    let start = time();
    for input in inputs {
        let backend = Arc::new(Memory::default());
        let outcome = invoke(function, input, backend.clone(), Request::default()).await;
        outcomes.push((outcome, backend));
    }
    row.took(time() - start);
    for (outcome, backend) in outcomes {
        check(case, &outcome);
        row.requests = backend.requests.load(Ordering::Relaxed);
    }
}

/// Time that this thread has spent computing, so that what else runs on the machine does not
/// count.
fn time() -> Duration {
    let spent = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(spent).unwrap_or_default()
}

#[expect(
    clippy::disallowed_methods,
    reason = "a benchmark measures the time that really passes"
)]
fn wall_time() -> Duration {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default()
}

/// A benchmark of something that failed is worth nothing.
#[expect(
    clippy::panic,
    reason = "there is nobody to report to but the terminal"
)]
fn check(case: &Case, outcome: &Outcome) {
    match &outcome.answer {
        Ok(output) if output.status == case.status => {}
        answer => panic!("{}: {answer:?}", case.name),
    }
}

/// How much dearer an operation is at this case's worst size than at its best.
fn spread(rows: &[Row], name: &str) -> f64 {
    let costs = || {
        rows.iter()
            .filter(|row| row.name == name)
            .map(Row::nanoseconds)
    };
    costs().fold(f64::MIN, f64::max) / costs().fold(f64::MAX, f64::min)
}

#[expect(clippy::print_stdout, reason = "the table is what a benchmark is for")]
fn print_table(rows: &[Row]) {
    println!(
        "{:30} {:>8} {:>10} {:>12} {:>10} {:>6}",
        "measurement", "size", "ns/op", "ops/s", "requests/op", "runs"
    );
    for row in rows {
        println!(
            "{:30} {:>8} {:>10.0} {:>12.0} {:>10.4} {:>6}",
            row.name,
            row.size,
            row.nanoseconds(),
            1e9 / row.nanoseconds(),
            row.requests_per_operation(),
            row.samples * row.together()
        );
    }
    println!();
    let yardstick = spread(rows, YARDSTICK).max(1.0);
    for (at, row) in rows.iter().enumerate() {
        if rows.get(at + 1).is_none_or(|next| next.name != row.name) {
            let spread = spread(rows, row.name);
            // So many alive at once cost what memory costs; that much is not ours.
            let at_once = CASES
                .iter()
                .any(|case| case.name == row.name && case.at_once);
            let memory = if at_once { yardstick } else { 1.0 };
            let verdict = if spread > FLAT * memory {
                "not flat"
            } else {
                "flat"
            };
            println!("{:30} varies by {spread:.2}: {verdict}", row.name);
        }
    }
}

#[expect(
    clippy::print_stdout,
    reason = "the numbers are what a benchmark is for"
)]
fn print_json(rows: &[Row]) {
    let rows: Vec<serde_json::Value> = rows
        .iter()
        .map(|row| {
            serde_json::json!({
                "name": row.name,
                "size": row.size,
                "nanoseconds_per_operation": row.nanoseconds(),
                "requests_per_operation": row.requests_per_operation(),
                "runs": row.samples * row.together(),
                "spread": spread(rows, row.name),
            })
        })
        .collect();
    println!("{}", serde_json::Value::from(rows));
}

//! Suspension under stress: thousands of random programs whose operations finish while others block.
//!
//! A program is a tree drawn from a seed, and so is what it must give: its value, and how often each
//! body runs. A suspension too early shows as a body that ran twice, a record that was given up, or
//! PENDING with nothing pending; one too late as an invocation that hangs, or that asks about
//! operations in process although nothing else ran. The failing seed is printed.

use crate::direct::Direct;
use futures::{
    StreamExt as _,
    future::{BoxFuture, join_all},
    stream::FuturesUnordered,
};
use outlast::{
    Context, DurableFuture, Error, Function, Result, Retry, StepContext,
    core::{event::Details, random::SplitMix64},
    testing::TestKit,
};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

/// Programs on the kit's own executor, which repeats exactly.
const INLINE_SEEDS: u64 = 2_000;
/// Programs on a runtime with several threads, where nothing does.
const THREADED_SEEDS: u64 = 300;

/// A piece of a program.
#[derive(Clone, Debug)]
enum Node {
    /// A step that fails so often before it succeeds.
    Step { fails: u32, work: Work },
    /// A wait of so many seconds.
    Wait(u64),
    /// A step whose body awaits the handle of another, spawned, piece.
    Awaiting(Box<Node>),
    /// A child context.
    Child(Vec<Piece>, Shape),
    /// A map with a child for each of these.
    Map(Vec<Vec<Piece>>, Option<usize>),
}

/// A node, and how it is started.
#[derive(Clone, Debug)]
struct Piece {
    node: Node,
    start: Start,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Start {
    InPlace,
    Spawned,
    /// Spawned, and its handle is dropped: it must finish all the same if it can.
    Unawaited,
}

/// What a body does between its beginning and its end.
#[derive(Clone, Copy, Debug)]
enum Work {
    Nothing,
    Turns(u32),
    Millis(u64),
}

/// How the pieces of a context are awaited.
#[derive(Clone, Copy, Debug)]
enum Shape {
    Sequence,
    JoinAll,
    Unordered,
    /// Pairs under `select!`, both to the end.
    Select,
}

/// Draws programs. Without `time` no body takes any.
struct Author {
    random: SplitMix64,
    time: bool,
    budget: u32,
}

impl Author {
    fn below(&mut self, bound: u32) -> u32 {
        u32::try_from(self.random.next_u64() % u64::from(bound)).unwrap()
    }

    fn shape(&mut self) -> Shape {
        match self.below(4) {
            0 => Shape::Sequence,
            1 => Shape::JoinAll,
            2 => Shape::Unordered,
            _ => Shape::Select,
        }
    }

    fn step(&mut self) -> Node {
        let work = match self.below(if self.time { 4 } else { 2 }) {
            0 => Work::Nothing,
            1 => Work::Turns(self.below(5)),
            _ => Work::Millis(self.below(5_000).into()),
        };
        let fails = self.below(6).saturating_sub(3);
        Node::Step { fails, work }
    }

    fn node(&mut self, depth: u32) -> Node {
        match self.below(if depth == 0 { 6 } else { 9 }) {
            0..=2 => self.step(),
            3 | 4 => Node::Wait(u64::from(self.below(6)) + 1),
            5 => {
                let inner = if self.below(3) == 0 {
                    Node::Wait(u64::from(self.below(3)) + 1)
                } else {
                    self.step()
                };
                Node::Awaiting(Box::new(inner))
            }
            6 | 7 => Node::Child(self.pieces(depth - 1), self.shape()),
            _ => {
                let branches = (0..=self.below(3))
                    .map(|_| self.pieces(depth - 1))
                    .collect();
                let limit = [None, Some(1), Some(2)][self.below(3) as usize];
                Node::Map(branches, limit)
            }
        }
    }

    fn pieces(&mut self, depth: u32) -> Vec<Piece> {
        let mut pieces = Vec::new();
        for _ in 0..=self.below(5) {
            if self.budget == 0 {
                break;
            }
            self.budget -= 1;
            let node = self.node(depth);
            let start = match self.below(8) {
                0..=3 => Start::InPlace,
                4..=6 => Start::Spawned,
                // Only what surely ends in its own invocation: the rest may be given up.
                _ if matches!(node, Node::Step { fails: 0, .. }) && depth == 2 => Start::Unawaited,
                _ => Start::Spawned,
            };
            pieces.push(Piece { node, start });
        }
        pieces
    }
}

impl Node {
    /// What it gives.
    fn value(&self) -> u64 {
        match self {
            Self::Step { fails, .. } => 1 + u64::from(*fails),
            Self::Wait(seconds) => 10 * seconds,
            Self::Awaiting(inner) => inner.value() + 100,
            Self::Child(pieces, _) => 1_000 + total(pieces),
            Self::Map(branches, _) => branches.iter().map(|branch| total(branch)).sum(),
        }
    }

    /// How many attempts its steps make, those whose bodies may be dropped and run again left out.
    fn attempts(&self) -> u32 {
        match self {
            Self::Step { fails, .. } => fails + 1,
            Self::Wait(_) => 0,
            Self::Awaiting(inner) => inner.attempts(),
            Self::Child(pieces, _) => attempts(pieces),
            Self::Map(branches, _) => branches.iter().map(|branch| attempts(branch)).sum(),
        }
    }
}

fn total(pieces: &[Piece]) -> u64 {
    let awaited = pieces
        .iter()
        .filter(|piece| piece.start != Start::Unawaited);
    awaited.map(|piece| piece.node.value()).sum()
}

fn attempts(pieces: &[Piece]) -> u32 {
    pieces.iter().map(|piece| piece.node.attempts()).sum()
}

/// How often each attempt of each step ran.
type Runs = Arc<Mutex<BTreeMap<(String, u32), u32>>>;

type Value = BoxFuture<'static, Result<u64>>;

async fn body(step: StepContext, fails: u32, work: Work, runs: Runs) -> Result<u64, String> {
    let key = (step.operation_id().to_owned(), step.attempt());
    *runs.lock().unwrap().entry(key).or_default() += 1;
    match work {
        Work::Nothing => {}
        Work::Turns(turns) => {
            for _ in 0..turns {
                tokio::task::yield_now().await;
            }
        }
        Work::Millis(millis) => tokio::time::sleep(Duration::from_millis(millis)).await,
    }
    if step.attempt() <= fails {
        return Err("not yet".to_owned());
    }
    Ok(u64::from(step.attempt()))
}

/// Spawns a step or a wait.
fn spawn(ctx: &Context, node: Node, runs: &Runs) -> DurableFuture<u64> {
    match node {
        Node::Step { fails, work } => {
            let runs = runs.clone();
            ctx.step("step", move |step| body(step, fails, work, runs.clone()))
                .retry(Retry::fixed(Duration::from_secs(2)))
                .spawn()
        }
        other @ (Node::Wait(_) | Node::Awaiting(_) | Node::Child(..) | Node::Map(..)) => {
            let runs = runs.clone();
            ctx.run_in_child_context("spawned", move |ctx| run(ctx, other, runs))
                .flat()
                .spawn()
        }
    }
}

/// Claims a node's positions now, and runs it when polled.
fn run(ctx: Context, node: Node, runs: Runs) -> Value {
    match node {
        Node::Step { fails, work } => {
            let step = ctx.step("step", move |step| body(step, fails, work, runs.clone()));
            Box::pin(step.retry(Retry::fixed(Duration::from_secs(2))).future())
        }
        Node::Wait(seconds) => {
            let wait = ctx.wait(Duration::from_secs(seconds)).future();
            Box::pin(async move { wait.await.map(|()| 10 * seconds) })
        }
        Node::Awaiting(inner) => {
            let handle = Mutex::new(Some(spawn(&ctx, *inner, &runs)));
            let step = ctx.step("awaiting", move |_| {
                let handle = handle.lock().unwrap().take();
                async move {
                    match handle {
                        Some(handle) => handle.await.map(|value| value + 100),
                        None => Err(Error::new("Twice", "the body ran twice in one invocation")),
                    }
                }
            });
            Box::pin(step.retry(Retry::none()).future())
        }
        Node::Child(pieces, shape) => {
            let child = ctx.run_in_child_context("child", async move |ctx| {
                Ok(1_000 + gather(ctx, pieces, shape, runs).await?)
            });
            Box::pin(child.future())
        }
        Node::Map(branches, limit) => {
            let map = ctx.map("map", branches, move |ctx, pieces| {
                gather(ctx, pieces, Shape::Unordered, runs.clone())
            });
            let map = match limit {
                Some(limit) => map.max_concurrency(limit),
                None => map,
            };
            let map = map.future();
            Box::pin(async move { Ok(map.await?.into_values()?.into_iter().sum()) })
        }
    }
}

/// Runs the pieces of a context.
fn gather(ctx: Context, pieces: Vec<Piece>, shape: Shape, runs: Runs) -> Value {
    Box::pin(async move {
        let mut work: Vec<Value> = Vec::new();
        for Piece { node, start } in pieces {
            match start {
                Start::InPlace => work.push(run(ctx.clone(), node, runs.clone())),
                Start::Spawned => work.push(Box::pin(spawn(&ctx, node, &runs))),
                Start::Unawaited => drop(spawn(&ctx, node, &runs)),
            }
        }
        together(work, shape).await
    })
}

async fn together(work: Vec<Value>, shape: Shape) -> Result<u64> {
    let mut sum = 0;
    match shape {
        Shape::Sequence => {
            for one in work {
                sum += one.await?;
            }
        }
        Shape::JoinAll => {
            for one in join_all(work).await {
                sum += one?;
            }
        }
        Shape::Unordered => {
            let mut work: FuturesUnordered<Value> = work.into_iter().collect();
            while let Some(one) = work.next().await {
                sum += one?;
            }
        }
        Shape::Select => {
            let mut rest = work.into_iter();
            let (mut left, mut right) = (rest.next(), rest.next());
            while left.is_some() || right.is_some() {
                sum += tokio::select! {
                    biased;
                    one = async { left.as_mut().unwrap().await }, if left.is_some() => {
                        left = rest.next();
                        one?
                    }
                    one = async { right.as_mut().unwrap().await }, if right.is_some() => {
                        right = rest.next();
                        one?
                    }
                };
            }
        }
    }
    Ok(sum)
}

/// A program, and what must come of it.
struct Program {
    pieces: Vec<Piece>,
    shape: Shape,
    runs: Runs,
}

impl Program {
    fn new(seed: u64, time: bool) -> Self {
        let mut author = Author {
            random: SplitMix64::new(seed),
            time,
            budget: 14,
        };
        let mut pieces = author.pieces(2);
        while pieces.len() < 3 {
            author.budget += 4;
            pieces.extend(author.pieces(2));
        }
        let shape = author.shape();
        Self {
            pieces,
            shape,
            runs: Runs::default(),
        }
    }

    fn function(&self) -> Function {
        let (pieces, shape, runs) = (self.pieces.clone(), self.shape, self.runs.clone());
        Function::new("stress", move |ctx: Context, (): ()| {
            gather(ctx, pieces.clone(), shape, runs.clone())
        })
    }

    /// Every attempt ran once: none was cut off by a suspension, none was left out.
    fn check_runs(&self) -> Result<(), String> {
        let runs = self.runs.lock().unwrap();
        if let Some(((id, attempt), times)) = runs.iter().find(|(_, times)| **times != 1) {
            return Err(format!("attempt {attempt} of {id} ran {times} times"));
        }
        let expected = attempts(&self.pieces) as usize;
        if runs.len() != expected {
            return Err(format!("{} attempts ran, not {expected}", runs.len()));
        }
        Ok(())
    }
}

async fn check_on_the_kit(seed: u64, time: bool) -> Result<(), String> {
    let program = Program::new(seed, time);
    // An hour of virtual time: what takes longer hangs.
    let run = TestKit::of(program.function())
        .seed(seed)
        .function_timeout(Duration::from_secs(3_600))
        .max_invocations(500)
        .run(())
        .await;
    let value = run
        .result::<u64>()
        .map_err(|error| format!("{error:#}: {}", run.why()))?;
    if value != total(&program.pieces) {
        return Err(format!("it gave {value}, not {}", total(&program.pieces)));
    }
    program.check_runs()?;
    for invocation in run.invocations() {
        let outcome = invocation.outcome.as_ref().ok_or("an invocation hung")?;
        outcome
            .answer
            .as_ref()
            .map_err(|error| format!("an invocation failed: {error}"))?;
    }
    for event in run.history() {
        if let Details::InvocationCompleted { error: Some(_), .. } = &event.details {
            return Err(format!(
                "PENDING with nothing pending:\n{}",
                run.history_text()
            ));
        }
    }
    if !time && run.requests_text().contains("(refresh)") {
        return Err(format!(
            "it stayed although nothing ran:\n{}",
            run.requests_text()
        ));
    }
    Ok(())
}

async fn check_on_threads(seed: u64) -> Result<(), String> {
    let program = Program::new(seed, false);
    let backend = Direct::new();
    let function = backend.equip(program.function());
    let outcomes = backend.run(&function).await;
    let value = backend
        .result()
        .map_err(|error| format!("it failed: {error:?}"))?;
    if value != total(&program.pieces).to_string() {
        return Err(format!("it gave {value}, not {}", total(&program.pieces)));
    }
    for outcome in outcomes {
        outcome
            .answer
            .map_err(|error| format!("an invocation failed: {error}"))?;
    }
    program.check_runs()
}

fn report(seed: u64, time: bool, result: Result<(), String>) {
    if let Err(problem) = result {
        let program = Program::new(seed, time);
        panic!("seed {seed}, time {time}: {problem}\n{:#?}", program.pieces);
    }
}

#[tokio::test]
async fn programs_whose_bodies_take_time_suspend_neither_too_early_nor_too_late() {
    for seed in 0..INLINE_SEEDS / 2 {
        report(seed, true, check_on_the_kit(seed, true).await);
    }
}

#[tokio::test]
async fn programs_whose_bodies_take_no_time_suspend_at_every_wait() {
    for seed in INLINE_SEEDS / 2..INLINE_SEEDS {
        report(seed, false, check_on_the_kit(seed, false).await);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn programs_on_several_threads_suspend_neither_too_early_nor_too_late() {
    // Real threads have no virtual time. A guard, not a measure: a whole program takes milliseconds.
    const HANGS: Duration = Duration::from_secs(120);
    for seed in 0..THREADED_SEEDS {
        let checked = tokio::time::timeout(HANGS, check_on_threads(seed)).await;
        report(
            seed,
            false,
            checked.unwrap_or_else(|_| Err("it hangs".to_owned())),
        );
    }
}

#[tokio::test]
async fn a_program_repeats_exactly_on_the_kit() {
    for seed in 0..20 {
        let texts = [0, 1].map(async |_| {
            let program = Program::new(seed, true);
            let run = TestKit::of(program.function()).seed(seed).run(()).await;
            (run.requests_text(), run.history_text())
        });
        let [first, second] = texts;
        assert_eq!(first.await, second.await, "seed {seed}");
    }
}

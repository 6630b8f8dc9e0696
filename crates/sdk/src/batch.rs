//! Batches: the same block for many items ([`Map`]), or several blocks side by side ([`Parallel`]).
//!
//! Which item starts when, and when the batch is over, is decided by `outlast_core::batch`; here the
//! branches run, all in the caller's task. Results come in index order.

mod result;

use crate::{
    backend::BoxFuture,
    builder::startable,
    checkpoint::Delivery,
    child::{ContextBody, run_context},
    codec::{Codec, Coding},
    context::{CloseOnDrop, Context, Mode, Scope, invalid_name},
    error::{Error, ErrorKind, Result},
    future::{Running, quietly},
    operation::{Claim, Op},
};
use futures_util::{StreamExt as _, stream::FuturesUnordered};
pub use outlast_core::batch::{
    BatchStatus, Completion, CompletionReason, Counts, Custom as CompletionDecision, ItemStatus,
};
use outlast_core::{
    batch::{Batch, Custom, Kind, Recorded, Rule, Summary},
    wire::{OperationAction, OperationStatus, OperationType, sub_type},
};
pub use result::{BatchItem, BatchResult};
use serde::{Serialize, de::DeserializeOwned};
use std::{fmt, future::Future, num::NonZeroUsize, sync::Arc};

impl Context {
    /// Runs `body` for every item, each in a context of its own.
    ///
    /// By default everything runs at once and the first failure ends the batch. The batch itself
    /// succeeds even when items failed: ask the [`BatchResult`], or turn it into a plain list with
    /// [`into_values`](BatchResult::into_values).
    ///
    /// ```
    /// # use outlast::{Context, Result};
    /// # async fn ship(_: &str) -> Result<String, std::io::Error> { Ok(String::new()) }
    /// # async fn example(ctx: Context, parcels: Vec<String>) -> Result<()> {
    /// let labels: Vec<String> = ctx
    ///     .map("ship", &parcels, async |ctx, parcel| {
    ///         ctx.step("label", async |_| ship(parcel).await).await
    ///     })
    ///     .max_concurrency(10)
    ///     .await?
    ///     .into_values()?;
    /// # Ok(()) }
    /// ```
    pub fn map<'a, I, T, F, Fut>(&self, name: &str, items: I, body: F) -> Map<'a, I::Item, T>
    where
        I: IntoIterator,
        I::Item: Send + 'a,
        T: Serialize + DeserializeOwned + Send + 'static,
        F: Fn(Context, I::Item) -> Fut + Send + Sync + 'a,
        Fut: Future<Output = Result<T>> + Send + 'a,
    {
        Map {
            op: self
                .claim(name)
                .operation(OperationType::Context, sub_type::MAP),
            items: items.into_iter().collect(),
            body: Arc::new(move |ctx, item| Box::pin(body(ctx, item))),
            namer: None,
            batch_size: 1,
            options: Options::default(),
        }
    }

    /// Runs several blocks side by side, each in a context of its own.
    ///
    /// ```
    /// # use outlast::{Context, Result};
    /// # async fn example(ctx: Context) -> Result<()> {
    /// let both = ctx
    ///     .parallel("check")
    ///     .branch("stock", async |ctx| ctx.step("stock", async |_| Ok::<_, std::io::Error>(3)).await)
    ///     .branch("credit", async |ctx| ctx.step("credit", async |_| Ok::<_, std::io::Error>(100)).await)
    ///     .await?
    ///     .into_values()?;
    /// assert_eq!(both, [3, 100]);
    /// # Ok(()) }
    /// ```
    pub fn parallel<'a, T>(&self, name: &str) -> Parallel<'a, T>
    where
        T: Serialize + DeserializeOwned + Send + 'static,
    {
        Parallel {
            op: self
                .claim(name)
                .operation(OperationType::Context, sub_type::PARALLEL),
            branches: Vec::new(),
            options: Options::default(),
        }
    }
}

/// Whether batch items have records of their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Nesting {
    /// Each item is a recorded context.
    #[default]
    Nested,
    /// Items have positions but no records: fewer operations, and no history per item.
    Flat,
}

type Judge<'a> = Box<dyn Fn(Counts, &[ItemStatus]) -> Custom + Send + Sync + 'a>;

/// What a map and a parallel can be told alike.
#[derive(Default)]
struct Options<'a> {
    max_concurrency: Option<usize>,
    completion: Completion,
    judge: Option<Judge<'a>>,
    nesting: Nesting,
    coding: Coding,
    item_coding: Coding,
}

macro_rules! batch_options {
    () => {
        /// How many items may be in flight; one that waits keeps its place. Default: all.
        pub fn max_concurrency(mut self, items: usize) -> Self {
            self.options.max_concurrency = Some(items);
            self
        }

        /// When the batch is over. Default: when all succeeded or one failed.
        pub fn completion(mut self, completion: Completion) -> Self {
            self.options.completion = completion;
            self
        }

        /// Your own rule for when the batch is over, from the counts and the started items'
        /// statuses. It must depend on nothing else, and once it has ended the batch it must not
        /// change its mind.
        pub fn complete_when(
            mut self,
            judge: impl Fn(Counts, &[ItemStatus]) -> Custom + Send + Sync + 'a,
        ) -> Self {
            self.options.judge = Some(Box::new(judge));
            self
        }

        /// Whether items have records of their own. Default: yes.
        pub fn nesting(mut self, nesting: Nesting) -> Self {
            self.options.nesting = nesting;
            self
        }

        /// The codec of the whole batch's result.
        pub fn codec(mut self, codec: impl Codec) -> Self {
            self.options.coding = Coding(Some(Arc::new(codec)));
            self
        }

        /// The codec of each item's result.
        pub fn item_codec(mut self, codec: impl Codec) -> Self {
            self.options.item_coding = Coding(Some(Arc::new(codec)));
            self
        }
    };
}

type ItemBody<'a, I, T> = Arc<dyn Fn(Context, I) -> BoxFuture<'a, Result<T>> + Send + Sync + 'a>;
type Namer<'a, I> = Box<dyn Fn(&I, usize) -> String + Send + 'a>;

/// A map that has not started; see [`Context::map`].
#[must_use = "a map does nothing unless it is awaited or spawned"]
pub struct Map<'a, I, T> {
    op: Op,
    items: Vec<I>,
    body: ItemBody<'a, I, T>,
    namer: Option<Namer<'a, I>>,
    batch_size: usize,
    options: Options<'a>,
}

impl<'a, I, T> Map<'a, I, T> {
    batch_options!();

    /// Names the iterations, for those who read the history. Names are checked on replay.
    pub fn item_namer(mut self, namer: impl Fn(&I, usize) -> String + Send + 'a) -> Self {
        self.namer = Some(Box::new(namer));
        self
    }

    /// Runs this many items, one after another, in each iteration: fewer operations for long lists.
    /// An iteration then succeeds or fails as a whole. Changing it breaks running executions.
    pub fn batch_size(mut self, items: usize) -> Self {
        if items == 0 {
            self.op.reject("a batch_size of 0 is not allowed");
        }
        self.batch_size = items;
        self
    }
}

startable!(Map [I, T] BatchResult<T> where {
    I: Send + 'a,
    T: Serialize + DeserializeOwned + Send + 'static
});

impl<'a, I, T> Map<'a, I, T>
where
    I: Send + 'a,
    T: Serialize + DeserializeOwned + Send + 'static,
{
    fn run(self) -> Running<'a, BatchResult<T>> {
        let Self {
            op,
            items,
            body,
            namer,
            batch_size,
            options,
        } = self;
        let name = |item: &I, index: usize| {
            let given = namer
                .as_ref()
                .map(|namer| namer(item, index))
                .filter(|name| !name.is_empty());
            given.unwrap_or_else(|| format!("map-item-{index}"))
        };
        if batch_size <= 1 {
            let branches = items.into_iter().enumerate().map(|(index, item)| {
                let name = name(&item, index);
                let body = body.clone();
                Branch {
                    name,
                    body: Box::new(move |ctx| body(ctx, item)),
                }
            });
            return run_batch(
                op,
                Kind::Map,
                branches.collect(),
                options,
                std::convert::identity,
            );
        }
        let mut branches = Vec::new();
        let mut sizes = Vec::new();
        let mut items = items.into_iter().peekable();
        while let Some(first) = items.peek() {
            let name = name(first, branches.len());
            let chunk: Vec<I> = items.by_ref().take(batch_size).collect();
            sizes.push(chunk.len());
            let body = body.clone();
            branches.push(Branch {
                name,
                body: Box::new(move |ctx| Box::pin(run_chunk(ctx, chunk, body))),
            });
        }
        run_batch(
            op,
            Kind::Map,
            branches,
            options,
            move |chunks: BatchResult<Vec<T>>| chunks.flatten(&sizes),
        )
    }
}

async fn run_chunk<I, T>(ctx: Context, chunk: Vec<I>, body: ItemBody<'_, I, T>) -> Result<Vec<T>> {
    let mut values = Vec::with_capacity(chunk.len());
    for item in chunk {
        values.push(body(ctx.clone(), item).await?);
    }
    Ok(values)
}

/// A parallel that has not started; see [`Context::parallel`].
#[must_use = "a parallel does nothing unless it is awaited or spawned"]
pub struct Parallel<'a, T> {
    op: Op,
    branches: Vec<Branch<'a, T>>,
    options: Options<'a>,
}

impl<'a, T: Send + 'a> Parallel<'a, T> {
    batch_options!();

    /// Adds a branch.
    pub fn branch<F, Fut>(mut self, name: &str, body: F) -> Self
    where
        F: FnOnce(Context) -> Fut + Send + 'a,
        Fut: Future<Output = Result<T>> + Send + 'a,
    {
        let index = self.branches.len();
        let name = if name.is_empty() {
            format!("parallel-branch-{index}")
        } else {
            name.to_owned()
        };
        self.branches.push(Branch {
            name,
            body: Box::new(move |ctx| Box::pin(body(ctx))),
        });
        self
    }
}

startable!(Parallel [T] BatchResult<T> where { T: Serialize + DeserializeOwned + Send + 'static });

impl<'a, T: Serialize + DeserializeOwned + Send + 'static> Parallel<'a, T> {
    fn run(self) -> Running<'a, BatchResult<T>> {
        run_batch(
            self.op,
            Kind::Parallel,
            self.branches,
            self.options,
            std::convert::identity,
        )
    }
}

/// One item of a batch.
struct Branch<'a, T> {
    name: String,
    body: ContextBody<'a, T>,
}

/// A batch that is running.
struct Runner<'a, T> {
    op: Op,
    kind: Kind,
    branches: Vec<Option<Branch<'a, T>>>,
    options: Options<'a>,
}

fn run_batch<'a, T, O>(
    op: Op,
    kind: Kind,
    branches: Vec<Branch<'a, T>>,
    mut options: Options<'a>,
    present: impl FnOnce(BatchResult<T>) -> O + Send + 'a,
) -> Running<'a, O>
where
    T: Serialize + DeserializeOwned + Send + 'static,
    O: Send + 'a,
{
    options.coding = options.coding.or(&op.scope.coding);
    options.item_coding = options.item_coding.or(&op.scope.coding);
    let branches = branches.into_iter().map(Some).collect();
    Running::new(op, move |op| async move {
        Runner {
            op,
            kind,
            branches,
            options,
        }
        .run()
        .await
        .map(present)
    })
}

impl<T: Serialize + DeserializeOwned + Send + 'static> Runner<'_, T> {
    async fn run(mut self) -> Result<BatchResult<T>> {
        self.validate();
        self.op.check()?;
        let record = self.op.meet().await;
        let mut batch = self.batch();
        match record.as_deref() {
            None => {
                self.op
                    .send(
                        self.op.update(OperationAction::Start),
                        Delivery::FireAndForget,
                    )
                    .await
            }
            Some(record) => match record.status {
                OperationStatus::Succeeded if record.replays_children() => {
                    let summary = record.result().map_or("", AsRef::as_ref).to_owned();
                    self.op.finish(record);
                    return self.rebuild(&summary).await;
                }
                OperationStatus::Succeeded => {
                    self.op.finish(record);
                    return self.op.decode(&self.options.coding, record.result()).await;
                }
                OperationStatus::Failed => {
                    self.op.finish(record);
                    return Err(self.op.failure(ErrorKind::Batch, record.error()));
                }
                OperationStatus::Started => batch.resume(self.recorded_items()),
                status @ (OperationStatus::Pending
                | OperationStatus::Ready
                | OperationStatus::Cancelled
                | OperationStatus::TimedOut
                | OperationStatus::Stopped) => return self.op.unexpected(status).await,
            },
        }
        let mode = if record.is_some() {
            Mode::Replay
        } else {
            Mode::Execution
        };
        let items = self.run_items(&mut batch, mode).await;
        self.close(&batch, items).await
    }

    /// Everything that can be wrong is found before anything is written.
    fn validate(&mut self) {
        let options = &self.options;
        if options.max_concurrency == Some(0) {
            self.op
                .reject("a max_concurrency of 0 is not allowed: nothing could ever run");
        } else if options.judge.is_some() && options.completion != Completion::default() {
            self.op
                .reject("complete_when and completion exclude each other");
        } else if let Err(error) = options.completion.validate(self.branches.len() as u64) {
            self.op.reject(error.to_string());
        }
        let names = self.branches.iter().flatten().map(|branch| &branch.name);
        if let Some(error) = names.filter_map(|name| invalid_name(name)).next() {
            self.op.reject(error.message());
        }
    }

    fn batch(&self) -> Batch {
        let max = self.options.max_concurrency.and_then(NonZeroUsize::new);
        let rule = match self.options.judge {
            Some(_) => Rule::Custom,
            None => Rule::Thresholds(self.options.completion),
        };
        Batch::new(self.branches.len(), max, rule)
    }

    /// Items that an earlier invocation has begun.
    fn recorded_items(&self) -> Vec<usize> {
        let position = &self.op.identity.position;
        let recorded = |index: &usize| {
            self.op
                .scope
                .invocation
                .has_record_at_or_below(&position.child(*index as u64 + 1))
        };
        (0..self.branches.len()).filter(recorded).collect()
    }

    /// The operation of one item, at the position of its index whatever the order they start in.
    fn item(&self, scope: &Arc<Scope>, index: usize, name: &str) -> Op {
        let label = match self.kind {
            Kind::Map => sub_type::MAP_ITERATION,
            Kind::Parallel => sub_type::PARALLEL_BRANCH,
        };
        // Its name was looked at before anything was written.
        let claim = Claim {
            scope: scope.clone(),
            position: scope.position.child(index as u64 + 1),
            name: Some(name.into()),
            problem: None,
            since: self.op.since,
        };
        claim.operation(OperationType::Context, label)
    }

    /// Starts items as the batch allows until it is over; what is unfinished then is dropped.
    async fn run_items(&mut self, batch: &mut Batch, mode: Mode) -> Vec<Option<Result<T>>> {
        let scope = self.op.inner_scope(mode, false);
        let _close = CloseOnDrop(scope.clone());
        let mut results: Vec<Option<Result<T>>> = std::iter::repeat_with(|| None)
            .take(self.branches.len())
            .collect();
        let mut running = FuturesUnordered::new();
        self.judge(batch);
        loop {
            while let Some(index) = batch.next_to_start() {
                let Some(Branch { name, body }) =
                    self.branches.get_mut(index).and_then(Option::take)
                else {
                    continue;
                };
                let op = self.item(&scope, index, &name);
                let flat = self.options.nesting == Nesting::Flat;
                let run = run_context(op, self.options.item_coding.clone(), flat, body);
                running.push(async move { (index, run.await) });
            }
            if batch.verdict().is_some() {
                quietly(|| drop(running));
                return results;
            }
            let Some((index, result)) = running.next().await else {
                return results;
            };
            batch.finish(index, result.is_ok());
            if let Some(slot) = results.get_mut(index) {
                *slot = Some(result);
            }
            self.judge(batch);
        }
    }

    fn judge(&self, batch: &mut Batch) {
        if let Some(judge) = &self.options.judge {
            let statuses: Vec<ItemStatus> = batch.statuses().collect();
            batch.judge(judge(batch.counts(), &statuses));
        }
    }

    async fn close(self, batch: &Batch, items: Vec<Option<Result<T>>>) -> Result<BatchResult<T>> {
        let Self {
            op,
            kind,
            options,
            branches,
        } = self;
        drop(branches);
        let op = &op;
        let encoded = op.encode(&options.coding, &BatchResult::new(batch, items));
        let written = async {
            let payload = encoded.await?;
            let back: BatchResult<T> = op.decode(&options.coding, Some(&payload)).await?;
            Ok::<_, Error>((payload, back))
        };
        match written.await {
            Ok((payload, back)) => {
                let stripped = || Summary::write(batch, kind, None);
                op.close(Some(payload), stripped).await;
                Ok(back)
            }
            Err(error) => Err(op.close_failed(ErrorKind::Batch, error).await),
        }
    }

    /// Rebuilds a result that was too large to store from its items' records.
    async fn rebuild(mut self, summary: &str) -> Result<BatchResult<T>> {
        let summary = Summary::read(summary).map_err(|error| {
            Error::of_kind(
                ErrorKind::Codec,
                Some(self.op.reference()),
                format!("the batch's summary cannot be read: {error}"),
            )
        })?;
        let scope = self.op.inner_scope(Mode::ReplaySucceeded, false);
        let _close = CloseOnDrop(scope.clone());
        let total = usize::try_from(summary.total_count)
            .unwrap_or(usize::MAX)
            .min(self.branches.len());
        let mut items = Vec::with_capacity(total);
        for index in 0..total {
            let recorded = summary
                .items
                .as_ref()
                .and_then(|items| items.get(index).copied());
            let Some(Branch { name, body }) = self.branches.get_mut(index).and_then(Option::take)
            else {
                continue;
            };
            let op = self.item(&scope, index, &name);
            let finished = match recorded {
                Some(Recorded::Succeeded | Recorded::Failed | Recorded::Finished) => true,
                Some(Recorded::Started | Recorded::Unfinished) => false,
                None => op
                    .record()
                    .is_some_and(|record| record.status.is_terminal()),
            };
            let flat = self.options.nesting == Nesting::Flat;
            items.push(match finished {
                true => Some(run_context(op, self.options.item_coding.clone(), flat, body).await),
                false => None,
            });
        }
        let result = BatchResult::rebuilt(summary.completion_reason, items);
        let encoded = self.op.encode(&self.options.coding, &result);
        drop(result);
        let payload = encoded.await?;
        self.op.decode(&self.options.coding, Some(&payload)).await
    }
}

impl<I, T> fmt::Debug for Map<'_, I, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Map")
            .field("op", &self.op)
            .field("items", &self.items.len())
            .finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Parallel<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parallel")
            .field("op", &self.op)
            .field("branches", &self.branches.len())
            .finish_non_exhaustive()
    }
}

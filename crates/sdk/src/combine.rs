//! Combinators: several durable futures, one recorded outcome.
//!
//! The outcome is recorded as soon as it is known, whatever the losers do, so that a replay cannot
//! choose another winner. (`tokio::select!` records nothing.) Inputs are not children: they claimed
//! their positions before the combinator did.

use crate::{
    backend::BoxFuture,
    builder::startable,
    checkpoint::Delivery,
    codec::Coding,
    context::Context,
    error::{Error, ErrorKind, Result},
    future::{Running, quietly},
    operation::Op,
};
use futures_util::{StreamExt as _, stream::FuturesUnordered};
use outlast_core::wire::{ErrorObject, OperationAction, OperationStatus, OperationType, sub_type};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::{fmt, future::IntoFuture};

impl Context {
    /// Waits for all inputs and gives every outcome, in order.
    pub fn join_all<'a, T, I>(&self, name: &str, inputs: I) -> Combine<'a, Vec<Result<T>>>
    where
        T: Serialize + DeserializeOwned + Send + 'static,
        I: IntoIterator,
        I::Item: IntoFuture<Output = Result<T>, IntoFuture: Send + 'a>,
    {
        self.combine(name, inputs, Kind::JoinAll, |outcome| {
            outcome.into_settled()
        })
    }

    /// Waits for all inputs and gives their values in order, or the first error.
    ///
    /// ```
    /// # use outlast::{Context, Result};
    /// # async fn example(ctx: Context) -> Result<()> {
    /// # async fn double(n: i32) -> Result<i32, std::io::Error> { Ok(n * 2) }
    /// let steps = (0..3).map(|n| ctx.step("double", move |_| double(n)));
    /// let doubled: Vec<i32> = ctx.try_join_all("all", steps).await?;
    /// # Ok(()) }
    /// ```
    pub fn try_join_all<'a, T, I>(&self, name: &str, inputs: I) -> Combine<'a, Vec<T>>
    where
        T: Serialize + DeserializeOwned + Send + 'static,
        I: IntoIterator,
        I::Item: IntoFuture<Output = Result<T>, IntoFuture: Send + 'a>,
    {
        self.combine(name, inputs, Kind::TryJoinAll, |outcome| {
            outcome.into_values()
        })
    }

    /// The first input to succeed; an error if all fail.
    pub fn select_ok<'a, T, I>(&self, name: &str, inputs: I) -> Combine<'a, T>
    where
        T: Serialize + DeserializeOwned + Send + 'static,
        I: IntoIterator,
        I::Item: IntoFuture<Output = Result<T>, IntoFuture: Send + 'a>,
    {
        self.combine(name, inputs, Kind::SelectOk, |outcome| outcome.into_value())
    }

    /// The first input to finish, well or badly. The others are given up; what they recorded stays.
    ///
    /// ```
    /// # use outlast::{Context, Result};
    /// # use std::time::Duration;
    /// # async fn slow() -> Result<u32, std::io::Error> { Ok(1) }
    /// # async fn example(ctx: Context) -> Result<()> {
    /// let answer = ctx.step("slow", async |_| slow().await).future().map(Some);
    /// let give_up = ctx.wait(Duration::from_secs(60)).future().map(|()| None);
    /// let first: Option<u32> = ctx.race("first", [answer, give_up]).await?;
    /// # Ok(()) }
    /// ```
    pub fn race<'a, T, I>(&self, name: &str, inputs: I) -> Combine<'a, T>
    where
        T: Serialize + DeserializeOwned + Send + 'static,
        I: IntoIterator,
        I::Item: IntoFuture<Output = Result<T>, IntoFuture: Send + 'a>,
    {
        self.combine(name, inputs, Kind::Race, |outcome| outcome.into_value())
    }

    fn combine<'a, T, I, O>(
        &self,
        name: &str,
        inputs: I,
        kind: Kind,
        present: fn(Outcome<T>) -> Result<O>,
    ) -> Combine<'a, O>
    where
        T: Serialize + DeserializeOwned + Send + 'static,
        I: IntoIterator,
        I::Item: IntoFuture<Output = Result<T>, IntoFuture: Send + 'a>,
        O: Send + 'static,
    {
        // Inputs first: an iterator that makes them claims their positions as it goes.
        let inputs: Vec<BoxFuture<'a, Result<T>>> = inputs
            .into_iter()
            .map(|input| Box::pin(input.into_future()) as BoxFuture<'a, Result<T>>)
            .collect();
        let mut op = self
            .claim(name)
            .operation(OperationType::Context, sub_type::RUN_IN_CHILD_CONTEXT);
        if inputs.is_empty() && matches!(kind, Kind::SelectOk | Kind::Race) {
            op.reject("it has no inputs, so it could never finish");
        }
        let run = move |op: Op| -> BoxFuture<'a, Result<O>> {
            Box::pin(async move {
                let reference = op.reference();
                let outcome = run(op, kind, inputs).await?;
                present(outcome).map_err(|error| error.with_kind(ErrorKind::Combinator, reference))
            })
        };
        Combine {
            op,
            run: Box::new(run),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    JoinAll,
    TryJoinAll,
    SelectOk,
    Race,
}

type Run<'a, O> = Box<dyn FnOnce(Op) -> BoxFuture<'a, Result<O>> + Send + 'a>;

/// A combinator that has not started; see [`Context::race`] and its siblings.
#[must_use = "a combinator does nothing unless it is awaited or spawned"]
pub struct Combine<'a, O> {
    op: Op,
    run: Run<'a, O>,
}

startable!(Combine [O] O where { O: Send + 'static });

impl<'a, O: Send + 'static> Combine<'a, O> {
    fn run(self) -> Running<'a, O> {
        Running::new(self.op, self.run)
    }
}

/// What is recorded: the values, the winner, or each input's outcome.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Outcome<T> {
    Values(Vec<T>),
    Winner { index: usize, value: T },
    Settled(Vec<Settled<T>>),
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Settled<T> {
    Ok(T),
    Err {
        kind: ErrorKind,
        record: ErrorObject,
    },
}

/// What is recorded of an outcome that is too large: enough to choose the same winner again.
#[derive(Default, Serialize, Deserialize)]
struct Stripped {
    winner: Option<usize>,
}

impl<T> Outcome<T> {
    fn into_values(self) -> Result<Vec<T>> {
        match self {
            Self::Values(values) => Ok(values),
            Self::Winner { .. } | Self::Settled(_) => Err(shape()),
        }
    }

    fn into_value(self) -> Result<T> {
        match self {
            Self::Winner { value, .. } => Ok(value),
            Self::Values(_) | Self::Settled(_) => Err(shape()),
        }
    }

    fn into_settled(self) -> Result<Vec<Result<T>>> {
        let Self::Settled(settled) = self else {
            return Err(shape());
        };
        let plain = |settled| match settled {
            Settled::Ok(value) => Ok(value),
            Settled::Err { kind, record } => Err(Error::from_record(kind, None, record)),
        };
        Ok(settled.into_iter().map(plain).collect())
    }
}

fn shape() -> Error {
    Error::of_kind(
        ErrorKind::Codec,
        None,
        "the recorded outcome belongs to another kind of combinator",
    )
}

/// Returns a recorded outcome without running the inputs, or runs them and records one.
async fn run<T>(mut op: Op, kind: Kind, inputs: Vec<BoxFuture<'_, Result<T>>>) -> Result<Outcome<T>>
where
    T: Serialize + DeserializeOwned + Send + 'static,
{
    op.check()?;
    let coding = op.scope.coding.clone();
    let record = op.meet().await;
    match record.as_deref() {
        None => {
            op.send(op.update(OperationAction::Start), Delivery::FireAndForget)
                .await
        }
        Some(record) => match record.status {
            OperationStatus::Succeeded if record.replays_children() => {
                op.finish(record);
                let stripped = record.result().map_or("", AsRef::as_ref);
                let stripped: Stripped = serde_json::from_str(stripped).unwrap_or_default();
                let outcome = again(kind, inputs, stripped.winner).await;
                let encoded = outcome.map(|outcome| op.encode(&coding, &outcome));
                let payload = encoded?.await?;
                return op.decode(&coding, Some(&payload)).await;
            }
            OperationStatus::Succeeded => {
                op.finish(record);
                return op.decode(&coding, record.result()).await;
            }
            OperationStatus::Failed => {
                op.finish(record);
                return Err(op.failure(ErrorKind::Combinator, record.error()));
            }
            OperationStatus::Started => {}
            status @ (OperationStatus::Pending
            | OperationStatus::Ready
            | OperationStatus::Cancelled
            | OperationStatus::TimedOut
            | OperationStatus::Stopped) => return op.unexpected(status).await,
        },
    }
    let outcome = settle(kind, inputs).await;
    close(&op, &coding, outcome).await
}

/// Records an outcome and gives back what was recorded.
async fn close<T>(op: &Op, coding: &Coding, outcome: Result<Outcome<T>>) -> Result<Outcome<T>>
where
    T: Serialize + DeserializeOwned + Send + 'static,
{
    // Written here and now: no future may hold on to the values, which need not be `Sync`.
    let encoded = outcome.map(|outcome| op.encode(coding, &outcome));
    let written = async {
        let payload = encoded?.await?;
        let back: Outcome<T> = op.decode(coding, Some(&payload)).await?;
        Ok::<_, Error>((payload, back))
    };
    match written.await {
        Ok((payload, back)) => {
            let winner = match &back {
                Outcome::Winner { index, .. } => Some(*index),
                Outcome::Values(_) | Outcome::Settled(_) => None,
            };
            let stripped = || serde_json::to_string(&Stripped { winner }).ok();
            op.close(Some(payload), stripped).await;
            Ok(back)
        }
        Err(error) => Err(op.close_failed(ErrorKind::Combinator, error).await),
    }
}

/// The same outcome again, from inputs that are recorded: the recorded winner, or all of them.
async fn again<T>(
    kind: Kind,
    inputs: Vec<BoxFuture<'_, Result<T>>>,
    winner: Option<usize>,
) -> Result<Outcome<T>> {
    let Some(index) = winner else {
        return settle(kind, inputs).await;
    };
    match inputs.into_iter().nth(index) {
        Some(input) => Ok(Outcome::Winner {
            index,
            value: input.await?,
        }),
        None => Err(Error::of_kind(
            ErrorKind::Combinator,
            None,
            format!("the recorded winner, input {index}, is gone"),
        )),
    }
}

/// Polls the inputs until the outcome is known.
async fn settle<T>(kind: Kind, inputs: Vec<BoxFuture<'_, Result<T>>>) -> Result<Outcome<T>> {
    let mut results: Vec<Option<Result<T>>> =
        std::iter::repeat_with(|| None).take(inputs.len()).collect();
    let mut running: FuturesUnordered<_> = inputs
        .into_iter()
        .enumerate()
        .map(|(index, input)| async move { (index, input.await) })
        .collect();
    while let Some((index, result)) = running.next().await {
        match (kind, result) {
            (Kind::Race | Kind::SelectOk, Ok(value)) => {
                quietly(|| drop(running));
                return Ok(Outcome::Winner { index, value });
            }
            (Kind::Race | Kind::TryJoinAll, Err(error)) => {
                quietly(|| drop(running));
                return Err(error);
            }
            (Kind::JoinAll | Kind::TryJoinAll | Kind::SelectOk, result) => {
                if let Some(slot) = results.get_mut(index) {
                    *slot = Some(result);
                }
            }
        }
    }
    let mut values = Vec::with_capacity(results.len());
    let mut settled = Vec::with_capacity(results.len());
    for result in results.into_iter().flatten() {
        match (kind, result) {
            (Kind::JoinAll, Ok(value)) => settled.push(Settled::Ok(value)),
            (_, Ok(value)) => values.push(value),
            (_, Err(error)) => settled.push(Settled::Err {
                kind: error.kind(),
                record: error.into_record(),
            }),
        }
    }
    match kind {
        Kind::JoinAll => Ok(Outcome::Settled(settled)),
        Kind::TryJoinAll | Kind::Race => Ok(Outcome::Values(values)),
        Kind::SelectOk => {
            let failures = settled.iter().filter_map(|settled| match settled {
                Settled::Err { record, .. } => Some(record.to_string()),
                Settled::Ok(_) => None,
            });
            let failures: Vec<String> = failures.collect();
            let message = format!(
                "all {} inputs failed: {}",
                failures.len(),
                failures.join("; ")
            );
            Err(Error::of_kind(ErrorKind::Combinator, None, message))
        }
    }
}

impl<O> fmt::Debug for Combine<'_, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Combine")
            .field("op", &self.op)
            .finish_non_exhaustive()
    }
}

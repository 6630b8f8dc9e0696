//! Waits: durable timers that hold no compute.

use crate::{
    builder::startable, clock::whole_seconds, context::Context, future::Running,
    lifecycle::OperationState, operation::Op,
};
use outlast_core::{
    limits::DELAY_SECONDS_MAX,
    wire::{OperationAction, OperationStatus, OperationType, WaitOptions, sub_type},
};
use std::{marker::PhantomData, time::Duration};

impl Context {
    /// Waits, for up to 366 days. Sub-second parts are rounded up.
    ///
    /// A wait needs no name: deterministic code meets its waits in the same order every time.
    ///
    /// ```
    /// # use outlast::{Context, Result};
    /// # use std::time::Duration;
    /// # async fn example(ctx: Context) -> Result<()> {
    /// ctx.wait(Duration::from_secs(24 * 3600)).await?;
    /// # Ok(()) }
    /// ```
    pub fn wait(&self, duration: Duration) -> Wait<'static> {
        self.named_wait("", duration)
    }

    /// Waits, under a name for those who read the history.
    pub fn named_wait(&self, name: &str, duration: Duration) -> Wait<'static> {
        let mut op = self
            .claim(name)
            .operation(OperationType::Wait, sub_type::WAIT);
        let seconds = whole_seconds(duration, DELAY_SECONDS_MAX).unwrap_or_else(|| {
            op.reject(format!(
                "a wait of {duration:?} is too long, 366 days are allowed"
            ));
            0
        });
        if duration.is_zero() {
            op.reject("a wait of zero is not allowed: leave it out, or wait for a second");
        }
        Wait {
            op,
            seconds,
            marker: PhantomData,
        }
    }
}

/// A wait that has not started; see [`Context::wait`].
#[derive(Debug)]
#[must_use = "a wait does nothing unless it is awaited or spawned"]
pub struct Wait<'a> {
    op: Op,
    seconds: u32,
    marker: PhantomData<&'a ()>,
}

startable!(Wait [] () where {});

impl<'a> Wait<'a> {
    fn run(self) -> Running<'a, ()> {
        let seconds = self.seconds;
        Running::new(self.op, move |mut op| async move {
            op.check()?;
            let mut record = match op.meet().await {
                Some(record) => record,
                None => {
                    op.mark(OperationState::Executing);
                    let mut update = op.update(OperationAction::Start);
                    update.wait_options = Some(WaitOptions {
                        wait_seconds: Some(seconds),
                    });
                    op.commit(update).await
                }
            };
            if record.status == OperationStatus::Started {
                record = op.change(OperationState::IdleAwaited).await;
            }
            if record.status != OperationStatus::Succeeded {
                return op.unexpected(record.status).await;
            }
            op.finish(&record);
            Ok(())
        })
    }
}

//! Work that is not left in the middle because whoever waits for it goes away.

use crate::invoker::BoxFuture;
use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};
use tokio::runtime::Handle;

/// Work that its caller does itself, which saves a task and its wake-ups. If the caller is dropped
/// before the end, a task goes on with it.
pub(crate) struct Unbroken<T: Send + 'static> {
    work: Option<BoxFuture<'static, T>>,
    runtime: Handle,
}

impl<T: Send + 'static> Unbroken<T> {
    pub(crate) fn new(work: impl Future<Output = T> + Send + 'static, runtime: &Handle) -> Self {
        Self {
            work: Some(Box::pin(work)),
            runtime: runtime.clone(),
        }
    }
}

impl<T: Send + 'static> Future for Unbroken<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let Some(work) = &mut self.work else {
            return Poll::Pending;
        };
        let polled = work.as_mut().poll(context);
        if polled.is_ready() {
            self.work = None;
        }
        polled
    }
}

impl<T: Send + 'static> Drop for Unbroken<T> {
    fn drop(&mut self) {
        if let Some(work) = self.work.take() {
            drop(self.runtime.spawn(work));
        }
    }
}

impl<T: Send + 'static> fmt::Debug for Unbroken<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unbroken").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::oneshot;

    #[tokio::test]
    async fn work_whose_caller_goes_away_is_finished_by_a_task() {
        let (go, may_go) = oneshot::channel::<()>();
        let (done, is_done) = oneshot::channel();
        let work = async move {
            may_go.await.unwrap();
            done.send(7).unwrap();
        };
        let mut unbroken = Box::pin(Unbroken::new(work, &Handle::current()));
        let first = std::future::poll_fn(|context| Poll::Ready(unbroken.as_mut().poll(context)));
        assert!(first.await.is_pending());
        drop(unbroken);
        go.send(()).unwrap();
        assert_eq!(is_done.await, Ok(7));
    }

    #[tokio::test]
    async fn work_that_is_waited_for_gives_its_outcome() {
        assert_eq!(Unbroken::new(async { 7 }, &Handle::current()).await, 7);
    }
}

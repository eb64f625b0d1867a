//! Exchanges with servers that go on when their clients have gone.
//!
//! A request that holds quota is settled by its response, and counts as in flight until then where a rule limits that. If the exchange
//! ended with its client, hanging up in time would cost nothing and make room for the next request, while a server still works for this
//! one; so it goes on by itself until the response is there. It keeps its place meanwhile, among the requests of its
//! connection and among the connections of its address: hanging up does not make room for more.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};

use tidegate_server::front::{ConnectionRoom, Phase};
use tokio::runtime::Handle;
use tokio::sync::watch;

/// Exchanges of one connection for requests that hold quota.
#[derive(Debug)]
pub(crate) struct Exchanges {
    open: AtomicU32,
    /// Maximum number of them at once.
    most: u32,
    /// The connection counts as open until its last exchange has ended.
    _room: Arc<ConnectionRoom>,
}

/// A place for an exchange, until it is dropped.
#[derive(Debug)]
pub(crate) struct ExchangePermit(Arc<Exchanges>);

impl Exchanges {
    pub(crate) fn new(most: u32, room: Arc<ConnectionRoom>) -> Arc<Self> {
        Arc::new(Self { open: AtomicU32::new(0), most, _room: room })
    }

    /// Takes a place, if there is one.
    pub(crate) fn begin(self: &Arc<Self>) -> Option<ExchangePermit> {
        let more = |open: u32| (open < self.most).then(|| open + 1);
        self.open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(ExchangePermit(Arc::clone(self)))
    }
}

impl Drop for ExchangePermit {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A future that goes on in a task of its own when it is dropped before its end, unless the node is about to end.
pub(crate) struct Exchange<T: Send + 'static> {
    future: Option<BoxFuture<T>>,
    permit: Option<ExchangePermit>,
    phase: watch::Receiver<Phase>,
    /// Takes the outcome if nobody else is there to.
    abandoned: fn(T),
}

impl<T: Send + 'static> Exchange<T> {
    pub(crate) fn new(
        future: BoxFuture<T>,
        permit: ExchangePermit,
        phase: watch::Receiver<Phase>,
        abandoned: fn(T),
    ) -> Self {
        Self { future: Some(future), permit: Some(permit), phase, abandoned }
    }
}

impl<T: Send + 'static> Future for Exchange<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        // Taken out, so that one that panics is not polled again.
        let Some(mut future) = self.future.take() else { return Poll::Pending };
        let polled = future.as_mut().poll(cx);
        if polled.is_pending() {
            self.future = Some(future);
        }
        polled
    }
}

impl<T: Send + 'static> Drop for Exchange<T> {
    fn drop(&mut self) {
        let Some(future) = self.future.take() else { return };
        let (permit, abandoned, mut phase) = (self.permit.take(), self.abandoned, self.phase.clone());
        // Nobody is left to say what to do when the node ends.
        if phase.has_changed().is_err() {
            return;
        }
        let Ok(runtime) = Handle::try_current() else { return };
        runtime.spawn(async move {
            let _permit = permit;
            tokio::select! {
                outcome = future => abandoned(outcome),
                _ = phase.wait_for(|_| false) => {}
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::sync::{mpsc, oneshot};

    use super::*;

    fn exchange(
        future: impl Future<Output = mpsc::UnboundedSender<u8>> + Send + 'static,
        phase: &watch::Sender<Phase>,
    ) -> Exchange<mpsc::UnboundedSender<u8>> {
        let abandoned = |outcome: mpsc::UnboundedSender<u8>| outcome.send(7).unwrap();
        Exchange { future: Some(Box::pin(future)), permit: None, phase: phase.subscribe(), abandoned }
    }

    async fn poll_once<F: Future + Unpin>(future: &mut F) {
        poll_fn(|cx| {
            assert!(Pin::new(&mut *future).poll(cx).is_pending());
            Poll::Ready(())
        })
        .await;
    }

    #[tokio::test]
    async fn dropped_early_it_goes_on_and_its_outcome_is_taken() {
        let (phase, _) = watch::channel(Phase::Serving);
        let (open, gate) = oneshot::channel::<()>();
        let (tell, mut told) = mpsc::unbounded_channel();
        let mut exchange = exchange(
            async move {
                gate.await.unwrap();
                tell
            },
            &phase,
        );
        poll_once(&mut exchange).await;
        drop(exchange);
        open.send(()).unwrap();
        assert_eq!(told.recv().await, Some(7));
    }

    #[tokio::test]
    async fn dropped_after_its_end_it_is_over() {
        let (phase, _) = watch::channel(Phase::Serving);
        let (tell, mut told) = mpsc::unbounded_channel();
        let outcome = exchange(async move { tell }, &phase).await;
        drop(outcome);
        assert_eq!(told.recv().await, None);
    }

    #[tokio::test]
    async fn it_ends_with_the_node() {
        for early in [false, true] {
            let (phase, _) = watch::channel(Phase::Serving);
            let (tell, mut told) = mpsc::unbounded_channel();
            let mut exchange = exchange(
                async move {
                    std::future::pending::<()>().await;
                    tell
                },
                &phase,
            );
            poll_once(&mut exchange).await;
            let mut phase = Some(phase);
            if early {
                drop(phase.take());
            }
            drop(exchange);
            drop(phase);
            assert_eq!(told.recv().await, None);
        }
    }
}

//! Answers on HTTP/2 connections, each given up when its client has no room for it.
//!
//! A client of HTTP/2 opens a window for each answer. One that never does costs nothing on its connection, which goes on with
//! others; but the answer, and whoever gives it, would wait for ever. Nobody asks for the next piece of it meanwhile, so that it
//! has to be watched from outside: where it is driven.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::rt::Executor;
use tokio::time::sleep;

tokio::task_local! {
    static TAKING: Arc<Taking>;
}

/// Drives the requests of HTTP/2 connections.
#[derive(Clone, Debug)]
pub(crate) struct Streams {
    /// How long a client may take to make room for the next piece of an answer.
    pub(crate) take: Duration,
}

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Streams {
    fn execute(&self, stream: F) {
        let taking = Arc::new(Taking::default());
        tokio::spawn(TAKING.scope(Arc::clone(&taking), drive(stream, taking, self.take)));
    }
}

/// Goes on until the end, or until a piece has waited for too long. Then the stream is dropped, which resets it.
async fn drive(stream: impl Future<Output = ()>, taking: Arc<Taking>, take: Duration) {
    let mut stream = pin!(stream);
    let mut alarm = None;
    let mut waits = None;
    let mut given_up = |cx: &mut Context<'_>| {
        let piece = taking.waiting();
        if piece != waits {
            (waits, alarm) = (piece, piece.map(|_| Box::pin(sleep(take))));
        }
        alarm.as_mut().map_or(Poll::Pending, |alarm| alarm.as_mut().poll(cx))
    };
    poll_fn(|cx| match stream.as_mut().poll(cx) {
        Poll::Ready(()) => Poll::Ready(()),
        Poll::Pending => given_up(cx),
    })
    .await;
}

/// How far an answer has got.
#[derive(Debug, Default)]
pub(crate) struct Taking {
    /// Pieces given, ever.
    pieces: AtomicU32,
    /// Whether the last of them may not have been taken yet.
    given: AtomicBool,
}

impl Taking {
    /// That of the answer that is being made, if it is one of HTTP/2.
    pub(crate) fn current() -> Option<Arc<Self>> {
        TAKING.try_with(Arc::clone).ok()
    }

    /// The next piece is asked for.
    pub(crate) fn ask(&self) {
        self.given.store(false, Ordering::Relaxed);
    }

    /// There is one.
    pub(crate) fn give(&self) {
        self.pieces.fetch_add(1, Ordering::Relaxed);
        self.given.store(true, Ordering::Relaxed);
    }

    /// The piece that waits to be taken, if one does.
    fn waiting(&self) -> Option<u32> {
        self.given.load(Ordering::Relaxed).then(|| self.pieces.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_answer_waits_only_so_long_to_be_taken() {
        let (taking, take) = (Arc::new(Taking::default()), Duration::from_secs(60));
        let start = Instant::now();
        let answer = async {
            for _ in 0..3 {
                taking.ask();
                // What is not there yet is nobody's fault.
                sleep(Duration::from_secs(1_000)).await;
                taking.give();
                sleep(Duration::from_secs(59)).await;
            }
            std::future::pending::<()>().await;
        };
        drive(answer, Arc::clone(&taking), take).await;
        let expected = Duration::from_secs(3 * 1_000 + 2 * 59 + 60);
        assert!(start.elapsed() >= expected && start.elapsed() < expected + Duration::from_secs(1));
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_ends_has_ended() {
        let start = Instant::now();
        drive(async {}, Arc::default(), Duration::from_secs(60)).await;
        assert_eq!(start.elapsed(), Duration::ZERO);
    }
}

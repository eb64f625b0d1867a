//! Connections that both ends agree to use for something else than HTTP, such as WebSocket.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tidegate_server::front::Phase;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf, copy_bidirectional_with_sizes};
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};

use crate::finish::Finish;

/// How much is on its way in each direction at most.
const BUFFER: usize = 16 * 1024;

/// The two ends, once both have switched.
pub(crate) struct Tunnel {
    pub(crate) client: OnUpgrade,
    pub(crate) server: OnUpgrade,
    /// How long nothing may come from either.
    pub(crate) idle: Duration,
    pub(crate) phase: watch::Receiver<Phase>,
    pub(crate) open: Arc<AtomicUsize>,
    pub(crate) finish: Finish,
}

impl Tunnel {
    /// Carries bytes until an end closes, nothing comes for too long, or the gateway is to end.
    pub(crate) async fn carry(self) {
        let Self { client, server, idle, mut phase, open, mut finish } = self;
        let (Ok(client), Ok(server)) = tokio::join!(client, server) else { return };
        let _counted = Counted::new(open);
        let moved = Arc::new(AtomicU64::new(0));
        let mut client = Moving { io: TokioIo::new(client), moved: Arc::clone(&moved) };
        let mut server = Moving { io: TokioIo::new(server), moved: Arc::clone(&moved) };
        let copied = tokio::select! {
            copied = copy_bidirectional_with_sizes(&mut client, &mut server, BUFFER, BUFFER) => copied.ok(),
            () = nothing_moves(&moved, idle) => None,
            _ = phase.wait_for(|phase| *phase >= Phase::Closing) => None,
        };
        if let Some((_, to_client)) = copied {
            finish.passed(to_client);
        }
        finish.ended();
    }
}

/// Returns once nothing has moved for `idle`, give or take a quarter.
async fn nothing_moves(moved: &AtomicU64, idle: Duration) {
    let mut looks = interval((idle / 4).max(Duration::from_millis(10)));
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut seen, mut still) = (moved.load(Ordering::Relaxed), 0);
    loop {
        looks.tick().await;
        let now = moved.load(Ordering::Relaxed);
        still = if now == seen { still + 1 } else { 0 };
        seen = now;
        // The first look comes at once.
        if still > 4 {
            return;
        }
    }
}

/// Counts as open until it is dropped.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(open: Arc<AtomicUsize>) -> Self {
        open.fetch_add(1, Ordering::Relaxed);
        Self(open)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// An end, with a note of what comes from it.
struct Moving {
    io: TokioIo<Upgraded>,
    moved: Arc<AtomicU64>,
}

impl AsyncRead for Moving {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.io).poll_read(cx, buffer);
        if polled.is_ready() {
            self.moved.fetch_add(1, Ordering::Relaxed);
        }
        polled
    }
}

impl AsyncWrite for Moving {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

//! Answering other nodes.

use std::convert::Infallible;
use std::fmt;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tidegate_store::peers::{Answers, NodeId};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::connection::{Activity, drive};
use super::desk::Desk;
use super::figures::CallFigures;
use super::seals::Seals;
use crate::{Opener, Sealer};

/// The most connections at once: a few from each of more nodes than a fleet has.
const MAX_CONNECTIONS: usize = 256;

/// The most requests at once on one connection: more than a node usually has on their way; others wait.
const MAX_REQUESTS: u32 = 8;

/// The largest head of a request.
const MAX_HEAD_BYTES: u32 = 16 * 1024;

/// How much a connection may send before it is read.
const WINDOW: u32 = 256 * 1024;

/// How often a connection is asked whether anybody is there, and how long that may take.
const HEARTBEAT: Duration = Duration::from_secs(30);

/// How long to wait when the operating system has nothing left to accept with.
const BREATH: Duration = Duration::from_millis(100);

/// How long what has begun may take when the server stops.
const DRAIN: Duration = Duration::from_secs(1);

/// Answers what other nodes ask, if they know the fleet's secret.
pub struct CallServer {
    desk: Arc<Desk>,
}

impl CallServer {
    /// Answers as the node `me`: calls for another are not opened.
    pub fn new(me: NodeId, sealer: Arc<Sealer>, opener: Arc<Opener>, answers: Arc<dyn Answers>) -> Self {
        Self { desk: Arc::new(Desk::new(me, Seals { sealer, opener }, answers)) }
    }

    /// How much was asked.
    pub fn figures(&self) -> Arc<CallFigures> {
        Arc::clone(&self.desk.figures)
    }

    /// Accepts and answers until `stop` resolves; then finishes what has begun, if that does not take long.
    pub async fn serve(self, listener: TcpListener, stop: impl Future<Output = ()>) {
        let (stopping, stopped) = watch::channel(false);
        let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let mut connections = JoinSet::new();
        let mut stop = pin!(stop);
        loop {
            tokio::select! {
                () = stop.as_mut() => break,
                Some((stream, slot)) = accept(&listener, &slots) => {
                    let (desk, stopped) = (Arc::clone(&self.desk), stopped.clone());
                    connections.spawn(async move {
                        serve_connection(desk, stream, stopped).await;
                        drop(slot);
                    });
                }
                // Even one that panicked has only ended.
                Some(_) = connections.join_next() => {}
            }
        }
        drop(listener);
        stopping.send_replace(true);
        timeout(DRAIN, async { while connections.join_next().await.is_some() {} }).await.ok();
    }
}

impl fmt::Debug for CallServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallServer").field("me", &self.desk.me).finish_non_exhaustive()
    }
}

/// The next connection, once there is room for it.
async fn accept(listener: &TcpListener, slots: &Arc<Semaphore>) -> Option<(TcpStream, OwnedSemaphorePermit)> {
    loop {
        let slot = Arc::clone(slots).acquire_owned().await.ok()?;
        match listener.accept().await {
            // Answers are small and whole; waiting for more to send would only delay them.
            Ok((stream, _)) if stream.set_nodelay(true).is_ok() => return Some((stream, slot)),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => {
                tracing::warn!(%error, "cannot accept connections of other nodes");
                sleep(BREATH).await;
            }
        }
    }
}

async fn serve_connection(desk: Arc<Desk>, stream: TcpStream, stop: watch::Receiver<bool>) {
    let activity = Arc::new(Activity::default());
    let service = service_fn(|request| {
        let (desk, activity) = (Arc::clone(&desk), Arc::clone(&activity));
        async move {
            let _in_flight = activity.begin();
            Ok::<_, Infallible>(desk.answer(request, &activity).await)
        }
    });
    let mut http = http2::Builder::new(TokioExecutor::new());
    http.max_concurrent_streams(MAX_REQUESTS)
        .max_header_list_size(MAX_HEAD_BYTES)
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .keep_alive_interval(HEARTBEAT)
        .keep_alive_timeout(HEARTBEAT)
        .auto_date_header(false)
        .timer(TokioTimer::new());
    drive(http.serve_connection(TokioIo::new(stream), service), &activity, stop).await;
}

//! The connection to one node: made when it is needed, and given up when it is of no use.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::task::AbortHandle;
use tokio::time::timeout;

/// How long connecting may take: nodes that count for each other are not far apart.
const CONNECT_LIMIT: Duration = Duration::from_millis(500);

/// How often a connection that something is asked on is tried out, and how long that may take: what takes its time is waited
/// for, but not on a connection that is dead.
const PROBE: Duration = Duration::from_millis(500);
const PROBE_LIMIT: Duration = Duration::from_secs(1);

/// The largest head of an answer.
const MAX_HEAD_BYTES: u32 = 16 * 1024;

/// Takes calls, in the order in which they are handed over.
pub(super) type Requests = SendRequest<Full<Bytes>>;

/// A connection, if there is one.
#[derive(Debug, Default)]
pub(super) struct Link {
    open: Option<Open>,
    /// How many connections there have been.
    generation: u64,
}

#[derive(Debug)]
struct Open {
    requests: Requests,
    task: AbortHandle,
}

impl Link {
    /// The connection to `address`, made first if need be, and which of them it is.
    pub(super) async fn get(&mut self, address: SocketAddr) -> io::Result<(Requests, u64)> {
        if let Some(open) = self.open.as_ref().filter(|open| !open.requests.is_closed()) {
            return Ok((open.requests.clone(), self.generation));
        }
        // What is on its way on one that is closing may still come back: it ends by itself.
        self.open = None;
        let open = timeout(CONNECT_LIMIT, connect(address))
            .await
            .map_err(|_| io::ErrorKind::TimedOut.into())
            .flatten()?;
        tracing::info!(%address, "node connected");
        self.generation += 1;
        let requests = open.requests.clone();
        self.open = Some(open);
        Ok((requests, self.generation))
    }

    /// Gives a connection up; whatever else is on its way there is lost. One that came after it stays.
    pub(super) fn give_up(&mut self, generation: u64) {
        if self.generation == generation {
            self.open.take().into_iter().for_each(|open| open.task.abort());
        }
    }
}

async fn connect(address: SocketAddr) -> io::Result<Open> {
    let stream = TcpStream::connect(address).await?;
    // Calls are small and whole; waiting for more to send would only delay them.
    stream.set_nodelay(true)?;
    let mut http = http2::Builder::new(TokioExecutor::new());
    http.max_header_list_size(MAX_HEAD_BYTES)
        .keep_alive_interval(PROBE)
        .keep_alive_timeout(PROBE_LIMIT)
        .timer(TokioTimer::new());
    let (requests, connection) = http.handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
    let task = tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%address, %error, "node connection lost");
        }
    });
    Ok(Open { requests, task: task.abort_handle() })
}

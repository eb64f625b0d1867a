//! Connections to one server that speaks HTTP/1.1: one request at a time on each, and then the next.
//!
//! A connection that is kept may be closed by the server at any moment. A request that was not written to one that is gone
//! comes back whole and goes out on the next, whatever it is; one that was is the caller's to judge.

use std::collections::VecDeque;
use std::error::Error as _;
use std::fmt;
use std::future::poll_fn;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use http::{Request, Response, Uri};
use hyper::body::{Body, Incoming};
use hyper::client::conn::http1::{Builder, SendRequest};
use parking_lot::Mutex;
use tidegate_server::DataPlane;
use tokio::time::sleep;
use tower_service::Service as _;

use super::{Connector, Failure};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Connections to one server, those in use aside.
pub(crate) struct Pool<B> {
    server: Uri,
    connector: Connector,
    keep: Keep,
    idle: Mutex<Idle<B>>,
}

/// What connections are kept for later.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keep {
    /// For how long.
    pub(crate) within: Duration,
    /// How many.
    pub(crate) most: usize,
}

/// Connections that wait for a request.
struct Idle<B> {
    /// By the thread whose event loop has them, the one that has waited longest first: on any other thread, each request and each
    /// answer would have to wake its owner.
    waiting: Vec<VecDeque<(SendRequest<B>, Instant)>>,
    /// Whether somebody looks after those that nobody comes for.
    tended: bool,
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum Unanswered {
    /// There was no connection.
    NotConnected(BoxError),
    /// There was one, and it broke, or the request did.
    Broken(hyper::Error),
}

/// A connection whose answer is on its way. To be [freed](Self::free) when nothing more of it comes; dropped, it is closed.
pub(crate) struct Lease<B: Body + Send + 'static> {
    sender: SendRequest<B>,
    pool: Arc<Pool<B>>,
}

impl<B> Pool<B>
where
    B: Body + Send + Unpin + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
{
    pub(crate) fn new(server: Uri, connector: Connector, keep: Keep) -> Self {
        let idle = Mutex::new(Idle { waiting: Vec::new(), tended: false });
        Self { server, connector, keep, idle }
    }

    /// Sends a request, whose URI is its path and query alone, and waits for the head of the answer.
    pub(crate) async fn send(
        self: &Arc<Self>,
        mut request: Request<B>,
    ) -> Result<(Response<Incoming>, Lease<B>), Unanswered> {
        loop {
            let kept = self.take(Instant::now());
            let was_kept = kept.is_some();
            let mut sender = match kept {
                Some(sender) => sender,
                None => self.connect().await?,
            };
            let mut error = match sender.try_send_request(request).await {
                Ok(response) => return Ok((response, Lease { sender, pool: Arc::clone(self) })),
                Err(error) => error,
            };
            match error.take_message() {
                Some(unsent) if was_kept => request = unsent,
                _ => return Err(Unanswered::Broken(error.into_error())),
            }
        }
    }

    /// The connection that was used last, if there is one: those that are not needed grow old.
    fn take(&self, now: Instant) -> Option<SendRequest<B>> {
        let mut idle = self.idle.lock();
        let waiting = idle.waiting.get_mut(DataPlane::current_thread())?;
        while let Some((sender, since)) = waiting.pop_back() {
            if sender.is_ready() && now.saturating_duration_since(since) < self.keep.within {
                return Some(sender);
            }
        }
        None
    }

    fn put(self: &Arc<Self>, sender: SendRequest<B>, now: Instant) {
        let mut idle = self.idle.lock();
        if idle.waiting.iter().map(VecDeque::len).sum::<usize>() < self.keep.most {
            let thread = DataPlane::current_thread();
            if idle.waiting.len() <= thread {
                idle.waiting.resize_with(thread + 1, VecDeque::new);
            }
            idle.waiting[thread].push_back((sender, now));
            if !std::mem::replace(&mut idle.tended, true) {
                tokio::spawn(tend(Arc::downgrade(self), self.keep.within));
            }
        }
    }

    async fn connect(&self) -> Result<SendRequest<B>, Unanswered> {
        let connecting = self.connector.clone().call(self.server.clone());
        let stream = connecting.await.map_err(Unanswered::NotConnected)?;
        let (sender, connection) = Builder::new().handshake(stream).await.map_err(Unanswered::Broken)?;
        // Whoever waits for an answer hears of what goes wrong.
        tokio::spawn(async move { connection.with_upgrades().await.ok() });
        Ok(sender)
    }

    /// Closes what has waited for too long; says whether anything waits still.
    fn close_old(&self, now: Instant) -> bool {
        let mut idle = self.idle.lock();
        for waiting in &mut idle.waiting {
            waiting.retain(|(sender, since)| {
                sender.is_ready() && now.saturating_duration_since(*since) < self.keep.within
            });
        }
        idle.tended = idle.waiting.iter().any(|waiting| !waiting.is_empty());
        idle.tended
    }
}

/// Closes connections that nobody comes for, as long as there are any.
async fn tend<B>(pool: Weak<Pool<B>>, within: Duration)
where
    B: Body + Send + Unpin + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
{
    loop {
        sleep(within).await;
        if !pool.upgrade().is_some_and(|pool| pool.close_old(Instant::now())) {
            return;
        }
    }
}

impl<B> Lease<B>
where
    B: Body + Send + Unpin + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
{
    /// All of the answer is there: the connection can be used by others, now or in a moment.
    pub(crate) fn free(self) {
        let Self { mut sender, pool } = self;
        if sender.is_ready() {
            return pool.put(sender, Instant::now());
        }
        if !sender.is_closed() {
            tokio::spawn(async move {
                if poll_fn(|cx| sender.poll_ready(cx)).await.is_ok() {
                    pool.put(sender, Instant::now());
                }
            });
        }
    }
}

impl Unanswered {
    /// What that says of the server; nothing if the request's own body broke, which is not the server's fault.
    pub(crate) fn failure(&self) -> Option<Failure> {
        match self {
            Self::NotConnected(_) => Some(Failure::Connect),
            Self::Broken(error) => Failure::of_connection(error),
        }
    }
}

impl fmt::Display for Unanswered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotConnected(error) => write!(f, "no connection: {error}"),
            Self::Broken(error) => match error.source() {
                Some(cause) => write!(f, "{error}: {cause}"),
                None => error.fmt(f),
            },
        }
    }
}

impl<B> fmt::Debug for Pool<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("server", &self.server).field("keep", &self.keep).finish_non_exhaustive()
    }
}

impl<B: Body + Send + 'static> fmt::Debug for Lease<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease").field("pool", &self.pool).finish_non_exhaustive()
    }
}

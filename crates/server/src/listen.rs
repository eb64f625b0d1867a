//! Accepting connections, as many as there is room for.

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use hyper::body::{Body, Incoming};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::connection::{Activity, Phase, Sending, drive};
use crate::tls::Tls;
use crate::wait::now_or_never;

/// The largest head of a request: far above the longest path, far below what would hurt.
const MAX_HEAD_BYTES: u32 = 64 * 1024;

/// How long to wait when the operating system has nothing left to accept with.
const BREATH: Duration = Duration::from_millis(100);

/// More could not be counted.
const MOST_CONNECTIONS: u32 = 1_000_000;

/// The most calls at once on one connection: a proxy sends all it has over a few.
const MOST_CALLS: u32 = 1_000;

/// How often a connection that several calls share is asked whether anybody is there, and how long that may take.
const HEARTBEAT: Duration = Duration::from_secs(30);

/// What is spoken on a listener, and how.
#[derive(Clone, Debug)]
pub(crate) enum Speaks {
    /// HTTP/1.1, and HTTP/2 with clients that start with it.
    Http,
    /// HTTP/2 only, for connections up to an age.
    Grpc { max_age: Option<Duration>, tls: Option<Arc<Tls>> },
}

/// An address that is taken and will be served.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: TcpListener,
    address: SocketAddr,
    room: u32,
    slots: Arc<Semaphore>,
    http: Arc<auto::Builder<TokioExecutor>>,
    max_age: Option<Duration>,
    tls: Option<Arc<Tls>>,
}

impl Listener {
    /// Takes `address` for at most `room` connections at once.
    pub(crate) async fn bind(address: SocketAddr, speaks: Speaks, room: usize) -> io::Result<Self> {
        let socket = TcpListener::bind(address).await?;
        let room = u32::try_from(room).unwrap_or(MOST_CONNECTIONS).clamp(1, MOST_CONNECTIONS);
        let mut http = auto::Builder::new(TokioExecutor::new());
        // Answers are small: one copy costs less than having the kernel gather two pieces.
        http.http1().max_buf_size(MAX_HEAD_BYTES as usize).writev(false);
        // Past these, h2 itself ends connections whose clients open and reset without end.
        http.http2()
            .max_concurrent_streams(MOST_CALLS)
            .max_header_list_size(MAX_HEAD_BYTES)
            .keep_alive_interval(HEARTBEAT)
            .keep_alive_timeout(HEARTBEAT)
            .timer(TokioTimer::new());
        let (http, max_age, tls) = match speaks {
            Speaks::Http => (http, None, None),
            Speaks::Grpc { max_age, tls } => {
                // Nobody asks a call what day it is.
                http.http2().auto_date_header(false);
                (http.http2_only(), max_age, tls)
            }
        };
        Ok(Self {
            address: socket.local_addr()?,
            socket,
            room,
            slots: Arc::new(Semaphore::new(room as usize)),
            http: Arc::new(http),
            max_age,
            tls,
        })
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its connections.
    pub(crate) fn connections(&self) -> Connections {
        Connections { room: self.room, slots: Arc::clone(&self.slots) }
    }

    /// Accepts and serves connections until the phase is [`Phase::Closing`]; requests are answered by `handler`.
    /// Connections go on by themselves.
    pub(crate) async fn serve<H, F, B>(self, mut phase: watch::Receiver<Phase>, handler: H)
    where
        H: Fn(IpAddr, Request<Incoming>) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Response<B>> + Send + 'static,
        B: Body<Data = Bytes, Error: std::error::Error + Send + Sync> + Send + Unpin + 'static,
    {
        let connections = phase.clone();
        let serve = |accepted: Accepted| {
            let (http, handler, phase) = (Arc::clone(&self.http), handler.clone(), connections.clone());
            let max_age = self.max_age.map(|age| give_or_take(age, accepted.peer_port));
            let tls = self.tls.clone();
            tokio::spawn(async move {
                let Accepted { stream, peer, _slot, .. } = accepted;
                let served = Served { http: &http, peer, phase, max_age };
                match tls {
                    None => served.serve(TokioIo::new(stream), handler).await,
                    Some(tls) => {
                        if let Some(stream) = tls.accept(stream).await {
                            served.serve(TokioIo::new(stream), handler).await;
                        }
                    }
                }
            });
        };
        let stop = async move { phase.wait_for(|phase| *phase >= Phase::Closing).await.map(drop) };
        let mut stop = pin!(stop);
        loop {
            tokio::select! {
                accepted = self.accept() => accepted.into_iter().for_each(serve),
                _ = stop.as_mut() => break,
            }
        }
        // Who has been waiting to be accepted may have sent a request.
        while let Some(Some(accepted)) = now_or_never(self.accept()).await {
            serve(accepted);
        }
    }

    /// The next connection, once there is room for it.
    async fn accept(&self) -> Option<Accepted> {
        let slot = Arc::clone(&self.slots).acquire_owned().await.ok()?;
        match self.socket.accept().await {
            Ok((stream, peer)) => {
                // Answers are small and whole; waiting for more to send would only delay them.
                stream.set_nodelay(true).ok()?;
                Some(Accepted { stream, peer: peer.ip().to_canonical(), peer_port: peer.port(), _slot: slot })
            }
            Err(error) => {
                if error.kind() != io::ErrorKind::ConnectionAborted {
                    tracing::warn!(address = %self.address, %error, "cannot accept connections");
                    tokio::time::sleep(BREATH).await;
                }
                None
            }
        }
    }
}

/// A connection, and the room it takes.
struct Accepted {
    stream: TcpStream,
    peer: IpAddr,
    peer_port: u16,
    _slot: OwnedSemaphorePermit,
}

/// `age` give or take a tenth, by the peer's port: so that connections made together do not end together.
fn give_or_take(age: Duration, port: u16) -> Duration {
    let spread = u32::from(port.wrapping_mul(0x9E37)) * 200 / u32::from(u16::MAX);
    age / 1_000 * (900 + spread)
}

/// How a connection is served.
struct Served<'l> {
    http: &'l auto::Builder<TokioExecutor>,
    peer: IpAddr,
    phase: watch::Receiver<Phase>,
    max_age: Option<Duration>,
}

impl Served<'_> {
    async fn serve<I, H, F, B>(self, io: I, handler: H)
    where
        I: Read + Write + Unpin + Send + 'static,
        H: Fn(IpAddr, Request<Incoming>) -> F,
        F: Future<Output = Response<B>> + Send + 'static,
        B: Body<Data = Bytes, Error: std::error::Error + Send + Sync> + Send + Unpin + 'static,
    {
        let Self { http, peer, phase, max_age } = self;
        let activity = Arc::new(Activity::default());
        let io = Watched { io, activity: Arc::clone(&activity) };
        let service = service_fn(|request: Request<Incoming>| {
            let in_flight = activity.begin(request.version());
            let answer = handler(peer, request);
            async move {
                let mut response = answer.await;
                in_flight.activity().part(response.headers_mut());
                Ok::<_, Infallible>(response.map(|body| Sending::new(body, in_flight)))
            }
        });
        drive(http.serve_connection(io, service), &activity, phase, max_age).await;
    }
}

/// The connections of a listener.
#[derive(Clone, Debug)]
pub(crate) struct Connections {
    room: u32,
    slots: Arc<Semaphore>,
}

impl Connections {
    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        (self.room as usize).saturating_sub(self.slots.available_permits())
    }

    /// Waits until there are none; nobody may be accepting any more.
    pub(crate) async fn gone(&self) {
        drop(self.slots.acquire_many(self.room).await);
    }
}

/// A connection's bytes, with a note of when some come in.
struct Watched<I> {
    io: I,
    activity: Arc<Activity>,
}

impl<I: Read + Unpin> Read for Watched<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.io).poll_read(cx, buffer);
        if polled.is_ready() {
            self.activity.read();
        }
        polled
    }
}

impl<I: Write + Unpin> Write for Watched<I> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, slices)
    }
}

//! Accepting connections, as many as there is room for.

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use hyper::body::{Body, Incoming};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper::service::service_fn;
use hyper_util::rt::TokioTimer;
use hyper_util::server::conn::auto;
use rustls::pki_types::CertificateDer;
use tidegate_wire::headers::refuse_padded;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::connection::{Activity, AnswerBody, Patience, Phase, Sending, drive};
use crate::connection_limiter::ConnectionLimiter;
use crate::data_plane::{DataPlane, LoadGuard};
use crate::reply;
use crate::reserve::{ConnectionRoom, RESERVED_PATIENCE, Slots};
use crate::streams::Streams;
use crate::tls::Tls;
use crate::transport::Transport;
use crate::wait::now_or_never;

/// The largest head of a request: far above the longest path, far below what would hurt.
const MAX_HEAD_BYTES: u32 = 64 * 1024;

/// The least that can be asked of what reads heads.
const LEAST_HEAD_BYTES: u32 = 8 * 1024;

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
    /// The same as the first, with anybody.
    Public(Public),
}

/// How a listener is served that anybody may connect to.
#[derive(Clone, Debug)]
pub struct Public {
    /// How it is encrypted, if it is.
    pub tls: Option<Arc<Tls>>,
    /// How long clients may take.
    pub patience: Patience,
    /// The largest head of a request, in bytes.
    pub max_head_bytes: u32,
    /// The most requests at once on one connection.
    pub max_streams: u32,
    /// How much of an answer is kept for a client that does not take it, for each request.
    pub send_buffer: usize,
    /// How many connections one address may have.
    pub limiter: Arc<ConnectionLimiter>,
}

/// Who is at the other end of a connection, and the room that the connection takes.
#[derive(Clone, Debug)]
pub struct Connected {
    /// Where from.
    pub ip: IpAddr,
    /// Whether it is encrypted.
    pub tls: bool,
    /// The certificate that was shown and verified, if one was.
    pub certificate: Option<CertificateDer<'static>>,
    /// The room that the connection takes, to be kept by work that goes on when it has ended.
    pub room: Arc<ConnectionRoom>,
}

/// An address that is taken and will be served.
#[derive(Debug)]
pub struct Listener {
    socket: TcpListener,
    address: SocketAddr,
    slots: Slots,
    http: Arc<auto::Builder<Streams>>,
    patience: Patience,
    max_age: Option<Duration>,
    tls: Option<Arc<Tls>>,
    limiter: Arc<ConnectionLimiter>,
}

impl Listener {
    /// Takes `address` for at most `room` connections at once, as many from one address as `limiter` permits.
    pub(crate) async fn bind(
        address: SocketAddr,
        speaks: Speaks,
        room: usize,
        limiter: Arc<ConnectionLimiter>,
    ) -> io::Result<Self> {
        let socket = TcpListener::bind(address).await?;
        let room = u32::try_from(room).unwrap_or(MOST_CONNECTIONS).clamp(1, MOST_CONNECTIONS);
        let patience = match &speaks {
            Speaks::Public(public) => public.patience,
            Speaks::Http | Speaks::Grpc { .. } => Patience::default(),
        };
        let mut http = auto::Builder::new(Streams { take: patience.take });
        // Answers are small: one copy costs less than having the kernel gather two pieces.
        http.http1().max_buf_size(MAX_HEAD_BYTES as usize).writev(false);
        // Past these, h2 itself ends connections whose clients open and reset without end.
        http.http2()
            .max_concurrent_streams(MOST_CALLS)
            .max_header_list_size(MAX_HEAD_BYTES)
            .keep_alive_interval(HEARTBEAT)
            .keep_alive_timeout(HEARTBEAT)
            .timer(TokioTimer::new());
        let mut listener = Self {
            address: socket.local_addr()?,
            socket,
            slots: Slots::new(room),
            http: Arc::new(http.clone()),
            patience,
            max_age: None,
            tls: None,
            limiter,
        };
        let http = match speaks {
            Speaks::Http => http,
            Speaks::Grpc { max_age, tls } => {
                (listener.max_age, listener.tls) = (max_age, tls);
                // Nobody asks a call what day it is.
                http.http2().auto_date_header(false);
                http.http2_only()
            }
            Speaks::Public(Public { tls, max_head_bytes, max_streams, send_buffer, .. }) => {
                listener.tls = tls;
                // Answers come in pieces of any size, and are not to be copied once more.
                http.http1()
                    .max_buf_size(max_head_bytes.max(LEAST_HEAD_BYTES) as usize)
                    .writev(true)
                    .half_close(false);
                http.http2()
                    .max_concurrent_streams(max_streams)
                    .max_header_list_size(max_head_bytes)
                    .max_send_buf_size(send_buffer);
                http
            }
        };
        listener.http = Arc::new(http);
        Ok(listener)
    }

    /// Takes `address` to be served to anybody, for at most `room` connections at once.
    pub async fn public(address: SocketAddr, how: Public, room: usize) -> io::Result<Self> {
        let limiter = Arc::clone(&how.limiter);
        Self::bind(address, Speaks::Public(how), room, limiter).await
    }

    /// Reserves a few places for health checks and callers on this machine, for when all others are taken.
    #[must_use]
    pub(crate) fn with_reserve(mut self) -> Self {
        self.slots = self.slots.with_reserve();
        self
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its connections.
    pub(crate) fn connections(&self) -> Connections {
        Connections { slots: self.slots.clone() }
    }

    /// Accepts and serves connections until the phase is [`Phase::Closing`]; the requests of each are answered by what
    /// `handler` makes of who is there. Connections go on by themselves. With `UPGRADES`, something else than HTTP may be spoken on
    /// one once both ends agree.
    pub(crate) async fn serve<const UPGRADES: bool, H, S, F, B>(
        self,
        data_plane: Option<DataPlane>,
        mut phase: watch::Receiver<Phase>,
        handler: H,
    ) where
        H: Fn(Connected) -> S + Clone + Send + Sync + 'static,
        S: Fn(Request<Incoming>) -> F + Send + Sync + 'static,
        F: Future<Output = Response<B>> + Send + 'static,
        B: Body<Data = Bytes, Error: std::error::Error + Send + Sync> + Send + Unpin + 'static,
    {
        let connections = phase.clone();
        let serve = |accepted: Accepted| {
            let (http, handler, phase) = (Arc::clone(&self.http), handler.clone(), connections.clone());
            let max_age = self.max_age.map(|age| give_or_take(age, accepted.peer_port));
            let Accepted { stream, peer, room, .. } = accepted;
            let (tls, room) = (self.tls.clone(), Arc::new(room));
            let patience = if room.is_reserved() { RESERVED_PATIENCE } else { self.patience };
            let serve = move |stream, load| async move {
                if let Some((transport, certificate)) = connect(stream, tls.as_deref()).await {
                    let connected =
                        Connected { ip: peer, tls: tls.is_some(), certificate, room: Arc::clone(&room) };
                    let served = Served { http: &http, phase, max_age, patience, room, load };
                    served.serve::<UPGRADES, _, _, _>(transport, handler(connected)).await;
                }
            };
            match &data_plane {
                Some(threads) => threads.serve(stream, |stream, load| serve(stream, Some(load))),
                None => drop(tokio::spawn(serve(stream, None))),
            }
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
        let slot = self.slots.acquire().await?;
        match self.socket.accept().await {
            Ok((stream, peer)) => {
                let (peer, peer_port) = (peer.ip().to_canonical(), peer.port());
                // A client that has too many already learns it by being hung up on, which costs nobody anything.
                let room = self.slots.seat(slot, peer, &self.limiter)?;
                // Answers are small and whole; waiting for more to send would only delay them.
                stream.set_nodelay(true).ok()?;
                Some(Accepted { stream, peer, peer_port, room })
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

/// Agrees with a client on encryption, if there is any, and returns the certificate that it has shown.
async fn connect(
    stream: TcpStream,
    tls: Option<&Tls>,
) -> Option<(Transport, Option<CertificateDer<'static>>)> {
    let Some(tls) = tls else { return Some((stream.into(), None)) };
    let stream = tls.accept(stream).await?;
    let shown = stream.get_ref().1.peer_certificates();
    let certificate = shown.and_then(|shown| shown.first().cloned());
    Some((stream.into(), certificate))
}

/// A connection, and its place among others.
struct Accepted {
    stream: TcpStream,
    peer: IpAddr,
    peer_port: u16,
    room: ConnectionRoom,
}

/// `age` give or take a tenth, by the peer's port: so that connections made together do not end together.
fn give_or_take(age: Duration, port: u16) -> Duration {
    let spread = u32::from(port.wrapping_mul(0x9E37)) * 200 / u32::from(u16::MAX);
    age / 1_000 * (900 + spread)
}

/// How a connection is served.
struct Served<'l> {
    http: &'l auto::Builder<Streams>,
    phase: watch::Receiver<Phase>,
    max_age: Option<Duration>,
    patience: Patience,
    room: Arc<ConnectionRoom>,
    /// Its place among the connections of its thread, if that is one of the data plane.
    load: Option<LoadGuard>,
}

impl Served<'_> {
    async fn serve<const UPGRADES: bool, H, F, B>(self, transport: Transport, handler: H)
    where
        H: Fn(Request<Incoming>) -> F,
        F: Future<Output = Response<B>> + Send + 'static,
        B: Body<Data = Bytes, Error: std::error::Error + Send + Sync> + Send + Unpin + 'static,
    {
        let Self { http, phase, max_age, patience, room, load } = self;
        let activity = Arc::new(Activity::new(Arc::clone(room.trust()), room.is_reserved()));
        let io = Watched { transport, activity: Arc::clone(&activity), _room: room };
        let service = service_fn(|request: Request<Incoming>| {
            let in_flight = activity.begin(request.version(), load.as_ref());
            // Before anybody reads a header.
            let answer = match refuse_padded(request.headers()) {
                None => Ok(handler(request)),
                Some(refusal) => Err(refusal),
            };
            async move {
                let mut response = match answer {
                    Ok(answer) => answer.await.map(AnswerBody::Handler),
                    Err(refusal) => reply::json(StatusCode::BAD_REQUEST, &refusal).map(AnswerBody::Refusal),
                };
                in_flight.activity().part(response.headers_mut());
                Ok::<_, Infallible>(response.map(|body| Sending::new(body, in_flight)))
            }
        });
        // The kind that can be upgraded takes HTTP/1.1 from anybody, whatever the builder says.
        if UPGRADES {
            let connection = http.serve_connection_with_upgrades(io, service);
            drive(connection, &activity, phase, max_age, patience).await;
        } else {
            drive(http.serve_connection(io, service), &activity, phase, max_age, patience).await;
        }
    }
}

/// The connections of a listener.
#[derive(Clone, Debug)]
pub(crate) struct Connections {
    slots: Slots,
}

impl Connections {
    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.slots.taken()
    }

    /// The share of the room for them that is taken.
    pub(crate) fn share(&self) -> f64 {
        self.slots.share()
    }

    /// Waits until there are none; nobody may be accepting any more.
    pub(crate) async fn gone(&self) {
        self.slots.all_free().await;
    }
}

/// A connection's bytes, with a note of when some come in or go out.
struct Watched {
    transport: Transport,
    activity: Arc<Activity>,
    _room: Arc<ConnectionRoom>,
}

impl Read for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.transport).poll_read(cx, buffer);
        if polled.is_ready() {
            self.activity.read();
        }
        polled
    }
}

impl Write for Watched {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.transport).poll_write(cx, bytes);
        self.activity.wrote(polled.is_ready());
        polled
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.transport).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.transport).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.transport.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.transport).poll_write_vectored(cx, slices);
        self.activity.wrote(polled.is_ready());
        polled
    }
}

//! Connections to the servers of a group.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use http::uri::{PathAndQuery, Scheme};
use hyper::body::Body;
use hyper_rustls::{DefaultServerNameResolver, FixedServerNameResolver, HttpsConnector, MaybeHttpsStream};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::{Connection, HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use parking_lot::RwLock;
use tidegate_store::deadline;
use tokio::net::TcpStream;
use tower_service::Service;

use super::pool::Keep;
use super::tls::Keys;
use super::{Origin, Pool, Protocol, Settings, TlsError, TlsFiles};
use crate::body::Outgoing;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The client of a group, for requests with bodies of type `B`. Clones share their connections.
pub type GroupClient<B> = Client<Connector, B>;

/// How often a connection that is shared by many requests is asked whether it is still there, and how long the answer
/// may take. Otherwise one that died without a word would take every request with it.
const KEEP_ALIVE: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(5));

/// Makes connections: TCP to whichever address of a host answers first, and TLS if the URL says so.
#[derive(Clone)]
pub struct Connector {
    inner: HttpsConnector<HttpConnector>,
    within: Duration,
    http2: bool,
}

impl Connector {
    fn new(settings: &Settings, keys: Keys) -> Self {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        // Shared among the addresses of a host, so that one that does not answer leaves time for the others.
        tcp.set_connect_timeout(Some(settings.connect_timeout));
        let inner = match keys.name {
            Some(name) => {
                HttpsConnector::new(tcp, keys.config, false, Arc::new(FixedServerNameResolver::new(name)))
            }
            None => {
                HttpsConnector::new(tcp, keys.config, false, Arc::new(DefaultServerNameResolver::default()))
            }
        };
        let http2 = settings.protocol == Protocol::Http2;
        Self { inner, within: settings.connect_timeout, http2 }
    }
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connector").field("within", &self.within).field("http2", &self.http2).finish()
    }
}

impl Service<Uri> for Connector {
    type Response = MaybeHttpsStream<TokioIo<TcpStream>>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        let must_agree = self.http2 && to.scheme() == Some(&Scheme::HTTPS);
        let connecting = self.inner.call(to);
        let patience = self.within;
        Box::pin(async move {
            let late = |_| io::Error::new(io::ErrorKind::TimedOut, "no connection in time");
            let stream = deadline::within(patience, connecting).await.map_err(late)??;
            if must_agree && !stream.connected().is_negotiated_h2() {
                return Err("the server does not speak HTTP/2; set `protocol: http1` or `auto`".into());
            }
            Ok(stream)
        })
    }
}

/// What connections depend on: as long as this is the same, they can be kept.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Basis {
    protocol: Protocol,
    tls: TlsFiles,
    content: u64,
    https: bool,
    timeouts: [Duration; 2],
    max_idle: usize,
}

/// The clients of a group, one for each type of body, with their connections.
pub struct Clients {
    basis: Basis,
    connector: Connector,
    made: RwLock<Vec<Box<dyn Any + Send + Sync>>>,
}

impl Clients {
    /// Reads the files that TLS needs; nothing is connected yet.
    pub fn new(settings: &Settings, https: bool) -> Result<Self, TlsError> {
        let keys = Keys::load(&settings.tls, settings.protocol, https)?;
        let basis = Basis {
            protocol: settings.protocol,
            tls: settings.tls.clone(),
            content: keys.content,
            https,
            timeouts: [settings.connect_timeout, settings.idle_timeout],
            max_idle: settings.max_idle,
        };
        Ok(Self { basis, connector: Connector::new(settings, keys), made: RwLock::default() })
    }

    /// The client for bodies of type `B`, made when it is first asked for.
    pub fn of<B>(&self) -> GroupClient<B>
    where
        B: Body + Send + Unpin + 'static,
        B::Data: Send,
        B::Error: Into<BoxError>,
    {
        if let Some(known) = find(&self.made.read()) {
            return known;
        }
        let mut made = self.made.write();
        find(&made).unwrap_or_else(|| {
            let client: GroupClient<B> = self.build();
            made.push(Box::new(client.clone()));
            client
        })
    }

    fn build<B>(&self) -> GroupClient<B>
    where
        B: Body + Send + Unpin + 'static,
        B::Data: Send,
        B::Error: Into<BoxError>,
    {
        let [_, idle_timeout] = self.basis.timeouts;
        Client::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(idle_timeout)
            .pool_max_idle_per_host(self.basis.max_idle)
            .http2_only(self.basis.protocol == Protocol::Http2)
            .http2_adaptive_window(true)
            .http2_keep_alive_interval(KEEP_ALIVE.0)
            .http2_keep_alive_timeout(KEEP_ALIVE.1)
            .build(self.connector.clone())
    }

    /// Connections to a server that certainly speaks HTTP/1.1, which need no client; none yet.
    pub(super) fn pool(&self, origin: &Origin) -> Option<Arc<Pool<Outgoing>>> {
        if !self.basis.protocol.is_http1(origin.is_https()) {
            return None;
        }
        let [_, within] = self.basis.timeouts;
        let keep = Keep { within, most: self.basis.max_idle };
        Some(Arc::new(Pool::new(origin.uri(PathAndQuery::from_static("/")), self.connector.clone(), keep)))
    }

    /// Whether the files that TLS needs have other content than when they were read.
    pub(super) fn has_other_files(&self) -> Result<bool, TlsError> {
        let Basis { protocol, tls, content, .. } = &self.basis;
        if tls.ca.is_none() && tls.identity.is_none() {
            return Ok(false);
        }
        Ok(Keys::load(tls, *protocol, false)?.content != *content)
    }

    /// Whether connections made for one serve the other as well.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        self.basis == other.basis
    }
}

fn find<B: 'static>(made: &[Box<dyn Any + Send + Sync>]) -> Option<GroupClient<B>> {
    made.iter().find_map(|client| client.downcast_ref::<GroupClient<B>>()).cloned()
}

impl fmt::Debug for Clients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clients").field("basis", &self.basis).finish_non_exhaustive()
    }
}

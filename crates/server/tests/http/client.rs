//! A server in this process and a client that talks to it over real connections.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tidegate::{ManualClock, Timestamp};
use tidegate_server::{Addresses, Config, DataPlane, RulesFeed, RunError, Server};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// 2024-01-01T00:00:00Z: the start of a second, a minute, an hour and a day.
pub(crate) const START_MS: u64 = 1_704_067_200_000;

/// Long enough for a busy machine, short enough to be told of a hang.
pub(crate) const DEADLINE: Duration = tidegate_testkit::wait::HANG_LIMIT;

/// A server that runs until it is stopped or dropped.
pub(crate) struct Running {
    pub(crate) addresses: Addresses,
    pub(crate) clock: Arc<ManualClock>,
    stop: Option<oneshot::Sender<()>>,
    pub(crate) task: JoinHandle<Result<(), RunError>>,
}

/// Any free ports, no waiting at the end, a clock that stands still, and two threads that serve.
pub(crate) fn config() -> Config {
    let anywhere = SocketAddr::from(([127, 0, 0, 1], 0));
    Config {
        data_plane: Some(DataPlane::start(NonZeroUsize::new(2).unwrap()).unwrap()),
        http: anywhere,
        grpc: anywhere,
        admin: anywhere,
        grace: Duration::ZERO,
        drain: Duration::from_secs(10),
        ..Config::default()
    }
}

/// A server with these rules.
pub(crate) async fn start(rules: &str) -> Running {
    start_with(config(), RulesFeed::fixed("rules.yaml", rules)).await
}

pub(crate) async fn start_with(config: Config, rules: RulesFeed) -> Running {
    let clock = Arc::new(ManualClock::new(Timestamp::from_millis(START_MS)));
    let config = Config { clock: Some(clock.clone()), ..config };
    let server = Server::bind(config, rules).await.unwrap();
    let addresses = server.addresses();
    let (stop, stopped) = oneshot::channel::<()>();
    let task = tokio::spawn(server.run(async { drop(stopped.await) }));
    Running { addresses, clock, stop: Some(stop), task }
}

impl Running {
    /// Tells it to stop, without waiting for it.
    pub(crate) fn stop(&mut self) {
        drop(self.stop.take());
    }

    /// Stops it and says how that went.
    pub(crate) async fn stopped(mut self) -> Result<(), RunError> {
        self.stop();
        tokio::time::timeout(DEADLINE, self.task).await.expect("drained in time").unwrap()
    }

    pub(crate) async fn check(&self, body: &str) -> Answer {
        send(self.addresses.http, Ask::post("/v1/check", body)).await
    }

    /// What is left of the binding rule for this request, without taking anything.
    pub(crate) async fn remaining(&self, body: &str) -> u64 {
        let answer = self.explain(body).await;
        answer.json()["remaining"].as_u64().unwrap()
    }

    pub(crate) async fn explain(&self, body: &str) -> Answer {
        send(self.addresses.admin, Ask::post("/v1/explain", body)).await
    }

    pub(crate) async fn authorize(&self, headers: &[(&str, &str)]) -> Answer {
        send(self.addresses.http, Ask::get("/v1/authorize").headers(headers)).await
    }

    pub(crate) async fn admin(&self, path: &str) -> Answer {
        send(self.addresses.admin, Ask::get(path)).await
    }

    /// The value of a metric, by its name and labels as they are written.
    pub(crate) async fn metric(&self, series: &str) -> Option<f64> {
        let metrics = self.admin("/metrics").await.text();
        let line = metrics.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        line.map(|value| value.parse().unwrap())
    }
}

/// One request.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Ask {
    pub(crate) fn new(method: &str, path: &str) -> Self {
        let method = method.parse().unwrap();
        Self { method, path: path.to_owned(), headers: HeaderMap::new(), body: Bytes::new() }
    }

    pub(crate) fn get(path: &str) -> Self {
        Self::new("GET", path)
    }

    pub(crate) fn post(path: &str, body: impl AsRef<[u8]>) -> Self {
        Self { body: Bytes::copy_from_slice(body.as_ref()), ..Self::new("POST", path) }
    }

    pub(crate) fn headers(mut self, headers: &[(&str, &str)]) -> Self {
        for (name, value) in headers {
            let name: http::HeaderName = name.parse().unwrap();
            self.headers.append(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        self
    }

    pub(crate) fn request(self, address: SocketAddr) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(self.body));
        *request.method_mut() = self.method;
        *request.uri_mut() = self.path.parse().unwrap();
        *request.headers_mut() = self.headers;
        if !request.headers().contains_key("host") {
            request.headers_mut().insert("host", address.to_string().parse().unwrap());
        }
        request
    }
}

/// One answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.to_vec()).unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }
}

/// Sends one request over a connection of its own.
pub(crate) async fn send(address: SocketAddr, ask: Ask) -> Answer {
    let mut connection = Connection::open(address).await;
    connection.send(ask).await
}

/// A connection that is kept.
pub(crate) struct Connection {
    address: SocketAddr,
    sender: hyper::client::conn::http1::SendRequest<Full<Bytes>>,
}

impl Connection {
    pub(crate) async fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        Self { address, sender }
    }

    pub(crate) async fn send(&mut self, ask: Ask) -> Answer {
        self.try_send(ask).await.unwrap()
    }

    pub(crate) async fn try_send(&mut self, ask: Ask) -> hyper::Result<Answer> {
        let exchange = async {
            self.sender.ready().await?;
            let (parts, body) = self.sender.send_request(ask.request(self.address)).await?.into_parts();
            let body = body.collect().await?.to_bytes();
            Ok(Answer { status: parts.status, headers: parts.headers, body })
        };
        tokio::time::timeout(DEADLINE, exchange).await.expect("answered in time")
    }
}

/// Asks until `is_so`, and fails if that takes too long.
pub(crate) async fn eventually<F: Future<Output = bool>>(what: &str, mut is_so: impl FnMut() -> F) {
    let patience = tokio::time::Instant::now() + DEADLINE;
    while !is_so().await {
        assert!(tokio::time::Instant::now() < patience, "waited too long: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

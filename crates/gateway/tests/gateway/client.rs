//! Clients of a gateway, and of its administration.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use http::header::{HOST, HeaderValue};
use http::{HeaderMap, Request, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::Value;
use tidegate_testkit::Pieces;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use crate::support::{DEADLINE, Running};

/// One connection.
pub(crate) enum Client {
    One(http1::SendRequest<Pieces>),
    Two(http2::SendRequest<Pieces>),
}

/// A whole answer.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
    pub(crate) trailers: HeaderMap,
}

impl Client {
    pub(crate) async fn http1(to: SocketAddr) -> Self {
        let stream = TokioIo::new(TcpStream::connect(to).await.unwrap());
        let (send, connection) = http1::handshake(stream).await.unwrap();
        tokio::spawn(connection);
        Self::One(send)
    }

    pub(crate) async fn http2(to: SocketAddr) -> Self {
        let stream = TokioIo::new(TcpStream::connect(to).await.unwrap());
        let (send, connection) = http2::handshake(TokioExecutor::new(), stream).await.unwrap();
        tokio::spawn(connection);
        Self::Two(send)
    }

    /// Sends a request; the head of the answer.
    pub(crate) async fn send(&mut self, mut request: Request<Pieces>) -> hyper::Result<Response<Incoming>> {
        match self {
            Self::One(send) => {
                if let Some(authority) = request.uri().authority() {
                    let host = HeaderValue::from_str(authority.as_str()).unwrap();
                    request.headers_mut().entry(HOST).or_insert(host);
                }
                let path = request.uri().path_and_query().unwrap().as_str().parse().unwrap();
                *request.uri_mut() = path;
                timeout(DEADLINE, send.ready()).await.expect("free in time")?;
                timeout(DEADLINE, send.send_request(request)).await.expect("answered in time")
            }
            Self::Two(send) => {
                timeout(DEADLINE, send.ready()).await.expect("free in time")?;
                timeout(DEADLINE, send.send_request(request)).await.expect("answered in time")
            }
        }
    }

    /// Sends a request; all of the answer.
    pub(crate) async fn ask(&mut self, request: Request<Pieces>) -> Told {
        let answer = self.send(request).await.unwrap();
        Told::of(answer).await.unwrap()
    }

    pub(crate) async fn get(&mut self, path: &str) -> Told {
        self.ask(request("GET", path)).await
    }
}

impl Told {
    /// Waits for all of an answer.
    pub(crate) async fn of(answer: Response<Incoming>) -> hyper::Result<Self> {
        let (head, body) = answer.into_parts();
        let collected = timeout(DEADLINE, body.collect()).await.expect("whole in time")?;
        let trailers = collected.trailers().cloned().unwrap_or_default();
        let body = String::from_utf8_lossy(&collected.to_bytes()).into_owned();
        Ok(Self { status: head.status.as_u16(), headers: head.headers, body, trailers })
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// A request without a body.
pub(crate) fn request(method: &str, path: &str) -> Request<Pieces> {
    with_body(method, path, Pieces::none())
}

pub(crate) fn with_body(method: &str, path: &str, body: Pieces) -> Request<Pieces> {
    Request::builder().method(method).uri(format!("http://api.example{path}")).body(body).unwrap()
}

pub(crate) fn with_headers(
    mut request: Request<Pieces>,
    headers: &[(&'static str, &str)],
) -> Request<Pieces> {
    for (name, value) in headers {
        request.headers_mut().append(*name, HeaderValue::from_str(value).unwrap());
    }
    request
}

impl Running {
    /// Asks over a connection of its own.
    pub(crate) async fn ask(&self, request: Request<Pieces>) -> Told {
        Client::http1(self.at.listen).await.ask(request).await
    }

    pub(crate) async fn get(&self, path: &str) -> Told {
        self.ask(request("GET", path)).await
    }

    pub(crate) async fn admin(&self, path: &str) -> Told {
        let request = Request::builder().uri(format!("http://{}{path}", self.at.admin));
        Client::http1(self.at.admin).await.ask(request.body(Pieces::none()).unwrap()).await
    }

    /// What would be decided.
    pub(crate) async fn explain(&self, asked: &str) -> Told {
        let request = Request::post(format!("http://{}/v1/explain", self.at.admin));
        let request =
            request.header("content-type", "application/json").body(Pieces::whole(asked.to_owned()));
        Client::http1(self.at.admin).await.ask(request.unwrap()).await
    }

    /// What `/metrics` says of a metric, with its labels if it has any.
    pub(crate) async fn metric(&self, name: &str) -> Option<f64> {
        let told = self.admin("/metrics").await;
        let line =
            told.body.lines().find(|line| line.split_once(' ').is_some_and(|(found, _)| found == name))?;
        line.split_once(' ')?.1.parse().ok()
    }

    /// What `/metrics` says of whatever begins so, together.
    pub(crate) async fn metrics(&self, begin: &str) -> Vec<String> {
        let told = self.admin("/metrics").await;
        told.body.lines().filter(|line| line.starts_with(begin)).map(str::to_owned).collect()
    }
}

/// Waits until there is something.
pub(crate) async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + DEADLINE;
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        sleep(Duration::from_millis(10)).await;
    }
}

/// An answer with a status and a body.
pub(crate) fn answer(status: u16, body: Pieces) -> Response<Pieces> {
    Response::builder().status(status).body(body).unwrap()
}

/// 200 and a few words.
pub(crate) fn says(words: &str) -> Response<Pieces> {
    answer(200, Pieces::whole(words.to_owned()))
}

/// The next data of a body, as text; none at its end.
pub(crate) async fn next(body: &mut Incoming) -> Option<String> {
    loop {
        let frame = timeout(DEADLINE, body.frame()).await.expect("something comes in time")?;
        let data = frame.expect("the body is not broken").into_data().expect("data");
        // HTTP/2 may end with a frame that has none.
        if !data.is_empty() {
            return Some(String::from_utf8_lossy(&data).into_owned());
        }
    }
}

/// Reads the head of a request.
pub(crate) async fn head_of(stream: &mut TcpStream) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return,
        }
    }
}

//! Connections of clients that may not ask.

use std::io;
use std::net::{IpAddr, SocketAddr};

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tidegate_server::{Config, RulesFeed};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use crate::access::{OUTSIDE, is_in_namespace};
use crate::client::{DEADLINE, Running, config, eventually, start_with};

const RULES: &str = "
rules:
  - {rule_id: each, identifier_type: ip_address, algorithm: fixed_window, limit: 1000, window: 1h}
";

/// Another address that is not loopback.
const ELSEWHERE: &str = "192.0.2.77";

const TOKEN: &str = "authorization: Bearer s3cret\r\n";

const CHECK: &str = "/grpc.health.v1.Health/Check";

/// A server that asks outsiders for a token.
async fn start(max_connections: usize) -> Running {
    let everywhere: SocketAddr = "0.0.0.0:0".parse().unwrap();
    let token = Some("s3cret".to_owned());
    let config =
        Config { http: everywhere, admin: everywhere, grpc: everywhere, token, max_connections, ..config() };
    start_with(config, RulesFeed::fixed("rules.yaml", RULES)).await
}

/// The ports of the three listeners, with a path that each answers.
fn listeners(server: &Running) -> [(&'static str, u16, &'static str); 3] {
    let at = server.addresses;
    [
        ("http", at.http.port(), "/openapi.json"),
        ("grpc", at.grpc.port(), CHECK),
        ("admin", at.admin.port(), "/v1/rules"),
    ]
}

async fn connect_from(source: &str, port: u16) -> TcpStream {
    let source: IpAddr = source.parse().unwrap();
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((source, 0).into()).unwrap();
    let target = if source.is_loopback() { "127.0.0.1" } else { OUTSIDE };
    socket.connect((target.parse::<IpAddr>().unwrap(), port).into()).await.unwrap()
}

/// A connection of HTTP/1.1.
struct Wire(TcpStream);

impl Wire {
    async fn connect(source: &str, port: u16) -> Self {
        Self(connect_from(source, port).await)
    }

    /// Asks for `path` and returns the head and body of the answer, or nothing if it is hung up on.
    async fn ask(&mut self, path: &str, headers: &str) -> Option<String> {
        let request = format!("GET {path} HTTP/1.1\r\nhost: {OUTSIDE}\r\n{headers}\r\n");
        self.0.write_all(request.as_bytes()).await.ok()?;
        let mut answer = Vec::new();
        while !is_whole(&answer) {
            let read = timeout(DEADLINE, self.0.read_buf(&mut answer)).await.expect("answered in time");
            if !read.is_ok_and(|length| length > 0) {
                return None;
            }
        }
        Some(String::from_utf8(answer).unwrap())
    }

    async fn status(&mut self, path: &str, headers: &str) -> Option<String> {
        self.ask(path, headers).await.map(|answer| answer[9..12].to_owned())
    }

    /// Returns whether it is answered rather than hung up on.
    async fn says_hello(mut self) -> bool {
        // All listeners speak HTTP/2, in which a server says hello, too.
        let hello = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
        let sent = self.0.write_all(hello).await;
        let read = timeout(DEADLINE, self.0.read(&mut [0; 1])).await.expect("answered in time");
        sent.is_ok() && read.is_ok_and(|length| length > 0)
    }

    /// Returns whether the server closes the connection by itself.
    async fn hangs_up(mut self) -> bool {
        let end: io::Result<usize> =
            timeout(DEADLINE, self.0.read(&mut [0; 1])).await.expect("closed in time");
        end.is_ok_and(|length| length == 0)
    }
}

fn is_whole(answer: &[u8]) -> bool {
    let text = String::from_utf8_lossy(answer);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    length.is_none_or(|length| body.len() >= length.parse().unwrap())
}

/// A connection of HTTP/2.
struct Http2 {
    sender: hyper::client::conn::http2::SendRequest<Full<Bytes>>,
    connection: tokio::task::JoinHandle<hyper::Result<()>>,
}

impl Http2 {
    async fn connect(source: &str, port: u16) -> Self {
        let stream = TokioIo::new(connect_from(source, port).await);
        let (sender, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), stream).await.unwrap();
        Self { sender, connection: tokio::spawn(connection) }
    }

    /// Posts an empty message of gRPC, which any other listener refuses after it has admitted it. Returns the status, of
    /// gRPC if it has one.
    async fn post(&mut self, path: &str, token: bool) -> String {
        let uri = format!("http://{OUTSIDE}{path}");
        let mut request =
            Request::post(uri).header("content-type", "application/grpc").header("te", "trailers");
        if token {
            request = request.header("authorization", "Bearer s3cret");
        }
        let request = request.body(Full::from(&[0; 5][..])).unwrap();
        let response = timeout(DEADLINE, self.sender.send_request(request)).await.expect("in time").unwrap();
        let (head, body) = response.into_parts();
        let trailers = body.collect().await.unwrap().trailers().cloned().unwrap_or_default();
        let grpc = head.headers.get("grpc-status").or_else(|| trailers.get("grpc-status"));
        grpc.map_or(head.status.as_str(), |status| status.to_str().unwrap()).to_owned()
    }

    async fn ends(self) {
        // Kept, so that it is not the client that ends it.
        let _sender = self.sender;
        timeout(DEADLINE, self.connection).await.expect("closed in time").unwrap().ok();
    }
}

#[tokio::test]
async fn clients_that_may_not_ask_keep_no_connection() {
    if !is_in_namespace("connections::clients_that_may_not_ask_keep_no_connection") {
        return;
    }
    let server = start(100).await;
    let [http, grpc, admin] = listeners(&server);
    for (_, port, path) in [http, admin] {
        for path in [path, "/nothing"] {
            let mut stranger = Wire::connect(OUTSIDE, port).await;
            let answer = stranger.ask(path, "").await.unwrap();
            assert!(answer.starts_with("HTTP/1.1 401 ") && answer.contains("connection: close"), "{answer}");
            assert!(stranger.hangs_up().await, "{path}");
        }
        let mut known = Wire::connect(OUTSIDE, port).await;
        for (headers, status) in [(TOKEN, "200"), ("", "401"), (TOKEN, "200")] {
            assert_eq!(known.status(path, headers).await.as_deref(), Some(status), "{path}");
        }
    }
    for (name, port, path, refused) in [
        (http.0, http.1, "/v1/check", "401"),
        (grpc.0, grpc.1, CHECK, "16"),
        (admin.0, admin.1, "/v1/rules", "401"),
    ] {
        let mut stranger = Http2::connect(OUTSIDE, port).await;
        assert_eq!(stranger.post(path, false).await, refused, "{name}");
        stranger.ends().await;
        let mut known = Http2::connect(OUTSIDE, port).await;
        let admitted = known.post(path, true).await;
        assert_ne!(admitted, refused, "{name}");
        assert_eq!(known.post(path, false).await, refused, "{name}");
        assert_eq!(known.post(path, true).await, admitted, "{name}");
    }
}

#[tokio::test]
async fn one_address_does_not_fill_a_listener_without_a_token() {
    if !is_in_namespace("connections::one_address_does_not_fill_a_listener_without_a_token") {
        return;
    }
    let server = start(20).await;
    for (name, port, path) in listeners(&server) {
        let mut strangers = Vec::new();
        for _ in 0..10 {
            strangers.push(Wire::connect(OUTSIDE, port).await);
        }
        for _ in 10..30 {
            assert!(
                Wire::connect(OUTSIDE, port).await.hangs_up().await,
                "{name}: half of the room is enough"
            );
        }
        let series = format!("tidegate_connections_turned_away_total{{listener=\"{name}\"}}");
        assert_eq!(server.metric(&series).await, Some(20.0));
        if name == "grpc" {
            assert_eq!(Http2::connect(ELSEWHERE, port).await.post(path, true).await, "0");
        } else {
            assert_eq!(
                Wire::connect(ELSEWHERE, port).await.status(path, TOKEN).await.as_deref(),
                Some("200")
            );
        }
        drop(strangers);
        // The server learns of it in its own time.
        eventually("places are free again", async || Wire::connect(OUTSIDE, port).await.says_hello().await)
            .await;
    }
}

#[tokio::test]
async fn an_address_that_may_ask_has_any_number_of_connections() {
    if !is_in_namespace("connections::an_address_that_may_ask_has_any_number_of_connections") {
        return;
    }
    let server = start(20).await;
    for (name, port, path) in listeners(&server) {
        let (mut wires, mut calls) = (Vec::new(), Vec::new());
        for _ in 0..15 {
            if name == "grpc" {
                let mut call = Http2::connect(OUTSIDE, port).await;
                assert_eq!(call.post(path, true).await, "0");
                calls.push(call);
            } else {
                let mut wire = Wire::connect(OUTSIDE, port).await;
                assert_eq!(wire.status(path, TOKEN).await.as_deref(), Some("200"), "{name}");
                wires.push(wire);
            }
        }
    }
}

#[tokio::test]
async fn probes_are_answered_while_all_connections_are_taken() {
    if !is_in_namespace("connections::probes_are_answered_while_all_connections_are_taken") {
        return;
    }
    let server = start(4).await;
    let port = server.addresses.admin.port();
    let mut taken = Vec::new();
    for _ in 0..4 {
        let mut wire = Wire::connect(ELSEWHERE, port).await;
        assert_eq!(wire.status("/v1/rules", TOKEN).await.as_deref(), Some("200"));
        taken.push(wire);
    }
    for (source, path, status) in [
        ("127.0.0.1", "/livez", "200"),
        ("127.0.0.1", "/v1/rules", "200"),
        ("127.0.0.1", "/v1/events", "503"),
        (OUTSIDE, "/livez", "200"),
        (OUTSIDE, "/metrics", "200"),
        (OUTSIDE, "/v1/rules", "503"),
    ] {
        for _ in 0..10 {
            let mut wire = Wire::connect(source, port).await;
            let answer = wire.ask(path, TOKEN).await.unwrap();
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{source} {path}: {answer}");
            assert!(answer.contains("connection: close"), "{answer}");
            if status == "503" {
                assert!(answer.contains("connections_exhausted") && answer.contains("--max-connections"));
            }
            assert!(wire.hangs_up().await, "{source} {path}");
        }
    }
    drop(taken.pop());
    let in_the_open = async || {
        let answer = Wire::connect(OUTSIDE, port).await.ask("/v1/rules", TOKEN).await.unwrap();
        answer.starts_with("HTTP/1.1 200 ") && !answer.contains("connection: close")
    };
    eventually("a place is free", in_the_open).await;
}

//! HTTP itself: versions, kept connections, and clients that mean no good.

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tidegate_server::{Config, RulesFeed};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::client::{Ask, Connection, DEADLINE, config, send, start, start_with};

const RULES: &str = "
rules:
  - {rule_id: each, identifier_type: user_id, algorithm: fixed_window, limit: 1000, window: 1h}
";

const BODY: &str = r#"{"user":"alice","resource":"/"}"#;

/// Sends these bytes and reads until the server hangs up.
async fn raw(address: std::net::SocketAddr, bytes: &[u8]) -> String {
    read_after(TcpStream::connect(address).await.unwrap(), bytes, async |_| {}).await
}

/// Sends these bytes and hangs up, which is to give up: it may be answered or not.
async fn raw_and_gone(address: std::net::SocketAddr, bytes: &[u8]) -> String {
    let hang_up = async |stream: &mut TcpStream| drop(stream.shutdown().await);
    read_after(TcpStream::connect(address).await.unwrap(), bytes, hang_up).await
}

async fn read_after(mut stream: TcpStream, bytes: &[u8], then: impl AsyncFnOnce(&mut TcpStream)) -> String {
    // The server may hang up before it has read all.
    stream.write_all(bytes).await.ok();
    then(&mut stream).await;
    let mut answer = Vec::new();
    tokio::time::timeout(DEADLINE, stream.read_to_end(&mut answer)).await.expect("in time").ok();
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn connections_are_kept() {
    let server = start(RULES).await;
    let mut connection = Connection::open(server.addresses.http).await;
    for left in (990..1000).rev() {
        let answer = connection.send(Ask::post("/v1/check", BODY)).await;
        assert_eq!(answer.json()["remaining"], left);
    }
}

#[tokio::test]
async fn requests_may_be_pipelined_and_bodies_chunked() {
    let server = start(RULES).await;
    let plain = format!("POST /v1/check HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{BODY}", BODY.len());
    let (first, second) = BODY.split_at(10);
    let chunked = format!(
        "POST /v1/check HTTP/1.1\r\nhost: x\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n\
         {:x}\r\n{first}\r\n{:x}\r\n{second}\r\n0\r\n\r\n",
        first.len(),
        second.len()
    );
    let answer = raw(server.addresses.http, format!("{plain}{plain}{chunked}").as_bytes()).await;
    assert_eq!(answer.matches("HTTP/1.1 200 OK").count(), 3, "{answer}");
    for left in ["\"remaining\":999", "\"remaining\":998", "\"remaining\":997"] {
        assert!(answer.contains(left), "{answer}");
    }
}

#[tokio::test]
async fn a_chunked_body_cannot_grow_without_end() {
    let server = start(RULES).await;
    let mut request = b"POST /v1/check HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n".to_vec();
    for _ in 0..20 {
        request.extend(b"1000\r\n");
        request.extend([b' '; 0x1000]);
        request.extend(b"\r\n");
    }
    let answer = raw(server.addresses.http, &request).await;
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
}

#[tokio::test]
async fn http_2_is_served_on_the_same_port() {
    let server = start(RULES).await;
    let address = server.addresses.http;
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    for left in [999, 998] {
        let request = Request::post(format!("http://{address}/v1/check"));
        let request = request.body(Full::new(Bytes::from_static(BODY.as_bytes()))).unwrap();
        let answer = sender.send_request(request).await.unwrap();
        assert_eq!(answer.headers()["x-ratelimit-remaining"], left.to_string());
        let body: serde_json::Value =
            serde_json::from_slice(&answer.collect().await.unwrap().to_bytes()).unwrap();
        assert_eq!(body["remaining"], left);
    }
}

#[tokio::test]
async fn garbage_harms_nobody() {
    let server = start(RULES).await;
    let long_head = format!("GET /{} HTTP/1.1\r\nhost: x\r\n\r\n", "x".repeat(200_000));
    let many_headers = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(5_000));
    for bytes in [
        &b""[..],
        b"\0\0\0\0",
        b"nonsense\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nnonsense",
        b"PRI * HT",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"POST /v1/check HTTP/1.1\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\n",
        b"POST /v1/check HTTP/1.1\r\ncontent-length: -1\r\n\r\n",
        b"POST /v1/check HTTP/1.1\r\ncontent-length: 99\r\n\r\n{\"resource\":",
        b"POST /v1/check HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        long_head.as_bytes(),
        many_headers.as_bytes(),
    ] {
        for address in [server.addresses.http, server.addresses.admin, server.addresses.grpc] {
            let answer = raw_and_gone(address, bytes).await;
            assert!(!answer.starts_with("HTTP/1.1 2"), "{answer}");
        }
    }
    assert_eq!(server.check(BODY).await.json()["remaining"], 999);
}

/// HTTP/1 trims them, so that an identity would be another one over HTTP/2.
#[tokio::test]
async fn padded_header_values_are_refused_over_http_2() {
    let server = start(RULES).await;
    let address = server.addresses.http;
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let mut authorize = async |user: &str| {
        let request = http::Request::get(format!("http://{address}/v1/authorize"));
        let request = request.header("x-original-uri", "/").header("x-user-id", user);
        sender.send_request(request.body(Full::<Bytes>::default()).unwrap()).await.unwrap().status().as_u16()
    };
    for padded in [" alice", "alice ", "\talice", "alice\t"] {
        assert_eq!(authorize(padded).await, 400, "{padded:?}");
    }
    assert_eq!(authorize("alice").await, 200);
    assert_eq!(server.check(BODY).await.json()["remaining"], 998);
}

#[tokio::test]
async fn connections_beyond_the_limit_wait_their_turn() {
    let config = Config { max_connections: 1, ..config() };
    let server = start_with(config, RulesFeed::fixed("rules.yaml", RULES)).await;
    let mut first = Connection::open(server.addresses.http).await;
    first.send(Ask::post("/v1/check", BODY)).await;
    let address = server.addresses.http;
    let second = tokio::spawn(send(address, Ask::post("/v1/check", BODY)));
    first.send(Ask::post("/v1/check", BODY)).await;
    assert!(!second.is_finished());
    drop(first);
    let answer = tokio::time::timeout(DEADLINE, second).await.expect("in time").unwrap();
    assert_eq!(answer.json()["remaining"], 997);
}

/// Time passes as fast as nothing happens, so that patience ends at once.
#[tokio::test(start_paused = true)]
async fn slow_clients_are_not_waited_for() {
    // All on the thread whose time passes so.
    let config = Config { data_plane: None, ..config() };
    let server = start_with(config, RulesFeed::fixed("rules.yaml", RULES)).await;
    let mut answers = Vec::new();
    for sent in [
        "",
        "PRI",
        "POST /v1/check HTT",
        "POST /v1/check HTTP/1.1\r\nhost: x\r\n",
        "POST /v1/check HTTP/1.1\r\nhost: x\r\ncontent-length: 31\r\n\r\n{\"user\":",
    ] {
        let mut stream = TcpStream::connect(server.addresses.http).await.unwrap();
        stream.write_all(sent.as_bytes()).await.unwrap();
        let mut answer = String::new();
        let start = tokio::time::Instant::now();
        tokio::time::timeout(DEADLINE, stream.read_to_string(&mut answer))
            .await
            .expect("hung up in time")
            .unwrap();
        assert!(start.elapsed() >= std::time::Duration::from_secs(5), "but not at once");
        answers.push(answer.lines().next().unwrap_or_default().to_owned());
    }
    assert_eq!(answers, ["", "", "", "", "HTTP/1.1 408 Request Timeout"]);
}

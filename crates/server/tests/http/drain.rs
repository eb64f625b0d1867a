//! Stopping without losing anything.

use std::num::NonZeroUsize;
use std::time::Duration;

use tidegate_server::{Config, DataPlane, RulesFeed, RunError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::client::{Ask, Connection, DEADLINE, Running, config, eventually, send, start_with};

const RULES: &str = "
rules:
  - {rule_id: each, identifier_type: user_id, algorithm: fixed_window, limit: 100, window: 1h}
";

const BODY: &str = r#"{"user":"alice","resource":"/"}"#;

async fn start(grace: Duration, drain: Duration) -> Running {
    start_with(Config { grace, drain, ..config() }, RulesFeed::fixed("rules.yaml", RULES)).await
}

/// A server that reads connections in the order in which they come, on its one thread.
async fn start_on_one_thread(drain: Duration) -> Running {
    let data_plane = Some(DataPlane::start(NonZeroUsize::MIN).unwrap());
    let config = Config { grace: Duration::ZERO, drain, data_plane, ..config() };
    start_with(config, RulesFeed::fixed("rules.yaml", RULES)).await
}

/// A request whose body is sent but for its last byte, to a server with one thread.
async fn half_a_request(server: &Running) -> TcpStream {
    let mut stream = TcpStream::connect(server.addresses.http).await.unwrap();
    let head =
        format!("POST /v1/check HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n", BODY.len());
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(&BODY.as_bytes()[..BODY.len() - 1]).await.unwrap();
    // The server has it once it has answered another that came later.
    server.check(BODY).await;
    stream
}

async fn read_to_end(mut stream: TcpStream) -> String {
    let mut answer = String::new();
    tokio::time::timeout(DEADLINE, stream.read_to_string(&mut answer)).await.expect("in time").unwrap();
    answer
}

#[tokio::test]
async fn requests_in_flight_are_finished() {
    let mut server = start_on_one_thread(Duration::from_secs(3_600)).await;
    let mut stream = half_a_request(&server).await;
    let mut idle = Connection::open(server.addresses.http).await;
    idle.send(Ask::post("/v1/check", BODY)).await;
    server.stop();
    eventually("no more connections", async || TcpStream::connect(server.addresses.http).await.is_err())
        .await;
    let look = r#"{"user":"alice","resource":"/","cost":0}"#;
    let closed = async { while idle.try_send(Ask::post("/v1/check", look)).await.is_ok() {} };
    tokio::time::timeout(DEADLINE, closed).await.expect("idle connections are closed");
    assert_eq!(server.admin("/readyz").await.status, 503, "the end can be watched");
    assert_eq!(server.admin("/v1/status").await.json()["draining"], true);
    assert!(!server.task.is_finished());
    stream.write_all(b"}").await.unwrap();
    let answer = read_to_end(stream).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(answer.contains("\"remaining\":97"), "{answer}");
    assert!(server.stopped().await.is_ok());
}

#[tokio::test]
async fn unready_comes_first() {
    let mut server = start(Duration::from_secs(60), Duration::from_secs(10)).await;
    let mut kept = Connection::open(server.addresses.http).await;
    assert_eq!(kept.send(Ask::post("/v1/check", BODY)).await.header("connection"), None);
    server.stop();
    eventually("unready", async || server.admin("/readyz").await.status == 503).await;
    assert_eq!(server.admin("/livez").await.status, 200);
    eventually("clients are asked to leave", async || {
        let answer = send(server.addresses.http, Ask::post("/v1/check", BODY)).await;
        assert_eq!(answer.status, 200, "but they are served");
        answer.header("connection") == Some("close")
    })
    .await;
    let answer = kept.send(Ask::post("/v1/check", BODY)).await;
    assert_eq!((answer.status.as_u16(), answer.header("connection")), (200, Some("close")));
    assert!(!server.task.is_finished());
}

#[tokio::test]
async fn who_does_not_finish_is_cut_and_counted() {
    let mut server = start_on_one_thread(Duration::from_millis(50)).await;
    let stream = half_a_request(&server).await;
    server.stop();
    assert_eq!(read_to_end(stream).await, "");
    assert!(matches!(server.stopped().await, Err(RunError::Unfinished(1))));
}

#[tokio::test]
async fn nothing_is_lost_under_load() {
    let mut server = start(Duration::from_millis(200), Duration::from_secs(10)).await;
    let address = server.addresses.http;
    let clients: Vec<_> = (0..8)
        .map(|_| {
            tokio::spawn(async move {
                let (mut answered, mut lost) = (0_u32, 0_u32);
                // A client that reconnects when told to, and stops when nobody is there any more.
                while let Ok(stream) = TcpStream::connect(address).await {
                    let io = hyper_util::rt::TokioIo::new(stream);
                    let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
                    tokio::spawn(connection);
                    while sender.ready().await.is_ok() {
                        let ask = Ask::post("/v1/check", r#"{"resource":"/","user":"u","cost":0}"#)
                            .request(address);
                        match sender.send_request(ask).await {
                            Ok(answer) => {
                                assert_eq!(answer.status(), 200);
                                answered += 1;
                            }
                            // Asked at the very moment the connection was closed for being idle.
                            Err(_) => lost += 1,
                        }
                    }
                }
                assert!(lost <= 1, "that moment comes once");
                answered
            })
        })
        .collect();
    eventually("load", async || server.metric("tidegate_decision_seconds_count").await > Some(100.0)).await;
    server.stop();
    let mut answered = 0_u32;
    for client in clients {
        answered += tokio::time::timeout(DEADLINE, client).await.expect("in time").unwrap();
    }
    assert!(answered > 100);
    assert!(server.stopped().await.is_ok());
}

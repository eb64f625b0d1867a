//! `wait_ms`: answers that are held back until it is the request's turn.

use serde_json::json;
use tidegate::Span;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::client::{Ask, Running, eventually, send, start};

const STRICT: &str = "
rules:
  - {rule_id: each, identifier_type: user_id, algorithm: fixed_window, limit: 2, window: 1h}
";

#[tokio::test]
async fn rules_that_refuse_do_so_at_once() {
    let server = start(STRICT).await;
    for (wait_ms, allowed) in [(0, true), (60_000, true), (60_000, false)] {
        let answer =
            server.check(&json!({"resource": "/", "user": "alice", "wait_ms": wait_ms}).to_string()).await;
        assert_eq!((answer.status.as_u16(), &answer.json()["allowed"]), (200, &json!(allowed)));
        assert_eq!(answer.json().get("waited_ms"), None, "{answer:?}");
    }
    assert_eq!(server.metric("tidegate_waiting").await, Some(0.0));
    for outcome in ["allowed", "refused", "gone"] {
        let series = format!("tidegate_delayed_total{{outcome=\"{outcome}\"}}");
        assert_eq!(server.metric(&series).await, Some(0.0));
    }
}

#[tokio::test]
async fn nobody_waits_for_longer_than_a_minute() {
    let server = start(STRICT).await;
    for wait_ms in [json!(60_001), json!(-1), json!("1s"), json!(u64::MAX), json!(null)] {
        let answer =
            server.check(&json!({"resource": "/", "user": "alice", "wait_ms": wait_ms}).to_string()).await;
        assert_eq!((answer.status.as_u16(), &answer.json()["field"]), (400, &json!("wait_ms")), "{wait_ms}");
    }
}

#[tokio::test]
async fn a_batch_does_not_wait() {
    let server = start(STRICT).await;
    let items = json!([
        {"resource": "/", "user": "alice", "wait_ms": 1},
        {"resource": "/", "user": "alice", "wait_ms": 0},
    ]);
    let answer = send(server.addresses.http, Ask::post("/v1/check/batch", items.to_string())).await.json();
    assert_eq!(answer[0]["field"], "wait_ms");
    assert!(answer[0]["message"].as_str().unwrap().contains("/v1/check"), "{answer}");
    assert_eq!(
        (&answer[1]["allowed"], &answer[1]["remaining"]),
        (&json!(true), &json!(1)),
        "nothing else was taken"
    );
}

const DELAYING: &str = "
rules:
  - {rule_id: each, identifier_type: user_id, algorithm: token_bucket, limit: 1, window: 10s, on_limit: delay, max_delay: 1m}
";

const PATIENT: &str = r#"{"resource":"/","user":"alice","wait_ms":60000}"#;

/// Waits until so many requests wait.
async fn waiting(server: &Running, many: f64) {
    eventually("they wait", async || server.metric("tidegate_waiting").await == Some(many)).await;
}

#[tokio::test]
async fn an_answer_is_held_back_until_it_is_the_requests_turn() {
    let server = start(DELAYING).await;
    assert_eq!(server.check(PATIENT).await.json().get("waited_ms"), None);
    let held_back = tokio::spawn(send(server.addresses.http, Ask::post("/v1/check", PATIENT)));
    waiting(&server, 1.0).await;
    let impatient = server.check(r#"{"resource":"/","user":"alice","wait_ms":9999}"#).await.json();
    assert_eq!(
        (&impatient["allowed"], &impatient["retry_after"]),
        (&json!(false), &json!(20)),
        "{impatient}"
    );
    assert_eq!(impatient.get("waited_ms"), None);
    server.clock.advance(Span::from_secs(10));
    let answer = held_back.await.unwrap().json();
    assert_eq!(
        (&answer["allowed"], &answer["remaining"], &answer["status"]),
        (&json!(true), &json!(0), &json!("enforced"))
    );
    assert!(answer["waited_ms"].as_u64().is_some_and(|ms| ms > 0), "{answer}");
    assert_eq!(server.metric("tidegate_delayed_total{outcome=\"allowed\"}").await, Some(1.0));
    waiting(&server, 0.0).await;
}

#[tokio::test]
async fn a_client_that_hangs_up_leaves_its_place() {
    let server = start(DELAYING).await;
    assert_eq!(server.check(PATIENT).await.json()["allowed"], true);
    let mut stream = TcpStream::connect(server.addresses.http).await.unwrap();
    let length = PATIENT.len();
    let head =
        format!("POST /v1/check HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n{PATIENT}");
    stream.write_all(head.as_bytes()).await.unwrap();
    waiting(&server, 1.0).await;
    let next = tokio::spawn(send(server.addresses.http, Ask::post("/v1/check", PATIENT)));
    waiting(&server, 2.0).await;
    drop(stream);
    waiting(&server, 1.0).await;
    assert_eq!(server.metric("tidegate_delayed_total{outcome=\"gone\"}").await, Some(1.0));
    server.clock.advance(Span::from_secs(10));
    let answer = next.await.unwrap().json();
    assert_eq!(answer["allowed"], true, "nothing was taken by the one that left: {answer}");
}

#[tokio::test]
async fn a_server_that_ends_lets_those_finish_who_wait() {
    let mut server = start(DELAYING).await;
    assert_eq!(server.check(PATIENT).await.json()["allowed"], true);
    let held_back = tokio::spawn(send(server.addresses.http, Ask::post("/v1/check", PATIENT)));
    waiting(&server, 1.0).await;
    server.stop();
    eventually("no more connections", async || TcpStream::connect(server.addresses.http).await.is_err())
        .await;
    server.clock.advance(Span::from_secs(10));
    assert_eq!(held_back.await.unwrap().json()["allowed"], true);
    assert!(server.stopped().await.is_ok());
}

//! `wait_ms`: answers that are held back until it is the request's turn.

use serde_json::json;

use crate::client::{Ask, send, start};

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

//! `POST /v1/check/batch`

use serde_json::{Value, json};

use crate::client::{Answer, Ask, Running, send, start};

const RULES: &str = "
rules:
  - {rule_id: each, identifier_type: user_id, algorithm: fixed_window, limit: 3, window: 1h}
";

async fn batch(server: &Running, body: impl AsRef<[u8]>) -> Answer {
    send(server.addresses.http, Ask::post("/v1/check/batch", body)).await
}

#[tokio::test]
async fn answers_are_in_the_order_of_the_items() {
    let server = start(RULES).await;
    let items = json!([
        {"resource": "/", "user": "a"},
        {"resource": "/", "user": "b", "cost": 2},
        {"resource": "/", "usr": "a"},
        {"resource": "/", "user": "a", "cost": 2},
        "nonsense",
        {"resource": "/%", "user": "a"},
        {"resource": "/", "user": "a"},
        {"resource": "/", "user": "b"},
    ]);
    let answer = batch(&server, items.to_string()).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("content-type"), Some("application/json"));
    let told: Vec<Value> = serde_json::from_value(answer.json()).unwrap();
    let brief: Vec<Value> = told
        .iter()
        .map(|item| match item.get("allowed") {
            Some(allowed) => json!([allowed, item["remaining"]]),
            None => json!([item["error"], item["field"]]),
        })
        .collect();
    let expected = json!([
        [true, 2],
        [true, 1],
        ["invalid_request", "usr"],
        [true, 0],
        ["invalid_request", null],
        ["invalid_request", "resource"],
        [false, 0],
        [true, 0],
    ]);
    assert_eq!(Value::from(brief), expected);
    assert_eq!(told[0]["rules"][0]["rule_id"], "each", "an item is a whole decision");
}

#[tokio::test]
async fn up_to_a_thousand_items() {
    let server = start(RULES).await;
    let items = |count: usize| Value::from(vec![json!({"resource": "/", "user": "a"}); count]).to_string();
    assert_eq!(batch(&server, "[]").await.json(), json!([]));
    let answer = batch(&server, items(1_001)).await;
    assert_eq!((answer.status.as_u16(), answer.json()["field"].as_str()), (400, Some("items")));
    assert_eq!(server.remaining(r#"{"resource":"/","user":"a"}"#).await, 3, "none of them was decided");
    let answers = batch(&server, items(1_000)).await.json();
    let answers = answers.as_array().unwrap();
    assert_eq!(answers.len(), 1_000);
    assert_eq!(answers.iter().filter(|answer| answer["allowed"] == true).count(), 3);
}

#[tokio::test]
async fn what_is_no_batch() {
    let server = start(RULES).await;
    for body in
        ["", "{}", "null", r#"[{"resource":"/","user":"a"}"#, r#"[{"resource":"/","user":"a"},]"#, "[1] 2"]
    {
        let answer = batch(&server, body).await;
        assert_eq!(
            (answer.status.as_u16(), answer.json()["error"].as_str()),
            (400, Some("invalid_request")),
            "{body}"
        );
    }
    let hostile = b"[{\"resource\":\"/\",\"user\":\"\xff\"}]";
    assert_eq!(batch(&server, hostile).await.status, 400);
    let large = format!(r#"[{{"resource":"/","user":"{}"}}]"#, "x".repeat(1024 * 1024));
    let answer = batch(&server, large).await;
    assert_eq!((answer.status.as_u16(), answer.json()["field"].as_str()), (413, Some("body")));
    assert_eq!(server.remaining(r#"{"resource":"/","user":"a"}"#).await, 3);
}

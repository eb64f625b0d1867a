//! The admin listener.

use serde_json::{Value, json};

use crate::client::{Ask, send, start};

const RULES: &str = "
version: 42
tiers: {free: {limit: 2, window: 1s}}
rules:
  - {rule_id: orders, description: Orders per user, identifier_type: user_id, algorithm: fixed_window, limit: 50,
     window: 60s, priority: 10, match: {path_pattern: /orders/*, methods: [GET]}}
  - {rule_id: watch, identifier_type: ip_address, algorithm: fixed_window, limit: 0, window: 1h, shadow: true}
  - {rule_id: blocked, identifier_type: api_key, on_missing_identity: refuse, limit: 1, window: 1h,
     match: {path_pattern: /blocked}}
";

#[tokio::test]
async fn health_has_its_shape() {
    let server = start(RULES).await;
    let answer = server.admin("/health").await;
    assert_eq!(answer.status, 200);
    let expected = json!({
        "status": "normal", "reasons": [], "since": "2024-01-01T00:00:00Z", "store": "memory", "rules_version": 1,
        "document_version": 42, "store_unwell_since": null, "changes": [],
    });
    assert_eq!(answer.json(), expected);
    assert_eq!(server.admin("/livez").await.status, 200);
    assert_eq!(server.admin("/readyz").await.status, 200);
}

#[tokio::test]
async fn rules_can_be_read() {
    let server = start(RULES).await;
    let body = server.admin("/v1/rules").await.json();
    assert_eq!((&body["rules_version"], &body["document_version"]), (&json!(1), &json!(42)));
    let ids: Vec<_> = body["rules"].as_array().unwrap().iter().map(|rule| rule["rule_id"].clone()).collect();
    assert_eq!(Value::from(ids), json!(["orders", "watch", "blocked"]));
    let rule = server.admin("/v1/rules/orders").await.json();
    assert_eq!(rule, body["rules"][0]);
    assert_eq!((&rule["limit"], &rule["match"]["path_pattern"]), (&json!(50), &json!("/orders/*")));
    let missing = server.admin("/v1/rules/nothing").await;
    assert_eq!((missing.status.as_u16(), missing.json()["field"].as_str()), (404, Some("rule_id")));
    let again = Ask::post("/v1/rules/validate", json!({"rules": [rule]}).to_string());
    assert_eq!(
        send(server.addresses.admin, again).await.json(),
        json!({"valid": true}),
        "what is shown can be used"
    );
}

#[tokio::test]
async fn documents_can_be_validated() {
    let server = start(RULES).await;
    let validate =
        async |document: &[u8]| send(server.addresses.admin, Ask::post("/v1/rules/validate", document)).await;
    let answer = validate(RULES.as_bytes()).await;
    assert_eq!((answer.status.as_u16(), answer.json()), (200, json!({"valid": true})));
    let answer =
        validate(b"rules:\n  - {rule_id: a, identifier_type: global, limt: 1, window: 1s}\n  - 7\n").await;
    assert_eq!(answer.status, 422);
    let body = answer.json();
    assert_eq!(body["valid"], false);
    let errors = body["errors"].as_array().unwrap();
    assert!(errors.len() >= 2, "{body}");
    for error in errors {
        assert!(error["file"].is_string() && error["line"].is_u64() && error["column"].is_u64(), "{error}");
    }
    assert!(
        errors.iter().any(|error| error["message"].as_str().unwrap().contains("did you mean `limit`")),
        "{body}"
    );
    for hostile in [&b""[..], b"\xff\xfe", b"rules: [", b"{{{{", b"*a"] {
        let answer = validate(hostile).await;
        assert_eq!(
            (answer.status.as_u16(), answer.json()["valid"].as_bool()),
            (422, Some(false)),
            "{hostile:?}"
        );
    }
    let too_large = vec![b' '; 16 * 1024 * 1024 + 1];
    assert_eq!(validate(&too_large).await.status, 413);
}

#[tokio::test]
async fn explaining_consumes_nothing() {
    let server = start(RULES).await;
    let body = r#"{"tenant":"acme","user":"alice","resource":"/orders/7","method":"GET","ip":"203.0.113.7"}"#;
    for _ in 0..3 {
        let answer = server.explain(body).await;
        assert_eq!(answer.status, 200);
        let expected = json!({
            "allowed": true, "rule_id": "orders", "limit": 50, "remaining": 50, "reset_at": 1_704_067_200_u64,
            "retry_after": 0, "status": "enforced", "mode": "normal",
            "rules": [
                {"rule_id": "orders", "allowed": true, "limit": 50, "remaining": 50, "reset_after_ms": 0,
                 "retry_after_ms": 0, "shadow": false, "identity": "acme/alice", "description": "Orders per user",
                 "algorithm": "fixed_window", "window_ms": 60_000, "capacity": 50, "would_refuse": false},
                {"rule_id": "watch", "allowed": false, "limit": 0, "remaining": 0, "reset_after_ms": 0,
                 "retry_after_ms": null, "shadow": true, "identity": "203.0.113.7", "description": null,
                 "algorithm": "fixed_window", "window_ms": 3_600_000, "capacity": 0, "would_refuse": false},
            ],
        });
        assert_eq!(answer.json(), expected);
    }
    let refused = server.explain(r#"{"resource":"/blocked"}"#).await.json();
    assert_eq!(refused["allowed"], false);
    let blocked = &refused["rules"][1];
    assert_eq!((&blocked["rule_id"], &blocked["would_refuse"]), (&json!("blocked"), &json!(true)));
    assert_eq!(blocked["identity"], json!(null));
    assert_eq!(server.metric("tidegate_decision_seconds_count").await, Some(0.0), "nor is it a decision");
    let wrong = server.explain(r#"{"resource":"/","usr":"x"}"#).await;
    assert_eq!((wrong.status.as_u16(), wrong.json()["field"].as_str()), (400, Some("usr")));
}

#[tokio::test]
async fn an_explanation_keeps_secrets() {
    let server = start(RULES).await;
    let answer = server.explain(r#"{"resource":"/blocked","api_key":"hunter2"}"#).await;
    assert!(!answer.text().contains("hunter2"));
    assert!(answer.text().contains("(api key)"));
}

#[tokio::test]
async fn the_node_at_a_glance() {
    let server = start(RULES).await;
    for _ in 0..3 {
        server.check(r#"{"user":"alice","resource":"/orders/7","method":"GET","ip":"203.0.113.7"}"#).await;
    }
    server.check(r#"{"resource":"/blocked"}"#).await;
    let status = server.admin("/v1/status").await.json();
    assert_eq!(status["version"], env!("CARGO_PKG_VERSION"));
    assert!(status["uptime_seconds"].is_u64());
    assert_eq!(status["draining"], false);
    assert_eq!(status["health"]["status"], "normal");
    assert_eq!(status["health"]["rules_version"], 1);
    assert_eq!(status["rules"], 3);
    assert!(status["keys"].as_u64().unwrap() >= 1);
    assert_eq!(status["decisions"]["allowed"], 3);
    assert_eq!(status["decisions"]["refused"], 1);
    assert_eq!(status["decisions"]["shadow_refused"], 4);
    assert_eq!(status["listeners"]["http"], server.addresses.http.to_string());
}

#[tokio::test]
async fn the_index_names_what_there_is() {
    let server = start(RULES).await;
    let index = server.admin("/").await;
    assert_eq!(index.status, 200);
    for path in ["/health", "/metrics", "/v1/rules/{rule_id}", "/v1/explain", "/openapi.json"] {
        assert!(index.text().contains(path), "{path}");
    }
}

#[tokio::test]
async fn unknown_paths_and_methods() {
    let server = start(RULES).await;
    for (ask, status, allow) in [
        (Ask::get("/nothing"), 404, None),
        (Ask::get("/v1/check"), 404, None),
        (Ask::get("/v1/rules/a/b"), 404, None),
        (Ask::post("/health", ""), 405, Some("GET")),
        (Ask::post("/v1/rules/orders", ""), 405, Some("GET, PUT, DELETE")),
        (Ask::new("PUT", "/v1/rules/orders/history"), 405, Some("GET")),
        (Ask::new("DELETE", "/v1/documents"), 405, Some("GET")),
        (Ask::get("/v1/explain"), 405, Some("POST")),
        (Ask::new("PUT", "/v1/rules/validate"), 405, Some("POST")),
    ] {
        let shown = format!("{ask:?}");
        let answer = send(server.addresses.admin, ask).await;
        assert_eq!((answer.status.as_u16(), answer.header("allow")), (status, allow), "{shown}");
        assert!(answer.json()["message"].is_string(), "{shown}");
    }
    let head = send(server.addresses.admin, Ask::new("HEAD", "/health")).await;
    assert_eq!((head.status.as_u16(), head.body.len()), (200, 0));
}

//! What cannot be understood is named and refused, and costs nobody anything.

use crate::client::{Ask, send, start};

const RULES: &str = "
rules:
  - {rule_id: each, identifier_type: user_id, algorithm: fixed_window, limit: 100, window: 1h}
";

/// What is left shows whether anything was consumed.
const PROBE: &str = r#"{"user":"alice","resource":"/"}"#;

#[tokio::test]
async fn every_mistake_is_named_and_free() {
    let server = start(RULES).await;
    let long = |length: usize| "x".repeat(length);
    let bodies: Vec<(Vec<u8>, u16, Option<&str>)> = vec![
        (b"".to_vec(), 400, None),
        (b"{".to_vec(), 400, None),
        (b"nonsense".to_vec(), 400, None),
        (b"[]".to_vec(), 400, None),
        (br#"["/","acme","alice"]"#.to_vec(), 400, None),
        (b"null".to_vec(), 400, None),
        (br#"{"resource":"/"} x"#.to_vec(), 400, None),
        (br#"{"user":"alice"}"#.to_vec(), 400, Some("resource")),
        (br#"{"resource":""}"#.to_vec(), 400, Some("resource")),
        (br#"{"resource":7}"#.to_vec(), 400, Some("resource")),
        (br#"{"resource":"/","usr":"alice"}"#.to_vec(), 400, Some("usr")),
        (br#"{"resource":"/","user":["alice"]}"#.to_vec(), 400, Some("user")),
        (br#"{"resource":"/","user":"alice","cost":-1}"#.to_vec(), 400, Some("cost")),
        (br#"{"resource":"/","user":"alice","cost":1.5}"#.to_vec(), 400, Some("cost")),
        (br#"{"resource":"/","user":"alice","cost":"1"}"#.to_vec(), 400, Some("cost")),
        (br#"{"resource":"/","user":"alice","cost":18446744073709551616}"#.to_vec(), 400, Some("cost")),
        (br#"{"resource":"/","user":"alice","cost":1e999}"#.to_vec(), 400, Some("cost")),
        (br#"{"resource":"/","user":"alice","ip":"1.2.3"}"#.to_vec(), 400, Some("ip")),
        (br#"{"resource":"/","user":"alice","ip":"::1%eth0"}"#.to_vec(), 400, Some("ip")),
        (br#"{"resource":"/","user":"al\u0000ice"}"#.to_vec(), 400, Some("user")),
        (br#"{"resource":"/","user":"al\nice"}"#.to_vec(), 400, Some("user")),
        (br#"{"resource":"/","tenant":"a\u0007"}"#.to_vec(), 400, Some("tenant")),
        (br#"{"resource":"/","api_key":"a\u007f"}"#.to_vec(), 400, Some("api_key")),
        (br#"{"resource":"/","request_id":"a\r"}"#.to_vec(), 400, Some("request_id")),
        (br#"{"resource":"/","user":"\ud800"}"#.to_vec(), 400, Some("user")),
        (b"{\"resource\":\"/\",\"user\":\"al\xff\xfeice\"}".to_vec(), 400, Some("user")),
        (b"{\"resource\":\"/\",\"user\":\"\xed\xa0\x80\"}".to_vec(), 400, Some("user")),
        (br#"{"resource":"/","headers":{"a":1}}"#.to_vec(), 400, Some("headers")),
        (br#"{"resource":"/","attributes":[]}"#.to_vec(), 400, Some("attributes")),
        (br#"{"resource":"/%zz","user":"alice"}"#.to_vec(), 400, Some("resource")),
        (br#"{"resource":"/a%00","user":"alice"}"#.to_vec(), 400, Some("resource")),
        (format!(r#"{{"resource":"/{}","user":"alice"}}"#, long(8 * 1024)).into(), 400, Some("resource")),
        (format!(r#"{{"resource":"/","user":"{}"}}"#, long(64 * 1024)).into(), 413, Some("body")),
        (format!("{}1{}", "[".repeat(20_000), "]".repeat(20_000)).into(), 400, None),
    ];
    for (body, status, field) in bodies {
        let answer = send(server.addresses.http, Ask::post("/v1/check", &body)).await;
        let shown = String::from_utf8_lossy(&body[..body.len().min(80)]).into_owned();
        assert_eq!(answer.status, status, "{shown}: {answer:?}");
        let error = answer.json();
        assert_eq!(error["field"].as_str(), field, "{shown}: {error}");
        assert!(error["error"].as_str().is_some_and(|text| !text.is_empty()), "{shown}");
        assert!(error["message"].as_str().is_some_and(|text| !text.is_empty()), "{shown}");
        assert_eq!(answer.header("content-type"), Some("application/json"));
        assert_eq!(answer.header("x-ratelimit-limit"), None);
    }
    assert_eq!(server.remaining(PROBE).await, 100);
    assert_eq!(
        server.metric(r#"tidegate_decisions_total{rule="each",tier="other",outcome="allowed"}"#).await,
        None
    );
}

#[tokio::test]
async fn the_largest_bodies_that_are_read() {
    let server = start(RULES).await;
    let frame = r#"{"resource":"/","user":"alice","attributes":{"a":""}}"#.len();
    let body = |length: usize| {
        format!(r#"{{"resource":"/","user":"alice","attributes":{{"a":"{}"}}}}"#, "x".repeat(length - frame))
    };
    assert_eq!(server.check(&body(64 * 1024)).await.status, 200);
    assert_eq!(server.check(&body(64 * 1024 + 1)).await.status, 413);
    assert_eq!(server.check(&format!(r#"{{"resource":"/{}"}}"#, "x".repeat(8 * 1024 - 1))).await.status, 200);
}

#[tokio::test]
async fn odd_texts_that_are_fine() {
    let server = start(RULES).await;
    for user in ["zo\u{eb}", "\u{202e}evil", "a/b:c{d}", "' OR 1=1 --", "\u{1f600}", " "] {
        let answer = server.check(&serde_json::json!({"resource": "/", "user": user}).to_string()).await;
        assert_eq!(answer.json()["remaining"], 99, "{user}");
    }
}

#[tokio::test]
async fn unknown_paths_and_methods() {
    let server = start(RULES).await;
    for (ask, status, allow) in [
        (Ask::get("/"), 404, None),
        (Ask::get("/v1/checks"), 404, None),
        (Ask::post("/v1/check/", "{}"), 404, None),
        (Ask::get("/health"), 404, None),
        (Ask::get("/v1/check"), 405, Some("POST")),
        (Ask::new("OPTIONS", "/v1/check"), 405, Some("POST")),
        (Ask::new("DELETE", "/v1/authorize"), 405, Some("GET, POST")),
        (Ask::post("/openapi.json", ""), 405, Some("GET")),
    ] {
        let shown = format!("{ask:?}");
        let answer = send(server.addresses.http, ask).await;
        assert_eq!(answer.status, status, "{shown}");
        assert_eq!(answer.header("allow"), allow, "{shown}");
        let error = if status == 404 { "not_found" } else { "method_not_allowed" };
        assert_eq!(answer.json()["error"], error, "{shown}");
    }
}

//! The API description against the server itself.

use serde_json::Value;

use crate::client::{Ask, send, start};

const RULES: &str = "
rules:
  - {rule_id: each, identifier_type: global, limit: 100, window: 1h}
";

#[tokio::test]
async fn everything_described_is_answered() {
    let server = start(RULES).await;
    let described = server.admin("/openapi.json").await.json();
    let other = send(server.addresses.http, Ask::get("/openapi.json")).await.json();
    assert_eq!(described, other, "both listeners describe all");
    assert_eq!(described["openapi"], "3.1.0");
    let mut operations = 0;
    for (path, item) in described["paths"].as_object().unwrap() {
        for url in item["servers"].as_array().unwrap() {
            let data = url["description"].as_str().unwrap().contains("data");
            let address = if data { server.addresses.http } else { server.addresses.admin };
            for (method, operation) in item.as_object().unwrap().iter().filter(|(key, _)| *key != "servers") {
                let path = path.replace("{rule_id}", "each");
                let ask =
                    Ask { method: method.to_uppercase().parse().unwrap(), ..Ask::post(&path, body(&path)) };
                let answer = send(address, ask).await;
                let status = answer.status.as_u16();
                assert_eq!(status, 200, "{method} {path}: {answer:?}");
                check_shape(&described, &operation["responses"]["200"], &answer.body, &path);
                operations += 1;
            }
        }
    }
    assert!(operations >= 15, "{operations}");
}

fn body(path: &str) -> &'static str {
    match path {
        "/v1/check" | "/v1/explain" => r#"{"resource":"/","user":"alice"}"#,
        "/v1/check/batch" => r#"[{"resource":"/"},{}]"#,
        "/json" => r#"{"domain":"d","descriptors":[{"entries":[{"key":"a"}]}]}"#,
        "/v1/rules/validate" => RULES,
        _ => "",
    }
}

/// What is answered has the described fields: all that are required and no others.
fn check_shape(described: &Value, response: &Value, body: &[u8], path: &str) {
    let Some(reference) = response["content"]["application/json"]["schema"]["$ref"].as_str() else { return };
    let schema = described.pointer(reference.trim_start_matches('#')).unwrap();
    let body: Value = serde_json::from_slice(body).unwrap();
    let fields = body.as_object().unwrap();
    for field in fields.keys() {
        assert!(schema["properties"].get(field).is_some(), "{path}: `{field}` is not described");
    }
    for required in schema["required"].as_array().into_iter().flatten() {
        assert!(fields.contains_key(required.as_str().unwrap()), "{path}: {required} is missing");
    }
}

//! The API description against the server itself.

use std::sync::Arc;

use serde_json::Value;
use tidegate::TierOptions;
use tidegate::cluster::{Cluster, Fleet, Keyring, Settings, Timing};
use tidegate_server::{Config, Membership, RulesFeed, UserTiers};
use tidegate_sources::{FileArchive, FileSource, PostgresTiers, RuleBook};

use crate::client::{Ask, Running, config, send, start_with};
use crate::log_level;
use crate::tiers::postgres;

const RULES: &str = "
rules:
  - {rule_id: each, identifier_type: global, limit: 100, window: 1h}
";

#[tokio::test]
async fn everything_described_is_answered() {
    let folder = tempfile::tempdir().unwrap();
    // Two files: what is deleted must not be all there is.
    std::fs::write(folder.path().join("main.yaml"), RULES).unwrap();
    let more = format!("tiers: {{free: {{limit: 10, window: 1h}}}}{}", RULES.replace("each", "other"));
    std::fs::write(folder.path().join("more.yaml"), more).unwrap();
    let postgres = postgres().await;
    let tiers =
        UserTiers::postgres(PostgresTiers::new(postgres.url().parse().unwrap()), TierOptions::default());
    let book = RuleBook::new(Arc::new(FileArchive::new(folder.path())));
    let feed = RulesFeed::watch(FileSource::new(folder.path())).with_book(book);
    let config = Config {
        cluster: Some(among_others().await),
        log: Some(log_level::any()),
        tiers: Some(tiers),
        ..config()
    };
    let server = start_with(config, feed).await;
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
                // It does not end; what it tells is looked at elsewhere.
                if path == "/v1/events" {
                    continue;
                }
                let path = path.replace("{rule_id}", "each").replace("{name}", "main.yaml");
                let path =
                    path.replace("{file}", "app.js").replace("{user}", "alice").replace("{tenant}", "acme");
                let body = match change_before(&server, &path, operations).await {
                    Some(version) if method == "post" => format!("{{\"to_version\":{version}}}"),
                    Some(_) => thing(&path, 9999 + operations),
                    None if method == "put" || method == "post" => body(&path).to_owned(),
                    None => String::new(),
                };
                let ask = Ask { method: method.to_uppercase().parse().unwrap(), ..Ask::post(&path, body) };
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

/// A node that would know others if there were any.
async fn among_others() -> Membership {
    let settings = Settings {
        listen: ([127, 0, 0, 1], 0).into(),
        advertise: None,
        name: Some("alone".to_owned()),
        peers: Vec::new(),
        keyring: Keyring::parse("0123456789abcdef0123456789abcdef").unwrap(),
        timing: Timing::default(),
    };
    let fleet = Fleet::new(Cluster::start(settings).await.unwrap());
    Membership::new(Arc::new(fleet), None)
}

/// Has the rule or the document that a path is about be there, with a history; returns a version of it.
async fn change_before(server: &Running, path: &str, limit: usize) -> Option<u64> {
    let one = path.trim_end_matches("/history").trim_end_matches("/rollback");
    if one != "/v1/rules/each" && one != "/v1/documents/main.yaml" {
        return None;
    }
    let mut first = None;
    for more in [0, 1000] {
        let ask = Ask { method: "PUT".parse().unwrap(), ..Ask::post(one, thing(one, 1 + limit + more)) };
        let answer = send(server.addresses.admin, ask).await;
        assert!(answer.status.is_success(), "{answer:?}");
        first = first.or(answer.json()["version"].as_u64());
    }
    first
}

/// A rule or a document, as the path wants it.
fn thing(path: &str, limit: usize) -> String {
    let rule = format!("{{rule_id: each, identifier_type: global, limit: {limit}, window: 1h}}");
    if path.contains("documents") { format!("rules:\n  - {rule}\n") } else { rule }
}

fn body(path: &str) -> &'static str {
    match path {
        "/v1/check" | "/v1/explain" => r#"{"resource":"/","user":"alice"}"#,
        "/v1/check/batch" => r#"[{"resource":"/"},{}]"#,
        "/json" => r#"{"domain":"d","descriptors":[{"entries":[{"key":"a"}]}]}"#,
        "/v1/rules/validate" => RULES,
        "/v1/users/alice/tier" => r#"{"tier":"free"}"#,
        "/v1/tenants/acme/plan" => r#"{"plan":"free"}"#,
        "/v1/log-level" => r#"{"level":"warn"}"#,
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

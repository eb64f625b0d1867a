//! Changing rules by the admin API.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use tidegate_server::{Config, RulesFeed};
use tidegate_sources::{EtcdArchive, EtcdSource, FileArchive, FileSource, RuleBook};
use tidegate_testkit::Etcd;

use crate::access;
use crate::client::{Answer, Ask, Running, config, eventually, send, start, start_with};

const ALICE: &str = r#"{"user":"alice","resource":"/"}"#;

fn rule(id: &str, limit: u64) -> String {
    format!(r#"{{"rule_id":"{id}","identifier_type":"user_id","limit":{limit},"window":"1h"}}"#)
}

fn feed(path: &Path) -> RulesFeed {
    let book = RuleBook::new(Arc::new(FileArchive::new(path)));
    RulesFeed::watch(FileSource::new(path)).with_book(book)
}

async fn with_file(text: &str) -> (Running, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rules.yaml");
    fs::write(&path, text).unwrap();
    (start_with(config(), feed(&path)).await, folder)
}

impl Running {
    async fn change(&self, method: &str, path: &str, body: &str, headers: &[(&str, &str)]) -> Answer {
        let ask = Ask { body: body.to_owned().into(), ..Ask::new(method, path) };
        send(self.addresses.admin, ask.headers(headers)).await
    }

    async fn limit(&self) -> u64 {
        self.explain(ALICE).await.json()["limit"].as_u64().unwrap()
    }
}

const TEXT: &str =
    "# ours\nrules:\n  # each user\n  - {rule_id: each, identifier_type: user_id, limit: 2, window: 1h}\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rule_is_created_changed_deleted_and_brought_back() {
    let (server, folder) = with_file(TEXT).await;
    let text = || fs::read_to_string(folder.path().join("rules.yaml")).unwrap();
    let shown = server.admin("/v1/rules/each").await;
    let tag = shown.header("etag").unwrap().to_owned();

    let changed = server.change("PUT", "/v1/rules/each", &rule("each", 5), &[("if-match", &tag)]).await;
    assert_eq!(changed.status, 200, "{changed:?}");
    let body = changed.json();
    assert_eq!((&body["changed"], &body["in_force"]), (&true.into(), &true.into()), "{body}");
    assert_eq!(format!("\"{}\"", body["previous_version"]), tag);
    assert_eq!(format!("\"{}\"", body["version"]), changed.header("etag").unwrap());
    assert_eq!(server.limit().await, 5, "what is said to be in force is");
    assert!(text().starts_with("# ours\nrules:\n  # each user\n  - "), "{}", text());

    let late = server.change("PUT", "/v1/rules/each", &rule("each", 6), &[("if-match", &tag)]).await;
    assert_eq!((late.status.as_u16(), late.header("etag")), (412, changed.header("etag")));
    let message = late.json()["message"].to_string();
    assert!(message.contains(&format!("at version {}", body["version"])), "{message}");
    assert_eq!(server.limit().await, 5);

    let again = server.change("PUT", "/v1/rules/each", &rule("each", 5), &[]).await;
    assert_eq!((again.status.as_u16(), &again.json()["changed"]), (200, &false.into()));

    let created = server.change("PUT", "/v1/rules/other", &rule("other", 1), &[("if-none-match", "*")]).await;
    assert_eq!(created.status, 201, "{created:?}");
    assert!(!server.check(ALICE).await.json()["allowed"].is_null());
    assert_eq!(server.limit().await, 1, "both apply, and this is the narrower");
    let twice = server.change("PUT", "/v1/rules/other", &rule("other", 2), &[("if-none-match", "*")]).await;
    assert_eq!(twice.status, 412);

    let deleted = server.change("DELETE", "/v1/rules/other", "", &[("if-match", "*")]).await;
    assert_eq!((deleted.status.as_u16(), &deleted.json()["in_force"]), (200, &true.into()), "{deleted:?}");
    assert_eq!(server.admin("/v1/rules/other").await.status, 404);
    assert_eq!(server.change("DELETE", "/v1/rules/other", "", &[]).await.status, 404);

    let history = server.admin("/v1/rules/other/history").await.json();
    let actions: Vec<_> = history["changes"].as_array().unwrap().iter().map(|each| &each["action"]).collect();
    assert_eq!(actions, ["deleted", "created"]);
    let first = &history["changes"][1];
    assert_eq!((&first["by"], &first["previous_version"]), (&"local".into(), &changed.json()["version"]));
    assert!(first["at"].as_str().unwrap().starts_with("2024-01-01T00:00:0"), "{first}");
    let back = format!(r#"{{"to_version":{}}}"#, first["version"]);
    let back = server.change("POST", "/v1/rules/other/rollback", &back, &[]).await;
    assert_eq!((back.status.as_u16(), &back.json()["in_force"]), (200, &true.into()), "{back:?}");
    assert_eq!(server.limit().await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rule_is_looked_at_among_all_others() {
    let tiers = "tiers: { free: { limit: 1, window: 1s } }\n";
    let (server, folder) = with_file(&format!("{tiers}{TEXT}")).await;
    let ask = async |query: &str, body: &str, headers: &[(&str, &str)]| {
        let answer = server.change("POST", &format!("/v1/rules/validate{query}"), body, headers).await;
        (answer.status.as_u16(), answer.json())
    };
    let tiered = r#"{"rule_id":"each","identifier_type":"user_id","tiered":true}"#;
    assert_eq!(ask("", tiered, &[]).await.0, 422, "there are no tiers in it");
    assert_eq!(ask("?rule_id=each", tiered, &[]).await, (200, serde_json::json!({"valid": true})));
    let wrong = "rule_id: each\nidentifier_type: user_id\nlimit: three\nwindow: 1h\n";
    let (status, said) = ask("?rule_id=each", wrong, &[]).await;
    assert_eq!((status, &said["errors"][0]["line"]), (422, &3.into()), "as it was sent: {said}");
    for (query, body, headers, status, word) in [
        ("?rule_id=each", &*rule("other", 5), &[][..], 422, "other"),
        ("?rule_id=each", &*rule("each", 5), &[("if-none-match", "*")], 412, "each"),
        ("?rule_id=each", &*rule("each", 5), &[("if-match", "7")], 412, "version"),
        ("?rule_id=..", &*rule("each", 5), &[], 422, "each"),
        ("?rule=each", &*rule("each", 5), &[], 400, "rule_id"),
        ("?each", &*rule("each", 5), &[], 400, "rule_id"),
    ] {
        let (said, body) = ask(query, body, headers).await;
        assert_eq!(said, status, "{query}: {body}");
        assert!(body.to_string().contains(word), "{query}: {body}");
    }
    let text = fs::read_to_string(folder.path().join("rules.yaml")).unwrap();
    assert_eq!(text, format!("{tiers}{TEXT}"), "nothing is written");
    let fixed = start(TEXT).await;
    let answer = fixed.change("POST", "/v1/rules/validate?rule_id=each", tiered, &[]).await;
    assert_eq!((answer.status.as_u16(), &answer.json()["error"]), (409, &"no_source".into()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_makes_no_sense_changes_nothing() {
    let (server, folder) = with_file(TEXT).await;
    let text = || fs::read_to_string(folder.path().join("rules.yaml")).unwrap();
    for (method, path, body, headers, status, word) in [
        ("PUT", "/v1/rules/each", "{\"rule_id\":\"each\",\"limt\":5}", &[][..], 422, "limt"),
        ("PUT", "/v1/rules/each", "", &[], 422, "empty"),
        ("PUT", "/v1/rules/each", &*rule("other", 5), &[], 422, "other"),
        ("PUT", "/v1/rules/..%2Fetc", &*rule("../etc", 5), &[], 422, "letters, digits"),
        ("PUT", "/v1/rules/each", &*rule("each", 5), &[("if-match", "new")], 400, "If-Match"),
        ("PUT", "/v1/rules/each", &*rule("each", 5), &[("if-none-match", "7")], 400, "If-None-Match"),
        ("PUT", "/v1/documents/other.yaml", "rules: []", &[], 422, "one file"),
        ("PUT", "/v1/documents/rules.yaml", "rules: [x]", &[], 422, "must be a mapping"),
        ("POST", "/v1/rules/each/rollback", "{}", &[], 400, "to_version"),
        ("POST", "/v1/rules/each/rollback", "{\"to_version\":-1}", &[], 400, "to_version"),
        ("POST", "/v1/rules/each/rollback", "{\"to_version\":7}", &[], 404, "version 7"),
        ("DELETE", "/v1/rules/nothing", "", &[], 404, "no rule nothing"),
        ("PATCH", "/v1/rules/each", "", &[], 405, "DELETE"),
    ] {
        let answer = server.change(method, path, body, headers).await;
        let said = answer.text();
        assert_eq!(answer.status.as_u16(), status, "{method} {path}: {said}");
        assert!(said.contains(word), "{method} {path}: {said}");
        assert_eq!(text(), TEXT, "{method} {path}");
    }
    let foreign = [("origin", "http://evil.example"), ("host", "evil.example")];
    assert_eq!(server.change("DELETE", "/v1/rules/each", "", &foreign).await.status, 403);
    assert_eq!((text(), server.limit().await), (TEXT.to_owned(), 2));
}

#[tokio::test]
async fn built_in_rules_cannot_be_changed() {
    let server = start(TEXT).await;
    for (method, path) in [
        ("PUT", "/v1/rules/each"),
        ("DELETE", "/v1/rules/each"),
        ("GET", "/v1/rules/each/history"),
        ("GET", "/v1/documents"),
    ] {
        let answer = server.change(method, path, &rule("each", 1), &[]).await;
        assert_eq!(answer.status, 409, "{method} {path}");
        assert!(answer.text().contains("--rules SOURCE"), "{}", answer.text());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whole_documents_are_shown_and_stored() {
    let (server, folder) = with_file(TEXT).await;
    let name = server.admin("/v1/documents").await.json()["documents"][0]["name"].clone();
    assert_eq!(name, folder.path().join("rules.yaml").display().to_string());
    let shown = server.admin("/v1/documents/rules.yaml").await;
    assert_eq!((shown.text().as_str(), shown.header("content-type")), (TEXT, Some("application/yaml")));
    let text = TEXT.replace("limit: 2", "limit: 9");
    let tag = shown.header("etag").unwrap();
    let stored = server.change("PUT", "/v1/documents/rules.yaml", &text, &[("if-match", tag)]).await;
    assert_eq!(stored.status, 200, "{stored:?}");
    eventually("limit 9", async || server.limit().await == 9).await;
    assert_eq!(
        server.change("PUT", "/v1/documents/rules.yaml", &text, &[("if-match", tag)]).await.status,
        412
    );
    let history = server.admin("/v1/documents/rules.yaml/history").await.json();
    assert_eq!(history["changes"][0]["before"], TEXT);
}

/// Whoever may only read is told so, and changes are recorded under the names of tokens.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_say_who_may_change_rules_and_who_has() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rules.yaml");
    fs::write(&path, TEXT).unwrap();
    let config = Config { admin_tokens: access::inline(), ..config() };
    let server = start_with(config, feed(&path)).await;
    let put = async |token: &str, limit| {
        let bearer = format!("Bearer {token}");
        server.change("PUT", "/v1/rules/each", &rule("each", limit), &[("authorization", &bearer)]).await
    };
    let refused = put(access::BOB, 5).await;
    assert_eq!(refused.status, 403);
    assert!(refused.text().contains("bob") && refused.text().contains("write"), "{}", refused.text());
    assert_eq!(put("x", 5).await.status, 401);
    assert_eq!(fs::read_to_string(&path).unwrap(), TEXT);
    assert_eq!(put(access::ALICE, 5).await.status, 200);
    let bearer = format!("Bearer {}", access::BOB);
    let history =
        server.change("GET", "/v1/rules/each/history", "", &[("authorization", &bearer)]).await.json();
    assert_eq!(history["changes"][0]["by"], "alice");
}

/// The last good text is in the source itself: a node that starts afresh finds it there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_starts_with_a_bad_rule_finds_its_last_good_version_in_the_source() {
    let etcd = Etcd::start();
    let url: tidegate_sources::EtcdUrl = format!("etcd://{}/shop", etcd.address()).parse().unwrap();
    let book = RuleBook::new(Arc::new(EtcdArchive::new(url.clone())));
    let feed = || RulesFeed::watch(EtcdSource::new(url.clone())).with_book(book.clone());
    let remembered = async || {
        let names = ["shop/rules/each".to_owned()];
        book.archive().last_good(&names).await.unwrap().pop().map(|(_, good)| good.text)
    };

    // Changed by the admin API.
    etcd.put("shop/rules/first", rule("first", 100));
    let node = start_with(config(), feed()).await;
    assert_eq!(node.change("PUT", "/v1/rules/each", &rule("each", 5), &[]).await.status, 201);
    assert_eq!((remembered().await, node.limit().await), (Some(rule("each", 5)), 5));
    etcd.put("shop/rules/each", "limit: x");
    let late = start_with(config(), feed()).await;
    assert_eq!((late.limit().await, late.admin("/readyz").await.status.as_u16()), (5, 200));
    let listed = late.admin("/v1/rules").await.json();
    assert_eq!(
        (&listed["aside"][0]["document"], &listed["aside"][0]["replaced"]),
        (&"shop/rules/each".into(), &true.into())
    );

    // Changed by hand: the nodes that had it in force have noted it.
    etcd.put("shop/rules/each", rule("each", 7));
    eventually("limit 7", async || node.limit().await == 7).await;
    eventually("7 is remembered", async || remembered().await == Some(rule("each", 7))).await;
    etcd.put("shop/rules/each", "limit: x");
    let later = start_with(config(), feed()).await;
    assert_eq!((later.limit().await, later.admin("/readyz").await.status.as_u16()), (7, 200));

    // Nothing good is known of this one: better not ready than without a limit.
    etcd.put("shop/rules/new", "limit: x");
    let lacking = start_with(config(), feed()).await;
    assert_eq!((lacking.limit().await, lacking.admin("/readyz").await.status.as_u16()), (7, 503));
    let mended = lacking.change("PUT", "/v1/rules/new", &rule("new", 3), &[]).await;
    assert_eq!(mended.status, 200, "{mended:?}");
    eventually("ready", async || lacking.admin("/readyz").await.status == 200).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_with_control_characters_are_refused() {
    let (server, folder) = with_file(TEXT).await;
    let asked = [
        ("PUT", "/v1/documents/a%0Ab.yaml"),
        ("GET", "/v1/documents/a%1B%5B2J.yaml"),
        ("DELETE", "/v1/documents/%7F"),
        ("GET", "/v1/documents/%00/history"),
        ("DELETE", "/v1/documents/a%C2%9B31m"),
    ];
    for (method, path) in asked {
        let refused = server.change(method, path, &rule("each", 5), &[]).await;
        let body = refused.json();
        assert_eq!(refused.status, 422, "{method} {path}: {body}");
        assert!(
            body["message"].as_str().unwrap().contains("has control characters"),
            "{method} {path}: {body}"
        );
    }
    assert_eq!(fs::read_to_string(folder.path().join("rules.yaml")).unwrap(), TEXT);
}

//! Rules count the gateway's own 401 as they count those of back ends.

use std::path::PathBuf;

use tempfile::TempDir;
use tidegate_gateway::AccessLogTarget;
use tidegate_testkit::{Backend, Redis, Scripted};

use crate::charges::backend;
use crate::client::{Told, request, until, with_headers};
use crate::store::{on, usable};
use crate::support::{Running, Setup};

const RULES: &str = "
rules:
  - {rule_id: guesses, identifier_type: ip_address, algorithm: fixed_window, limit: 3, window: 52w,
     charge: {statuses: [401, 403]}, match: {path_pattern: /api/*}}
  - {rule_id: models, identifier_type: global, algorithm: fixed_window, limit: 2, window: 52w,
     charge: {statuses: 4xx}, match: {path_pattern: /models, required_attributes: {route: upstream}}}
  - {rule_id: keys, identifier_type: ip_address, algorithm: fixed_window, limit: 2, window: 52w, charge: {statuses: 401},
     match: {path_pattern: /keys, required_attributes: {authentication: failed}}}
  - {rule_id: users, identifier_type: user_id, limit: 1000, window: 1h, on_missing_identity: skip}
  - {rule_id: all, identifier_type: ip_address, algorithm: fixed_window, limit: 1000, window: 52w,
     match: {path_pattern: /other}}
";

const GOOD: (&str, &str) = ("x-api-key", "swordfish");
const BAD: (&str, &str) = ("x-api-key", "catfish");

/// A gateway that knows one API key, and sets no limit of its own.
fn knowing_a_key(folder: &TempDir, setup: Setup) -> Setup {
    let file = folder.path().join("keys");
    let digest = "sha256:b9f195c5cc7ef6afadbfbc42892ad47d3b24c6bc94bb510c4564a90a14e8b799";
    std::fs::write(&file, format!("robot {digest}\n")).unwrap();
    setup.rules(RULES).gateway(|gateway| {
        gateway.identity.trusted_proxies = vec!["127.0.0.1/32".parse().unwrap()];
        gateway.identity.api_keys.known = Some(file);
        gateway.identity.failures_per_minute = None;
    })
}

/// Asks with a key, from a client behind a trusted proxy.
async fn from(gateway: &Running, client: &str, path: &str, headers: &[(&'static str, &str)]) -> Told {
    let headers: Vec<_> = headers.iter().copied().chain([("x-forwarded-for", client)]).collect();
    gateway.ask(with_headers(request("GET", path), &headers)).await
}

/// Parts of a response that a client can compare.
fn told(response: &Told) -> (u16, Vec<Option<&str>>, &str) {
    let names = ["x-ratelimit-limit", "x-ratelimit-remaining", "retry-after", "www-authenticate"];
    (response.status, names.map(|name| response.header(name)).to_vec(), &response.body)
}

async fn auth_failures(gateway: &Running, kind: &str) -> Option<f64> {
    gateway.metric(&format!("tidegate_gateway_auth_failures_total{{kind=\"{kind}\"}}")).await
}

async fn guesses_are_counted(gateway: &Running, client: &str) {
    for left in ["2", "1", "0"] {
        let answer = from(gateway, client, "/api/x", &[BAD]).await;
        assert_eq!((answer.status, &*answer.json()["error"].to_string()), (401, "\"invalid_api_key\""));
        assert_eq!(answer.header("x-ratelimit-remaining"), Some(left));
        assert!(answer.header("www-authenticate").is_some());
    }
    let refused = from(gateway, client, "/api/x", &[BAD]).await;
    assert_eq!((refused.status, &*refused.json()["error"].to_string()), (429, "\"rate_limit_exceeded\""));
    assert!(refused.header("retry-after").is_some());
}

#[tokio::test]
async fn a_rule_counts_failed_authentication_by_address() {
    let (backend, folder) = (Backend::start(), TempDir::new().unwrap());
    let gateway = knowing_a_key(&folder, Setup::to(&[backend.address()])).start().await;
    for _ in 0..10 {
        assert_eq!(from(&gateway, "192.0.2.1", "/api/x", &[GOOD]).await.status, 200, "costs nothing");
    }
    let before = backend.requests();
    // What is held for the last of them may not be given back yet.
    until("all is there", async || {
        let answer = from(&gateway, "192.0.2.1", "/api/x", &[]).await;
        (answer.header("x-ratelimit-remaining") == Some("2")).then_some(())
    })
    .await;
    guesses_are_counted(&gateway, "192.0.2.9").await;
    assert_eq!(auth_failures(&gateway, "invalid_api_key").await, Some(3.0));
    assert_eq!(auth_failures(&gateway, "limited").await, Some(1.0), "the fourth was not looked at");
    let asked = backend.requests();
    assert!(asked > before);

    let (bad, good) = (
        from(&gateway, "192.0.2.9", "/api/x", &[BAD]).await,
        from(&gateway, "192.0.2.9", "/api/x", &[GOOD]).await,
    );
    assert_eq!(told(&good), told(&bad), "a good guess looks like a bad one");
    assert_eq!(good.status, 429);
    assert_eq!(backend.requests(), asked);
    assert_eq!(from(&gateway, "192.0.2.9", "/other", &[GOOD]).await.status, 200, "the rule is about /api");
    assert_eq!(from(&gateway, "192.0.2.8", "/api/x", &[GOOD]).await.status, 200, "others have theirs");
}

/// Rules without such a charge count what they always did.
#[tokio::test]
async fn other_rules_do_not_count_it() {
    let (backend, folder) = (Backend::start(), TempDir::new().unwrap());
    let gateway = knowing_a_key(&folder, Setup::to(&[backend.address()])).start().await;
    for _ in 0..5 {
        let refused = from(&gateway, "192.0.2.1", "/other", &[BAD]).await;
        assert_eq!((refused.status, refused.header("x-ratelimit-limit")), (401, None));
    }
    let answer = from(&gateway, "192.0.2.1", "/other", &[]).await;
    assert_eq!(answer.header("x-ratelimit-remaining"), Some("999"));
}

/// One that counts all clients together refuses them together, regardless of who failed.
#[tokio::test]
async fn a_rule_for_all_refuses_all() {
    let (backend, folder) = (Backend::start(), TempDir::new().unwrap());
    let gateway = knowing_a_key(&folder, Setup::to(&[backend.address()])).start().await;
    for client in ["192.0.2.1", "192.0.2.2"] {
        assert_eq!(from(&gateway, client, "/models", &[BAD]).await.status, 401);
    }
    let bad = from(&gateway, "192.0.2.3", "/models", &[BAD]).await;
    assert_eq!(told(&from(&gateway, "192.0.2.4", "/models", &[GOOD]).await), told(&bad));
    assert_eq!(bad.status, 429);
    assert_eq!(auth_failures(&gateway, "limited").await, Some(2.0));
}

/// Requests of others at the same time hold nothing of such a rule.
#[tokio::test]
async fn a_rule_may_be_about_nothing_else() {
    let (backend, folder) = (Backend::start(), TempDir::new().unwrap());
    let gateway = knowing_a_key(&folder, Setup::to(&[backend.address()])).start().await;
    for _ in 0..10 {
        let answer = from(&gateway, "192.0.2.1", "/keys", &[]).await;
        assert_eq!((answer.status, answer.header("x-ratelimit-limit")), (200, None));
    }
    for _ in 0..2 {
        assert_eq!(from(&gateway, "192.0.2.1", "/keys", &[BAD]).await.status, 401);
    }
    let bad = from(&gateway, "192.0.2.1", "/keys", &[BAD]).await;
    assert_eq!(bad.status, 429);
    assert_eq!(told(&from(&gateway, "192.0.2.1", "/keys", &[GOOD]).await), told(&bad));
    assert_eq!(from(&gateway, "192.0.2.1", "/keys", &[]).await.status, 200, "nothing is shown");
}

#[tokio::test]
async fn back_ends_and_the_gateway_are_counted_together() {
    let (backend, folder): (Scripted, _) = (backend(), TempDir::new().unwrap());
    let gateway = knowing_a_key(&folder, Setup::to(&[backend.address()])).start().await;
    let answer = from(&gateway, "192.0.2.1", "/api/x", &[GOOD, ("want-status", "401")]).await;
    assert_eq!(answer.status, 401);
    assert_eq!(from(&gateway, "192.0.2.1", "/api/x", &[BAD]).await.status, 401);
    until("both are settled", async || {
        let answer = from(&gateway, "192.0.2.1", "/api/x", &[GOOD, ("want-status", "200")]).await;
        (answer.header("x-ratelimit-remaining") == Some("0")).then_some(())
    })
    .await;
}

#[tokio::test]
async fn gateways_count_it_together_in_redis() {
    let (redis, backend, folder) = (Redis::start(), Backend::start(), TempDir::new().unwrap());
    let setup = || knowing_a_key(&folder, Setup::to(&[backend.address()])).node(on(&redis));
    let (one, other) = (setup().start().await, setup().start().await);
    for gateway in [&one, &other] {
        usable(gateway, "/api/x").await;
    }
    guesses_are_counted(&one, "192.0.2.1").await;
    let bad = from(&other, "192.0.2.1", "/api/x", &[BAD]).await;
    assert_eq!(bad.status, 429, "counted there, refused here");
    assert_eq!(auth_failures(&other, "limited").await, Some(0.0), "nothing was known here of that client");
    let good = from(&other, "192.0.2.1", "/api/x", &[GOOD]).await;
    assert_eq!((told(&good).0, told(&good).2), (429, told(&bad).2));
    assert_eq!(auth_failures(&other, "limited").await, Some(1.0));
}

#[tokio::test]
async fn the_access_log_names_the_rule() {
    let (backend, folder) = (Backend::start(), TempDir::new().unwrap());
    let log: PathBuf = folder.path().join("access.log");
    let setup = knowing_a_key(&folder, Setup::to(&[backend.address()]));
    let setup = setup.gateway(|gateway| gateway.access_log = Some(AccessLogTarget::File(log.clone())));
    let gateway = setup.start().await;
    guesses_are_counted(&gateway, "192.0.2.1").await;
    let lines = until("there are four lines", async || {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        let lines: Vec<serde_json::Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        (lines.len() == 4).then_some(lines)
    })
    .await;
    let said = |line: &serde_json::Value| {
        ["status", "decision", "rule", "error"].map(|name| line[name].to_string()).join(" ")
    };
    assert_eq!(said(&lines[0]), r#"401 null null "invalid_api_key""#);
    assert_eq!(said(&lines[3]), r#"429 "refused" "guesses" null"#);
    assert!(lines.iter().all(|line| line["client"] == "192.0.2.1"), "{lines:?}");
}

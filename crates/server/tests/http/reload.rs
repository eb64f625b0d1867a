//! Rules that change while requests flow.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tidegate::store::MemoryStore;
use tidegate::{Span, SystemClock};
use tidegate_server::{Config, RulesFeed, Server, SharedStore};
use tidegate_sources::{Event, FileSource, Next, RuleSource, Snapshot, StoredText};
use tokio::sync::mpsc;

use crate::client::{Ask, Connection, Running, config, eventually, start_with};

fn rules(rule: &str, limit: u64) -> String {
    format!("rules:\n  - {{rule_id: {rule}, identifier_type: user_id, limit: {limit}, window: 1h}}\n")
}

/// Replaces a file the way careful programs do.
fn replace(path: &Path, text: &str) {
    let new = path.with_extension("new");
    std::fs::write(&new, text).unwrap();
    std::fs::rename(new, path).unwrap();
}

async fn start(path: &Path) -> Running {
    start_with(config(), RulesFeed::watch(FileSource::new(path))).await
}

async fn limit_is(server: &Running, limit: u64) {
    eventually(&format!("limit {limit}"), async || {
        server.check(r#"{"user":"probe","resource":"/","cost":0}"#).await.json()["limit"] == limit
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_request_fails_while_rules_change() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rules.yaml");
    std::fs::write(&path, rules("each", 1_000_000)).unwrap();
    let server = start(&path).await;
    assert!(server.admin("/health").await.json()["rules_age"].is_f64());
    assert!(server.metric("tidegate_rules_age_seconds").await.is_some());
    let done = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> = (0..4)
        .map(|client| {
            let (address, done) = (server.addresses.http, Arc::clone(&done));
            tokio::spawn(async move {
                let mut connection = Connection::open(address).await;
                let body = format!(r#"{{"user":"user-{client}","resource":"/"}}"#);
                let mut count = 0_u64;
                while !done.load(Ordering::Relaxed) {
                    let answer = connection.send(Ask::post("/v1/check", &body)).await;
                    assert_eq!(
                        (answer.status.as_u16(), answer.json()["allowed"].as_bool()),
                        (200, Some(true))
                    );
                    count += 1;
                }
                count
            })
        })
        .collect();
    for (round, limit) in (2_000_000..2_000_005).enumerate() {
        replace(&path, &rules(if round % 2 == 0 { "other" } else { "each" }, limit));
        limit_is(&server, limit).await;
    }
    done.store(true, Ordering::Relaxed);
    let mut sent = 0;
    for client in clients {
        sent += client.await.unwrap();
    }
    let status = server.admin("/v1/status").await.json();
    let decided = status["decisions"]["allowed"].as_u64().unwrap();
    assert!(sent > 0 && decided >= sent, "{decided} decisions for {sent} requests");
    assert_eq!(server.metric("tidegate_rules_load_errors_total").await, Some(0.0));
}

#[tokio::test]
async fn counters_go_on_when_rules_are_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rules.yaml");
    std::fs::write(&path, rules("each", 10)).unwrap();
    let server = start(&path).await;
    let series =
        |rule: &str| format!(r#"tidegate_decisions_total{{rule="{rule}",tier="other",outcome="allowed"}}"#);
    let body = r#"{"user":"alice","resource":"/"}"#;
    server.check(body).await;
    replace(&path, &rules("each", 20));
    eventually("the new rules", async || server.remaining(body).await > 10).await;
    server.check(body).await;
    assert_eq!(server.metric(&series("each")).await, Some(2.0));
    let version = server.metric("tidegate_rules_version").await.unwrap();
    assert!(version > 1.0);
    for rule in ["b", "c"] {
        replace(&path, &rules(rule, 20));
        eventually(rule, async || server.admin(&format!("/v1/rules/{rule}")).await.status == 200).await;
        server.check(body).await;
    }
    assert_eq!(server.metric(&series("each")).await, None, "the series of a rule long gone ends");
    assert_eq!(server.metric(&series("b")).await, Some(1.0), "that of one just gone can still be read");
    assert_eq!(server.admin("/v1/status").await.json()["decisions"]["allowed"], 4, "the total does not fall");
}

/// Counting requests in flight on each node by itself would allow as many times the limit as there are nodes.
#[tokio::test]
async fn limits_on_requests_in_flight_are_refused_with_a_shared_store() {
    let in_flight = "rules:\n  - {rule_id: each, identifier_type: user_id, algorithm: in_flight, limit: 2}\n";
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rules.yaml");
    let shared = || {
        let store = MemoryStore::new(1_000, Arc::new(SystemClock));
        Config { store: Some(SharedStore::new("elsewhere", Arc::new(store))), ..config() }
    };
    std::fs::write(&path, in_flight).unwrap();
    let Err(error) = Server::bind(shared(), RulesFeed::watch(FileSource::new(&path))).await else {
        panic!("it starts")
    };
    assert!(error.to_string().contains("algorithm in_flight works with counters in memory only"), "{error}");
    replace(&path, &rules("each", 10));
    let server = start_with(shared(), RulesFeed::watch(FileSource::new(&path))).await;
    replace(&path, in_flight);
    let reasons = async || server.admin("/health").await.json()["reasons"].to_string();
    eventually("it says so", async || reasons().await.contains("run without a shared store")).await;
    assert_eq!(server.admin("/v1/rules/each").await.json()["limit"], 10, "the last good rules stay");
    replace(&path, &rules("each", 30));
    eventually("it is well again", async || !reasons().await.contains("in_flight")).await;
    // In memory, they can be put in force while requests flow.
    let server = start(&path).await;
    replace(&path, in_flight);
    limit_is(&server, 2).await;
    let body = r#"{"user":"alice","resource":"/"}"#;
    for allowed in [true, true, false] {
        assert_eq!(server.check(body).await.json()["allowed"], allowed);
    }
    server.clock.advance(Span::from_secs(60));
    assert_eq!(server.check(body).await.json()["allowed"], true, "given back by itself");
}

#[tokio::test]
async fn bad_rules_change_nothing_and_are_shown() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rules.yaml");
    std::fs::write(&path, rules("each", 10)).unwrap();
    let server = start(&path).await;
    let version = server.admin("/health").await.json()["rules_version"].clone();

    replace(&path, "rules:\n  - {rule_id: each, identifier_type: user_id, limt: 20, window: 1h}\n");
    eventually("degraded", async || server.admin("/health").await.json()["status"] == "degraded").await;
    let health = server.admin("/health").await.json();
    let reasons = health["reasons"].to_string();
    assert!(reasons.contains("rules.yaml:2:") && reasons.contains("limt"), "{reasons}");
    assert_eq!(health["rules_version"], version, "the last good rules stay");
    let decision = server.check(r#"{"user":"alice","resource":"/"}"#).await.json();
    assert_eq!((decision["limit"].as_u64(), decision["mode"].as_str()), (Some(10), Some("degraded")));
    assert!(server.metric("tidegate_rules_load_errors_total").await.unwrap() >= 1.0);
    assert_eq!(server.metric("tidegate_operating_mode").await, Some(1.0));
    assert_eq!(server.admin("/readyz").await.status, 200, "it can still decide");

    replace(&path, &rules("each", 30));
    limit_is(&server, 30).await;
    let health = server.admin("/health").await.json();
    assert_eq!((health["status"].as_str(), health["reasons"].as_array().unwrap().len()), (Some("normal"), 0));
    assert_eq!(server.metric("tidegate_operating_mode").await, Some(0.0));
}

#[tokio::test]
async fn a_file_that_goes_away_takes_no_rules_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rules.yaml");
    std::fs::write(&path, rules("each", 10)).unwrap();
    let server = start(&path).await;
    std::fs::remove_file(&path).unwrap();
    eventually("degraded", async || server.admin("/health").await.json()["status"] == "degraded").await;
    assert_eq!(server.check(r#"{"user":"alice","resource":"/"}"#).await.json()["limit"], 10);
    std::fs::write(&path, rules("each", 11)).unwrap();
    limit_is(&server, 11).await;
    assert_eq!(server.admin("/health").await.json()["status"], "normal");
}

#[tokio::test]
async fn without_rules_there_is_no_start() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("missing.yaml");
    let error =
        tidegate_server::Server::bind(config(), RulesFeed::watch(FileSource::new(&path))).await.unwrap_err();
    assert!(error.to_string().contains("missing.yaml"), "{error}");
}

/// A node whose source is away, or has nothing good to give, starts with what it last had, and says so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_of_the_last_good_rules_is_enough_to_start() {
    let folder = tempfile::tempdir().unwrap();
    let (path, copy) = (folder.path().join("rules.yaml"), folder.path().join("copy.json"));
    let start = async || {
        let config = Config { rules_cache: Some(copy.clone()), ..config() };
        start_with(config, RulesFeed::watch(FileSource::new(&path))).await
    };
    std::fs::write(&path, rules("each", 5)).unwrap();
    let server = start().await;
    limit_is(&server, 5).await;
    replace(&path, &rules("each", 6));
    limit_is(&server, 6).await;
    eventually("kept", async || std::fs::read_to_string(&copy).is_ok_and(|copy| copy.contains("limit: 6")))
        .await;
    assert!(server.stopped().await.is_ok());

    std::fs::remove_file(&path).unwrap();
    let server = start().await;
    limit_is(&server, 6).await;
    let health = server.admin("/health").await.json();
    assert_eq!(health["status"], "degraded");
    assert!(health["reasons"][0].as_str().unwrap().contains("rules.yaml"), "{health}");
    std::fs::write(&path, rules("each", 7)).unwrap();
    limit_is(&server, 7).await;
    eventually("well", async || server.admin("/health").await.json()["status"] == "normal").await;
    assert!(server.stopped().await.is_ok());

    std::fs::write(&path, "rules: [{limt: 3}]").unwrap();
    let server = start().await;
    limit_is(&server, 7).await;
    let health = server.admin("/health").await.json();
    assert!(health["reasons"].to_string().contains("limt"), "{health}");
    assert!(server.stopped().await.is_ok());

    std::fs::write(&copy, "{").unwrap();
    let config = Config { rules_cache: Some(copy.clone()), ..config() };
    let error = Server::bind(config, RulesFeed::watch(FileSource::new(&path))).await.unwrap_err();
    assert!(error.to_string().contains("limt") && error.to_string().contains("damaged"), "{error}");
}

/// A source whose documents stand each by itself, as keys and rows do.
struct Keys(mpsc::Receiver<Event>);

impl RuleSource for Keys {
    fn next(&mut self) -> Next<'_> {
        Box::pin(async {
            match self.0.recv().await {
                Some(event) => event,
                None => std::future::pending().await,
            }
        })
    }
}

fn keys(version: u64, documents: &[(&str, &str)]) -> Event {
    let documents = documents.iter().map(|(name, rest)| {
        let text = format!("{{rule_id: {name}, identifier_type: global, window: 1h, {rest}}}");
        StoredText::new(*name, version, text)
    });
    Event::Loaded(Snapshot { version, stamp: version, apart: true, documents: documents.collect() })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_document_that_stands_by_itself_harms_no_other() {
    let (tell, told) = mpsc::channel(8);
    tell.send(keys(1, &[("a", "limit: 5"), ("b", "limit: 50")])).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("copy.json");
    let with_copy = || Config { rules_cache: Some(copy.clone()), ..config() };
    let server = start_with(with_copy(), RulesFeed::watch(Keys(told))).await;
    let limits = async |server: &Running| {
        let rules = server.admin("/v1/rules").await.json()["rules"].clone();
        rules.as_array().unwrap().iter().map(|rule| rule["limit"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(limits(&server).await, [5, 50]);

    tell.send(keys(2, &[("a", "limit: 6"), ("b", "limt: 60")])).await.unwrap();
    eventually("the good one", async || limits(&server).await == [6, 50]).await;
    let health = server.admin("/health").await.json();
    let reason = health["reasons"][0].as_str().unwrap();
    assert!(
        reason.starts_with("b is not in force, its last good version stays") && reason.contains("limt"),
        "{reason}"
    );
    assert_eq!(server.metric("tidegate_rules_quarantined").await, Some(1.0));
    assert_eq!(server.admin("/readyz").await.status, 200, "it has a version of every rule");
    assert!(server.stopped().await.is_ok());

    let afresh = async |config| {
        let (tell, told) = mpsc::channel(8);
        tell.send(keys(2, &[("a", "limit: 6"), ("b", "limt: 60")])).await.unwrap();
        (start_with(config, RulesFeed::watch(Keys(told))).await, tell)
    };
    let (server, _tell) = afresh(with_copy()).await;
    assert_eq!(limits(&server).await, [6, 50], "the copy has the last good version");
    let (server, tell) = afresh(config()).await;
    assert_eq!(limits(&server).await, [6]);
    assert_eq!(server.admin("/readyz").await.status, 503, "it knows of a rule that it does not have");
    tell.send(keys(3, &[("a", "limit: 6"), ("b", "limit: 60")])).await.unwrap();
    eventually("ready", async || server.admin("/readyz").await.status == 200).await;
    assert_eq!(limits(&server).await, [6, 60]);
    assert_eq!(server.admin("/health").await.json()["status"], "normal");
}

//! `GET /v1/events` and `GET /v1/whoami`

use http::StatusCode;
use serde_json::{Value, json};
use tidegate_server::{AdminTokens, Config, NamedToken, Role, RulesFeed};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::stream::Stream;
use crate::client::{Ask, DEADLINE, Running, config, send, start, start_with};

const RULES: &str = "
tiers: {free: {limit: 2, window: 1h}, gold: {limit: 20, window: 1h}}
default_tier: free
rules:
  - {rule_id: tiered, identifier_type: user_id, tiered: true, match: {path_pattern: /tiered}}
";

const ALICE: &str = r#"{"user":"alice","resource":"/tiered"}"#;

fn refused(tick: &Value) -> Option<u64> {
    tick["state"]["totals"]["refused"].as_u64()
}

#[tokio::test]
async fn all_is_told_at_first_in_its_order() {
    let server = start(RULES).await;
    let mut events = Stream::open(server.addresses.admin).await;
    let mut first = Vec::new();
    for _ in 0..4 {
        first.push(events.next().await.unwrap());
    }
    let names: Vec<&str> = first.iter().map(|(name, _)| &**name).collect();
    assert_eq!(names, ["history", "tick", "insight", "journal"]);
    let bounds = first[0].1["bounds"].as_array().unwrap();
    assert_eq!((bounds.len(), bounds[0].as_f64(), bounds[15].as_f64()), (16, Some(1e-6), Some(0.1)));
    let tick = &first[1].1;
    assert_eq!(tick["point"]["buckets"].as_array().unwrap().len(), 17);
    assert_eq!(tick["point"]["latency"], Value::Null);
    let state = &tick["state"];
    assert_eq!(
        (&state["name"], &state["mode"], &state["cluster"]),
        (&Value::Null, &json!("normal"), &Value::Null)
    );
    assert_eq!(state["store"], json!({"kind": "memory", "unsettled": 0, "shards": []}));
    assert_eq!((&state["rules"]["count"], &state["gateway"]), (&json!(1), &json!(false)));
    assert_eq!(first[2].1, server.admin("/v1/insight").await.json());
    let entries = first[3].1["entries"].as_array().unwrap();
    let expected = json!({
        "at": "2024-01-01T00:00:00Z", "kind": "node", "severity": "info", "title": "started",
        "detail": format!("version {}", env!("CARGO_PKG_VERSION")), "runbook": null,
    });
    assert_eq!(entries, &[expected]);
    events.until("tick", |_| true).await;
}

#[tokio::test]
async fn ticks_tell_what_metrics_tell() {
    let server = start(RULES).await;
    let mut events = Stream::open(server.addresses.admin).await;
    events.until("journal", |_| true).await;
    // So that there is a second to compare with.
    events.until("tick", |_| true).await;
    for _ in 0..5 {
        server.check(ALICE).await;
    }
    let (mut seen, mut tiers, mut rules) = ((0.0, 0.0), (0.0, 0.0), 0.0_f64);
    let mut buckets = 0;
    let add = |sum: &mut (f64, f64), from: &Value| {
        sum.0 += from["allowed"].as_f64().unwrap();
        sum.1 += from["refused"].as_f64().unwrap();
    };
    while buckets < 5 {
        let tick = events.until("tick", |_| true).await;
        let point = &tick["point"];
        add(&mut seen, &point["decisions"]);
        point["tiers"].as_array().unwrap().iter().for_each(|tier| {
            assert_eq!(tier["tier"], "free");
            add(&mut tiers, tier);
        });
        let counts = point["buckets"].as_array().unwrap();
        let decided: u64 = counts.iter().map(|count| count.as_u64().unwrap()).sum();
        assert_eq!(decided > 0, point["latency"].is_object(), "{point}");
        buckets += decided;
        rules = rules.max(tick["state"]["by_rule"].as_array().unwrap().len() as f64);
    }
    let tick = events.until("tick", |tick| refused(tick) == Some(3)).await;
    assert_eq!(tick["state"]["totals"]["allowed"], 2);
    let metric = async |outcome: &str| {
        let series =
            format!("tidegate_decisions_total{{rule=\"tiered\",tier=\"free\",outcome=\"{outcome}\"}}");
        server.metric(&series).await
    };
    assert_eq!((metric("allowed").await, metric("refused").await), (Some(2.0), Some(3.0)));
    // Rates over seconds that last a little more or less than one.
    assert!(seen.0 > 0.0 && seen.1 > 0.0 && seen == tiers && rules == 1.0, "{seen:?} {tiers:?} {rules}");
}

#[tokio::test]
async fn one_that_connects_later_has_the_history() {
    let server = start(RULES).await;
    let mut first = Stream::open(server.addresses.admin).await;
    server.check(ALICE).await;
    first.until("tick", |tick| tick["point"]["decisions"]["allowed"].as_f64() > Some(0.0)).await;
    let mut later = Stream::open(server.addresses.admin).await;
    let (name, history) = later.next().await.unwrap();
    assert_eq!(name, "history");
    let points = history["points"].as_array().unwrap();
    let decided = points.iter().filter(|point| point["decisions"]["allowed"].as_f64() > Some(0.0)).count();
    assert_eq!(decided, 1, "{history}");
}

#[tokio::test]
async fn one_that_does_not_read_stops_nobody() {
    let server = start(RULES).await;
    let mut silent = Vec::new();
    for _ in 0..20 {
        let mut stream = TcpStream::connect(server.addresses.admin).await.unwrap();
        stream.write_all(b"GET /v1/events HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
        silent.push(stream);
    }
    let mut events = Stream::open(server.addresses.admin).await;
    server.check(ALICE).await;
    events.until("tick", |tick| tick["state"]["totals"]["allowed"] == 1).await;
    events.until("tick", |_| true).await;
    assert!(server.stopped().await.is_ok(), "nor does it hold up the end");
}

#[tokio::test]
async fn there_is_room_for_so_many() {
    let server = start(RULES).await;
    let mut watchers = Vec::new();
    for _ in 0..200 {
        watchers.push(Stream::open(server.addresses.admin).await);
    }
    let full = server.admin("/v1/events").await;
    assert_eq!(
        (full.status, full.json()["error"].as_str()),
        (StatusCode::SERVICE_UNAVAILABLE, Some("too_many_watchers"))
    );
    watchers.pop();
    let again = async {
        while Stream::ask(server.addresses.admin, Ask::get("/v1/events")).await.is_err() {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    timeout(DEADLINE, again).await.expect("whoever leaves makes room");
}

#[tokio::test]
async fn events_end_with_the_node() {
    let mut server = start(RULES).await;
    let mut events = Stream::open(server.addresses.admin).await;
    events.until("journal", |_| true).await;
    server.stop();
    while events.next().await.is_some() {}
    assert!(server.stopped().await.is_ok());
}

#[tokio::test]
async fn the_drain_can_be_watched() {
    let grace = std::time::Duration::from_secs(60);
    let feed = RulesFeed::fixed("rules.yaml", RULES);
    let mut server = start_with(Config { grace, ..config() }, feed).await;
    let mut events = Stream::open(server.addresses.admin).await;
    events.until("journal", |_| true).await;
    server.stop();
    let journal = events.until("journal", |_| true).await;
    assert_eq!(
        (&journal["entries"][0]["kind"], &journal["entries"][0]["title"]),
        (&json!("node"), &json!("draining"))
    );
    events.until("tick", |tick| tick["state"]["draining"] == true).await;
}

/// A server that knows a token, without which nobody may ask.
async fn with_tokens(secret: &str) -> Running {
    let viewer = NamedToken::new("viewer", Role::Read, secret).unwrap().to_string();
    let tokens = Some(AdminTokens::Inline(viewer));
    let config = Config { admin_tokens: tokens, admin_local: false, ..config() };
    start_with(config, RulesFeed::fixed("rules.yaml", RULES)).await
}

#[tokio::test]
async fn tokens_are_needed_where_they_are_known() {
    let secret = NamedToken::secret([7; 32]);
    let server = with_tokens(&secret).await;
    let bearer = format!("Bearer {secret}");
    for path in ["/v1/events", "/v1/fleet", "/v1/whoami"] {
        assert_eq!(server.admin(path).await.status, StatusCode::UNAUTHORIZED, "{path}");
    }
    let ask = |path| Ask::get(path).headers(&[("authorization", &bearer)]);
    let mut events = Stream::ask(server.addresses.admin, ask("/v1/events")).await.unwrap();
    assert_eq!(events.next().await.unwrap().0, "history");
    let who = send(server.addresses.admin, ask("/v1/whoami")).await.json();
    assert_eq!(who, json!({"name": "viewer", "role": "read", "tokens": true}));
    let html = [("accept", "text/html")];
    for (path, headers, expected) in
        [("/", &html[..], 200), ("/dashboard/app.js", &[], 200), ("/", &[], 401), ("/v1/status", &html, 401)]
    {
        let answer = send(server.addresses.admin, Ask::get(path).headers(headers)).await;
        assert_eq!(answer.status, expected, "{path} {headers:?}: the page has no data");
    }
}

#[tokio::test]
async fn without_tokens_the_network_says_who_asks() {
    let server = start(RULES).await;
    let who = server.admin("/v1/whoami").await.json();
    assert_eq!(who, json!({"name": "local", "role": "write", "tokens": false}));
}

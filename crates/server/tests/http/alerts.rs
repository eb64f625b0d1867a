//! Alerts: `GET /v1/alerts`, the webhook, and what Prometheus and Grafana make of `/metrics`.

mod deployed;
mod receiver;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tidegate::store::{
    Answer, BreakerState, Deadline, Failure, Group, Outcome, Outcomes, Shard, ShardStats, Store,
};
use tidegate_redis::{RedisStore, ServerReport};
use tidegate_server::{
    AlertSettings, Config, RulesFeed, SharedStore, StoreReport, StoreReporter, Webhook, WebhookStyle,
};
use tidegate_sources::FileSource;
use tidegate_testkit::{Certificates, Redis};

use crate::client::{Ask, Connection, Running, config, eventually, start_with};
use receiver::Receiver;

const RULES: &str = "rules:\n  - {rule_id: each, identifier_type: user_id, limit: 9, window: 1h}\n";

/// Tests do not wait for minutes that people should.
fn soon() -> AlertSettings {
    let moment = Duration::from_millis(30);
    AlertSettings {
        every: Duration::from_millis(10),
        store_down_for: moment,
        degraded_for: moment,
        others_for: moment,
        resolves_after: moment,
        ..AlertSettings::default()
    }
}

/// A store with one shard, which is down on demand.
#[derive(Default)]
struct Switch {
    down: AtomicBool,
    stats: Arc<ShardStats>,
}

impl Switch {
    fn problem(&self) -> Option<String> {
        self.down.load(Ordering::Relaxed).then(|| "<it> is switched off".to_owned())
    }
}

impl Store for Switch {
    fn apply<'a, 'r: 'a>(&'a self, groups: &'a [Group<'r>], _: Deadline) -> Answer<'a> {
        let outcome = |_: &_| Outcome::Unavailable(Failure::Connection);
        let all = groups.iter().map(|group| group.iter().map(outcome).collect::<Outcomes>()).collect();
        Box::pin(std::future::ready(all))
    }

    fn problem(&self) -> Option<String> {
        self.problem()
    }

    fn shards(&self) -> Vec<Shard> {
        let (stats, problem) = (Arc::clone(&self.stats), self.problem());
        vec![Shard { name: "one".to_owned(), stats, problem, breaker: BreakerState::Closed }]
    }
}

async fn start(store: &Arc<Switch>, webhook: Option<Webhook>) -> Running {
    let report = StoreReport {
        cpu_time: Some(Duration::from_secs(5)),
        memory: Some(95),
        max_memory: Some(100),
        connections: Some((10, 100)),
        replication_lag: Some(Duration::ZERO),
    };
    let reporter = StoreReporter::new(move || Box::pin(std::future::ready(vec![("one".to_owned(), report)])));
    let store = SharedStore::new("switch", Arc::clone(store) as _).reporting(reporter);
    let config = Config { store: Some(store), alerts: soon(), alert_webhook: webhook, ..config() };
    start_with(config, RulesFeed::fixed("rules.yaml", RULES)).await
}

async fn alerts(server: &Running) -> Value {
    server.admin("/v1/alerts").await.json()
}

async fn is_active(server: &Running, alert: &str) -> bool {
    let active = alerts(server).await["active"].clone();
    active.as_array().unwrap().iter().any(|each| each["alert"] == alert)
}

#[tokio::test]
async fn a_node_that_is_well_has_none() {
    let server = crate::client::start(RULES).await;
    let nothing = json!({"active": [], "resolved": [], "events": [], "webhook": null});
    assert_eq!(alerts(&server).await, nothing);
    let series = r#"tidegate_alerts{alert="store_down",severity="critical"}"#;
    assert_eq!(server.metric(series).await, Some(0.0));
}

#[tokio::test]
async fn a_store_that_goes_and_comes_back_is_told_on_the_page_and_in_metrics() {
    let store = Arc::new(Switch::default());
    let server = start(&store, None).await;
    let metric = async || server.metric(r#"tidegate_alerts{alert="store_down",severity="critical"}"#).await;
    store.down.store(true, Ordering::Relaxed);
    eventually("it fires", async || is_active(&server, "store_down").await).await;
    assert_eq!(metric().await, Some(1.0));
    let first = alerts(&server).await["active"][0].clone();
    assert_eq!((&first["severity"], &first["since"]), (&json!("critical"), &json!("2024-01-01T00:00:00Z")));
    let all = alerts(&server).await;
    let down = all["active"].as_array().unwrap().iter().find(|each| each["alert"] == "store_down").unwrap();
    assert_eq!(down["summary"], "the store cannot be used: <it> is switched off");
    assert_eq!(down["runbook"], "docs/operations/runbooks.md#store_down");
    assert_eq!(down["resolved_at"], Value::Null);
    store.down.store(false, Ordering::Relaxed);
    eventually("it is over", async || !is_active(&server, "store_down").await).await;
    assert_eq!(metric().await, Some(0.0));
    let resolved = alerts(&server).await["resolved"].clone();
    let over = resolved.as_array().unwrap().iter().find(|each| each["alert"] == "store_down");
    assert_eq!(over.unwrap()["resolved_at"], "2024-01-01T00:00:00Z");
}

#[tokio::test]
async fn what_servers_of_the_store_say_of_themselves_is_watched() {
    let server = start(&Arc::default(), None).await;
    eventually("it fires", async || is_active(&server, "store_memory_critical").await).await;
    assert_eq!(server.metric(r#"tidegate_store_memory_ratio{shard="one"}"#).await, Some(0.95));
    assert_eq!(server.metric(r#"tidegate_store_memory_bytes{shard="one"}"#).await, Some(95.0));
    assert!(!is_active(&server, "connections_exhausted").await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_fills_up_is_told_by_the_name_of_its_shard() {
    let redis = Redis::start();
    let store = Arc::new(RedisStore::builder(redis.url().parse().unwrap()).start().unwrap());
    let asked = Arc::clone(&store);
    let reporter = StoreReporter::new(move || {
        let store = Arc::clone(&asked);
        Box::pin(async move {
            let servers = store.inspect().await.into_iter();
            let known = servers.filter_map(|(name, said)| Some((name, said.ok()?)));
            let report = |said: ServerReport| StoreReport {
                memory: Some(said.used_memory),
                max_memory: Some(said.max_memory),
                ..StoreReport::default()
            };
            known.map(|(name, said)| (name, report(said))).collect()
        })
    });
    let info: String = redis.query(&["INFO", "memory"]);
    let used = info.lines().find_map(|line| line.strip_prefix("used_memory:")).unwrap();
    let room = used.trim().parse::<u64>().unwrap() * 21 / 20;
    redis.query::<()>(&["CONFIG", "SET", "maxmemory", &room.to_string()]);
    let store = SharedStore::new("redis", store).reporting(reporter);
    let config = Config { store: Some(store), alerts: soon(), ..config() };
    let server = start_with(config, RulesFeed::fixed("rules.yaml", RULES)).await;
    eventually("it fires", async || is_active(&server, "store_memory").await).await;
    let active = alerts(&server).await["active"].clone();
    let told = active.as_array().unwrap().iter().find(|each| each["alert"] == "store_memory").unwrap();
    let summary = told["summary"].as_str().unwrap();
    assert!(summary.starts_with(&redis.address().to_string()), "{summary}");
}

#[tokio::test]
async fn other_rules_are_an_event() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rules.yaml");
    std::fs::write(&path, RULES).unwrap();
    let config = Config { alerts: soon(), ..config() };
    let server = start_with(config, RulesFeed::watch(FileSource::new(&path))).await;
    let new = path.with_extension("new");
    eventually("an event", async || {
        let limit = 10 + alerts(&server).await["events"].as_array().unwrap().len();
        std::fs::write(&new, RULES.replace("limit: 9", &format!("limit: {limit}"))).unwrap();
        std::fs::rename(&new, &path).unwrap();
        let events = alerts(&server).await["events"].clone();
        events[0]["event"] == "rules_changed" && events[0]["severity"] == "info"
    })
    .await;
}

fn webhook(receiver: &Receiver, style: WebhookStyle) -> Webhook {
    let url = format!("http://{}/hook?key=secret", receiver.address);
    Webhook::new(&url, style).unwrap().source("edge-1").first_pause(Duration::from_millis(5))
}

/// Has the store go and come back, and says what was taken of that by the webhook.
async fn taken(receiver: &Receiver, style: WebhookStyle, about: impl Fn(&Value) -> bool) -> Vec<Value> {
    let store = Arc::new(Switch::default());
    let server = start(&store, Some(webhook(receiver, style))).await;
    store.down.store(true, Ordering::Relaxed);
    eventually("it fires", async || is_active(&server, "store_down").await).await;
    store.down.store(false, Ordering::Relaxed);
    eventually("both are over", async || {
        !is_active(&server, "store_down").await && !is_active(&server, "degraded").await
    })
    .await;
    eventually("nothing waits", async || alerts(&server).await["webhook"]["waiting"] == 0).await;
    let shown = alerts(&server).await["webhook"].clone();
    assert_eq!((&shown["given_up"], &shown["problem"]), (&json!(0), &Value::Null), "{shown}");
    let failed = server.metric(r#"tidegate_alert_posts_total{outcome="failed"}"#).await;
    assert_eq!(failed, Some(f64::from(receiver.refused())));
    receiver.taken().into_iter().filter(about).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_that_fails_at_first_hears_of_each_change_once() {
    let receiver = Receiver::start(3).await;
    let told = taken(&receiver, WebhookStyle::Generic, |body| body["alert"] == "store_down").await;
    let states: Vec<&Value> = told.iter().map(|body| &body["state"]).collect();
    assert_eq!(states, ["firing", "resolved"]);
    assert_eq!(receiver.refused(), 3);
    for body in &told {
        assert_eq!((&body["severity"], &body["source"]), (&json!("critical"), &json!("edge-1")));
        assert_eq!(body["runbook"], "docs/operations/runbooks.md#store_down");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slack_and_pager_duty_get_what_they_understand() {
    let receiver = Receiver::start(0).await;
    let about = |body: &Value| body["text"].as_str().unwrap().contains("store_down");
    let told = taken(&receiver, WebhookStyle::Slack, about).await;
    let texts: Vec<&Value> = told.iter().map(|body| &body["text"]).collect();
    assert_eq!(texts, ["[firing] store_down on edge-1", "[resolved] store_down on edge-1"]);
    assert!(told[0]["attachments"][0]["text"].as_str().unwrap().contains("&lt;it&gt;"));

    let receiver = Receiver::start(1).await;
    let style = WebhookStyle::PagerDuty { routing_key: "key".to_owned() };
    let told = taken(&receiver, style, |body| body["payload"]["class"] == "store_down").await;
    let actions: Vec<&Value> = told.iter().map(|body| &body["event_action"]).collect();
    assert_eq!(actions, ["trigger", "resolve"]);
    assert!(told.iter().all(|body| body["dedup_key"] == "tidegate/edge-1/store_down"));
    assert!(told.iter().all(|body| body["routing_key"] == "key"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_over_tls_is_told_if_its_certificate_is_good() {
    let certificates = Certificates::generate();
    let receiver = Receiver::start_tls(&certificates).await;
    let url = format!("https://localhost:{}/hook?key=secret", receiver.address.port());
    let trusting = |authorities: &Path| {
        let webhook = Webhook::with_authorities(&url, WebhookStyle::Generic, Some(authorities)).unwrap();
        webhook.first_pause(Duration::from_millis(5))
    };
    let store = Arc::new(Switch { down: AtomicBool::new(true), ..Switch::default() });
    let stranger = start(&store, Some(trusting(&Certificates::generate().authority()))).await;
    eventually("a failure", async || alerts(&stranger).await["webhook"]["failed"] != 0).await;
    let shown = alerts(&stranger).await["webhook"].clone();
    assert!(shown["problem"].as_str().unwrap().contains("TLS"), "{shown}");
    assert_eq!(receiver.taken(), [] as [Value; 0]);
    let server = start(&store, Some(trusting(&certificates.authority()))).await;
    eventually("it is taken", async || alerts(&server).await["webhook"]["delivered"] != 0).await;
    assert!(receiver.taken().iter().any(|body| body["state"] == "firing"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listener_that_is_full_is_told() {
    let config = Config { alerts: soon(), max_connections: 20, ..config() };
    let server = start_with(config, RulesFeed::fixed("rules.yaml", RULES)).await;
    let mut held = Vec::new();
    for _ in 0..19 {
        let mut connection = Connection::open(server.addresses.http).await;
        connection.send(Ask::post("/v1/check", r#"{"user":"a","resource":"/"}"#)).await;
        held.push(connection);
    }
    eventually("it fires", async || is_active(&server, "connections_exhausted").await).await;
    drop(held);
    eventually("it is over", async || !is_active(&server, "connections_exhausted").await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_that_is_not_there_holds_up_nothing() {
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let webhook = Webhook::new(&format!("http://{nobody}/"), WebhookStyle::Generic).unwrap();
    let store = Arc::new(Switch::default());
    let server = start(&store, Some(webhook)).await;
    store.down.store(true, Ordering::Relaxed);
    eventually("a failure", async || alerts(&server).await["webhook"]["failed"] != 0).await;
    let shown = alerts(&server).await["webhook"].clone();
    assert!(shown["problem"].as_str().unwrap().contains("connect"), "{shown}");
    assert_eq!(server.check(r#"{"user":"a","resource":"/"}"#).await.status, 200);
    server.stopped().await.unwrap();
}

/// Clients that make up identities are noticed, and others are served meanwhile.
#[tokio::test]
async fn more_identities_than_there_is_room_for_are_told_of() {
    let rules = "rules:\n  - {rule_id: each, identifier_type: user_id, algorithm: fixed_window, limit: 5, window: 1h}\n";
    let alerts = AlertSettings { others_for: Duration::ZERO, ..soon() };
    let config = Config { alerts, max_keys: 50, ..config() };
    let server = start_with(config, RulesFeed::fixed("rules.yaml", rules)).await;
    let check =
        async |user: &str| server.check(&format!(r#"{{"user":"{user}","resource":"/"}}"#)).await.json();
    for number in 0..150 {
        check(&format!("invented {number}")).await;
    }
    let newcomer = check("newcomer").await;
    assert_eq!((newcomer["allowed"].as_bool(), newcomer["retry_after"].as_u64()), (Some(true), Some(0)));
    eventually("it is noticed", async || {
        let health = server.admin("/health").await.json();
        health["status"] == "degraded"
            && health["reasons"][0].as_str().is_some_and(|why| why.contains("--max-keys"))
    })
    .await;
    assert_eq!(server.metric("tidegate_evicted_keys_total").await, Some(101.0));
    // Alerts go by what happens between two looks.
    let next = AtomicU32::new(150);
    eventually("it fires", async || {
        let number = next.fetch_add(1, Ordering::Relaxed);
        check(&format!("invented {number}")).await;
        is_active(&server, "keys_exhausted").await
    })
    .await;
}

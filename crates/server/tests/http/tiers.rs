//! Users' tiers in a real PostgreSQL, which changes, crashes and hangs.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tidegate::{TierAnswer, TierLookup, TierOptions};
use tidegate_server::{Config, RulesFeed, UserTiers};
use tidegate_sources::{PostgresArchive, PostgresTiers};
use tidegate_testkit::Postgres;
use tidegate_wire::grpc::protobuf::tidegate::v1;
use tokio::task::JoinSet;

use crate::client::{Ask, Connection, DEADLINE, Running, config, eventually, send, start_with};
use crate::live::entry;
use crate::rate_limit::client::Client;

const RULES: &str = "
tiers:
  free: {limit: 10, window: 52w}
  standard: {limit: 200, window: 52w}
  premium: {limit: 3000, window: 52w}
default_tier: free
users: {root: premium}
rules: [{rule_id: each, identifier_type: user_id, tiered: true}]
";

/// Nothing is late on a busy machine, and nothing expires.
fn patient() -> TierOptions {
    TierOptions { timeout: DEADLINE, ttl: Duration::from_secs(3_600), ..TierOptions::default() }
}

pub(crate) async fn postgres() -> Postgres {
    let postgres = Postgres::start();
    PostgresArchive::new(postgres.url().parse().unwrap()).init().await.unwrap();
    postgres
}

/// Tiers whose look-ups fail only if the database does.
fn tiers(postgres: &Postgres) -> PostgresTiers {
    PostgresTiers::with_patience(postgres.url().parse().unwrap(), DEADLINE)
}

async fn start(tiers: UserTiers) -> Running {
    start_with(Config { tiers: Some(tiers), ..config() }, RulesFeed::fixed("rules.yaml", RULES)).await
}

fn put(postgres: &Postgres, tenant: &str, user: &str, tier: &str) {
    postgres.psql(&format!(
        "INSERT INTO tidegate_users VALUES ('{tenant}', '{user}', '{tier}') \
         ON CONFLICT (tenant, user_id) DO UPDATE SET tier = excluded.tier"
    ));
}

fn by(user: &str) -> String {
    json!({"resource": "/", "user": user, "cost": 0}).to_string()
}

async fn limit(server: &Running, user: &str) -> Value {
    server.check(&by(user)).await.json()["limit"].clone()
}

async fn limit_is(server: &Running, user: &str, expected: u64) {
    eventually(&format!("{user} has {expected}"), async || limit(server, user).await == expected).await;
}

/// Waits until changes are told: before that, the server may come to doubt what it knows.
async fn listening(server: &Running, postgres: &Postgres) {
    put(postgres, "", "listener", "standard");
    limit_is(server, "listener", 200).await;
    put(postgres, "", "listener", "premium");
    limit_is(server, "listener", 3_000).await;
}

async fn outcomes(server: &Running, outcome: &str) -> u64 {
    let count = server.metric(&format!("tidegate_tier_lookups_total{{outcome=\"{outcome}\"}}")).await;
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small whole number")]
    count.map(|count| count as u64).unwrap()
}

/// A database that keeps a list of whom it was asked for.
struct Counted {
    tiers: Arc<PostgresTiers>,
    asked: Mutex<HashMap<String, usize>>,
}

impl TierLookup for Counted {
    fn tier_of<'a>(&'a self, tenant: Option<&'a str>, user: &'a str) -> TierAnswer<'a> {
        *self.asked.lock().unwrap().entry(user.to_owned()).or_default() += 1;
        Box::pin(async move {
            let found = self.tiers.tier_of(tenant, user).await.map_err(|error| error.to_string());
            found.inspect_err(|error| println!("{user} was not found: {error}"))
        })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_users_are_asked_for_once_each() {
    const USERS: usize = 10_000;
    const SLICES: usize = 8;
    let postgres = postgres().await;
    postgres.psql(
        "INSERT INTO tidegate_users (user_id, tier) \
         SELECT 'user-' || n, (ARRAY['free', 'standard', 'premium'])[n % 3 + 1] FROM generate_series(0, 9999) AS n",
    );
    let source = Arc::new(tiers(&postgres));
    let counted = Arc::new(Counted { tiers: Arc::clone(&source), asked: Mutex::default() });
    let server = start(UserTiers::new(counted.clone(), patient()).told_by(source)).await;
    listening(&server, &postgres).await;

    let mut askers = JoinSet::new();
    for asker in 0..3 * SLICES {
        let address = server.addresses.http;
        // Three go through the same users in the same order at the same time.
        askers.spawn(async move {
            let mut connection = Connection::open(address).await;
            for user in (asker % SLICES..USERS).step_by(SLICES) {
                let answer =
                    connection.send(Ask::post("/v1/check", by(&format!("user-{user}")))).await.json();
                assert_eq!(answer["limit"], [10, 200, 3_000][user % 3], "{answer}");
            }
        });
    }
    askers.join_all().await;
    let asked = std::mem::take(&mut *counted.asked.lock().unwrap());
    let several: Vec<_> = asked.iter().filter(|(user, count)| **count != 1 && *user != "listener").collect();
    assert!(several.is_empty(), "{several:?}");
    assert_eq!(asked.len(), USERS + 1);
    assert_eq!(server.metric("tidegate_tier_cache_entries").await, Some(10_000.0));
    assert!(outcomes(&server, "hit").await + outcomes(&server, "miss").await >= 3 * USERS as u64);
    for outcome in ["absent", "late", "failed", "paused"] {
        assert_eq!(outcomes(&server, outcome).await, 0, "{outcome}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_changed_tier_is_enforced_at_once() {
    let postgres = postgres().await;
    let server = start(UserTiers::postgres(tiers(&postgres), patient())).await;
    listening(&server, &postgres).await;
    let at_acme = json!({"resource": "/", "user": "ann", "tenant": "acme"}).to_string();
    let acme_is = async |expected: u64| {
        eventually("acme's limit", async || server.check(&at_acme).await.json()["limit"] == expected).await;
    };
    assert_eq!(limit(&server, "ann").await, 10, "nobody has said anything");
    assert_eq!(server.check(&at_acme).await.json()["limit"], 10);
    assert_eq!(limit(&server, "root").await, 3_000, "the rules come first");

    put(&postgres, "", "ann", "standard");
    limit_is(&server, "ann", 200).await;
    acme_is(200).await;
    put(&postgres, "acme", "ann", "premium");
    acme_is(3_000).await;
    assert_eq!(limit(&server, "ann").await, 200);
    postgres.psql("DELETE FROM tidegate_users WHERE tenant = 'acme'");
    acme_is(200).await;
    put(&postgres, "", "ann", "no such tier");
    limit_is(&server, "ann", 10).await;
    // Too many to be told one by one.
    postgres.psql(
        "INSERT INTO tidegate_users (user_id, tier) SELECT n, 'free' FROM generate_series(1, 200) AS n; \
         UPDATE tidegate_users SET tier = 'premium'",
    );
    limit_is(&server, "ann", 3_000).await;
    assert_eq!(outcomes(&server, "failed").await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_that_nobody_tells_is_found_in_time() {
    let postgres = postgres().await;
    let source = Arc::new(tiers(&postgres));
    let counted = Arc::new(Counted { tiers: source, asked: Mutex::default() });
    let options = TierOptions { ttl: Duration::from_millis(300), ..patient() };
    let server = start(UserTiers::new(counted, options)).await;
    assert_eq!(limit(&server, "ann").await, 10);
    put(&postgres, "", "ann", "standard");
    limit_is(&server, "ann", 200).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_door_knows_tiers() {
    let postgres = postgres().await;
    postgres.psql("INSERT INTO tidegate_users (user_id, tier) VALUES ('a', 'standard'), ('b', 'premium')");
    let server = start(UserTiers::postgres(tiers(&postgres), patient())).await;
    let batch = format!("[{},{},{}]", by("a"), by("nobody"), by("b"));
    let answers = send(server.addresses.http, Ask::post("/v1/check/batch", batch)).await.json();
    let limits: Vec<&Value> = answers.as_array().unwrap().iter().map(|answer| &answer["limit"]).collect();
    assert_eq!(limits, [200, 10, 3_000]);
    let answer = server.authorize(&[("x-original-uri", "/"), ("x-user-id", "b")]).await;
    assert_eq!(answer.header("x-ratelimit-limit"), Some("3000"));
    assert_eq!(server.explain(&by("b")).await.json()["limit"], 3_000);
    let grpc = Client::connect(server.addresses.grpc).await;
    let a = v1::CheckRequest { resource: "/".to_owned(), user: Some("a".to_owned()), ..Default::default() };
    let one: v1::CheckResponse = grpc.call("/tidegate.v1.Limiter/Check", a.clone()).await.unwrap();
    let many = v1::CheckBatchRequest { requests: vec![a] };
    let many: v1::CheckBatchResponse = grpc.call("/tidegate.v1.Limiter/CheckBatch", many).await.unwrap();
    let Some(v1::check_batch_item::Result::Decision(other)) = &many.items[0].result else {
        panic!("{many:?}")
    };
    assert_eq!([one.limit, other.limit], [Some(200); 2]);
    let claimed = json!({"resource": "/", "user": "b", "tier": "free"}).to_string();
    assert_eq!(server.check(&claimed).await.json()["limit"], 10, "the request comes first");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_the_database_is_gone_strangers_have_the_default() {
    survives(Postgres::kill, Postgres::restart, &["late", "failed"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_the_database_hangs_strangers_have_the_default() {
    // Nobody waits until it is known that it hangs.
    survives(Postgres::pause, Postgres::resume, &["late"]).await;
}

/// `fallback` are the outcomes of a look-up that was not answered.
async fn survives(fail: fn(&Postgres), mend: fn(&Postgres), fallback: &[&str]) {
    let postgres = postgres().await;
    postgres.psql(
        "INSERT INTO tidegate_users (user_id, tier) SELECT n, 'premium' FROM generate_series(1, 1000) AS n",
    );
    let options = TierOptions {
        timeout: Duration::from_millis(20),
        capacity: NonZeroUsize::new(100_000).unwrap(),
        ..TierOptions::default()
    };
    let tiers = PostgresTiers::new(postgres.url().parse().unwrap());
    let server = start(UserTiers::postgres(tiers, options)).await;
    listening(&server, &postgres).await;
    limit_is(&server, "1", 3_000).await;
    let health = async || server.admin("/health").await.json();
    eventually("normal", async || health().await["status"] == "normal").await;

    // On a busy machine some may have been late already.
    let fallen_back = async || {
        let mut sum = 0;
        for outcome in fallback {
            sum += outcomes(&server, outcome).await;
        }
        sum
    };
    let before = fallen_back().await;
    fail(&postgres);
    assert_eq!(limit(&server, "2").await, 10);
    assert_eq!(fallen_back().await, before + 1);
    let stranger = AtomicU32::new(3);
    eventually("look-ups are paused", async || {
        let stranger = stranger.fetch_add(1, Ordering::Relaxed);
        assert_eq!(limit(&server, &stranger.to_string()).await, 10);
        outcomes(&server, "paused").await > 0
    })
    .await;
    assert_eq!(limit(&server, "1").await, 3_000, "what is known stays known");
    eventually("degraded", async || health().await["status"] == "degraded").await;
    let reasons = health().await["reasons"].to_string();
    assert!(reasons.contains("tiers: ") && reasons.contains(&postgres.address().to_string()), "{reasons}");
    assert!(!reasons.contains("secret"), "{reasons}");
    assert_eq!(server.admin("/readyz").await.status, 200, "it can still decide");

    mend(&postgres);
    limit_is(&server, "2", 3_000).await;
    eventually("normal", async || health().await["status"] == "normal").await;
    put(&postgres, "", "1", "standard");
    limit_is(&server, "1", 200).await;
}

/// Whoever is told of it, and whatever they have been told before, has the new tier; the change is in the events.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_admin_api_changes_tiers_and_plans() {
    const WITH_TENANTS: &str = "  - {rule_id: customer, identifier_type: tenant_id, tiered: true}\n";
    let postgres = postgres().await;
    let source = UserTiers::postgres(tiers(&postgres), patient());
    let rules = format!("{}\n{WITH_TENANTS}", RULES.replace("rules: [", "rules:\n  - ").replace("}]", "}"));
    let config = Config { tiers: Some(source), ..config() };
    let server = start_with(config, RulesFeed::fixed("rules.yaml", &rules)).await;
    listening(&server, &postgres).await;
    let admin = server.addresses.admin;
    let set = async |path: &str, body: &str| {
        send(admin, Ask { method: "PUT".parse().unwrap(), ..Ask::post(path, body) }).await
    };
    let of_customer = async || {
        let body = json!({"resource": "/", "tenant": "acme", "cost": 0}).to_string();
        server.check(&body).await.json()["limit"].clone()
    };
    assert_eq!((limit(&server, "ann").await, of_customer().await), (json!(10), json!(10)));
    let answer = set("/v1/users/ann/tier", r#"{"tier":"premium"}"#).await;
    assert_eq!(answer.json(), json!({"user": "ann", "tenant": null, "tier": "premium", "previous": null}));
    assert_eq!(limit(&server, "ann").await, 3_000, "at once on the node that was asked");
    let answer = set("/v1/tenants/acme/plan", r#"{"plan":"standard"}"#).await;
    assert_eq!(answer.json(), json!({"tenant": "acme", "plan": "standard", "previous": null}));
    assert_eq!(of_customer().await, 200);
    let noted = entry(&server, "tier of user ann changed").await;
    let detail = noted["detail"].as_str().unwrap();
    assert!(noted["kind"] == "tiers" && detail.contains("from none to premium, by "), "{noted}");

    let removed = Ask { method: "DELETE".parse().unwrap(), ..Ask::get("/v1/users/ann/tier") };
    assert_eq!(send(admin, removed).await.json()["previous"], "premium");
    assert_eq!(limit(&server, "ann").await, 10);
    let long = "x".repeat(1_025);
    for (path, body, status, why) in [
        ("/v1/users/ann/tier", r#"{"tier":"gold"}"#, 422, "use `free`, `standard`, `premium`"),
        ("/v1/users/ann/tier", r#"{"plan":"free"}"#, 400, "unknown field `plan`"),
        ("/v1/users/ann/tier?tenants=acme", r#"{"tier":"free"}"#, 400, "tenants"),
        ("/v1/users/a%00/tier", r#"{"tier":"free"}"#, 400, "control characters"),
        (&format!("/v1/tenants/{long}/plan"), r#"{"plan":"free"}"#, 400, "longer than 1,024 bytes"),
    ] {
        let answer = set(path, body).await;
        assert_eq!(answer.status, status, "{answer:?}");
        let text = String::from_utf8_lossy(&answer.body);
        assert!(text.contains(why), "{path} {body}: {text}");
    }
    assert_eq!(
        (limit(&server, "ann").await, of_customer().await),
        (json!(10), json!(200)),
        "nothing has changed"
    );

    postgres.kill();
    let hasty = PostgresTiers::new(postgres.url().parse().unwrap());
    let server = start(UserTiers::postgres(hasty, patient())).await;
    let ask =
        Ask { method: "PUT".parse().unwrap(), ..Ask::post("/v1/users/ann/tier", r#"{"tier":"premium"}"#) };
    let answer = send(server.addresses.admin, ask).await;
    assert_eq!(answer.status, 503, "{answer:?}");
}

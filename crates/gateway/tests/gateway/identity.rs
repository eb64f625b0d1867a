//! Who asks, from what clients show to what back ends hear.

use std::num::NonZeroU32;

use http::HeaderName;
use jsonwebtoken::{EncodingKey, Header, encode};
use serde_json::{Value, json};
use tempfile::TempDir;
use tidegate_gateway::identity::{JwtConfig, JwtKeys};
use tidegate_testkit::Backend;

use crate::client::{Told, request, until, with_headers};
use crate::support::{Running, Setup};

const SECRET: &[u8] = b"a secret of at least 32 bytes, as it should be";

const TIERS: &str = "
tiers: {gold: {limit: 3, window: 52w, algorithm: fixed_window}, free: {limit: 1, window: 52w, algorithm: fixed_window}}
default_tier: free
rules:
  - {rule_id: each, identifier_type: user_id, tiered: true}
";

const BY_ADDRESS: &str = "rules:\n  - {rule_id: each, identifier_type: ip_address, limit: 1, window: 52w, algorithm: fixed_window}\n";
const BY_KEY: &str =
    "rules:\n  - {rule_id: each, identifier_type: api_key, limit: 1, window: 52w, algorithm: fixed_window}\n";

fn token(claims: &Value) -> String {
    let text = encode(&Header::default(), claims, &EncodingKey::from_secret(SECRET)).unwrap();
    format!("Bearer {text}")
}

fn expiry(seconds: i64) -> i64 {
    jiff::Timestamp::now().as_second() + seconds
}

async fn ask(gateway: &Running, headers: &[(&'static str, &str)]) -> Told {
    gateway.ask(with_headers(request("GET", "/"), headers)).await
}

/// All lines that the back end heard with a header of this name.
fn heard<'t>(told: &'t Told, name: &str) -> Vec<&'t str> {
    let begin = format!("{name}: ");
    told.body.lines().filter_map(|line| line.strip_prefix(begin.as_str())).collect()
}

#[tokio::test]
async fn a_token_names_the_user_and_the_tier() {
    let backend = Backend::start();
    let setup = Setup::to(&[backend.address()]).rules(TIERS).gateway(|gateway| {
        let jwt = JwtConfig::new(JwtKeys::Secret(SECRET.to_vec()));
        gateway.identity.jwt =
            Some(JwtConfig { tier_claim: Some("plan".into()), tenant_claim: Some("org".into()), ..jwt });
    });
    let gateway = setup.start().await;
    let alice = token(&json!({"sub": "alice", "plan": "gold", "org": "acme", "exp": expiry(60)}));
    let bob = token(&json!({"sub": "bob", "exp": expiry(60)}));
    for (bearer, statuses) in [(&alice, [200, 200, 200, 429]), (&bob, [200, 429, 429, 429])] {
        for status in statuses {
            assert_eq!(ask(&gateway, &[("authorization", bearer)]).await.status, status);
        }
    }
    let carol = token(&json!({"sub": "carol", "org": "acme", "exp": expiry(60)}));
    let lies = [
        ("authorization", carol.as_str()),
        ("x-user-id", "root"),
        ("x-tenant-id", "other"),
        ("x_user_id", "root"),
    ];
    let told = ask(&gateway, &lies).await;
    assert_eq!(told.status, 200);
    assert_eq!((heard(&told, "x-user-id"), heard(&told, "x-tenant-id")), (vec!["carol"], vec!["acme"]));
    assert!(!told.body.contains("root"), "{told:?}");
    let before = backend.requests();
    let expired = token(&json!({"sub": "alice", "exp": expiry(-600)}));
    let other = encode(
        &Header::default(),
        &json!({"sub": "alice", "exp": expiry(60)}),
        &EncodingKey::from_secret(&[7; 32]),
    )
    .unwrap();
    for bad in [expired, format!("Bearer {other}"), "Bearer nonsense".to_owned(), format!("{alice}x")] {
        let told = ask(&gateway, &[("authorization", &bad)]).await;
        assert_eq!((told.status, &told.json()["error"]), (401, &json!("invalid_token")));
        assert!(told.header("www-authenticate").unwrap().starts_with("Bearer"));
    }
    assert_eq!(backend.requests(), before);
}

/// The plan belongs to the tenant: whichever of its users asks, and whatever tiers they have, there is one limit.
#[tokio::test]
async fn a_tenant_has_one_limit_by_its_plan() {
    const BY_TENANT: &str = "plans: { FREE: 1, PREMIUM: 3 }\nrules:\n  - { rule_id: tenant, identifier_type: tenant_id, base_limit: 1, window: 1h }\n";
    let backend = Backend::start();
    let setup = Setup::to(&[backend.address()]).rules(BY_TENANT).gateway(|gateway| {
        gateway.identity.jwt = Some(JwtConfig {
            tenant_claim: Some("org".into()),
            tier_claim: Some("tier".into()),
            plan_claim: Some("plan".into()),
            ..JwtConfig::new(JwtKeys::Secret(SECRET.to_vec()))
        });
        gateway.identity.headers.plan = Some(HeaderName::from_static("x-plan"));
        gateway.identity.trusted_proxies = vec!["127.0.0.0/8".parse().unwrap()];
    });
    let gateway = setup.start().await;
    let alice =
        token(&json!({"sub": "alice", "tier": "FREE", "org": "acme", "plan": "PREMIUM", "exp": expiry(60)}));
    let bob = token(&json!({"sub": "bob", "org": "acme", "plan": "PREMIUM", "exp": expiry(60)}));
    for (bearer, status) in [(&alice, 200), (&bob, 200), (&alice, 200), (&bob, 429)] {
        let told = ask(&gateway, &[("authorization", bearer), ("x-plan", "FREE")]).await;
        assert_eq!((told.status, told.header("x-ratelimit-limit")), (status, Some("3")));
        if status == 200 {
            assert_eq!(heard(&told, "x-plan"), ["PREMIUM"], "what the token says, not what the client says");
        }
    }
    // A trusted proxy may name the plan.
    let proxied = [("x-tenant-id", "other"), ("x-plan", "PREMIUM")];
    for status in [200, 200, 200, 429] {
        assert_eq!(ask(&gateway, &proxied).await.status, status);
    }
}

#[tokio::test]
async fn keys_are_counted_apart_and_known_ones_have_names() {
    let backend = Backend::start();
    let gateway = Setup::to(&[backend.address()]).rules(BY_KEY).start().await;
    for (key, status) in [("one", 200), ("two", 200), ("one", 429)] {
        assert_eq!(ask(&gateway, &[("x-api-key", key)]).await.status, status, "{key}");
    }
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("keys");
    let digest = |key: &str| {
        let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, key.as_bytes());
        digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect::<String>()
    };
    std::fs::write(
        &file,
        format!("robot sha256:{} tenant=acme tier=gold plan=PREMIUM\n", digest("swordfish")),
    )
    .unwrap();
    let setup = Setup::to(&[backend.address()]).rules(TIERS);
    let gateway = setup.gateway(|gateway| gateway.identity.api_keys.known = Some(file)).start().await;
    let told = ask(&gateway, &[("x-api-key", "swordfish")]).await;
    assert_eq!((told.status, told.header("x-ratelimit-limit")), (200, Some("3")));
    assert_eq!((heard(&told, "x-user-id"), heard(&told, "x-tenant-id")), (vec!["robot"], vec!["acme"]));
    let before = backend.requests();
    let told = ask(&gateway, &[("x-api-key", "catfish")]).await;
    assert_eq!((told.status, &told.json()["error"]), (401, &json!("invalid_api_key")));
    assert_eq!(backend.requests(), before);
}

/// Whoever guesses is told to wait, and then no guess is looked at, be it right.
#[tokio::test]
async fn failures_are_limited_by_address() {
    let (backend, folder) = (Backend::start(), TempDir::new().unwrap());
    let file = folder.path().join("keys");
    let sword = "sha256:b9f195c5cc7ef6afadbfbc42892ad47d3b24c6bc94bb510c4564a90a14e8b799";
    std::fs::write(&file, format!("robot {sword}\n")).unwrap();
    let setup = |per_minute: u32| {
        let file = file.clone();
        Setup::to(&[backend.address()]).gateway(move |gateway| {
            gateway.identity.trusted_proxies = vec!["127.0.0.1/32".parse().unwrap()];
            gateway.identity.api_keys.known = Some(file);
            gateway.identity.jwt = Some(JwtConfig::new(JwtKeys::Secret(SECRET.to_vec())));
            gateway.identity.failures_per_minute = NonZeroU32::new(per_minute);
        })
    };
    let gateway = setup(1).start().await;
    let from = async |client: &str, name: &'static str, value: &str| {
        ask(&gateway, &[("x-forwarded-for", client), (name, value)]).await
    };
    for (client, guess) in
        [("192.0.2.1", ("x-api-key", "catfish")), ("192.0.2.2", ("authorization", "Bearer x"))]
    {
        let told = until("it is refused", async || {
            let told = from(client, guess.0, guess.1).await;
            assert!([401, 429].contains(&told.status), "{told:?}");
            (told.status == 429).then_some(told)
        })
        .await;
        assert_eq!(told.json()["error"], "too_many_failures");
        assert_eq!(
            told.header("retry-after").map(str::to_owned),
            Some(told.json()["retry_after"].to_string())
        );
        assert_eq!(from(client, "x-api-key", "swordfish").await.status, 429, "it is not even looked at");
        assert_eq!(from(client, "accept", "*/*").await.status, 200, "nothing has to be looked at");
    }
    assert_eq!(backend.requests(), 2);
    assert_eq!(from("192.0.2.3", "x-api-key", "swordfish").await.status, 200, "others have theirs");
    for _ in 0..5 {
        let told = ask(&gateway, &[("x-api-key", "catfish")]).await;
        assert_eq!(told.status, 401, "a proxy that does not say who its client is stands for many");
    }

    let gateway = setup(0).start().await;
    for _ in 0..100 {
        assert_eq!(ask(&gateway, &[("x-api-key", "catfish")]).await.status, 401, "if nobody minds");
    }
}

#[tokio::test]
async fn only_trusted_proxies_are_believed() {
    let backend = Backend::start();
    let says = [
        ("x-forwarded-for", "203.0.113.9"),
        ("x-forwarded-proto", "https"),
        ("x-forwarded-host", "shop.example"),
        ("x-real-ip", "203.0.113.9"),
        ("forwarded", "for=203.0.113.9"),
        ("x-user-id", "alice"),
    ];
    let gateway = Setup::to(&[backend.address()]).start().await;
    let told = ask(&gateway, &says).await;
    for (name, value) in [
        ("x-forwarded-for", "127.0.0.1"),
        ("x-forwarded-proto", "http"),
        ("x-forwarded-host", "api.example"),
        ("x-real-ip", "127.0.0.1"),
        ("host", "api.example"),
    ] {
        assert_eq!(heard(&told, name), [value], "{name}");
    }
    assert_eq!(heard(&told, "forwarded"), ["for=127.0.0.1;host=\"api.example\";proto=http"]);
    assert!(heard(&told, "x-user-id").is_empty(), "{told:?}");
    let trusting = |gateway: &mut tidegate_gateway::GatewayConfig| {
        gateway.identity.trusted_proxies = vec!["127.0.0.0/8".parse().unwrap()];
    };
    let gateway = Setup::to(&[backend.address()]).gateway(trusting).start().await;
    let told = ask(&gateway, &says).await;
    for (name, value) in [
        ("x-forwarded-for", "203.0.113.9, 127.0.0.1"),
        ("x-forwarded-proto", "https"),
        ("x-forwarded-host", "shop.example"),
        ("x-real-ip", "203.0.113.9"),
        ("x-user-id", "alice"),
    ] {
        assert_eq!(heard(&told, name), [value], "{name}");
    }
}

#[tokio::test]
async fn addresses_are_those_of_clients() {
    let backend = Backend::start();
    let gateway = Setup::to(&[backend.address()]).rules(BY_ADDRESS).start().await;
    assert_eq!(ask(&gateway, &[("x-forwarded-for", "203.0.113.1")]).await.status, 200);
    assert_eq!(ask(&gateway, &[("x-forwarded-for", "203.0.113.2")]).await.status, 429, "nobody is believed");
    let setup = Setup::to(&[backend.address()]).rules(BY_ADDRESS).gateway(|gateway| {
        gateway.identity.trusted_proxies = vec!["127.0.0.0/8".parse().unwrap()];
    });
    let gateway = setup.start().await;
    for (client, status) in [
        ("203.0.113.1", 200),
        ("203.0.113.2", 200),
        ("203.0.113.1", 429),
        // Only the last hop that is not trusted is known.
        ("203.0.113.77, 203.0.113.2", 429),
        ("203.0.113.3, 127.0.0.9", 200),
        ("203.0.113.3", 429),
        // A network of IPv6 is one client.
        ("2001:db8:1:2::1", 200),
        ("2001:db8:1:2:ffff::9", 429),
        ("2001:db8:1:3::1", 200),
    ] {
        assert_eq!(ask(&gateway, &[("x-forwarded-for", client)]).await.status, status, "{client}");
    }
}

//! What every recipe must do.

use std::net::{Ipv4Addr, TcpListener};

use serde_json::json;
use tidegate::Span;
use tidegate_redis::RedisStore;
use tidegate_server::{Config, SharedStore};
use tidegate_testkit::{Backend, Port};

use crate::ask::{Answer, ask, ask_from, get, request, try_ask};
use crate::client::{config, eventually};
use crate::made_up;
use crate::stand::{Recipe, Stand, Upstreams, tidegate};

/// The end of the hour that the server's clock stands at the beginning of.
const HOUR_ENDS: &str = "1704070800";

pub(crate) async fn requests_within_the_limit_pass(recipe: Recipe) {
    let stand = recipe.stand().await;
    // Nobody else's limits are told for ours.
    let others = ["limit", "remaining", "reset", "status"].map(|name| format!("x-ratelimit-{name}"));
    let others = others.iter().map(|name| (name.as_str(), "77")).chain([("x-own", "1")]);
    stand.backend.answer_with(&others.collect::<Vec<_>>());
    for (made, left) in [(1, "2"), (2, "1"), (3, "0")] {
        let answer = stand.get("/orders/7?deny_status=%7E2").await;
        assert_eq!(answer.status, 200, "{answer:?}");
        assert!(answer.body.starts_with("GET /orders/7?deny_status=%7E2\n"), "{answer:?}");
        assert_eq!(answer.figures(), [Some("3"), Some(left), Some(HOUR_ENDS)], "{answer:?}");
        assert_eq!((answer.header("x-ratelimit-status"), answer.header("retry-after")), (None, None));
        assert_eq!(answer.header("x-own"), Some("1"), "{answer:?}");
        assert!(answer.body.contains("\nhost: api.example\n"), "{answer:?}");
        assert_eq!(stand.backend.requests(), made);
    }
    let answer = stand.get("/no-rule").await;
    assert_eq!((answer.status, answer.figures()), (200, [None; 3]), "{answer:?}");
    assert_eq!(answer.header("x-ratelimit-status"), None);
}

pub(crate) async fn bodies_arrive(recipe: Recipe) {
    let stand = recipe.stand().await;
    let body = "0123456789".repeat(10_000);
    let upload = request("POST", "/uploads", &[("Content-Type", "text/plain")], &body);
    let answer = stand.ask(&upload).await;
    assert_eq!((answer.status, answer.header("x-ratelimit-limit")), (200, Some("1")), "{answer:?}");
    assert!(answer.body.starts_with("POST /uploads\n"), "{answer:?}");
    assert!(answer.body.contains(&body), "what arrived has {} bytes", answer.body.len());
    refused(&stand.ask(&upload).await);
    assert_eq!(stand.backend.requests(), 1);
}

pub(crate) async fn requests_over_the_limit_stay_outside(recipe: Recipe) {
    let stand = recipe.stand().await;
    use_up(&stand, "/orders/7").await;
    let answer = stand.get("/orders/8").await;
    refused(&answer);
    assert_eq!(answer.figures(), [Some("3"), Some("0"), Some(HOUR_ENDS)], "{answer:?}");
    assert_eq!(answer.header("retry-after"), Some("3600"));
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!(answer.json()["retry_after"], 3600);

    let answer = stand.get("/blocked").await;
    refused(&answer);
    assert_eq!((answer.header("retry-after"), &answer.json()["retry_after"]), (None, &json!(null)));
    assert_eq!(stand.backend.requests(), 3);

    stand.tidegate.clock.advance(Span::from_millis(3_600_000));
    assert_eq!(stand.get("/orders/7").await.status, 200);
    assert_eq!(stand.backend.requests(), 4);
}

/// With nothing left, whatever a client says about itself gets it nothing.
pub(crate) async fn made_up_identities_gain_nothing(recipe: Recipe) {
    let stand = recipe.stand().await;
    for path in ["/by-user", "/by-tenant", "/by-key", "/by-tier", "/orders/7"] {
        use_up(&stand, path).await;
        let passed = stand.backend.requests();
        for claims in made_up::claims() {
            let answer = stand.ask(&get(path, &borrowed(&claims))).await;
            assert_eq!(answer.status, 429, "{path} {claims:?}: {answer:?}");
        }
        assert_eq!(stand.backend.requests(), passed);
    }
}

pub(crate) async fn made_up_identities_do_not_arrive(recipe: Recipe) {
    let stand = recipe.stand().await;
    for claims in made_up::claims() {
        let answer = stand.ask(&get("/no-rule", &borrowed(&claims))).await;
        assert_eq!(answer.status, 200, "{claims:?}: {answer:?}");
        let heard: Vec<&str> = answer.body.lines().collect();
        assert!(!made_up::VALUES.iter().any(|value| answer.body.contains(value)), "{claims:?}: {heard:?}");
        let from = heard.iter().filter(|line| line.starts_with("x-forwarded-for:")).collect::<Vec<_>>();
        assert_eq!(from, [&"x-forwarded-for: 127.0.0.1"], "{claims:?}: {heard:?}");
    }
}

/// What the proxy itself says counts, and nothing that a client adds makes it say something else, or nothing.
pub(crate) async fn the_proxy_says_who_the_client_is(recipe: Recipe) {
    let stand = recipe.stand_with(recipe.identify).await;
    for (path, other) in [
        ("/by-user?user=alice", "/by-user?user=bob"),
        ("/by-tenant?tenant=acme", "/by-tenant?tenant=corp"),
        ("/by-key?key=k-1", "/by-key?key=k-2"),
        ("/by-tier?user=alice", "/by-tier?user=bob"),
    ] {
        use_up(&stand, path).await;
        let passed = stand.backend.requests();
        for claims in made_up::claims() {
            let answer = stand.ask(&get(path, &borrowed(&claims))).await;
            assert_eq!(answer.status, 429, "{path} {claims:?}: {answer:?}");
        }
        assert_eq!(stand.backend.requests(), passed);
        let answer = stand.get(other).await;
        assert_eq!((answer.status, answer.header("x-ratelimit-remaining")), (200, Some("2")), "{answer:?}");
    }
    let answer = stand.get("/by-tier?user=carol&tier=premium").await;
    assert_eq!(answer.header("x-ratelimit-limit"), Some("1000"), "{answer:?}");
    for claims in made_up::claims() {
        let target = "/no-rule?user=bob&tenant=corp&key=k-2&tier=free";
        let answer = stand.ask(&get(target, &borrowed(&claims))).await;
        for line in ["x-user-id: bob", "x-tenant-id: corp", "x-api-key: k-2", "x-tier: free"] {
            let name = line.split(' ').next().unwrap();
            let heard: Vec<&str> = answer.body.lines().filter(|heard| heard.starts_with(name)).collect();
            assert_eq!(heard, [line], "{claims:?}: {answer:?}");
        }
    }
}

/// Each address has limits of its own, and it is the client's, not the proxy's.
pub(crate) async fn clients_are_told_apart_by_their_address(recipe: Recipe) {
    let stand = recipe.stand().await;
    use_up(&stand, "/orders/7").await;
    refused(&stand.get("/orders/7").await);
    let elsewhere = Ipv4Addr::new(127, 0, 0, 2);
    let answer = ask_from(elsewhere, stand.proxy.address(), &get("/orders/7", &[])).await.unwrap();
    assert_eq!((answer.status, answer.header("x-ratelimit-remaining")), (200, Some("2")), "{answer:?}");
    assert!(answer.body.contains("\nx-forwarded-for: 127.0.0.2\n"), "{answer:?}");
}

pub(crate) async fn without_tidegate_requests_are_refused(recipe: Recipe) {
    let Stand { tidegate: server, backend, proxy } = recipe.stand().await;
    assert_eq!(ask(proxy.address(), &get("/orders/7", &[])).await.status, 200);
    let address = server.addresses.http;
    server.stopped().await.unwrap();
    let answer = ask(proxy.address(), &get("/orders/7", &[])).await;
    unavailable(&answer);
    assert_eq!(backend.requests(), 1);

    let _again = tidegate(Config { http: address, ..config() }).await;
    eventually("it is asked again", async || ask(proxy.address(), &get("/no-rule", &[])).await.status == 200)
        .await;
}

pub(crate) async fn without_tidegate_requests_can_pass(recipe: Recipe) {
    let Stand { tidegate: server, backend, proxy } = recipe.stand_with(&[recipe.pass]).await;
    server.stopped().await.unwrap();
    backend.answer_with(&[("x-ratelimit-limit", "77")]);
    let answer = ask(proxy.address(), &request("POST", "/uploads", &[], "whole")).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert!(answer.body.starts_with("POST /uploads\n") && answer.body.contains("whole"), "{answer:?}");
    assert_eq!(answer.header("x-ratelimit-status"), Some("disabled"));
    assert_eq!(answer.figures(), [None; 3]);
    for claims in made_up::claims() {
        let answer = ask(proxy.address(), &get("/orders/7", &borrowed(&claims))).await;
        assert_eq!(answer.status, 200, "{claims:?}: {answer:?}");
        assert!(!made_up::VALUES.iter().any(|value| answer.body.contains(value)), "{claims:?}: {answer:?}");
    }
}

/// Takes connections and never answers.
pub(crate) async fn a_tidegate_that_hangs_is_as_good_as_gone(recipe: Recipe) {
    let port = Port::claim();
    let _hanging = TcpListener::bind(port.address()).unwrap();
    let backend = Backend::start();
    let upstreams = Upstreams { tidegate: port.address(), backend: backend.address() };
    let closed = (recipe.start)(upstreams, &[]);
    unavailable(&ask(closed.address(), &get("/orders/7", &[])).await);
    assert_eq!(backend.requests(), 0);
    let open = (recipe.start)(upstreams, &[recipe.pass]);
    let answer = ask(open.address(), &get("/orders/7", &[])).await;
    assert_eq!((answer.status, answer.header("x-ratelimit-status")), (200, Some("disabled")), "{answer:?}");
}

/// Nobody is told that limits could not be checked, or that they are off, when they were checked.
pub(crate) async fn a_back_end_that_is_gone_is_another_matter(recipe: Recipe) {
    let server = tidegate(config()).await;
    let nowhere = Port::claim();
    let upstreams = Upstreams { tidegate: server.addresses.http, backend: nowhere.address() };
    for edits in [&[][..], &[recipe.pass]] {
        let proxy = (recipe.start)(upstreams, edits);
        let answer = ask(proxy.address(), &get("/orders/7", &[])).await;
        assert!(matches!(answer.status, 502 | 503), "{answer:?}");
        assert!(!answer.body.contains("unavailable"), "{answer:?}");
        assert_eq!((answer.header("retry-after"), answer.header("x-ratelimit-status")), (None, None));
    }
    let spent = r#"{"resource":"/orders/7","method":"GET","ip":"127.0.0.1"}"#;
    assert_eq!(server.remaining(spent).await, 1, "each was asked about once");
}

/// A rule that insists on its store is no reason to let requests pass: Tidegate has answered.
pub(crate) async fn what_tidegate_refuses_for_want_of_its_store_stays_refused(recipe: Recipe) {
    let nowhere = Port::claim();
    let store =
        RedisStore::builder(format!("redis://{}", nowhere.address()).parse().unwrap()).start().unwrap();
    let store = Some(SharedStore::new("redis", std::sync::Arc::new(store)));
    let rules = "
defaults: {on_store_failure: deny}
rules:
  - {rule_id: strict, identifier_type: ip_address, limit: 3, window: 1h, match: {path_pattern: /strict}}
  - {rule_id: lax, identifier_type: ip_address, limit: 3, window: 1h, on_store_failure: allow,
     match: {path_pattern: /lax}}
";
    let feed = tidegate_server::RulesFeed::fixed("rules.yaml", rules);
    let server = crate::client::start_with(Config { store, ..config() }, feed).await;
    let backend = Backend::start();
    let upstreams = Upstreams { tidegate: server.addresses.http, backend: backend.address() };
    let proxy = (recipe.start)(upstreams, &[recipe.pass]);
    unavailable(&ask(proxy.address(), &get("/strict", &[])).await);
    assert_eq!(backend.requests(), 0);
    let answer = ask(proxy.address(), &get("/lax", &[])).await;
    assert_eq!((answer.status, answer.header("x-ratelimit-status")), (200, Some("disabled")), "{answer:?}");
    assert_eq!(answer.figures(), [None; 3]);
}

/// Requests that Tidegate or the proxy cannot read, while requests would pass if Tidegate were away.
pub(crate) async fn unreadable_requests_do_not_pass(recipe: Recipe) {
    let stand = recipe.stand_with(&[recipe.pass]).await;
    use_up(&stand, "/orders/7").await;
    let long = "x".repeat(9_000);
    let many: Vec<(String, String)> = (0..150).map(|n| (format!("X-{n}"), "x".to_owned())).collect();
    let mut tricks = vec![
        get("/orders/7%zz", &[]),
        get("/orders/7%00", &[]),
        get("/orders/7%", &[]),
        get("/orders/\u{1}", &[]),
        get("/orders/\u{e9}", &[]),
        get("/orders/7#part", &[]),
        get("//orders//7", &[]),
        get("/./orders/x/../7", &[]),
        get("/%6Frders/7", &[]),
        get("http://api.example/orders/7", &[]),
        get("http://127.0.0.1:1/orders/7", &[]),
        get(&format!("/orders/{long}"), &[]),
        get("/orders/7", &[("X-Long", &long.repeat(20))]),
        get("/orders/7", &borrowed(&many)),
        get("/orders/7", &[("Connection", "close, Upgrade"), ("Upgrade", "h2c")]),
        get("/orders/7", &[("Connection", "close"), ("Expect", "100-continue")]),
        get("/orders/7", &[("Authorization", "Bearer wrong"), ("Origin", "https://elsewhere.example")]),
        get("/orders/7", &[("Sec-Fetch-Site", "cross-site"), ("Content-Type", "\u{e9}")]),
    ];
    // A byte that is no text, and a name with a space in it.
    tricks
        .push([&b"GET /orders/\xff HTTP/1.1\r\nHost: api.example\r\nConnection: close\r\n\r\n"[..]].concat());
    tricks.push(
        b"GET /orders/7 HTTP/1.1\r\nHost: api.example\r\nConnection: close\r\nX-User-Id : m\r\n\r\n".to_vec(),
    );
    tricks.push(b"GET /orders/7 HTTP/1.0\r\n\r\n".to_vec());
    for trick in tricks {
        let answer = try_ask(stand.proxy.address(), &trick).await;
        let answered = answer.as_ref().map_or(0, |answer| answer.status);
        let text = String::from_utf8_lossy(&trick[..trick.len().min(300)]).into_owned();
        assert!(answered == 0 || answered >= 400, "{text}: {answer:?}");
        assert_eq!(stand.backend.requests(), 3, "{text}: {answer:?}");
    }
}

/// Takes all there is for this machine.
async fn use_up(stand: &Stand, path: &str) {
    for _ in 0..3 {
        let answer = stand.get(path).await;
        assert_eq!(
            (answer.status, answer.header("x-ratelimit-limit")),
            (200, Some("3")),
            "{path}: {answer:?}"
        );
    }
}

fn refused(answer: &Answer) {
    assert_eq!(answer.status, 429, "{answer:?}");
    assert_eq!(answer.json()["error"], "rate_limit_exceeded");
}

fn unavailable(answer: &Answer) {
    assert_eq!((answer.status, answer.header("retry-after")), (503, Some("1")), "{answer:?}");
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!(answer.json()["error"], "unavailable");
    assert_eq!(answer.figures(), [None; 3]);
}

fn borrowed(headers: &[(String, String)]) -> Vec<(&str, &str)> {
    headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
}

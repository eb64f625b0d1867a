//! Tidegate, its store or the back end is not there.

use std::net::TcpListener;
use std::sync::Arc;

use tidegate_redis::RedisStore;
use tidegate_server::{Config, RulesFeed, SharedStore};
use tidegate_testkit::{Backend, Port};

use super::{borrowed, unavailable};
use crate::ask::{ask, get, request};
use crate::client::{config, eventually, start_with};
use crate::made_up;
use crate::stand::{Recipe, Stand, Upstreams, tidegate};

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
    let store = Some(SharedStore::new("redis", Arc::new(store)));
    let rules = "
defaults: {on_store_failure: deny}
rules:
  - {rule_id: strict, identifier_type: ip_address, limit: 3, window: 1h, match: {path_pattern: /strict}}
  - {rule_id: lax, identifier_type: ip_address, limit: 3, window: 1h, on_store_failure: allow,
     match: {path_pattern: /lax}}
";
    let feed = RulesFeed::fixed("rules.yaml", rules);
    let server = start_with(Config { store, ..config() }, feed).await;
    let backend = Backend::start();
    let upstreams = Upstreams { tidegate: server.addresses.http, backend: backend.address() };
    let proxy = (recipe.start)(upstreams, &[recipe.pass]);
    unavailable(&ask(proxy.address(), &get("/strict", &[])).await);
    assert_eq!(backend.requests(), 0);
    let answer = ask(proxy.address(), &get("/lax", &[])).await;
    assert_eq!((answer.status, answer.header("x-ratelimit-status")), (200, Some("disabled")), "{answer:?}");
    assert_eq!(answer.figures(), [None; 3]);
}

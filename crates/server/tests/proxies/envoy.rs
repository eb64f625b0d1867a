//! Envoy, which asks over gRPC, with the files of `deploy/envoy`.

use std::net::SocketAddr;
use std::time::Duration;

use tidegate_server::RulesFeed;
use tidegate_testkit::{Backend, Proxy, ReverseProxy};

use crate::ask::{Answer, ask, get};
use crate::client::{Running, config, eventually, start_with};
use crate::stand::{Edit, recipe};

/// Envoy between a client and a back end, and Tidegate beside it, behind something that can be slow.
struct Stand {
    tidegate: Running,
    way: Proxy,
    backend: Backend,
    envoy: ReverseProxy,
}

impl Stand {
    async fn start(edits: &[Edit<'_>]) -> Self {
        // What is tested elsewhere is how Envoy fails; here nothing is to be late on a busy machine.
        Self::start_hurried(&[&[("timeout: 0.02s", "timeout: 15s")], edits].concat()).await
    }

    async fn start_hurried(edits: &[Edit<'_>]) -> Self {
        let rules = recipe("envoy/rules.yaml", &[]);
        let tidegate = start_with(config(), RulesFeed::fixed("rules.yaml", &rules)).await;
        let way = Proxy::start(tidegate.addresses.grpc);
        let backend = Backend::start();
        let port = |address: SocketAddr| format!("port_value: {}", address.port());
        let (grpc, back) = (port(way.address()), port(backend.address()));
        let envoy = ReverseProxy::envoy(|place| {
            let (listener, admin) = (port(place.listener), port(place.admin));
            let own = [
                ("port_value: 8000", &*listener),
                ("port_value: 9901", &admin),
                ("port_value: 8081", &grpc),
                ("port_value: 9000", &back),
            ];
            recipe("envoy/envoy.yaml", &[&own, edits])
        });
        Self { tidegate, way, backend, envoy }
    }

    async fn get(&self, path: &str) -> Answer {
        ask(self.envoy.address(), &get(path, &[])).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_allowed_is_passed_on_with_the_figures() {
    let stand = Stand::start(&[]).await;
    let answer = stand.get("/orders/7").await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert!(answer.body.starts_with("GET /orders/7\n"), "{answer:?}");
    assert_eq!(answer.figures(), [Some("100, 100;w=60"), Some("99"), Some("60")]);
    assert_eq!(stand.backend.requests(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_refused_never_reaches_the_back_end() {
    let stand = Stand::start(&[]).await;
    for left in (0..5).rev() {
        let answer = stand.get("/login").await;
        assert_eq!(answer.status, 200, "{answer:?}");
        let figures = answer.figures();
        assert_eq!(figures[0], Some("5, 5;w=60, 100;w=60"), "the descriptor with the least left comes first");
        assert_eq!(figures[1], Some(&*left.to_string()));
    }
    let refused = stand.get("/login").await;
    assert_eq!((refused.status, refused.header("x-envoy-ratelimited")), (429, Some("true")), "{refused:?}");
    assert_eq!(refused.header("retry-after"), Some("60"));
    assert_eq!(refused.header("content-type"), Some("application/json"));
    assert_eq!(refused.json()["message"], "You have made 6 requests. Limit is 5 per minute.");
    assert_eq!(stand.backend.requests(), 5);
    let elsewhere = stand.get("/").await;
    assert_eq!(elsewhere.figures()[1], Some("94"), "the refused one took nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shadow_is_counted_and_refuses_nobody() {
    let stand = Stand::start(&[]).await;
    for _ in 0..4 {
        assert_eq!(stand.get("/search").await.status, 200);
    }
    let metrics = stand.tidegate.admin("/metrics").await.text();
    let shadows: Vec<_> = metrics.lines().filter(|line| line.contains("shadow_refused")).collect();
    assert_eq!(shadows.len(), 1, "{metrics}");
    assert!(shadows[0].ends_with(" 2"), "{shadows:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_answer_took_is_charged_when_it_is_done() {
    let stand = Stand::start(&[]).await;
    stand.backend.answer_with(&[("x-tokens-used", "600")]);
    for calls in [2, 4] {
        assert_eq!(stand.get("/model/chat").await.status, 200);
        // The second call comes when the answer has been sent.
        eventually("decided", async || decisions(&stand.tidegate).await >= calls).await;
    }
    let spent = stand.get("/model/chat").await;
    assert_eq!(spent.status, 429, "600 and what was left of 1000 are used up: {spent:?}");
    assert_eq!(stand.backend.requests(), 2);
    assert_eq!(stand.get("/").await.status, 200, "others may go on");
}

/// How many decisions have been taken.
async fn decisions(tidegate: &Running) -> u64 {
    let metrics = tidegate.admin("/metrics").await.text();
    let counts = metrics.lines().filter_map(|line| line.strip_prefix("tidegate_decision_seconds_count "));
    counts.filter_map(|count| count.parse::<u64>().ok()).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn without_tidegate_envoy_does_as_it_is_told() {
    for (deny, status) in [(false, 200), (true, 500)] {
        let deny = format!("failure_mode_deny: {deny}");
        let stand = Stand::start(&[("failure_mode_deny: false", &deny)]).await;
        assert_eq!(stand.get("/").await.status, 200);
        stand.way.cut();
        let answer = stand.get("/").await;
        assert_eq!(answer.status, status, "{deny}: {answer:?}");
        stand.way.heal();
        eventually("asked again", async || stand.get("/").await.figures()[0].is_some()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_tidegate_holds_up_nobody_for_longer_than_envoy_waits() {
    let stand = Stand::start_hurried(&[]).await;
    stand.way.set_delay(Duration::from_secs(5));
    let answer = stand.get("/").await;
    assert_eq!((answer.status, answer.figures()[0]), (200, None), "{answer:?}");
    assert_eq!(stand.backend.requests(), 1);
}

/// Only what the configuration names is counted by.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_cannot_choose_who_it_is() {
    let stand = Stand::start(&[]).await;
    for number in 0..5 {
        let claimed = format!("203.0.113.{number}");
        let headers = [
            ("X-Forwarded-For", claimed.as_str()),
            ("X-User-Id", claimed.as_str()),
            ("X-Real-Ip", claimed.as_str()),
            ("Forwarded", "for=203.0.113.9"),
            ("X-Envoy-External-Address", claimed.as_str()),
            ("X_Forwarded_For", claimed.as_str()),
        ];
        assert_eq!(ask(stand.envoy.address(), &get("/login", &headers)).await.status, 200);
    }
    let headers = [("X-Forwarded-For", "203.0.113.77"), ("X-Envoy-External-Address", "203.0.113.77")];
    assert_eq!(ask(stand.envoy.address(), &get("/login", &headers)).await.status, 429);
}

//! Rules in etcd, enforced.

use tidegate_server::RulesFeed;
use tidegate_sources::EtcdSource;
use tidegate_testkit::Etcd;

use crate::client::{Running, config, eventually, start_with};

const ALICE: &str = r#"{"user":"alice","resource":"/"}"#;

fn rule(limit: u64) -> String {
    format!(
        "{{rule_id: each, identifier_type: user_id, limit: {limit}, window: 1h, algorithm: fixed_window}}"
    )
}

async fn start(etcd: &Etcd) -> Running {
    let url = format!("etcd://{}/shop", etcd.address()).parse().unwrap();
    start_with(config(), RulesFeed::watch(EtcdSource::new(url))).await
}

async fn limit_is(server: &Running, limit: u64) {
    eventually(&format!("limit {limit}"), async || server.explain(ALICE).await.json()["limit"] == limit)
        .await;
}

async fn status_is(server: &Running, status: &str) {
    eventually(status, async || server.admin("/health").await.json()["status"] == status).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_changed_in_etcd_is_enforced_and_a_bad_one_changes_nothing() {
    let etcd = Etcd::start();
    etcd.put("shop/rules/each", rule(2));
    let server = start(&etcd).await;
    let allowed = async || server.check(ALICE).await.json()["allowed"] == true;
    assert!(allowed().await && allowed().await && !allowed().await);

    etcd.put("shop/rules/each", rule(3));
    limit_is(&server, 3).await;
    assert!(allowed().await && !allowed().await, "what was counted still counts");
    let health = server.admin("/health").await.json();
    assert_eq!(health["rules_version"], etcd.revision());

    etcd.put("shop/rules/other", rule(7).replace("each", "other"));
    etcd.put("shop/rules/each", "{rule_id: each, identifier_type: user_id, limt: 9, window: 1h}");
    status_is(&server, "degraded").await;
    let bad = server.admin("/health").await.json();
    let reasons = bad["reasons"].to_string();
    assert!(reasons.contains("shop/rules/each:1:") && reasons.contains("limt"), "{reasons}");
    assert!(reasons.contains("its last good version stays in force"), "{reasons}");
    assert!(server.admin("/v1/rules").await.text().contains("other"), "the good one beside it is in force");
    assert!(!allowed().await);

    etcd.put("shop/rules/each", rule(4));
    limit_is(&server, 4).await;
    status_is(&server, "normal").await;
    assert!(allowed().await && !allowed().await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rules_stay_in_force_while_etcd_is_away() {
    let etcd = Etcd::start();
    etcd.put(
        "shop",
        r#"{"rate_limits":{"basic":{"limit":5,"window":"60s","algorithm":"fixed_window"}},"version":7}"#,
    );
    let server = start(&etcd).await;
    let basic = r#"{"user":"alice","tier":"basic","resource":"/"}"#;
    assert_eq!(server.check(basic).await.json()["limit"], 5);
    etcd.kill();
    status_is(&server, "degraded").await;
    let health = server.admin("/health").await.json();
    assert!(health["reasons"].to_string().contains(&etcd.address().to_string()), "{health}");
    assert_eq!(health["document_version"], 7);
    assert_eq!(server.check(basic).await.json()["limit"], 5);
    etcd.restart();
    status_is(&server, "normal").await;
    assert_eq!(server.check(basic).await.json()["limit"], 5);
}

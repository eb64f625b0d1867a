//! What whoever is on call sees when the store dies, and when it is back.

use std::time::Instant;

use super::traffic::Traffic;
use super::{SOON, Site};

const RULES: &str = "rules: [{rule_id: each, identifier_type: user_id, limit: 1000, window: 1s}]";

/// A breaker of the store's only shard in this state, as its row shows it.
fn breaker(state: &str) -> String {
    format!("shard [data-value=\"{state}\"]")
}

#[tokio::test]
async fn a_store_that_dies_is_seen_and_so_is_its_return() {
    let site = Site::open(RULES, &["--store-timeout", "200ms"]).await;
    let traffic = Traffic::steady(&[&site.node], 100);
    site.shows("mode[data-value=normal]").await;
    site.shows(&breaker("closed")).await;

    site.redis.kill();
    let killed = Instant::now();
    site.browser.wait_for("[data-test=banner]:not(.is-ok)", SOON).await;
    println!("the banner turned {:?} after the store was killed", killed.elapsed());
    site.shows(&breaker("open")).await;
    let banner = site.text("banner").await;
    assert!(banner.to_lowercase().contains("store"), "it says what is wrong: {banner}");
    site.until("document.querySelector('[data-test=alerts]').dataset.value > 0").await;
    site.shows("mode[data-value=degraded]").await;
    assert_eq!(site.text("mode").await, "Degraded");

    site.redis.restart();
    site.shows("mode[data-value=normal]").await;
    site.shows(&breaker("closed")).await;
    let has = |text: &str| {
        format!(
            "[...document.querySelectorAll('[data-test=journal-entry]')].some(e => /{text}/i.test(e.textContent))"
        )
    };
    for text in
        ["degraded|emergency", "normal", "breaker.*open|open.*breaker", "breaker.*closed|closed.*breaker"]
    {
        site.until(&has(text)).await;
    }
    assert!(traffic.end() > 0);
    site.has_no_errors().await;
}

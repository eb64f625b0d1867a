//! A key that is asked for more than others is on the page, by name.

use super::traffic::Traffic;
use super::{PATIENT, Site};

const RULES: &str = "rules: [{rule_id: each, identifier_type: user_id, limit: 1000000, window: 1s}]";

#[tokio::test]
async fn a_hot_key_is_named_and_marked() {
    let site = Site::open(RULES, &[&PATIENT[..], &["--hot-key-rate", "50"]].concat()).await;
    let traffic = Traffic::batches(&site.node, r#"{"user":"crowd","resource":"/"}"#, 20);
    let hot = "[...document.querySelectorAll('[data-test=hot-key]')].find(e => /crowd/.test(e.textContent) && e.querySelector('[data-test=hot]'))";
    site.until(hot).await;
    let rule = site.until(&format!("{hot}?.textContent")).await;
    assert!(rule.as_str().unwrap().contains("each"), "the rule that counts it: {rule}");
    site.until(
        "[...document.querySelectorAll('[data-test=journal-entry]')].some(e => /hot/i.test(e.textContent))",
    )
    .await;
    assert!(traffic.end() > 0);
    site.has_no_errors().await;
}

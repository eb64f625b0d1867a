//! Every view fits phones, laptops and walls, in both themes.

use super::traffic::Traffic;
use super::{PATIENT, Site};

pub(super) const RULES: &str = "
tiers: { free: { limit: 10, window: 1s }, premium: { limit: 1000, window: 1s, burst: 2000 } }
rules:
  - { rule_id: tier, identifier_type: user_id, tiered: true, description: 'What a user may have, by tier' }
  - { rule_id: a_rule_with_a_name_that_is_rather_long_for_a_phone, identifier_type: ip_address, limit: 3, window: 1h }
";

/// Each view, and what is there once it is.
pub(super) const VIEWS: [(&str, &str); 7] = [
    ("#/", "journal"),
    ("#/rules", "rule-row"),
    ("#/rules/tier", "rule-history"),
    ("#/rules/tier/edit", "rule-text"),
    ("#/rules/~explain?path=%2Forders&user=ann&tier=free", "explain-submit"),
    ("#/fleet", "fleet-row"),
    ("#/runbook/store_down", "runbook"),
];

/// Opens one of them and waits until it is all there.
pub(super) async fn open_view(site: &Site, (view, part): (&str, &str), dark: bool) {
    site.goto(view).await;
    site.shows(part).await;
    if part == "explain-submit" {
        site.click(part).await;
        site.shows("explain-answer").await;
    }
    let theme = if dark { "dark" } else { "light" };
    site.until(&format!("document.documentElement.dataset.theme === '{theme}'")).await;
}

#[tokio::test]
async fn nothing_is_wider_than_the_window() {
    let site = Site::open(RULES, &PATIENT).await;
    let traffic = Traffic::steady(&[&site.node], 50);
    let changed =
        "rule_id: tier\nidentifier_type: user_id\ntiered: true\ndescription: What a user may have\n";
    let (status, answer) = crate::support::ask(&site.node.admin, "PUT", "/v1/rules/tier", changed);
    assert_eq!(status, 200, "{answer}");
    for dark in [false, true] {
        site.browser.prefer_dark(dark).await;
        for (width, height) in [(360, 740), (1366, 768), (3840, 2160)] {
            site.browser.resize(width, height).await;
            for view in VIEWS {
                open_view(&site, view, dark).await;
                let wide =
                    site.browser.eval("return document.documentElement.scrollWidth - innerWidth").await;
                let place = format!("{} at {width}×{height}, dark: {dark}", view.0);
                assert!(wide.as_i64().unwrap() <= 0, "{place}: {wide} too wide");
            }
        }
    }
    traffic.end();
    site.has_no_errors().await;
}

//! The figures on the page are those of the metrics.

use super::{PATIENT, Site, check_of};

const RULES: &str =
    "rules: [{rule_id: each, identifier_type: user_id, algorithm: fixed_window, limit: 7, window: 366d}]";

/// Decisions of one outcome, as the metrics have them.
fn counted(metrics: &str, outcome: &str) -> u64 {
    let label = format!("outcome=\"{outcome}\"");
    let lines = metrics.lines().filter(|line| line.starts_with("tidegate_decisions_total{"));
    let values = lines.filter(|line| line.contains(&label)).map(|line| line.rsplit(' ').next().unwrap());
    values.map(|value| value.parse::<u64>().unwrap()).sum()
}

#[tokio::test]
async fn totals_are_what_was_decided_and_what_metrics_say() {
    let site = Site::open(RULES, &PATIENT).await;
    site.until("document.querySelector('[data-test=total-allowed]').dataset.value === '0'").await;
    for (user, times) in [("ann", 10), ("ben", 9), ("cem", 3)] {
        for _ in 0..times {
            site.node.check(&check_of(user));
        }
    }
    let metrics = site.node.admin("/metrics").1;
    for (outcome, expected) in [("allowed", 17), ("refused", 5)] {
        assert_eq!(counted(&metrics, outcome), expected, "{metrics}");
        site.shows(&format!("total-{outcome}[data-value=\"{expected}\"]")).await;
        assert_eq!(site.text(&format!("total-{outcome}")).await, expected.to_string());
    }
    site.until("document.querySelectorAll('[data-test=refused-users] [data-test=refused-row]').length === 2")
        .await;
    let refused = site.text("refused-users").await;
    assert!(refused.contains("ann") && refused.contains("ben") && !refused.contains("cem"), "{refused}");
    site.shows("mode[data-value=normal]").await;
    // A server without a limit has no share of its memory, but it uses some.
    site.until(
        "/^[0-9.]+ [kM]B$/.test(document.querySelector('[data-test=shard] [data-label=Memory]').innerText)",
    )
    .await;
    site.has_no_errors().await;
}

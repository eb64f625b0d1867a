//! The files in `deploy/prometheus` and `deploy/grafana`, held against Prometheus' own tool and a live `/metrics`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use serde_json::Value;
use tidegate_server::WebhookStyle;
use tidegate_testkit::{check_metrics, find_program};

use super::receiver::Receiver;
use super::{Switch, start, webhook};
use crate::client::{Running, eventually};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap()
}

fn is_content(args: &[&str]) {
    let mut promtool = Command::new(find_program("promtool", "prometheus"));
    let output = promtool.current_dir(root().join("deploy/prometheus")).args(args).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {said}");
}

#[test]
fn prometheus_takes_the_rules_and_they_do_what_their_tests_say() {
    is_content(&["check", "rules", "alerts.yaml"]);
    is_content(&["check", "config", "prometheus.yaml"]);
    is_content(&["test", "rules", "alerts_test.yaml"]);
}

/// A server that has all there is to have without others.
async fn scraped() -> String {
    let receiver = Receiver::start(0).await;
    let server: Running =
        start(&Arc::new(Switch::default()), Some(webhook(&receiver, WebhookStyle::Generic))).await;
    server.check(r#"{"user":"a","resource":"/"}"#).await;
    eventually("the store was asked", async || {
        // Twice: a share of a processor takes two reports.
        server.metric(r#"tidegate_store_cpu_ratio{shard="one"}"#).await.is_some()
    })
    .await;
    server.admin("/metrics").await.text()
}

fn kinds(metrics: &str) -> Vec<(&str, &str)> {
    metrics.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' ')).collect()
}

fn suffix(kind: &str) -> &'static str {
    match kind {
        "counter" => "_total",
        "info" => "_info",
        _ => "",
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metrics_are_as_prometheus_wants_them() {
    let metrics = scraped().await;
    assert_eq!(check_metrics(&metrics), Ok(()));
    let broken = check_metrics(&metrics.replace("tidegate_keys", "tidegate_keys_total"));
    assert!(broken.is_err(), "the tool sees what is wrong");
}

/// All names that queries can use: those of a live scrape, and those that only gateways, fleets and users' tiers have, by the
/// reference.
fn known(metrics: &str) -> BTreeSet<String> {
    let mut known = BTreeSet::new();
    for (name, kind) in kinds(metrics) {
        known.insert(format!("{name}{}", suffix(kind)));
        if kind == "histogram" {
            known.extend(["_bucket", "_sum", "_count"].map(|part| format!("{name}{part}")));
        }
    }
    for name in names(&read("docs/observability.md")) {
        if ["gateway", "cluster", "tier", "rules_age"].iter().any(|of| name[9..].starts_with(of)) {
            known.insert(format!("{name}_bucket"));
            known.insert(name);
        }
    }
    known
}

/// All words that look like metrics.
fn names(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("tidegate_")).map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rules_and_dashboard_use_metrics_that_there_are() {
    let known = known(&scraped().await);
    for path in ["deploy/prometheus/alerts.yaml", "deploy/grafana/tidegate.json"] {
        let used = names(&read(path));
        assert!(used.len() > 10, "{path}: {used:?}");
        let unknown: Vec<_> = used.difference(&known).collect();
        assert!(unknown.is_empty(), "{path}: {unknown:?} of {known:?}");
    }
}

#[test]
fn the_dashboard_is_one() {
    let dashboard: Value = serde_json::from_str(&read("deploy/grafana/tidegate.json")).unwrap();
    assert!(dashboard["schemaVersion"].as_u64().unwrap() >= 36);
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    assert!(variables.iter().any(|each| each["type"] == "datasource" && each["name"] == "datasource"));
    let panels = dashboard["panels"].as_array().unwrap();
    let ids: BTreeSet<u64> = panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), panels.len(), "each has an id of its own");
    for panel in panels.iter().filter(|panel| panel["type"] != "row") {
        assert_eq!(panel["datasource"]["uid"], "${datasource}", "{panel}");
        let targets = panel["targets"].as_array().unwrap();
        assert!(!targets.is_empty());
        for target in targets {
            // The variables are Grafana's; with something in their places the tool can read it.
            let query = target["expr"].as_str().unwrap().replace("$__rate_interval", "1m");
            let rules = format!("groups: [{{name: a, rules: [{{record: a, expr: '{query}'}}]}}]");
            let file = tempfile::NamedTempFile::with_suffix(".yaml").unwrap();
            std::fs::write(file.path(), rules).unwrap();
            is_content(&["check", "rules", file.path().to_str().unwrap()]);
        }
    }
}

#[tokio::test]
async fn every_alert_has_a_rule_and_a_runbook() {
    let server =
        crate::client::start("rules: [{rule_id: a, identifier_type: global, limit: 1, window: 1h}]").await;
    let metrics = server.admin("/metrics").await.text();
    let alerts =
        metrics.lines().filter_map(|line| line.strip_prefix("tidegate_alerts{alert=\"")?.split('"').next());
    let events = ["rules_changed", "shard_added", "shard_removed", "failover"];
    let all: Vec<&str> = alerts.chain(events).collect();
    assert_eq!(all.len(), 18);
    let (rules, runbooks) = (read("deploy/prometheus/alerts.yaml"), read("docs/operations/runbooks.md"));
    for name in all {
        assert!(rules.contains(&format!("runbook_url: docs/operations/runbooks.md#{name}\n")), "{name}");
        assert!(runbooks.contains(&format!("\n## {name}\n")), "{name}");
    }
}

//! The files in `deploy/prometheus` and `deploy/grafana`, held against Prometheus' own tool and a live `/metrics`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use serde_json::Value;
use tidegate::store::Failure;
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
        if ["gateway", "shed", "cluster", "tier", "rules_age"].iter().any(|of| name[9..].starts_with(of)) {
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
    assert_eq!(all.len(), 20);
    let (rules, runbooks) = (read("deploy/prometheus/alerts.yaml"), read("docs/operations/runbooks.md"));
    for name in all {
        assert!(rules.contains(&format!("runbook_url: docs/operations/runbooks.md#{name}\n")), "{name}");
        assert!(runbooks.contains(&format!("\n## {name}\n")), "{name}");
    }
}

/// Names that PostgreSQL knows: tables, roles, a function. They are no metrics.
const IN_POSTGRES: [&str; 9] = [
    "tidegate_admin",
    "tidegate_away",
    "tidegate_next_version",
    "tidegate_node",
    "tidegate_rule_history",
    "tidegate_rules",
    "tidegate_tenants",
    "tidegate_state",
    "tidegate_users",
];

/// All files below a folder with this ending, as one text.
fn all_of(folder: &str, ending: &str) -> String {
    let mut folders = vec![root().join(folder)];
    let mut text = String::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == ending) {
                text += &std::fs::read_to_string(path).unwrap();
            }
        }
    }
    text
}

/// The name that a metric is registered by.
fn registered(name: &str) -> &str {
    let name = name.trim_start_matches("tidegate_");
    let suffixes = ["_total", "_bucket", "_sum", "_count", "_info"];
    suffixes.into_iter().find_map(|suffix| name.strip_suffix(suffix)).unwrap_or(name)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_documentation_names_metrics_that_there_are() {
    let metrics = scraped().await;
    let scraped: BTreeSet<String> =
        kinds(&metrics).into_iter().map(|(name, kind)| format!("{name}{}", suffix(kind))).collect();
    let bare: BTreeSet<&str> = scraped.iter().map(|name| registered(name)).collect();
    let code: String =
        ["server", "gateway", "tidegate"].map(|name| all_of(&format!("crates/{name}/src"), "rs")).concat();
    let docs = all_of("docs", "md") + &read("README.md");
    let used = names(&docs);
    assert!(used.len() > 40, "{used:?}");
    let is_known = |name: &String| {
        let registered = registered(name);
        let histogram = ["_bucket", "_sum", "_count"].iter().any(|suffix| name.ends_with(suffix));
        IN_POSTGRES.contains(&name.as_str())
            || scraped.contains(name)
            || histogram && bare.contains(registered)
            // What only gateways, fleets and users' tiers have.
            || !bare.contains(registered) && code.contains(&format!("\"{registered}\""))
    };
    let unknown: Vec<_> = used.into_iter().filter(|name| !is_known(name)).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

/// The words in backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[test]
fn the_documentation_names_kinds_of_errors_that_there_are() {
    let kinds: BTreeSet<&str> = Failure::ALL.into_iter().map(Failure::name).collect();
    let redis = read("docs/operations/redis.md");
    let row =
        redis.lines().find(|line| line.starts_with("| `tidegate_store_errors_total{shard,kind}`")).unwrap();
    assert_eq!(quoted(row).skip(1).collect::<BTreeSet<_>>(), kinds, "all that there are");
    let table = redis.split_once("| error | do this |\n|---|---|\n").unwrap().1;
    let rows = table.lines().take_while(|line| line.starts_with('|'));
    let explained: BTreeSet<&str> = rows.filter_map(|row| quoted(row).next()).collect();
    assert!(explained.len() > 9 && explained.is_subset(&kinds), "{explained:?}");
    let mut named = 0;
    for part in read("docs/operations/runbooks.md").split("\n- ").filter(|part| part.contains("by `kind`")) {
        // `kind`: what it means
        let words = part.split('`').collect::<Vec<_>>();
        let explained = words.windows(2).skip(1).step_by(2).filter(|pair| pair[1].starts_with(": "));
        for kind in explained.map(|pair| pair[0]) {
            assert!(kinds.contains(kind), "`{kind}` in: {part}");
            named += 1;
        }
    }
    assert!(named >= 2, "the runbook of store_errors explains kinds");
    for label in read("deploy/prometheus/alerts_test.yaml").split("kind=\"").skip(1) {
        let kind = label.split('"').next().unwrap();
        assert!(kinds.contains(kind), "{kind}");
    }
}

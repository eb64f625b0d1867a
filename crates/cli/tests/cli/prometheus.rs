//! A real Prometheus scrapes the real binary, with the files that operators are given.

use std::fs;
use std::path::{Path, PathBuf};

use tidegate_testkit::{Prometheus, Redis, check_metrics};

use crate::gateway::Gateway;
use crate::support::{Server, ask, run, wait_for};

const RULES: &str = "
rules:
  - { rule_id: orders, identifier_type: user_id, limit: 20, window: 366d, algorithm: fixed_window }
";

const ALLOWED: usize = 20;
const REFUSED: usize = 5;

fn deployed(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/prometheus").join(name)
}

/// The configuration that operators start from, changed as it says, and in a hurry.
fn config(admin: &str) -> String {
    let mut config = fs::read_to_string(deployed("prometheus.yaml")).unwrap();
    for (from, to) in [
        ("scrape_interval: 15s", "scrape_interval: 1s"),
        ("evaluation_interval: 15s", "evaluation_interval: 1s"),
        ("127.0.0.1:8082", admin),
    ] {
        assert!(config.contains(from), "`{from}` is not in: {config}");
        config = config.replace(from, to);
    }
    config
}

/// A server with a shared store that has allowed and refused, and the Prometheus that has seen all of it.
fn scraped(redis: &Redis, folder: &Path) -> (Server, Prometheus) {
    let rules = folder.join("rules.yaml");
    fs::write(&rules, RULES).unwrap();
    let args = ["--rules", rules.to_str().unwrap(), "--store", &redis.url(), "--store-timeout", "2s"];
    let server = Server::start(&args);
    wait_for("the server to be well", || server.admin("/health").1.contains("\"normal\"").then_some(()));
    let decide = |_| server.check(r#"{"user":"alice","resource":"/orders"}"#)["allowed"] == true;
    assert_eq!((0..ALLOWED + REFUSED).map(decide).filter(|allowed| *allowed).count(), ALLOWED);
    let prometheus = Prometheus::start(&config(&server.admin), &[&deployed("alerts.yaml")]);
    wait_for("a scrape", || (prometheus.value("up{job='tidegate'}")? >= 1.0).then_some(()));
    (server, prometheus)
}

#[test]
fn prometheus_sees_what_was_decided() {
    let (redis, folder) = (Redis::start(), tempfile::tempdir().unwrap());
    let (server, prometheus) = scraped(&redis, folder.path());
    for (outcome, wanted) in [("allowed", ALLOWED), ("refused", REFUSED)] {
        let query = format!("sum(tidegate_decisions_total{{rule='orders',outcome='{outcome}'}})");
        assert_eq!(prometheus.value(&query), Some(wanted as f64), "{query}");
    }
    let total = prometheus.value("sum(tidegate_decisions_total)");
    assert_eq!(total, Some((ALLOWED + REFUSED) as f64), "nothing else was decided");
    assert_eq!(prometheus.value("sum(tidegate_decision_seconds_count)"), total);
    // All of them since it started; a rate takes a change between scrapes.
    let p99 = prometheus.value("histogram_quantile(0.99, sum by (le) (tidegate_decision_seconds_bucket))");
    assert!(p99.is_some_and(|p99| p99 > 0.0 && p99.is_finite()), "{p99:?}");
    assert_eq!(prometheus.value("tidegate_operating_mode"), Some(0.0), "normal");
    assert_eq!(prometheus.value("tidegate_breaker_state"), Some(0.0), "closed");
    assert!(prometheus.value("sum(tidegate_store_calls_total)") > Some(0.0));
    assert_eq!(prometheus.value("sum(tidegate_alerts)"), Some(0.0), "nothing is wrong");
    let targets = prometheus.targets();
    assert_eq!(targets.len(), 1, "{targets:?}");
    assert_eq!((targets[0].health.as_str(), targets[0].last_error.as_str()), ("up", ""));
    assert_eq!(targets[0].url, format!("http://{}/metrics", server.admin));
    assert_eq!(check_metrics(&server.admin("/metrics").1), Ok(()));
}

#[test]
fn the_rules_for_alerts_are_evaluated_on_what_there_is() {
    let (redis, folder) = (Redis::start(), tempfile::tempdir().unwrap());
    let (server, prometheus) = scraped(&redis, folder.path());
    let rules = wait_for("all rules to be evaluated", || {
        let rules = prometheus.rules();
        rules.iter().all(|rule| rule["health"] != "unknown").then_some(rules)
    });
    assert!(rules.len() > 10, "{rules:?}");
    for rule in &rules {
        assert_eq!((&rule["health"], rule["lastError"].as_str()), (&"ok".into(), None), "{rule}");
    }
    assert_eq!(raised(&prometheus, "TidegateStoreDown"), None);
    redis.kill();
    // Something must be asked of the store for its absence to be noticed soon.
    wait_for("Prometheus to see that the store is down", || {
        server.check(r#"{"user":"bob","resource":"/orders"}"#);
        raised(&prometheus, "TidegateStoreDown")
    });
}

#[test]
fn thresholds_of_alerts_that_cannot_be_meant_are_refused_with_those_that_can() {
    let said = run(["serve", "--alert-thresholds", "rejections=50%,latence=5ms"]);
    said.complains(2, &["--alert-thresholds: there is no threshold `latence`; use ", "latency"]);
    let said = run(["serve", "--alert-thresholds", "latency=soon"]);
    said.complains(2, &["`latency` is a time, such as latency=10ms"]);
}

/// Whoever sees a metric finds out what it means, and what to do about it.
#[test]
fn every_metric_is_explained() {
    let redis = Redis::start();
    let nowhere = "http://127.0.0.1:9";
    let more = ["--store", &redis.url(), "--alert-webhook", nowhere, "--otlp", nowhere];
    let gateway = Gateway::start(&[&["--upstream", nowhere], &more[..]].concat());
    let metrics = wait_for("the store to be known", || {
        let (_, metrics) = ask(&gateway.admin, "GET", "/metrics", "");
        metrics.contains("tidegate_store_connections_ratio{").then_some(metrics)
    });
    let docs = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/observability.md"))
        .unwrap();
    let types = metrics.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    let names: Vec<String> = types
        .map(|(name, kind)| match kind {
            "counter" => format!("{name}_total"),
            "info" => format!("{name}_info"),
            _ => name.to_owned(),
        })
        .collect();
    assert!(names.len() > 40, "{names:?}");
    let missing: Vec<_> = names.iter().filter(|name| !docs.contains(&format!("`{name}`"))).collect();
    assert!(missing.is_empty(), "docs/observability.md says nothing about {missing:?}");
}

/// How far an alert is on its way to people: pending or firing.
fn raised(prometheus: &Prometheus, name: &str) -> Option<String> {
    let alerts = prometheus.alerts();
    let alert = alerts.iter().find(|alert| alert["labels"]["alertname"] == name)?;
    alert["state"].as_str().map(str::to_owned)
}

//! Prometheus scrapes, evaluates rules and tells what is wrong.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::Duration;
use std::{fs, thread};

use tidegate_testkit::{Prometheus, wait};

/// Longer than some scrapes take on a machine that is busy with other things.
const PATIENCE: Duration = tidegate_testkit::wait::HANG_LIMIT;

const RULES: &str = "
groups:
  - name: test
    rules:
      - { alert: TooHot, expr: 'temperature > 30', labels: { severity: critical } }
";

/// Answers all with the same metrics, for as long as the test process lives.
fn exporter(metrics: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            // The question is always the same, and fits.
            if !stream.read(&mut [0; 4096]).is_ok_and(|read| read > 0) {
                continue;
            }
            let head =
                "HTTP/1.1 200 OK\r\ncontent-type: text/plain; version=0.0.4\r\nconnection: close\r\n\r\n";
            stream.write_all(format!("{head}{metrics}").as_bytes()).ok();
        }
    });
    address
}

#[test]
fn metrics_are_scraped_and_alerts_fire() {
    let folder = tempfile::tempdir().unwrap();
    let rules = folder.path().join("rules.yaml");
    fs::write(&rules, RULES).unwrap();
    let good = exporter("temperature{room=\"a\"} 31\ntemperature{room=\"b\"} 20\n");
    let bad = exporter("no metrics at all\n");
    let prometheus = Prometheus::scraping(&[&good, &bad], &[&rules]);
    wait::until("both are scraped", PATIENCE, || {
        let targets = prometheus.targets();
        let health = |of: &str| targets.iter().find(|one| one.url.contains(of)).map(|one| one.health.clone());
        (health(&good)? == "up" && health(&bad)? == "down").then_some(())
    });
    let targets = prometheus.targets();
    assert!(targets.iter().all(|one| one.last_error.is_empty() == (one.health == "up")), "{targets:?}");
    let found = prometheus.query("temperature > 25");
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((found[0].labels["room"].as_str(), found[0].value.to_bits()), ("a", 31_f64.to_bits()));
    assert_eq!(prometheus.value("sum(temperature)"), Some(51.0));
    assert_eq!(prometheus.value("nothing"), None);
    let alert = wait::until("the alert fires", PATIENCE, || prometheus.alerts().into_iter().next());
    assert_eq!((&alert["labels"]["alertname"], &alert["state"]), (&"TooHot".into(), &"firing".into()));
    assert_eq!(prometheus.rules().len(), 1);
}

#[test]
#[should_panic(expected = "the server did not start")]
fn a_configuration_that_is_none_is_told() {
    let _ = Prometheus::start("scrape_everything: yes", &[]);
}

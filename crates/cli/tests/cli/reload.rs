//! Rules that change while requests flow.

use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use serde_json::Value;

use crate::support::{Server, wait_for};

const REQUEST: &str = r#"{"user":"alice","resource":"/"}"#;

fn rules(limit: u64) -> String {
    format!("rules:\n  - {{rule_id: all, identifier_type: user_id, limit: {limit}, window: 1h}}\n")
}

fn health(server: &Server) -> Value {
    serde_json::from_str(&server.admin("/health").1).unwrap()
}

#[test]
fn no_request_fails_while_rules_change_for_better_or_worse() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rules.yaml");
    fs::write(&path, rules(1_000_000)).unwrap();
    let server = Server::start(&["--rules", path.to_str().unwrap()]);
    let (over, answered) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    assert_eq!(server.check(REQUEST)["allowed"], true);
                    answered.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let ends = Ends(&over);
        change(&server, &path, &answered);
        drop(ends);
    });
    assert!(answered.load(Ordering::Relaxed) > 100);
}

/// Stops the flow, also when an assertion fails.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Returns how often rules could not be put in force.
fn load_errors(server: &Server) -> u64 {
    let metrics = server.admin("/metrics").1;
    let count = metrics.lines().find_map(|line| line.strip_prefix("tidegate_rules_load_errors_total "));
    count.unwrap().parse().unwrap()
}

fn change(server: &Server, path: &std::path::Path, answered: &AtomicU64) {
    let limit = |wanted: u64| {
        wait_for("the new rules", || (server.check(REQUEST)["limit"] == wanted).then_some(()));
    };
    limit(1_000_000);
    for wanted in [2_000_000, 3_000_000] {
        fs::write(path, rules(wanted)).unwrap();
        limit(wanted);
    }
    // As editors do it: a new file takes the place of the old one.
    let replace = |text: &str| {
        let replacement = path.with_extension("new");
        fs::write(&replacement, text).unwrap();
        fs::rename(&replacement, path).unwrap();
    };
    replace(&rules(4_000_000));
    limit(4_000_000);

    // A file that is written in place may have been seen while it was empty.
    let errors = load_errors(server);
    replace("rules:\n  - rule_id: all\n    limt: 5\n");
    let reasons = wait_for("the mistake to be noticed", || {
        let health = health(server);
        (health["status"] == "degraded").then(|| health["reasons"].to_string())
    });
    assert!(reasons.contains("did you mean `limit`?"), "{reasons}");
    assert_eq!(load_errors(server), errors + 1);
    let before = answered.load(Ordering::Relaxed);
    wait_for("requests to go on", || (answered.load(Ordering::Relaxed) > before + 20).then_some(()));
    assert_eq!(server.check(REQUEST)["limit"], 4_000_000);
    assert_eq!(server.admin("/readyz").0, 200);

    fs::write(path, rules(5_000_000)).unwrap();
    limit(5_000_000);
    wait_for("health", || (health(server)["status"] == "normal").then_some(()));
    assert!(server.log().contains("did you mean `limit`?"), "{}", server.log());
}

//! Three nodes whose store dies, hangs and comes back: no request fails, and nobody gets more than the limit.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use serde_json::Value;
use tidegate_testkit::Redis;

use crate::support::{Server, wait_for};

const NODES: usize = 3;
const USERS: usize = 10;
const LIMIT: u64 = 60;

/// A window that does not end during a test.
const RULES: &str =
    "rules: [{rule_id: each, identifier_type: user_id, algorithm: fixed_window, limit: 60, window: 366d}]";

/// Nodes that know how many they are.
struct Fleet {
    redis: Redis,
    nodes: Vec<Server>,
    /// What each user was admitted.
    admitted: BTreeMap<usize, u64>,
    /// How decisions were taken.
    statuses: BTreeMap<String, u64>,
    _folder: tempfile::TempDir,
}

impl Fleet {
    fn start() -> Self {
        let (redis, folder) = (Redis::start(), tempfile::tempdir().unwrap());
        let rules = folder.path().join("rules.yaml");
        fs::write(&rules, RULES).unwrap();
        let (url, count) = (redis.url(), NODES.to_string());
        // Patient enough for a machine that is busy with other things.
        let args = [
            "--store",
            &url,
            "--nodes",
            &count,
            "--store-timeout",
            "50ms",
            "--degraded-after",
            "200ms",
            "--rules",
            rules.to_str().unwrap(),
        ];
        let nodes = (0..NODES).map(|_| Server::start(&args)).collect();
        let fleet =
            Self { redis, nodes, admitted: BTreeMap::new(), statuses: BTreeMap::new(), _folder: folder };
        fleet.are("normal");
        fleet
    }

    /// Every user asks every node in turn, so many times.
    fn ask(&mut self, rounds: usize) -> u64 {
        let mut admitted = 0;
        for _ in 0..rounds {
            for user in 0..USERS {
                for node in &self.nodes {
                    let decision = node.check(&format!(r#"{{"user":"user-{user}","resource":"/"}}"#));
                    let status = decision["status"].as_str().unwrap();
                    assert!(["enforced", "local"].contains(&status), "{decision}");
                    *self.statuses.entry(status.to_owned()).or_default() += 1;
                    let allowed = u64::from(decision["allowed"] == true);
                    *self.admitted.entry(user).or_default() += allowed;
                    admitted += allowed;
                }
            }
        }
        admitted
    }

    /// Waits until all nodes are in this mode, and says how long that took.
    fn are(&self, mode: &str) -> Duration {
        let begun = Instant::now();
        for node in &self.nodes {
            wait_for(&format!("a node to be {mode}"), || {
                let health: Value = serde_json::from_str(&node.admin("/health").1).unwrap();
                (health["status"] == mode).then_some(())
            });
        }
        begun.elapsed()
    }

    /// Has every node hear from the store what is left for everybody: on a busy machine some were decided without it.
    fn look(&self) {
        self.settle();
        for (user, node) in (0..USERS).flat_map(|user| self.nodes.iter().map(move |node| (user, node))) {
            let look = format!(r#"{{"user":"user-{user}","resource":"/","cost":0}}"#);
            wait_for("the store to answer", || (node.check(&look)["status"] == "enforced").then_some(()));
        }
    }

    /// Waits until the store knows what was admitted without it.
    fn settle(&self) {
        for node in &self.nodes {
            wait_for("all to be settled", || {
                node.admin("/metrics").1.contains("\ntidegate_unsettled_keys 0\n").then_some(())
            });
        }
    }

    fn locally(&self) -> u64 {
        self.statuses.get("local").copied().unwrap_or_default()
    }
}

#[test]
fn a_store_that_hangs_costs_nobody_a_decision_and_gives_nobody_more() {
    let mut fleet = Fleet::start();
    let before = fleet.ask(5);
    assert_eq!(before, (5 * NODES * USERS) as u64);
    fleet.look();
    let known = fleet.locally();

    fleet.redis.pause();
    let during = fleet.ask(25);
    println!("degraded after another {:?}; {during} admitted without the store", fleet.are("degraded"));
    assert!(fleet.locally() > known + 100, "{:?}", fleet.statuses);

    fleet.redis.resume();
    println!("normal {:?} after the store went on", fleet.are("normal"));
    fleet.settle();
    let after = fleet.ask(15);
    println!("{before} admitted before, {during} during, {after} after; decided: {:?}", fleet.statuses);
    // What the store had been asked when it began to hang may have been counted twice, and never not at all.
    for (user, &admitted) in &fleet.admitted {
        assert!(admitted <= LIMIT, "user {user} was admitted {admitted} times");
        assert!(admitted >= LIMIT / 2, "user {user} was admitted {admitted} times only");
    }
}

#[test]
fn a_store_that_dies_costs_nobody_a_decision() {
    let mut fleet = Fleet::start();
    let before = fleet.ask(5);
    fleet.look();
    fleet.redis.kill();
    let during = fleet.ask(25);
    fleet.are("degraded");
    for (user, &admitted) in &fleet.admitted {
        assert!(admitted <= LIMIT, "user {user} was admitted {admitted} times");
    }
    // It has lost what it knew, but not what was admitted without it.
    fleet.redis.restart();
    println!("normal {:?} after the store was back", fleet.are("normal"));
    fleet.settle();
    let after = fleet.ask(25);
    println!("{before} admitted before, {during} during, {after} after; decided: {:?}", fleet.statuses);
    assert!(during + after <= LIMIT * USERS as u64, "{during} and {after}");
    assert!(after > 0 && during > 0);
}

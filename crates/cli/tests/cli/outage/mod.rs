//! Nodes that share a store, and what becomes of decisions when it is away: one file for each story.

mod apart;
mod crowd;
mod dies;
mod flaps;
mod hangs;
mod partial;
mod shard;
mod spike;
mod start;
mod story;
mod tally;

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::Value;
use tidegate_testkit::Redis;

use crate::support::{Server, wait_for};

/// What each user may have, in a window that does not end during a test.
const LIMIT: u64 = 60;

/// Limits by three identities, so that a request has several owners. Only the first is ever reached.
const RULES: &str = "
rules:
  - { rule_id: each, identifier_type: user_id, algorithm: fixed_window, limit: 60, window: 366d }
  - { rule_id: tenant, identifier_type: tenant_id, algorithm: token_bucket, limit: 20000, window: 1s }
  - { rule_id: address, identifier_type: ip_address, algorithm: sliding_window, limit: 1000000, window: 1m }
";

/// What tells nodes of a fleet from strangers.
const SECRET: &str = "a secret that all nodes of this fleet know";

/// What a user of those limits asks.
fn body(user: usize) -> String {
    let (tenant, ip) = (user % 20, user % 40);
    format!(r#"{{"tenant":"tenant-{tenant}","user":"user-{user}","ip":"192.0.2.{ip}","resource":"/"}}"#)
}

/// The same without taking anything.
fn look(user: usize) -> String {
    body(user).replace("\"resource\"", "\"cost\":0,\"resource\"")
}

/// Nodes that know each other. Each is told of the first, and finds the others by itself.
struct Fleet {
    nodes: Vec<Server>,
    folder: tempfile::TempDir,
}

impl Fleet {
    /// Starts a node for each of the URLs of their store.
    fn start(stores: &[String], rules: &str, args: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("rules.yaml"), rules).unwrap();
        fs::write(folder.path().join("secret"), SECRET).unwrap();
        let mut fleet = Self { nodes: Vec::new(), folder };
        for store in stores {
            let peers =
                fleet.nodes.first().map(|first| cluster(first)["address"].as_str().unwrap().to_owned());
            fleet.add(store, peers.as_deref(), args);
        }
        fleet
    }

    /// The same, with the store well and everybody known to everybody.
    fn ready(stores: &[String], rules: &str, args: &[&str]) -> Self {
        let fleet = Self::start(stores, rules, args);
        fleet.know_each_other();
        fleet.are("normal");
        for (at, node) in fleet.nodes.iter().enumerate() {
            wait_for(&format!("node {at} to have the store, and the others to know"), || {
                let cluster = cluster(node);
                let members = cluster["members"].as_array()?;
                let all = members.iter().chain([&cluster]).all(|node| node["has_store"] == true);
                all.then_some(())
            });
        }
        fleet
    }

    /// Starts another node.
    fn add(&mut self, store: &str, peers: Option<&str>, args: &[&str]) {
        let (rules, secret) = (self.path("rules.yaml"), self.path("secret"));
        let name = format!("node-{}", self.nodes.len());
        let mut all = vec!["--store", store, "--cluster", "127.0.0.1:0", "--node-name", &name];
        all.extend(["--rules", rules.to_str().unwrap()]);
        all.extend(peers.iter().flat_map(|peers| ["--peers", peers]));
        // Unless a story says otherwise; patient enough for a machine that is busy with other things.
        for usual in [["--cluster-secret", secret.to_str().unwrap()], ["--store-timeout", "50ms"]] {
            if !args.contains(&usual[0]) {
                all.extend(usual);
            }
        }
        all.extend(args);
        self.nodes.push(Server::start(&all));
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Waits until every node hears every other.
    fn know_each_other(&self) {
        for (at, node) in self.nodes.iter().enumerate() {
            wait_for(&format!("node {at} to hear all others"), || {
                let members = cluster(node)["members"].clone();
                let alive = members.as_array()?.iter().filter(|member| member["state"] == "alive").count();
                (alive == self.nodes.len() - 1).then_some(())
            });
        }
    }

    /// Waits until all nodes are in this mode, and says how long that took.
    fn are(&self, mode: &str) -> Duration {
        let begun = Instant::now();
        for (at, node) in self.nodes.iter().enumerate() {
            wait_for(&format!("node {at} to be {mode}"), || (health(node)["status"] == mode).then_some(()));
        }
        begun.elapsed()
    }

    /// Waits until the store knows what was admitted without it, and says how long that took.
    fn settled(&self) -> Duration {
        let begun = Instant::now();
        for (at, node) in self.nodes.iter().enumerate() {
            wait_for(&format!("node {at} to settle"), || {
                (metric(node, "tidegate_unsettled_keys") == 0).then_some(())
            });
        }
        begun.elapsed()
    }

    /// A metric, summed over all nodes.
    fn sum(&self, name: &str) -> u64 {
        self.nodes.iter().map(|node| metric(node, name)).sum()
    }

    /// Everything that was admitted without the store is either known to it by now, or need not be. Says how much there was.
    fn owes_nothing(&self) -> u64 {
        self.settled();
        let admitted = self.sum("tidegate_admitted_without_store_total");
        let (settled, forgiven) = (self.sum("tidegate_settled_total"), self.sum("tidegate_forgiven_total"));
        println!(
            "admitted without the store: {admitted}; settled: {settled}; given back by time: {forgiven}"
        );
        assert_eq!(admitted, settled + forgiven);
        admitted
    }

    /// What the store says that a user has taken of the first limit, whichever node is asked.
    fn counted(&self, user: usize) -> u64 {
        let node = &self.nodes[user % self.nodes.len()];
        wait_for("the store to say what is left", || {
            let decision = node.check(&look(user));
            let rules = decision["rules"].as_array()?;
            let each = rules.iter().find(|rule| rule["rule_id"] == "each")?;
            (decision["status"] == "enforced").then(|| LIMIT - each["remaining"].as_u64().unwrap())
        })
    }
}

/// What a node says about the others.
fn cluster(node: &Server) -> Value {
    serde_json::from_str(&node.admin("/v1/cluster").1).unwrap()
}

/// What a node says about itself.
fn health(node: &Server) -> Value {
    serde_json::from_str(&node.admin("/health").1).unwrap()
}

/// How often a node's mode has changed to this one.
fn changes_to(node: &Server, mode: &str) -> usize {
    let health = health(node);
    health["changes"].as_array().unwrap().iter().filter(|change| change["to"] == mode).count()
}

/// A metric of a node, summed over its labels.
fn metric(node: &Server, name: &str) -> u64 {
    let metrics = node.admin("/metrics").1;
    let lines = metrics.lines().filter_map(|line| line.strip_prefix(name));
    let values =
        lines.filter(|rest| rest.starts_with([' ', '{'])).map(|rest| rest.rsplit(' ').next().unwrap());
    values.map(|value| value.parse::<u64>().unwrap()).sum()
}

/// What counters of the first limit hold in Redis itself.
fn counters(redis: &Redis) -> Vec<u64> {
    let script = "local all = {} \
        for _, key in ipairs(redis.call('KEYS', '*:each:fixed_window:*')) do \
            local _, count = cmsgpack.unpack(redis.call('HGET', key, 'c')) \
            table.insert(all, count) \
        end \
        return all";
    redis.query(&["EVAL", script, "0"])
}

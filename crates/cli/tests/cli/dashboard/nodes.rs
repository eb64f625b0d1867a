//! Nodes that know each other and share a store.

use std::path::Path;

use serde_json::Value;
use tidegate_testkit::Redis;

use crate::support::{Server, wait_for};

/// Starts so many, named `node-1` and on, and waits until each knows all others.
pub(super) fn start(redis: &Redis, folder: &Path, many: usize, args: &[&str]) -> Vec<Server> {
    let secret = folder.join("secret");
    std::fs::write(&secret, "a secret that all nodes of this fleet know").unwrap();
    let mut nodes: Vec<Server> = Vec::new();
    for number in 1..=many {
        let (store, name) = (redis.url(), format!("node-{number}"));
        let first = nodes.first().map(|node| cluster(node)["address"].as_str().unwrap().to_owned());
        let mut all = vec!["--store", &store, "--cluster", "127.0.0.1:0", "--node-name", &name];
        all.extend(["--rules", "rules", "--cluster-secret", secret.to_str().unwrap()]);
        all.extend(first.iter().flat_map(|first| ["--peers", first]));
        all.extend(args);
        // Documents are called by their path: one that is not of this machine.
        nodes.push(Server::start_with(&all, |command| command.current_dir(folder)));
    }
    for node in &nodes {
        wait_for("all nodes to know each other", || {
            let members = cluster(node)["members"].clone();
            let alive = members.as_array()?.iter().filter(|member| member["state"] == "alive").count();
            (alive == many - 1).then_some(())
        });
    }
    nodes
}

fn cluster(node: &Server) -> Value {
    serde_json::from_str(&node.admin("/v1/cluster").1).unwrap()
}

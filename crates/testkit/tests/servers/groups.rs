//! Servers that work together.

use std::time::Duration;

use tidegate_testkit::{Cluster, Redis, Sentinel, wait};

use crate::{SOON, exists};

#[test]
fn sentinels_move_the_master() {
    let group = Sentinel::options().password("secret").start();
    assert!(group.url().starts_with("redis+sentinel://127.0.0.1:") && group.url().ends_with("/mymaster"));
    let pids: Vec<u32> = group.nodes().iter().chain(group.sentinels()).map(Redis::pid).collect();
    assert_eq!(pids.len(), 6);

    let first = group.master();
    first.query::<()>(&["SET", "a", "1"]);
    assert_eq!(first.query::<u32>(&["WAIT", "2", "5000"]), 2);
    let second = group.failover();
    assert_ne!(second.address(), first.address());
    assert_eq!(second.query::<u32>(&["INCR", "a"]), 2);

    second.kill();
    let third = group.wait_for_new_master(second);
    assert_ne!(third.address(), second.address());

    drop(group);
    assert!(!pids.into_iter().any(exists));
}

#[test]
fn clusters_elect_masters_and_move_slots() {
    let cluster = Cluster::options().password("secret").node_timeout(Duration::from_secs(1)).start();
    let pids: Vec<u32> = cluster.nodes().iter().map(Redis::pid).collect();
    assert_eq!((pids.len(), cluster.masters().len()), (6, 3));
    moves_a_slot(&cluster);
    elects_masters(&cluster);
    drop(cluster);
    assert!(!pids.into_iter().any(exists));
}

fn moves_a_slot(cluster: &Cluster) {
    let slot = cluster.slot_of("{a}");
    let from = cluster.node_for_slot(slot);
    let to = *cluster.masters().iter().find(|node| node.address() != from.address()).unwrap();
    for key in 0..25 {
        from.query::<()>(&["SET", &format!("{{a}}{key}"), "1", "PX", "600000"]);
    }
    let migration = cluster.start_migration(slot, to);
    assert_eq!((migration.move_keys(20), migration.move_keys(3)), (20, 3));
    // In the middle: the source asks to ask, and the target answers those who do.
    let asked = from.try_query::<()>(&["SET", "{a}new", "1"]).unwrap_err();
    assert_eq!(asked.code(), Some("ASK"));
    migration.finish();

    assert_eq!(cluster.node_for_slot(slot).address(), to.address());
    assert_eq!(to.query::<u32>(&["CLUSTER", "COUNTKEYSINSLOT", &slot.to_string()]), 25);
    assert!(to.keys_without_ttl().is_empty());
    let moved = from.try_query::<()>(&["GET", "{a}1"]).unwrap_err();
    assert_eq!(moved.code(), Some("MOVED"));
}

fn elects_masters(cluster: &Cluster) {
    let slot = cluster.slot_of("b");
    let first = cluster.node_for_slot(slot);
    first.query::<()>(&["SET", "b", "1"]);
    let second = cluster.failover(slot);
    assert_eq!(second.query::<u32>(&["INCR", "b"]), 2);
    wait::until("the former master has followed", SOON, || {
        (cluster.replica_of(second).address() == first.address()).then_some(())
    });

    second.kill();
    let third = cluster.wait_for_new_master(slot, second);
    assert_eq!(third.address(), first.address());
    assert_eq!(third.query::<u32>(&["INCR", "b"]), 3);
}

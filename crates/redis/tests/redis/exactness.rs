//! One limit over many nodes.

use tidegate_core::{Algorithm, Group, Span};
use tidegate_store::Store;
use tidegate_testkit::{Cluster, Redis};

use crate::node::{Node, Work};
use crate::support::{connect, one, patient, quota, take};

/// So long that none passes during a test, and that a bucket refills by next to nothing.
const NEVER: Span = Span::from_secs(366 * 86_400);

fn count(url: &str, nodes: u64, work: Work, clocks: &[&str]) -> u64 {
    let offset = |number: u64| clocks.get(usize::try_from(number).unwrap()).copied();
    let nodes: Vec<Node> = (0..nodes).map(|number| Node::start(url, work, offset(number))).collect();
    nodes.into_iter().map(|node| node.finish("admitted")).sum()
}

/// Four nodes, each asking ten thousand times for one of a thousand.
fn four_nodes_admit_exactly_the_limit(url: &str) {
    for algorithm in Algorithm::REFILLING {
        let url = format!("{url}?prefix={algorithm}");
        let work = Work::Count { algorithm, limit: 1_000, window: NEVER, requests: 10_000 };
        assert_eq!(count(&url, 4, work, &[]), 1_000, "{algorithm}");
    }
}

#[test]
fn four_nodes_on_one_server_admit_exactly_the_limit() {
    let redis = Redis::start();
    four_nodes_admit_exactly_the_limit(&redis.url());
    assert_eq!(redis.keys_without_ttl(), Vec::<String>::new());
}

#[test]
fn four_nodes_on_a_cluster_admit_exactly_the_limit() {
    let cluster = Cluster::start();
    four_nodes_admit_exactly_the_limit(&cluster.url());
    for master in cluster.masters() {
        assert_eq!(master.keys_without_ttl(), Vec::<String>::new());
    }
}

/// The server's clock decides, so that of a node cannot change a limit.
#[test]
fn nodes_with_wrong_clocks_admit_exactly_the_limit() {
    let redis = Redis::start();
    for algorithm in Algorithm::REFILLING {
        let url = format!("{}?prefix={algorithm}", redis.url());
        let work = Work::Count { algorithm, limit: 1_000, window: NEVER, requests: 5_000 };
        assert_eq!(count(&url, 2, work, &["+10s", "-10s"]), 1_000, "{algorithm}");
    }
}

/// However the nodes' clocks disagree about when a window begins.
#[test]
fn nodes_with_wrong_clocks_keep_the_limit_across_windows() {
    let (redis, window) = (Redis::start(), 400);
    let millis = || {
        let (seconds, micros): (u64, u64) = redis.query(&["TIME"]);
        seconds * 1_000 + micros / 1_000
    };
    for algorithm in Algorithm::REFILLING {
        let url = format!("{}?prefix=across-{algorithm}", redis.url());
        let work = Work::Count { algorithm, limit: 100, window: Span::from_millis(window), requests: 15_000 };
        let start = millis();
        let admitted = count(&url, 2, work, &["+10s", "-10s"]);
        let end = millis();
        let most = match algorithm {
            Algorithm::FixedWindow => 100 * (end / window - start / window + 1),
            // A full bucket and what has refilled, or a full window and all that have ended since.
            _ => 100 + 100 * (end - start).div_ceil(window),
        };
        println!("{algorithm}: {admitted} of at most {most} in {} ms", end - start);
        assert!((100..=most).contains(&admitted), "{algorithm}: {admitted} admitted, at most {most}");
    }
    assert_eq!(redis.keys_without_ttl(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_nodes_at_once_get_the_last_one_once() {
    let redis = Redis::start();
    let (first, second) = (connect(&redis.url()).await, connect(&redis.url()).await);
    for algorithm in Algorithm::REFILLING {
        for round in 0..50 {
            let (quota, user) = (quota(algorithm, 100, NEVER), round.to_string());
            assert!(one(&first, take("last", &user, quota, 99)).await.allowed);
            let group: [Group<'_>; 1] = [[take("last", &user, quota, 1)].into_iter().collect()];
            let (one, other) = tokio::join!(first.apply(&group, patient()), second.apply(&group, patient()));
            let allowed = [one, other].map(|answer| answer[0][0].verdict().unwrap().allowed);
            assert_ne!(allowed[0], allowed[1], "{algorithm}, round {round}");
        }
    }
    assert_eq!(redis.keys_without_ttl(), Vec::<String>::new());
}

//! A store that is there before its servers.

use std::time::{Duration, Instant};

use tidegate_redis::RedisStore;
use tidegate_store::{Failure, Outcome, Store};
use tidegate_testkit::{Cluster, Port, Redis, Sentinel, wait};

use crate::load::{SOON, attempt, eventually, yearly};
use crate::support::{PATIENT, ready, take};

/// A store that has nobody to ask yet: it says so, and answers at once.
async fn start_in_vain(url: &str) -> RedisStore {
    let store = RedisStore::builder(url.parse().unwrap()).timeout(PATIENT).start().unwrap();
    assert_eq!(store.problem().unwrap().failure, Failure::Connection, "from the first moment on");
    let outcomes = attempt(&store, &[take("early", "alice", yearly(), 1)], PATIENT).await;
    assert_eq!(outcomes, [Outcome::Unavailable(Failure::Connection)]);
    wait::until("the store says that nobody is there", SOON, || {
        store.problem().filter(|problem| problem.text.contains("is it running"))
    });
    let outcomes = attempt(&store, &[take("early", "alice", yearly(), 1)], PATIENT).await;
    assert_eq!(outcomes, [Outcome::Unavailable(Failure::Connection)]);
    assert!(store.secret().is_none());
    store
}

async fn comes_up(store: &RedisStore) {
    ready(store).await;
    assert!(store.secret().is_some());
    // Nothing of what was asked before is there.
    assert_eq!(eventually(store, take("early", "alice", yearly(), 1)).await.used(), 1);
    assert_eq!(store.problem(), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_comes_later_is_found() {
    let redis = Redis::start();
    redis.kill();
    let store = start_in_vain(&redis.url()).await;
    redis.restart();
    comes_up(&store).await;

    // And again, empty.
    redis.kill();
    let start = Instant::now();
    while attempt(&store, &[take("late", "alice", yearly(), 1)], PATIENT).await[0].verdict().is_some() {
        assert!(start.elapsed() < SOON);
    }
    redis.restart();
    assert_eq!(eventually(&store, take("late", "alice", yearly(), 1)).await.used(), 1);
    assert_eq!(redis.keys_without_ttl(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_never_comes_makes_nobody_wait() {
    let port = Port::claim();
    let store = start_in_vain(&format!("redis://{}", port.address())).await;
    let patience = Duration::from_secs(600);
    for _ in 0..100 {
        let outcomes = attempt(&store, &[take("early", "alice", yearly(), 1)], patience).await;
        assert_eq!(outcomes, [Outcome::Unavailable(Failure::Connection)]);
    }
    let shards = store.shards();
    let (_, errors) = shards[0].stats.errors().find(|(failure, _)| *failure == Failure::Connection).unwrap();
    assert_eq!(errors, 102);
    assert!(shards[0].problem.is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinels_that_come_later_are_asked() {
    let group = Sentinel::start();
    let url = group.url();
    group.sentinels().iter().for_each(Redis::kill);
    let store = start_in_vain(&url).await;
    // One will do.
    group.sentinels()[1].restart();
    comes_up(&store).await;
    assert_eq!(group.master().keys_without_ttl(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_that_comes_later_than_its_sentinels_is_used() {
    let group = Sentinel::options().down_after(Duration::from_secs(600)).start();
    let master = group.master();
    master.kill();
    let store = start_in_vain(&group.url()).await;
    master.restart();
    comes_up(&store).await;
    assert_eq!(master.keys_without_ttl(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_that_comes_later_is_found() {
    let cluster = Cluster::start();
    cluster.nodes().iter().for_each(Redis::kill);
    let store = start_in_vain(&cluster.url()).await;
    cluster.nodes().iter().for_each(Redis::restart);
    comes_up(&store).await;
    for user in ["alice", "bob", "carol", "dave", "erin"] {
        assert!(eventually(&store, take("later", user, yearly(), 1)).await.allowed);
    }
    for master in cluster.masters() {
        assert_eq!(master.keys_without_ttl(), Vec::<String>::new());
    }
}

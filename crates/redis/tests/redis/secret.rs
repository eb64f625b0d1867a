//! One secret for a whole fleet.

use tidegate_core::{Secret, Tag};
use tidegate_redis::RedisStore;
use tidegate_store::{Failure, Store};
use tidegate_testkit::{Cluster, Redis, wait};

use crate::load::{SOON, attempt, yearly};
use crate::problems::check;
use crate::support::{PATIENT, connect, one, ready, take};

/// What a store makes of an identity: the same only for the same secret.
fn tag(store: &RedisStore) -> Tag {
    store.secret().expect("a secret is agreed").encode().part(1, b"alice").tag()
}

fn is_there(redis: &Redis) -> bool {
    redis.query::<u32>(&["EXISTS", "ratelimit:secret"]) == 1
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_nodes_agree_on_one_secret() {
    let redis = Redis::start();
    let url = redis.url();
    // All at once, so that each of them finds nothing there.
    let nodes: Vec<_> = (0..8)
        .map(|_| {
            let url = url.clone();
            tokio::spawn(async move { connect(&url).await })
        })
        .collect();
    let mut tags = Vec::new();
    for node in nodes {
        tags.push(tag(&node.await.unwrap()));
    }
    tags.push(tag(&connect(&url).await));
    assert!(tags.iter().all(|tag| *tag == tags[0]), "{tags:?}");

    let other = connect(&format!("{url}?prefix=other")).await;
    assert_ne!(tag(&other), tags[0], "another prefix is another fleet");
    let days = redis.query::<u64>(&["PTTL", "ratelimit:secret"]) / 86_400_000;
    assert!((366..=400).contains(&days), "{days} days: longer than any window");
    assert_eq!(redis.keys_without_ttl(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_of_a_cluster_agree_too() {
    let cluster = Cluster::start();
    let (one, two) = (connect(&cluster.url()).await, connect(&cluster.url()).await);
    assert_eq!(tag(&one), tag(&two));
    for master in cluster.masters() {
        assert_eq!(master.keys_without_ttl(), Vec::<String>::new());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_running_fleet_keeps_its_secret_when_the_server_is_emptied() {
    let redis = Redis::start();
    let fleet = [connect(&redis.url()).await, connect(&redis.url()).await];
    let before = tag(&fleet[0]);
    redis.query::<()>(&["FLUSHALL"]);
    one(&fleet[0], take("goes-on", "alice", yearly(), 1)).await;
    wait::until("the secret is put back", SOON, || is_there(&redis).then_some(()));
    let late = connect(&redis.url()).await;
    assert_eq!([&fleet[0], &fleet[1], &late].map(tag), [before; 3]);

    // A server that starts afresh is given it at once.
    redis.restart();
    for store in &fleet {
        // Its connection is gone, which it may not have noticed yet.
        let asked = async || attempt(store, &[take("goes-on", "alice", yearly(), 1)], PATIENT).await;
        while asked().await[0].verdict().is_none() {
            ready(store).await;
        }
    }
    wait::until("the secret is put back", SOON, || is_there(&redis).then_some(()));
    let late = connect(&redis.url()).await;
    assert_eq!([&fleet[0], &fleet[1], &late].map(tag), [before; 3]);
    assert_eq!(redis.keys_without_ttl(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_foreign_key_in_the_secrets_place_is_told_and_left_alone() {
    for command in [["SET", "ratelimit:secret", "theirs"], ["LPUSH", "ratelimit:secret", "theirs"]] {
        let redis = Redis::start();
        redis.query::<()>(&command);
        check(&redis.url(), Failure::Foreign, &["ratelimit:secret is not ours", "?prefix="]).await;
        assert_eq!(redis.keys_without_ttl(), ["ratelimit:secret"], "it was given an end");
        // By the way out that it names.
        let store = connect(&format!("{}?prefix=other", redis.url())).await;
        one(&store, take("a", "alice", yearly(), 1)).await;
        assert_eq!(redis.keys_without_ttl(), ["ratelimit:secret"]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_secret_that_is_given_is_not_agreed_on() {
    let redis = Redis::start();
    let given = RedisStore::builder(redis.url().parse().unwrap()).secret([7; 16]).start().unwrap();
    ready(&given).await;
    one(&given, take("a", "alice", yearly(), 1)).await;
    assert!(!is_there(&redis));
    assert_eq!(tag(&given), Secret::new([7; 16]).encode().part(1, b"alice").tag());
    assert_eq!(redis.keys_without_ttl(), Vec::<String>::new());
}

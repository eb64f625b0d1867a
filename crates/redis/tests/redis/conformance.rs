//! The suite every store runs, on every kind of server.

use tidegate_store::conformance::run;
use tidegate_testkit::{Cluster, Program, Redis};

use crate::support::Explicit;

async fn conforms(url: &str) {
    run(async |_| Explicit::new(url).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn debians_redis() {
    let redis = Redis::start();
    conforms(&redis.url()).await;
    assert_eq!(redis.keys_without_ttl(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_6_2() {
    let redis = Redis::options().program(Program::Redis62).start();
    conforms(&redis.url()).await;
    assert_eq!(redis.keys_without_ttl(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn valkey() {
    let redis = Redis::options().program(Program::Valkey).start();
    conforms(&redis.url()).await;
    assert_eq!(redis.keys_without_ttl(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster() {
    let cluster = Cluster::start();
    conforms(&cluster.url()).await;
    for node in cluster.masters() {
        assert_eq!(node.keys_without_ttl(), Vec::<String>::new());
    }
}

//! Servers that fail are left alone for a while, and are asked again by themselves.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tidegate_redis::RedisStore;
use tidegate_store::{BreakerSettings, BreakerState, Deadline, Failure, Outcome, Store};
use tidegate_testkit::{Cluster, Redis};

use crate::load::yearly;
use crate::support::{PATIENT, ready, take};

const TIMEOUT: Duration = Duration::from_millis(5);

async fn start(url: &str, settings: Option<BreakerSettings>) -> Arc<RedisStore> {
    let store = RedisStore::builder(url.parse().unwrap()).timeout(TIMEOUT).breaker(settings).start().unwrap();
    ready(&store).await;
    Arc::new(store)
}

async fn ask(store: &RedisStore, user: &str) -> Outcome {
    let group = [take("guarded", user, yearly(), 1)].into_iter().collect();
    store.apply(&[group], Deadline::after(Instant::now(), TIMEOUT)).await[0][0]
}

fn states(store: &RedisStore) -> Vec<BreakerState> {
    store.shards().iter().map(|shard| shard.breaker).collect()
}

async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENT;
    while !is_so() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Callers who never stop asking.
struct Load(Arc<AtomicBool>);

impl Load {
    fn start(store: &Arc<RedisStore>) -> Self {
        let done = Arc::new(AtomicBool::new(false));
        for caller in 0..8 {
            let (store, done) = (Arc::clone(store), Arc::clone(&done));
            tokio::spawn(async move {
                while !done.load(Ordering::Relaxed) {
                    let _ = ask(&store, &format!("caller-{caller}")).await;
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            });
        }
        Self(done)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_hangs_is_left_alone_until_it_answers() {
    let redis = Redis::start();
    let store = start(&redis.url(), Some(BreakerSettings::FAST)).await;
    let load = Load::start(&store);
    until("it decides", || store.shards()[0].stats.calls() > 10).await;
    assert_eq!(states(&store), [BreakerState::Closed]);

    redis.pause();
    let paused = Instant::now();
    until("it is left alone", || states(&store) == [BreakerState::Open]).await;
    println!("open {:?} after the server began to hang", paused.elapsed());
    drop(load);
    assert_eq!(ask(&store, "alice").await, Outcome::Unavailable(Failure::LeftAlone));
    let problem = store.shards()[0].problem.clone().expect("it is told");
    assert!(problem.contains("breaker") || problem.contains("does not answer"), "{problem}");

    // Nobody asks for anything, and still it is found out that the server is back.
    redis.resume();
    let resumed = Instant::now();
    until("it is asked again", || states(&store) == [BreakerState::Closed]).await;
    println!("closed {:?} after the server went on", resumed.elapsed());
    until("all is well", || store.shards()[0].problem.is_none()).await;
    assert!(ask(&store, "alice").await.verdict().is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_server_is_left_alone_and_found_again() {
    let redis = Redis::start();
    let store = start(&redis.url(), Some(BreakerSettings::FAST)).await;
    let _load = Load::start(&store);
    until("it decides", || store.shards()[0].stats.calls() > 10).await;
    redis.kill();
    until("it is left alone", || states(&store) == [BreakerState::Open]).await;
    redis.restart();
    until("it is asked again", || states(&store) == [BreakerState::Closed]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_dead_master_is_left_alone_and_no_other() {
    let cluster = Cluster::start();
    let store = start(&cluster.url(), Some(BreakerSettings::FAST)).await;
    let users: Vec<String> = (0..60).map(|number| format!("user-{number}")).collect();
    let ask_all = async || join_all(users.iter().map(|user| ask(&store, user))).await;
    let deadline = Instant::now() + PATIENT;
    while !ask_all().await.iter().all(|outcome| outcome.verdict().is_some()) {
        assert!(Instant::now() < deadline, "waited in vain until all are decided");
    }
    let masters = cluster.masters();
    let hangs = masters[0];
    hangs.pause();
    let open = || -> Vec<String> {
        let shards = store.shards().into_iter();
        shards.filter(|shard| shard.breaker != BreakerState::Closed).map(|shard| shard.name).collect()
    };
    let deadline = Instant::now() + PATIENT;
    while open().is_empty() {
        assert!(Instant::now() < deadline, "waited in vain until it is left alone");
        ask_all().await;
    }
    assert_eq!(open(), [hangs.address().to_string()]);
    let outcomes = ask_all().await;
    let decided = outcomes.iter().filter(|outcome| outcome.verdict().is_some()).count();
    let left_alone =
        outcomes.iter().filter(|&&outcome| outcome == Outcome::Unavailable(Failure::LeftAlone)).count();
    assert!(decided > 20 && left_alone > 5, "{outcomes:?}");
    hangs.resume();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_breaker_everybody_waits() {
    let redis = Redis::start();
    let store = start(&redis.url(), None).await;
    redis.pause();
    for _ in 0..30 {
        let outcome = ask(&store, "alice").await;
        assert!(
            !matches!(outcome, Outcome::Verdict(_) | Outcome::Unavailable(Failure::LeftAlone)),
            "{outcome:?}"
        );
    }
    assert_eq!(states(&store), [BreakerState::Closed]);
    redis.resume();
}

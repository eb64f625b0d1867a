//! Servers that fail are left alone for a while, and are asked again by themselves.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tidegate_redis::RedisStore;
use tidegate_store::{BreakerSettings, BreakerState, Deadline, Failure, Outcome, Store};
use tidegate_testkit::{Cluster, Proxy, Redis};

use crate::load::yearly;
use crate::support::{PATIENT, ready, take};

/// Twenty times the default, and so is what counts as silence: a server on a busy machine gets its turn within that.
const TIMEOUT: Duration = Duration::from_millis(100);

/// Not that a busy machine is slow, too.
const FAST: BreakerSettings = BreakerSettings { spike: None, ..BreakerSettings::FAST };

async fn start(url: &str, settings: Option<BreakerSettings>) -> Arc<RedisStore> {
    start_with(url, settings, TIMEOUT).await
}

async fn start_with(url: &str, settings: Option<BreakerSettings>, timeout: Duration) -> Arc<RedisStore> {
    let store = RedisStore::builder(url.parse().unwrap()).timeout(timeout).breaker(settings).start().unwrap();
    ready(&store).await;
    Arc::new(store)
}

async fn ask(store: &RedisStore, user: &str) -> Outcome {
    ask_within(TIMEOUT, store, user).await
}

async fn ask_within(timeout: Duration, store: &RedisStore, user: &str) -> Outcome {
    let group = [take("guarded", user, yearly(), 1)].into_iter().collect();
    store.apply(&[group], Deadline::after(Instant::now(), timeout)).await[0][0]
}

/// Asks until nobody waits for the server. One that tries whether it is back is late.
async fn until_told(store: &RedisStore, failure: Failure) {
    let deadline = Instant::now() + PATIENT;
    while ask(store, "alice").await != Outcome::Unavailable(failure) {
        assert!(Instant::now() < deadline, "waited in vain until nobody waits for it");
    }
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
    let store = start(&redis.url(), Some(FAST)).await;
    let load = Load::start(&store);
    until("it decides", || store.shards()[0].stats.calls() > 10).await;
    assert_eq!(states(&store), [BreakerState::Closed]);

    redis.pause();
    let paused = Instant::now();
    until("it is left alone", || states(&store) == [BreakerState::Open]).await;
    println!("open {:?} after the server began to hang", paused.elapsed());
    drop(load);
    until_told(&store, Failure::LeftAlone).await;
    let problem = store.shards()[0].problem.clone().expect("it is told");
    assert!(problem.contains("breaker") || problem.contains("does not answer"), "{problem}");

    // Nobody asks for anything, and still it is found out that the server is back.
    redis.resume();
    let resumed = Instant::now();
    until("it is asked again", || states(&store) == [BreakerState::Closed]).await;
    println!("closed {:?} after the server went on", resumed.elapsed());
    until("all is well", || store.shards()[0].problem.is_none()).await;
    let outcome = ask_within(PATIENT, &store, "alice").await;
    assert!(outcome.verdict().is_some(), "{outcome:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_server_is_left_alone_and_found_again() {
    let redis = Redis::start();
    let store = start(&redis.url(), Some(FAST)).await;
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
    let store = start(&cluster.url(), Some(FAST)).await;
    let users: Vec<String> = (0..60).map(|number| format!("user-{number}")).collect();
    let ask_all = async |timeout| join_all(users.iter().map(|user| ask_within(timeout, &store, user))).await;
    let outcomes = ask_all(PATIENT).await;
    assert!(outcomes.iter().all(|outcome| outcome.verdict().is_some()), "{outcomes:?}");
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
        ask_all(TIMEOUT).await;
    }
    assert_eq!(open(), [hangs.address().to_string()]);
    let outcomes = ask_all(PATIENT).await;
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

/// What waits for it has given up before it answers, although it always does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_slow_is_left_alone_until_it_is_fast() {
    const PATIENCE: Duration = Duration::from_millis(25);
    let redis = Redis::start();
    let proxy = Proxy::start(redis.address());
    let url = format!("redis://{}", proxy.address());
    let store = start_with(&url, Some(BreakerSettings::FAST), PATIENCE).await;
    let load = Load::start(&store);
    until("it decides", || store.shards()[0].stats.calls() > 10).await;

    proxy.set_delay(Duration::from_millis(40));
    let slow = |store: &RedisStore| store.shards()[0].problem.clone().filter(|text| text.contains("slowly"));
    until("it is found to be slow", || slow(&store).is_some()).await;
    until_told(&store, Failure::Slow).await;
    drop(load);
    let told = |failure| store.shards()[0].stats.errors().find(|(each, _)| *each == failure).unwrap().1;
    assert!(told(Failure::Slow) > 0);
    assert_eq!(told(Failure::LeftAlone), 0, "it has never failed");
    let problem = slow(&store).expect("it is told");
    assert!(problem.starts_with(&proxy.address().to_string()), "{problem}");
    assert_eq!(store.problem(), None, "the connection is good");

    // Nobody asks for anything, and still it is found out that it is fast.
    proxy.set_delay(Duration::ZERO);
    let mended = Instant::now();
    until("it is asked again", || states(&store) == [BreakerState::Closed]).await;
    println!("closed {:?} after the server was fast again", mended.elapsed());
    until("all is well", || store.shards()[0].problem.is_none()).await;
    let outcome = ask_within(PATIENT, &store, "alice").await;
    assert!(outcome.verdict().is_some(), "{outcome:?}");
}

/// Its timers have fired when it runs again, and the answers are there.
#[tokio::test]
async fn a_process_that_did_not_run_blames_nobody() {
    let redis = Redis::start();
    let store = start_with(&redis.url(), Some(FAST), Duration::from_millis(5)).await;
    for round in 1..=8 {
        let decided = redis.command_calls("evalsha");
        redis.pause();
        let (begun, sent) = (Instant::now(), store.shards()[0].stats.calls());
        let mut asked = std::pin::pin!(ask_within(PATIENT, &store, "alice"));
        while store.shards()[0].stats.calls() == sent {
            assert!(futures_util::poll!(&mut asked).is_pending());
            tokio::task::yield_now().await;
        }
        // This thread, and with it the runtime, does nothing else until long after the answer has arrived.
        redis.resume();
        tidegate_testkit::wait::until("it is decided", PATIENT, || {
            (redis.command_calls("evalsha") > decided).then_some(())
        });
        std::thread::sleep((begun + 2 * FAST.slow).saturating_duration_since(Instant::now()));
        let outcome = asked.await;
        assert!(outcome.verdict().is_some(), "round {round}: {outcome:?}");
        assert_eq!(states(&store), [BreakerState::Closed], "round {round}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_hangs_is_noticed_although_nobody_asks() {
    let redis = Redis::start();
    let store = start(&redis.url(), Some(FAST)).await;
    assert!(store.shards()[0].problem.is_none() && store.problem().is_none());
    redis.pause();
    // Pings may take four times as long as callers wait.
    let (paused, wanted) =
        (Instant::now(), format!("{}: no answer to a ping within 400 ms", redis.address()));
    until("it is told", || store.shards()[0].problem.as_deref() == Some(&wanted)).await;
    println!("told {:?} after the server began to hang", paused.elapsed());
    redis.resume();
    until("it is over", || store.shards()[0].problem.is_none() && store.problem().is_none()).await;
    // For the whole, too.
    redis.pause();
    until("it is told", || store.problem().is_some_and(|problem| problem.text == wanted)).await;
    redis.resume();
    until("it is over", || store.problem().is_none()).await;
}

//! Stores to try things with.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_core::{Algorithm, Group, Key, Operation, Quota, Secret, Span, Take, Timestamp, Verdict};
use tidegate_redis::RedisStore;
use tidegate_store::conformance::Subject;
use tidegate_store::{Deadline, ManualClock, Outcome, Store};

/// Long enough that nothing is ever late: what these tests are about is what is decided, not when.
pub(crate) const PATIENT: Duration = tidegate_testkit::wait::HANG_LIMIT;

/// Keys in tests with a clock of their own outlive the test by a little.
pub(crate) const TTL: Span = Span::from_secs(600);

/// A store by its own clock.
pub(crate) struct Explicit {
    pub(crate) store: RedisStore,
    clock: Arc<ManualClock>,
}

impl Explicit {
    pub(crate) async fn new(url: &str) -> Self {
        let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1)));
        let store = RedisStore::builder(url.parse().unwrap())
            .timeout(PATIENT)
            .clock(clock.clone(), TTL)
            .start()
            .unwrap();
        ready(&store).await;
        Self { store, clock }
    }
}

impl Subject for Explicit {
    fn store(&self) -> &dyn Store {
        &self.store
    }

    fn set_time(&self, now: Timestamp) {
        self.clock.set(now);
    }
}

/// A store by the server's clock.
pub(crate) async fn connect(url: &str) -> RedisStore {
    let store = RedisStore::builder(url.parse().unwrap()).timeout(PATIENT).start().unwrap();
    ready(&store).await;
    store
}

pub(crate) async fn ready(store: &RedisStore) {
    let ready = tokio::time::timeout(PATIENT, store.ready()).await;
    assert!(ready.is_ok(), "{:?}", store.problem());
}

pub(crate) fn patient() -> Deadline {
    Deadline::after(Instant::now(), PATIENT)
}

/// A take of `cost` by `user` under `rule`.
pub(crate) fn take<'r>(rule: &'r str, user: &str, quota: Quota, cost: u64) -> Operation<'r> {
    let tag = Secret::new([1; 16]).encode().part(2, user.as_bytes()).tag();
    Take::new(Key::new(rule, quota.algorithm(), tag), quota, cost).into()
}

pub(crate) fn quota(algorithm: Algorithm, limit: u64, window: Span) -> Quota {
    Quota::new(algorithm, limit, window).unwrap()
}

pub(crate) async fn apply(store: &dyn Store, ops: &[Operation<'_>]) -> Vec<Outcome> {
    let groups: [Group<'_>; 1] = [ops.iter().copied().collect()];
    store.apply(&groups, patient()).await.remove(0).into_iter().collect()
}

pub(crate) async fn one(store: &dyn Store, op: Operation<'_>) -> Verdict {
    let outcome = apply(store, &[op]).await.remove(0);
    *outcome.verdict().unwrap_or_else(|| panic!("no verdict: {outcome:?}"))
}

/// Numbers that look random and are the same in every run.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % sides
    }

    /// Evenly over the orders of magnitude up to `most`.
    pub(crate) fn scale(&mut self, most: u64) -> u64 {
        let bits = self.roll(64 - u64::from(most.leading_zeros()) + 1);
        (self.roll(u64::MAX) & ((1 << bits) - 1)).min(most)
    }
}

//! A node in front of a store of which some rules' counters cannot be reached.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tidegate_core::{Algorithm, Key, Quota, Secret, Span, Take, Timestamp};
use tidegate_store::{
    Answer, Clock, Deadline, Failure, Fallback, FallbackSettings, Group, ManualClock, MemoryStore, Operation,
    Outcome, Outcomes, Store,
};

pub(crate) const START: Timestamp = Timestamp::from_millis(1_704_067_200_000);
pub(crate) const HOUR: Span = Span::from_secs(3600);
const SECRET: Secret = Secret::new([4; 16]);

pub(crate) const ALGORITHMS: [Algorithm; 4] =
    [Algorithm::TokenBucket, Algorithm::FixedWindow, Algorithm::SlidingWindow, Algorithm::SlidingLog];

/// A store of which some rules' counters cannot be reached.
pub(crate) struct Flaky {
    pub(crate) memory: MemoryStore,
    away: Mutex<Vec<&'static str>>,
    /// Why they cannot.
    why: Mutex<Failure>,
    pub(crate) asked: AtomicU64,
    clock: Arc<ManualClock>,
}

impl Store for Flaky {
    fn apply<'a, 'r: 'a>(&'a self, groups: &'a [Group<'r>], _: Deadline) -> Answer<'a> {
        let away = self.away.lock().unwrap().clone();
        let is_away = |op: &Operation<'_>| away.contains(&op.take.key.rule_id);
        let answer = |group: &Group<'r>| -> Outcomes {
            self.asked.fetch_add(1, Ordering::Relaxed);
            let here: Group<'r> = group.iter().filter(|op| !is_away(op)).copied().collect();
            let mut known = self.memory.apply_at(&here, self.clock.now()).into_iter();
            let each = group.iter().map(|op| match is_away(op) {
                true => Outcome::Unavailable(*self.why.lock().unwrap()),
                false => known.next().unwrap(),
            });
            each.collect()
        };
        Box::pin(std::future::ready(groups.iter().map(answer).collect()))
    }
}

pub(crate) struct Bench {
    pub(crate) store: Fallback<Flaky>,
    pub(crate) clock: Arc<ManualClock>,
}

impl Bench {
    pub(crate) fn new(nodes: u32) -> Self {
        let clock = Arc::new(ManualClock::new(START));
        let flaky = Flaky {
            memory: MemoryStore::new(1000, clock.clone()),
            away: Mutex::default(),
            why: Mutex::new(Failure::Connection),
            asked: AtomicU64::new(0),
            clock: clock.clone(),
        };
        Self { store: Fallback::new(flaky, settings(nodes), clock.clone()), clock }
    }

    pub(crate) fn lose(&self, rules: &[&'static str]) {
        *self.store.inner().away.lock().unwrap() = rules.to_vec();
    }

    /// The same, but because the store is slow.
    pub(crate) fn lose_slowly(&self, rules: &[&'static str]) {
        *self.store.inner().why.lock().unwrap() = Failure::Slow;
        self.lose(rules);
    }

    pub(crate) async fn apply(&self, takes: &[Take<'_>]) -> Outcomes {
        let groups: [Group<'_>; 1] = [takes.iter().map(|&take| take.into()).collect()];
        self.store.apply(&groups, Deadline::after(Instant::now(), Duration::from_secs(1))).await.remove(0)
    }

    /// How many of so many requests are admitted.
    pub(crate) async fn admitted(&self, count: usize, take: Take<'_>) -> usize {
        let mut admitted = 0;
        for _ in 0..count {
            let outcomes = self.apply(&[take]).await;
            admitted += usize::from(outcomes[0].verdict().is_some_and(|verdict| verdict.allowed));
        }
        admitted
    }
}

/// A node that knows of no other, but that there are so many.
pub(crate) fn settings(nodes: u32) -> FallbackSettings {
    FallbackSettings {
        peers: None,
        nodes,
        max_keys: 1000,
        patience: Duration::from_secs(1),
        deny_when_not_owner: false,
        emergency: Quota::new(Algorithm::FixedWindow, 10, Span::from_secs(60)).unwrap(),
        epoch: 1,
    }
}

pub(crate) fn take(rule: &'static str, user: &str, algorithm: Algorithm, limit: u64) -> Take<'static> {
    let quota = Quota::new(algorithm, limit, HOUR).unwrap();
    let tag = SECRET.encode().part(0, user.as_bytes()).tag();
    Take::new(Key::new(rule, algorithm, tag), quota, 1)
}

//! Counters in a store that comes and goes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tidegate::core::rule::OnStoreFailure;
use tidegate::core::{Action, Group, Secret, Tag};
use tidegate::store::{Answer, Deadline, Failure, MemoryStore, Outcome, Outcomes, Store};
use tidegate::{Clock, Limiter, ManualClock, Rule, Span, Status, Timestamp};

use crate::story::{
    WITHIN, answers_say_what_is_used, ask, hold, left, log_ins, only_failures_count,
    refused_by_one_held_by_none, requests, rule_set, somebody, tell, tokens,
};

/// A store that may be away, or full of holds.
struct Flaky {
    memory: MemoryStore,
    clock: Arc<ManualClock>,
    away: AtomicBool,
    full: AtomicBool,
}

impl Flaky {
    fn answer(&self, group: &Group<'_>) -> Outcomes {
        let all = |failure| group.iter().map(|_| Outcome::Unavailable(failure)).collect();
        let holds = group.iter().any(|op| matches!(op.action, Action::Hold { .. }));
        match () {
            () if self.away.load(Ordering::Relaxed) => all(Failure::Connection),
            () if holds && self.full.load(Ordering::Relaxed) => all(Failure::Full),
            () => self.memory.apply_at(group, self.clock.now()),
        }
    }
}

impl Store for Flaky {
    fn apply<'a, 'r: 'a>(&'a self, groups: &'a [Group<'r>], _: Deadline) -> Answer<'a> {
        Box::pin(async move {
            tokio::task::yield_now().await;
            groups.iter().map(|group| self.answer(group)).collect()
        })
    }

    fn secret(&self) -> Option<Secret> {
        Some(Secret::new([3; 16]))
    }

    fn unwell(&self) -> u64 {
        u64::from(self.away.load(Ordering::Relaxed))
    }

    fn reach(&self, _: Tag) -> Result<(), Failure> {
        if self.away.load(Ordering::Relaxed) { Err(Failure::Connection) } else { Ok(()) }
    }
}

struct Bench {
    limiter: Limiter,
    store: Arc<Flaky>,
    clock: Arc<ManualClock>,
}

impl Bench {
    async fn new(rules: Vec<Rule>) -> Self {
        let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_704_067_200_000)));
        let memory = MemoryStore::new(1_000, clock.clone());
        let (away, full) = (AtomicBool::new(false), AtomicBool::new(false));
        let store = Arc::new(Flaky { memory, clock: clock.clone(), away, full });
        let builder = Limiter::builder(rule_set(rules, 1)).store(Arc::clone(&store) as Arc<dyn Store>);
        let limiter = builder.clock(clock.clone()).build().unwrap();
        limiter.tend().await;
        Self { limiter, store, clock }
    }

    fn is_away(&self, away: bool) {
        self.store.away.store(away, Ordering::Relaxed);
    }

    /// Goes on until the store knows all that was admitted without it.
    async fn make_even(&self) {
        self.is_away(false);
        for _ in 0..1_000 {
            self.clock.advance(Span::from_millis(100));
            self.limiter.tend().await;
            if self.limiter.fallback().unwrap().unsettled() == 0 {
                return;
            }
        }
        panic!("never even with the store");
    }
}

#[tokio::test]
async fn the_same_as_in_memory() {
    only_failures_count(&Bench::new(vec![log_ins()]).await.limiter).await;
    answers_say_what_is_used(&Bench::new(vec![tokens(10_000)]).await.limiter).await;
    refused_by_one_held_by_none(&Bench::new(vec![tokens(999), requests(3)]).await.limiter).await;
}

#[tokio::test]
async fn a_refusal_is_forgotten_once_something_is_given_back() {
    let bench = Bench::new(vec![tokens(500)]).await;
    let held = hold(&bench.limiter, &somebody()).await;
    for _ in 0..3 {
        assert!(!ask(&bench.limiter, &somebody()).await.allowed);
    }
    assert_eq!(bench.limiter.denied_from_cache(), 0, "what is only held may be back any moment");
    assert!(tell(&bench.limiter, held, 200, Some("500")).await);
    for _ in 0..3 {
        assert!(!ask(&bench.limiter, &somebody()).await.allowed);
    }
    assert_eq!(bench.limiter.denied_from_cache(), 2, "what is used up is not");
}

/// The answer is lost, and what was held is given back: nothing worse.
#[tokio::test]
async fn held_by_the_store_and_answered_while_it_is_away() {
    let bench = Bench::new(vec![tokens(1_000)]).await;
    let held = hold(&bench.limiter, &somebody()).await;
    bench.is_away(true);
    assert!(!tell(&bench.limiter, held, 200, Some("100")).await);
    bench.make_even().await;
    assert_eq!(left(&bench.limiter).await, [500]);
    bench.clock.advance(WITHIN);
    assert_eq!(left(&bench.limiter).await, [1_000]);
}

#[tokio::test]
async fn held_without_the_store_and_answered_without_it() {
    let bench = Bench::new(vec![tokens(1_000)]).await;
    assert_eq!(left(&bench.limiter).await, [1_000]);
    bench.is_away(true);
    let held = hold(&bench.limiter, &somebody()).await;
    assert_eq!(left(&bench.limiter).await, [500]);
    assert!(tell(&bench.limiter, held, 200, Some("100")).await);
    assert_eq!(left(&bench.limiter).await, [900]);
    bench.make_even().await;
    assert_eq!(left(&bench.limiter).await, [900], "the store was told");
}

#[tokio::test]
async fn held_without_the_store_and_answered_when_it_is_back() {
    let bench = Bench::new(vec![tokens(1_000)]).await;
    assert_eq!(left(&bench.limiter).await, [1_000]);
    bench.is_away(true);
    let held = hold(&bench.limiter, &somebody()).await;
    let lost = hold(&bench.limiter, &somebody()).await;
    bench.make_even().await;
    assert!(tell(&bench.limiter, held, 200, Some("100")).await);
    bench.make_even().await;
    assert_eq!(left(&bench.limiter).await, [900], "the store was told, and nothing of the other");
    bench.clock.advance(WITHIN);
    assert!(!tell(&bench.limiter, lost, 200, Some("100")).await);
    assert_eq!(left(&bench.limiter).await, [900]);
}

/// That a hold is gone is no news of its counter.
#[tokio::test]
async fn what_is_gone_makes_nobody_forget_what_is_used() {
    let bench = Bench::new(vec![tokens(1_000)]).await;
    let held = hold(&bench.limiter, &somebody()).await;
    let settlement = held.answered(200, |_| Some("100"));
    assert!(bench.limiter.settle(&settlement).await);
    assert!(!bench.limiter.settle(&settlement).await);
    bench.is_away(true);
    let checked = ask(&bench.limiter, &somebody()).await;
    assert_eq!((checked.allowed, checked.status), (true, Status::Local));
    assert_eq!(left(&bench.limiter).await, [400], "a hundred were known");
}

/// One rule cannot be asked and refuses: nothing stays held of the others.
#[tokio::test]
async fn nothing_stays_held_for_those_turned_away() {
    let strict = Rule { on_store_failure: OnStoreFailure::Deny, ..tokens(1_000) };
    let bench = Bench::new(vec![strict, requests(9)]).await;
    bench.is_away(true);
    let mut turned_away = ask(&bench.limiter, &somebody()).await;
    assert_eq!((turned_away.allowed, turned_away.status), (false, Status::Unavailable));
    assert!(turned_away.take_held().is_none());
    bench.make_even().await;
    assert_eq!(left(&bench.limiter).await, [9, 1_000]);
}

#[tokio::test]
async fn without_room_for_another_hold_it_is_charged_at_once() {
    let bench = Bench::new(vec![tokens(1_000)]).await;
    bench.store.full.store(true, Ordering::Relaxed);
    let held = hold(&bench.limiter, &somebody()).await;
    assert!(!tell(&bench.limiter, held, 200, Some("1")).await, "nobody kept track of it");
    assert_eq!(left(&bench.limiter).await, [500]);
    bench.clock.advance(WITHIN);
    assert_eq!(left(&bench.limiter).await, [500], "for good");
    assert!(!bench.limiter.fallback().unwrap().is_troubled(), "the store is well");
}

//! The deny cache in front of a memory store, with one time for both.
#![allow(clippy::unwrap_used, reason = "this is how a test fails")]

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use tidegate_core::{Algorithm, Key, Quota, Retry, Secret, Span, Take, Timestamp, Verdict};
use tidegate_store::{
    Action, Answer, Clock, Deadline, DenyCache, Group, HoldId, ManualClock, MemoryStore, Operation, Outcome,
    Outcomes, Store,
};

const START: Timestamp = Timestamp::from_millis(1_704_067_200_000);
const SECRET: Secret = Secret::new([4; 16]);

/// A memory store that has decided long before it answers: it is asked when polled first, answers when polled again.
struct Slow {
    store: MemoryStore,
    clock: Arc<ManualClock>,
}

impl Store for Slow {
    fn apply<'a, 'r: 'a>(&'a self, groups: &'a [Group<'r>], deadline: Deadline) -> Answer<'a> {
        Box::pin(async move {
            let answers = self.store.apply(groups, deadline).await;
            tokio::task::yield_now().await;
            answers
        })
    }
}

struct Bench {
    cache: DenyCache<Slow>,
    clock: Arc<ManualClock>,
}

impl Bench {
    fn new() -> Self {
        let clock = Arc::new(ManualClock::new(START));
        let inner = Slow { store: MemoryStore::new(10_000, clock.clone()), clock: clock.clone() };
        let (base, time) = (Instant::now(), clock.clone());
        let now = move || base + Duration::from_millis(time.now().since(START).as_millis());
        Self { cache: DenyCache::with(inner, 1_000, now), clock }
    }

    fn pass(&self, ms: u64) {
        self.clock.advance(Span::from_millis(ms));
    }

    async fn apply(&self, group: &[Operation<'_>]) -> Outcomes {
        let groups: [Group<'_>; 1] = [group.iter().copied().collect()];
        self.cache.apply(&groups, deadline()).await.remove(0)
    }

    async fn one(&self, op: Operation<'_>) -> Verdict {
        *self.apply(&[op]).await[0].verdict().unwrap()
    }

    /// Whether the cache answers `op` itself.
    async fn knows(&self, op: Operation<'_>) -> bool {
        let before = self.cache.hits();
        self.apply(&[op]).await;
        self.cache.hits() > before
    }

    /// What the store says is left.
    fn left(&self, take: Take<'_>) -> u64 {
        let inner = self.cache.inner();
        let look = Operation { take, action: Action::Peek };
        inner.store.apply_at(&[look], inner.clock.now())[0].verdict().unwrap().remaining
    }
}

fn deadline() -> Deadline {
    Deadline::after(Instant::now(), Duration::from_secs(60))
}

/// Ten an hour: a refusal lasts longer than it is remembered.
fn hourly() -> Quota {
    Quota::new(Algorithm::FixedWindow, 10, Span::from_secs(3_600)).unwrap()
}

/// One every 100 ms, up to ten.
fn steady() -> Quota {
    Quota::new(Algorithm::TokenBucket, 10, Span::from_secs(1)).unwrap()
}

fn take(user: &str, quota: Quota, cost: u64) -> Operation<'static> {
    let tag = SECRET.encode().part(2, user.as_bytes()).tag();
    Take::new(Key::new("rule", quota.algorithm(), tag), quota, cost).into()
}

fn with_id(id: &str, cost: u64) -> Operation<'static> {
    let op = take("alice", hourly(), cost);
    Operation { take: Take { request_id: Some(SECRET.request_id(id)), ..op.take }, ..op }
}

fn acting(op: Operation<'static>, action: Action) -> Operation<'static> {
    Operation { action, ..op }
}

const HOLD: Action = Action::Hold { id: HoldId([5, 5]), ttl: Span::from_secs(60) };
const SETTLE: Action = Action::Settle { id: HoldId([5, 5]) };
const RETURN: Action = Action::Return { since: START };

#[tokio::test]
async fn a_refusal_covers_takes_of_at_least_its_cost() {
    let bench = Bench::new();
    bench.one(take("alice", hourly(), 7)).await;
    assert!(!bench.one(take("alice", hourly(), 4)).await.allowed);
    assert!(bench.knows(take("alice", hourly(), 4)).await);
    assert!(bench.knows(take("alice", hourly(), 5)).await);
    assert!(bench.knows(acting(take("alice", hourly(), 4), HOLD)).await);
    assert!(!bench.knows(take("bob", hourly(), 4)).await);
    assert!(bench.one(take("alice", hourly(), 3)).await.allowed, "less may fit");
    assert!(!bench.knows(take("alice", hourly(), 1)).await, "the first time the store says it");
    assert!(bench.knows(take("alice", hourly(), 1)).await, "the smaller cost covers more");
    assert!(bench.knows(take("alice", hourly(), 4)).await);
    bench.one(with_id("asked in any case", 4)).await;
    assert!(bench.knows(take("alice", hourly(), 1)).await, "and is not given up for the larger");
}

#[tokio::test]
async fn what_never_fits_is_known_for_a_second() {
    let bench = Bench::new();
    for op in [take("alice", hourly(), 11), take("bob", Quota::BLOCKED, 1)] {
        let told = bench.one(op).await;
        assert_eq!(told.retry, Retry::Never);
        bench.pass(999);
        assert!(bench.knows(op).await);
        assert_eq!(bench.one(op).await, told);
        bench.pass(1);
        assert!(!bench.knows(op).await);
    }
}

#[tokio::test]
async fn a_refusal_is_over_when_it_says_so_and_after_a_second() {
    let bench = Bench::new();
    bench.one(take("alice", steady(), 10)).await;
    assert_eq!(bench.one(take("alice", steady(), 3)).await.retry, Retry::After(Span::from_millis(300)));
    bench.pass(298);
    assert!(bench.knows(take("alice", steady(), 3)).await);
    bench.pass(1);
    assert!(
        !bench.knows(take("alice", steady(), 3)).await,
        "the store's millisecond began before the question"
    );
    bench.pass(1);
    assert!(bench.one(take("alice", steady(), 3)).await.allowed);

    bench.one(take("alice", hourly(), 10)).await;
    bench.one(take("alice", hourly(), 1)).await;
    bench.pass(999);
    assert!(bench.knows(take("alice", hourly(), 1)).await);
    bench.pass(1);
    assert!(!bench.knows(take("alice", hourly(), 1)).await);
}

/// Counted from when it was asked: however long the answer takes, it does not live longer for that.
#[tokio::test]
async fn a_late_answer_is_not_remembered_longer() {
    let bench = Bench::new();
    bench.one(take("alice", steady(), 10)).await;
    let groups: [Group<'_>; 1] = [[take("alice", steady(), 3)].into_iter().collect()];
    let mut answer = bench.cache.apply(&groups, deadline());
    poll_once(&mut answer).await;
    bench.pass(200);
    assert_eq!(answer.await[0][0].verdict().unwrap().retry, Retry::After(Span::from_millis(300)));
    bench.pass(98);
    let told = bench.one(take("alice", steady(), 3)).await;
    assert_eq!(bench.cache.hits(), 1);
    assert_eq!(told.retry, Retry::After(Span::from_millis(202)), "nor is anybody told to come too early");
    bench.pass(1);
    assert!(!bench.knows(take("alice", steady(), 3)).await);
}

#[tokio::test]
async fn what_is_told_gets_shorter_as_time_passes() {
    let bench = Bench::new();
    bench.one(take("alice", steady(), 10)).await;
    let first = bench.one(take("alice", steady(), 3)).await;
    bench.pass(120);
    let later = bench.one(take("alice", steady(), 3)).await;
    assert_eq!(bench.cache.hits(), 1);
    let wanted =
        Verdict { retry: Retry::After(Span::from_millis(180)), reset_after: Span::from_millis(880), ..first };
    assert_eq!(later, wanted);
    assert_eq!(bench.one(take("alice", steady(), 11)).await.retry, Retry::Never, "whatever is known of less");
    assert_eq!(bench.cache.hits(), 2);
}

#[tokio::test]
async fn another_quota_or_version_misses() {
    let bench = Bench::new();
    let other = Quota::new(Algorithm::FixedWindow, 11, Span::from_secs(3_600)).unwrap();
    for asked in [other, hourly().at_version(1)] {
        bench.one(take("alice", hourly(), 10)).await;
        bench.one(take("alice", hourly(), 2)).await;
        assert!(bench.knows(take("alice", hourly(), 2)).await);
        assert!(!bench.knows(take("alice", asked, 2)).await);
        assert!(!bench.knows(take("alice", hourly(), 2)).await, "the counter may have changed its shape");
    }
}

#[tokio::test]
async fn a_request_id_is_never_answered_from_the_cache() {
    let bench = Bench::new();
    assert!(bench.one(with_id("first", 10)).await.allowed);
    assert!(!bench.one(with_id("second", 10)).await.allowed);
    assert!(bench.knows(take("alice", hourly(), 10)).await, "its refusal stands for others");
    assert!(bench.one(with_id("first", 10)).await.allowed, "a replay is free");
    assert!(!bench.knows(with_id("second", 10)).await);
}

#[tokio::test]
async fn a_look_or_a_shadow_is_never_answered_from_the_cache() {
    let bench = Bench::new();
    let op = take("alice", hourly(), 10);
    let shadow = Operation { take: Take { shadow: true, ..op.take }, ..op };
    bench.one(op).await;
    bench.one(acting(op, Action::Peek)).await;
    bench.one(shadow).await;
    assert!(!bench.knows(op).await, "nor are theirs remembered");
    assert!(bench.knows(op).await);
    assert!(!bench.knows(acting(op, Action::Peek)).await);
    assert!(!bench.knows(shadow).await);
}

#[tokio::test]
async fn a_refusal_while_something_is_held_is_not_remembered() {
    let bench = Bench::new();
    bench.one(acting(take("alice", hourly(), 10), HOLD)).await;
    assert!(bench.one(take("alice", hourly(), 1)).await.held);
    assert!(!bench.knows(take("alice", hourly(), 1)).await);
    // Given back behind the cache's back.
    let settle = acting(take("alice", hourly(), 9), SETTLE);
    bench.cache.inner().store.apply_at(&[settle], bench.clock.now());
    assert!(bench.one(take("alice", hourly(), 1)).await.allowed);
}

#[tokio::test]
async fn what_is_given_back_can_be_had_at_once() {
    let bench = Bench::new();
    let op = take("alice", hourly(), 1);
    bench.one(take("alice", hourly(), 10)).await;
    bench.one(op).await;
    assert!(bench.knows(op).await);
    bench.one(acting(op, RETURN)).await;
    assert!(bench.one(op).await.allowed);

    bench.one(op).await;
    let groups: [Group<'_>; 2] = [acting(op, RETURN), op].map(|op| [op].into_iter().collect());
    let answers = bench.cache.apply(&groups, deadline()).await;
    assert!(answers[1][0].verdict().unwrap().allowed, "even in the same call");
}

#[tokio::test]
async fn a_return_always_reaches_the_store() {
    let bench = Bench::new();
    let (op, other) = (take("alice", hourly(), 1), take("bob", hourly(), 1));
    bench.one(take("alice", hourly(), 10)).await;
    bench.one(other).await;
    bench.one(op).await;
    assert!(bench.knows(op).await);
    let outcomes = bench.apply(&[op, acting(other, RETURN)]).await;
    assert!(!outcomes[0].verdict().unwrap().allowed && outcomes[1].verdict().unwrap().allowed);
    assert_eq!(bench.left(other.take), 10);
}

#[tokio::test]
async fn a_charge_always_reaches_the_store() {
    let bench = Bench::new();
    let (op, other) = (take("alice", hourly(), 1), take("bob", hourly(), 4));
    bench.one(take("alice", hourly(), 10)).await;
    bench.one(op).await;
    let outcomes = bench.apply(&[op, acting(other, Action::Charge)]).await;
    assert!(!outcomes[0].verdict().unwrap().allowed && outcomes[1].verdict().unwrap().allowed);
    assert_eq!(bench.left(other.take), 6);
    assert!(
        bench.one(acting(op, Action::Charge)).await.allowed,
        "nobody who is refused keeps it from the store"
    );
    assert!(bench.knows(op).await, "and it gives nothing back");
}

async fn poll_once<F: Future + Unpin>(future: &mut F) {
    poll_fn(|context| {
        assert!(std::pin::pin!(&mut *future).poll(context).is_pending());
        Poll::Ready(())
    })
    .await;
}

/// A refusal is decided; before its answer arrives, `meanwhile` happens.
async fn in_flight(bench: &Bench, op: Operation<'_>, meanwhile: impl AsyncFnOnce()) {
    let groups: [Group<'_>; 1] = [[op].into_iter().collect()];
    let mut answer = bench.cache.apply(&groups, deadline());
    poll_once(&mut answer).await;
    meanwhile().await;
    assert!(!answer.await[0][0].verdict().unwrap().allowed);
}

#[tokio::test]
async fn a_refusal_overtaken_by_a_credit_is_not_remembered() {
    for credit in [RETURN, SETTLE] {
        let bench = Bench::new();
        let op = take("alice", hourly(), 1);
        bench.one(take("alice", hourly(), 10)).await;
        in_flight(&bench, op, async || _ = bench.one(acting(op, credit)).await).await;
        assert!(!bench.knows(op).await, "{credit:?}");
    }
}

/// The other way round: the refusal is asked for and answered while the credit is under way.
#[tokio::test]
async fn a_refusal_overtaking_a_credit_is_forgotten() {
    let bench = Bench::new();
    let (op, late) = (take("alice", hourly(), 1), take("alice", hourly(), 2));
    bench.one(take("alice", hourly(), 10)).await;
    let groups: [Group<'_>; 1] = [[acting(op, RETURN)].into_iter().collect()];
    let mut credit = bench.cache.apply(&groups, deadline());
    poll_once(&mut credit).await;
    bench.one(late).await;
    assert!(bench.knows(late).await);
    credit.await;
    assert!(!bench.knows(late).await);
}

#[tokio::test]
async fn a_change_of_rules_clears_everything() {
    let bench = Bench::new();
    let op = take("alice", hourly(), 1);
    bench.one(take("alice", hourly(), 10)).await;
    bench.one(op).await;
    assert!(bench.knows(op).await);
    bench.cache.clear();
    assert!(!bench.knows(op).await);
    bench.cache.clear();
    in_flight(&bench, op, async || bench.cache.clear()).await;
    assert!(!bench.knows(op).await, "and what was being asked");
    assert!(bench.knows(op).await);
}

#[tokio::test]
async fn the_others_of_a_group_are_not_asked_about_and_pay_nothing() {
    let bench = Bench::new();
    bench.one(take("alice", hourly(), 10)).await;
    bench.one(take("alice", hourly(), 1)).await;
    let group = [take("bob", hourly(), 1), take("alice", hourly(), 1), take("carol", hourly(), 1)];
    let outcomes = bench.apply(&group).await;
    assert_eq!(bench.cache.hits(), 1);
    assert!(matches!(outcomes[..], [Outcome::Unasked, Outcome::Verdict(_), Outcome::Unasked]));
    assert_eq!((bench.left(group[0].take), bench.left(group[2].take)), (10, 10));
}

#[tokio::test]
async fn answers_come_back_in_their_places() {
    let bench = Bench::new();
    bench.one(take("alice", hourly(), 10)).await;
    bench.one(take("alice", hourly(), 1)).await;
    let costs = [("bob", 1), ("alice", 1), ("bob", 2), ("alice", 2), ("carol", 4)];
    let groups = costs.map(|(user, cost)| [take(user, hourly(), cost)].into_iter().collect());
    let answers = bench.cache.apply(&groups, deadline()).await;
    assert_eq!(bench.cache.hits(), 2);
    let left: Vec<u64> = answers.iter().map(|outcomes| outcomes[0].verdict().unwrap().remaining).collect();
    assert_eq!(left, [9, 0, 7, 0, 6]);
}

/// 3 + 3 is more than 5; 3 is not.
#[tokio::test]
async fn a_counter_named_twice_proves_nothing_about_one_of_its_takes() {
    let bench = Bench::new();
    let quota = Quota::new(Algorithm::FixedWindow, 5, Span::from_secs(3_600)).unwrap();
    let outcomes = bench.apply(&[take("alice", quota, 3), take("alice", quota, 3)]).await;
    assert!(!outcomes[1].verdict().unwrap().allowed);
    assert!(bench.one(take("alice", quota, 3)).await.allowed);
}

/// A random history: who is counted how, and the groups with the time that passes before each.
#[derive(Clone, Debug)]
struct History {
    algorithms: [Algorithm; USERS.len()],
    groups: Vec<(u64, Vec<Step>)>,
}

const USERS: [&str; 3] = ["alice", "bob", "carol"];

/// Soon used up and, one of them, soon free again: (limit, window in ms).
const FIGURES: [(u64, u64); 2] = [(6, 700), (8, 4_000)];

#[derive(Clone, Copy, Debug)]
struct Step {
    user: usize,
    figures: usize,
    cost: u64,
    act: Act,
    shadow: bool,
    id: Option<u8>,
}

#[derive(Clone, Copy, Debug)]
enum Act {
    Take,
    Peek,
    /// For longer than the history: a store gives back what has expired when it is asked next, which it may not be.
    Hold,
    /// Of the hold made this many groups ago.
    Settle(u64),
    /// Of what was consumed this long ago.
    Return {
        ms: u64,
    },
    Charge,
}

fn takes() -> impl Strategy<Value = Step> {
    let fields = (0..USERS.len(), 0..FIGURES.len(), 1..=5u64, prop::bool::weighted(0.15));
    fields.prop_map(|(user, figures, cost, shadow)| Step {
        user,
        figures,
        cost,
        act: Act::Take,
        shadow,
        id: None,
    })
}

fn anything() -> impl Strategy<Value = Step> {
    let act = prop_oneof![
        8 => Just(Act::Take),
        1 => Just(Act::Peek),
        1 => Just(Act::Hold),
        1 => (0..6u64).prop_map(Act::Settle),
        1 => (0..1_500u64).prop_map(|ms| Act::Return { ms }),
        1 => Just(Act::Charge),
    ];
    let id = prop::option::weighted(0.1, 0..4u8);
    (takes(), act, id).prop_map(|(step, act, id)| Step { act, id, ..step })
}

/// Always asks about a user by the same quota.
fn one_quota_each(step: Step) -> Step {
    Step { figures: step.user % FIGURES.len(), ..step }
}

/// Groups of up to `most` operations.
fn history(step: impl Strategy<Value = Step>, most: usize) -> impl Strategy<Value = History> {
    // Short pauses are frequent, or nobody would come too early.
    let pause = prop_oneof![1 => 0..=1_500u64, 4 => 0..=20u64];
    let groups = prop::collection::vec((pause, prop::collection::vec(step, 1..=most)), 1..100);
    let algorithms = [(); USERS.len()].map(|()| prop::sample::select(&Algorithm::REFILLING[..]));
    (algorithms, groups).prop_map(|(algorithms, groups)| History { algorithms, groups })
}

impl History {
    fn operation(&self, step: Step, number: u64, now: Timestamp) -> Operation<'static> {
        let (limit, ms) = FIGURES[step.figures];
        let quota = Quota::new(self.algorithms[step.user], limit, Span::from_millis(ms)).unwrap();
        let id = |number: u64| HoldId([number, step.user as u64]);
        let action = match step.act {
            Act::Take => Action::Take,
            Act::Peek => Action::Peek,
            Act::Hold => Action::Hold { id: id(number), ttl: Span::from_secs(3_600) },
            Act::Settle(ago) => Action::Settle { id: id(number.saturating_sub(ago)) },
            Act::Return { ms } => Action::Return { since: now - Span::from_millis(ms) },
            Act::Charge => Action::Charge,
        };
        let op = acting(take(USERS[step.user], quota, step.cost), action);
        let request_id = step.id.map(|id| SECRET.request_id(&id.to_string()));
        Operation { take: Take { shadow: step.shadow, request_id, ..op.take }, ..op }
    }

    /// Plays it with and without a cache: nobody can tell the difference. Says how often the cache had the answer.
    fn play(&self) -> Result<u64, TestCaseError> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let bench = Bench::new();
        let plain = MemoryStore::new(10_000, bench.clock.clone());
        for (number, (ms, steps)) in (0..).zip(&self.groups) {
            bench.pass(*ms);
            let now = bench.clock.now();
            let group: Vec<_> = steps.iter().map(|step| self.operation(*step, number, now)).collect();
            let outcomes = runtime.block_on(bench.apply(&group));
            let wanted = plain.apply_at(&group, now);
            let alike = is_allowed(&group, &outcomes) == is_allowed(&group, &wanted);
            prop_assert!(alike, "group {number}: {outcomes:?} instead of {wanted:?}");
        }
        let now = bench.clock.now();
        for step in self.groups.iter().flat_map(|(_, steps)| steps) {
            let look = acting(self.operation(*step, 0, now), Action::Peek);
            let wanted = plain.apply_at(&[look], now)[0].verdict().unwrap().remaining;
            prop_assert_eq!(bench.left(look.take), wanted);
        }
        Ok(bench.cache.hits())
    }
}

fn is_allowed(group: &[Operation<'_>], outcomes: &[Outcome]) -> bool {
    let decides = |op: &Operation<'_>| {
        !op.take.shadow && matches!(op.action, Action::Peek | Action::Take | Action::Hold { .. })
    };
    let mut deciding = group.iter().zip(outcomes).filter(|(op, _)| decides(op));
    deciding.all(|(_, outcome)| outcome.verdict().is_some_and(|verdict| verdict.allowed))
}

proptest! {
    #[test]
    fn takes_are_decided_alike_with_and_without(
        history in history(takes().prop_map(one_quota_each), 3),
    ) {
        history.play()?;
    }

    /// With everything that gives back or is carried out in any case, as long as it passes through the cache.
    #[test]
    fn anything_is_decided_alike_with_and_without(
        history in history(anything().prop_map(one_quota_each), 3),
    ) {
        history.play()?;
    }

    /// Two quotas for one counter, as when a user's tier changes back and forth.
    #[test]
    fn changing_quotas_are_decided_alike_with_and_without(history in history(takes(), 1)) {
        history.play()?;
    }
}

/// The properties above would hold for a cache that knows nothing.
#[test]
fn the_histories_have_hits() {
    fn hits(histories: impl Strategy<Value = History>) -> u64 {
        let mut runner = TestRunner::deterministic();
        (0..50).map(|_| histories.new_tree(&mut runner).unwrap().current().play().unwrap()).sum()
    }
    let hits = [
        hits(history(takes().prop_map(one_quota_each), 3)),
        hits(history(anything().prop_map(one_quota_each), 3)),
        hits(history(takes(), 1)),
    ];
    assert!(hits.iter().all(|hits| *hits > 50), "{hits:?}");
}

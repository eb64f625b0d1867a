//! Networks that stall, lose, delay and cut: everybody has an answer in time, and it is not a wrong one.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::rule::OnStoreFailure;
use tidegate_core::{Action, Algorithm, Group, HoldId, Operation, Quota, Span};
use tidegate_redis::RedisStore;
use tidegate_store::coalesce::MAX_WAITING;
use tidegate_store::{Failure, Outcome, Store};
use tidegate_testkit::{Proxy, Redis, wait};
use tokio::task::unconstrained;

use crate::load::{SOON, attempt, eventually, yearly};
use crate::support::{PATIENT, connect, one, patient, quota, ready, take};

/// How long callers wait for what is not going to come.
const SHORT: Duration = Duration::from_millis(100);

const YEAR: Span = Span::from_secs(366 * 86_400);

/// A server behind a network that can fail, a store that uses it, and another that sees what is there.
struct Proxied {
    redis: Redis,
    proxy: Proxy,
    store: Arc<RedisStore>,
    witness: RedisStore,
}

impl Proxied {
    async fn start() -> Self {
        let redis = Redis::start();
        let proxy = Proxy::start(redis.address());
        let store = Arc::new(connect(&format!("redis://{}", proxy.address())).await);
        let witness = connect(&redis.url()).await;
        Self { redis, proxy, store, witness }
    }

    async fn used(&self, rule: &str, quota: Quota) -> u64 {
        quota.limit() - one(&self.witness, take(rule, "alice", quota, 0)).await.remaining
    }

    /// How many operations of a kind were sent.
    fn sent(&self, kind: &str) -> u64 {
        self.store.shards()[0].stats.operations().find(|(name, _)| *name == kind).unwrap().1
    }

    fn failed(&self, failure: Failure) -> u64 {
        self.store.shards()[0].stats.errors().find(|(kind, _)| *kind == failure).unwrap().1
    }

    /// Waits until the store decides again.
    async fn recovers(&self) {
        eventually(&self.store, take("recovered", "alice", yearly(), 1)).await;
    }

    fn assert_no_key_stays(&self) {
        assert_eq!(self.redis.keys_without_ttl(), Vec::<String>::new());
    }
}

fn is_undecided(outcome: &Outcome, why: &[Failure]) -> bool {
    matches!(outcome, Outcome::Unavailable(failure) | Outcome::Unknown(failure) if why.contains(failure))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_never_answers_keeps_nobody_beyond_the_deadline() {
    let proxied = Proxied::start().await;
    let store = &proxied.store;
    proxied.proxy.stall();
    let plain = take("stalled", "alice", yearly(), 1);
    let of = |action| Operation { action, ..plain };
    let id = HoldId([1, 2]);
    let ops = [
        of(Action::Peek),
        plain,
        of(Action::Hold { id, ttl: Span::from_secs(1) }),
        of(Action::Settle { id }),
        of(Action::Return { since: tidegate_core::Timestamp::from_millis(1) }),
        of(Action::Charge),
    ];
    for op in ops {
        let outcome = tokio::time::timeout(SOON, attempt(&**store, &[op], SHORT)).await.unwrap()[0];
        assert!(is_undecided(&outcome, &[Failure::Deadline, Failure::Connection]), "{op:?}: {outcome:?}");
    }
    assert!(proxied.failed(Failure::Deadline) > 0);
    // Whoever waits longer hears that the connection was given up, and is not made to wait for the next one.
    let patient = attempt(&**store, &[plain], SOON).await;
    assert!(is_undecided(&patient[0], &[Failure::Connection]), "{patient:?}");
    assert_eq!(attempt(&**store, &[plain], SOON).await, [Outcome::Unavailable(Failure::Connection)]);
    let problem = store.problem().unwrap();
    assert!(problem.failure == Failure::Connection && problem.text.contains("does not answer"), "{problem}");

    proxied.proxy.heal();
    proxied.recovers().await;
    proxied.assert_no_key_stays();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn takes_that_are_sent_twice_and_slow_servers_are_no_foreign_ones() {
    let proxied = Proxied::start().await;
    let plain = take("held", "alice", yearly(), 1);
    let hold = Operation { action: Action::Hold { id: HoldId([1, 2]), ttl: YEAR }, ..plain };
    // The short script leaves counters that are held by somebody to the long one.
    for op in [hold, plain, plain] {
        let outcomes = attempt(&*proxied.store, &[op], PATIENT).await;
        assert!(matches!(outcomes[..], [Outcome::Verdict(_)]), "{outcomes:?}");
    }
    let errors =
        || proxied.store.shards()[0].stats.errors().filter(|(_, count)| *count > 0).collect::<Vec<_>>();
    assert_eq!(errors(), []);

    proxied.proxy.set_delay(SHORT * 2);
    let outcomes = attempt(&*proxied.store, &[plain], SHORT).await;
    assert!(is_undecided(&outcomes[0], &[Failure::Deadline]), "{outcomes:?}");
    wait::until("the delay is counted", SOON, || (!errors().is_empty()).then_some(()));
    assert!(errors().iter().all(|(kind, _)| *kind == Failure::Deadline), "{:?}", errors());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_done_but_never_confirmed_is_unknown() {
    let proxied = Proxied::start().await;
    proxied.proxy.drop_replies();
    let outcomes = attempt(&*proxied.store, &[take("unheard", "alice", yearly(), 5)], SHORT).await;
    assert_eq!(outcomes, [Outcome::Unknown(Failure::Deadline)]);
    assert_eq!(proxied.used("unheard", yearly()).await, 5);

    // Whoever waits to the end loses the connection.
    let outcomes = attempt(&*proxied.store, &[take("unheard", "alice", yearly(), 1)], SOON).await;
    assert_eq!(outcomes, [Outcome::Unknown(Failure::Connection)]);
    proxied.proxy.heal();
    proxied.recovers().await;
    proxied.assert_no_key_stays();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cut_is_noticed_at_once_and_healed_by_itself() {
    let proxied = Proxied::start().await;
    for round in 0..3 {
        proxied.proxy.drop_replies();
        let sent = proxied.sent("take");
        let waiting = tokio::spawn({
            let store = Arc::clone(&proxied.store);
            async move { attempt(&*store, &[take("cut", "alice", yearly(), 1)], PATIENT).await }
        });
        wait::until("the take is on its way", SOON, || (proxied.sent("take") > sent).then_some(()));
        proxied.proxy.cut();
        assert_eq!(waiting.await.unwrap(), [Outcome::Unknown(Failure::Connection)], "round {round}");
        let outcomes = attempt(&*proxied.store, &[take("cut", "alice", yearly(), 1)], PATIENT).await;
        assert_eq!(outcomes, [Outcome::Unavailable(Failure::Connection)]);
        assert!(proxied.failed(Failure::Connection) > 0);
        assert!(proxied.store.problem().is_some_and(|problem| problem.failure == Failure::Connection));
        proxied.proxy.heal();
        proxied.recovers().await;
    }
    assert!(proxied.used("cut", yearly()).await <= 3);
    proxied.assert_no_key_stays();
}

impl Proxied {
    /// Takes that are answered too late: 7 and 3 for a request that is turned away, 7 for one that is let
    /// through. False if the connection was lost meanwhile, as may happen while the machine stands still.
    async fn are_answered_late(&self, [denied, with_it, kept]: [&str; 3], quota: Quota) -> bool {
        self.proxy.set_delay(SHORT * 3);
        let [mut deny, mut allow] = [denied, kept].map(|rule| take(rule, "alice", quota, 7));
        deny.take.on_store_failure = OnStoreFailure::Deny;
        allow.take.on_store_failure = OnStoreFailure::Allow;
        let (group, alone) = ([deny, take(with_it, "alice", quota, 3)], [allow]);
        let returned = self.sent("return");
        let (turned_away, let_through) =
            tokio::join!(attempt(&*self.store, &group, SHORT), attempt(&*self.store, &alone, SHORT));
        let mut outcomes = turned_away.iter().chain(&let_through);
        if outcomes.clone().any(|outcome| is_undecided(outcome, &[Failure::Connection])) {
            return false;
        }
        assert!(outcomes.all(|outcome| *outcome == Outcome::Unknown(Failure::Deadline)));
        wait::until("what came late is on its way back", SOON, || {
            (self.sent("return") == returned + 2).then_some(())
        });
        true
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_yes_is_given_back_if_the_request_was_turned_away() {
    let proxied = Proxied::start().await;
    for algorithm in Algorithm::REFILLING {
        let quota = quota(algorithm, 1_000, YEAR);
        let mut tries = 0;
        let rules = loop {
            let rules = ["denied", "with-it", "kept"].map(|name| format!("{name}-{algorithm}-{tries}"));
            let done = proxied.are_answered_late(rules.each_ref().map(String::as_str), quota).await;
            proxied.proxy.heal();
            // By the time this is answered, all that was sent before has been done.
            proxied.recovers().await;
            if done {
                break rules;
            }
            tries += 1;
            assert!(tries < 5, "the connection is lost again and again");
        };
        for (rule, used) in rules.iter().zip([0, 0, 7]) {
            assert_eq!(proxied.used(rule, quota).await, used, "{rule}");
        }
    }
    proxied.assert_no_key_stays();
}

/// Whoever counts a request elsewhere tells the store of it afterwards: it must not be counted twice, nor stay held.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_yes_is_given_back_if_it_was_counted_elsewhere() {
    let proxied = Proxied::start().await;
    let hold = Action::Hold { id: HoldId([1, 1]), ttl: Span::from_secs(3_600) };
    for (action, undone) in [(Action::Take, "return"), (hold, "settle")] {
        let (quota, mut tries) = (yearly(), 0);
        let rule = loop {
            let rule = format!("local-{undone}-{tries}");
            proxied.proxy.set_delay(SHORT * 3);
            let op = Operation { action, ..take(&rule, "alice", quota, 5) };
            let outcomes = attempt(&*proxied.store, &[op], SHORT).await;
            let late = outcomes[0] == Outcome::Unknown(Failure::Deadline);
            if late {
                wait::until("what came late is on its way back", SOON, || {
                    (proxied.sent(undone) > 0).then_some(())
                });
            }
            proxied.proxy.heal();
            proxied.recovers().await;
            if late {
                break rule;
            }
            tries += 1;
            assert!(tries < 5, "the connection is lost again and again: {outcomes:?}");
        };
        assert_eq!(proxied.used(&rule, quota).await, 0, "{undone}");
    }
    proxied.assert_no_key_stays();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_no_gives_nothing_back() {
    let proxied = Proxied::start().await;
    let quota = quota(Algorithm::FixedWindow, 10, YEAR);
    let mut op = take("spent", "alice", quota, 8);
    op.take.on_store_failure = OnStoreFailure::Deny;
    assert!(one(&*proxied.store, op).await.allowed);
    proxied.proxy.set_delay(SHORT * 3);
    assert_eq!(attempt(&*proxied.store, &[op], SHORT).await, [Outcome::Unknown(Failure::Deadline)]);
    // Answered after the one before it.
    assert!(!one(&*proxied.store, op).await.allowed);
    proxied.proxy.heal();
    proxied.recovers().await;
    assert_eq!((proxied.used("spent", quota).await, proxied.sent("return")), (8, 0));
    proxied.assert_no_key_stays();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_who_gives_up_cancels_nothing() {
    let proxied = Proxied::start().await;
    proxied.proxy.set_delay(SHORT * 3);
    let callers: Vec<_> = (0..20)
        .map(|number| {
            let store = Arc::clone(&proxied.store);
            tokio::spawn(async move {
                let groups: [Group<'_>; 1] = [[take("left", "alice", yearly(), 1)].into_iter().collect()];
                let answer = store.apply(&groups, patient());
                // Every other one is gone long before the answer.
                let stays = if number % 2 == 0 { PATIENT } else { SHORT };
                tokio::time::timeout(stays, answer).await.ok().map(|mut outcomes| outcomes.remove(0)[0])
            })
        })
        .collect();
    for (number, caller) in callers.into_iter().enumerate() {
        let outcome = caller.await.unwrap();
        assert_eq!(outcome.is_some(), number % 2 == 0);
        assert!(outcome.is_none_or(|outcome| outcome.verdict().is_some_and(|verdict| verdict.allowed)));
    }
    proxied.proxy.heal();
    proxied.recovers().await;
    assert_eq!(proxied.used("left", yearly()).await, 20);
    proxied.assert_no_key_stays();
}

/// More than half of what callers wait, so that nobody can be served who waits for a whole round trip first;
/// short enough that one and a half of it leave a busy machine some time.
const SLOW: Duration = Duration::from_millis(700);
const PATIENCE: Duration = Duration::from_millis(1_370);

/// So many callers ask for one key, each so often; says how many were not answered in time.
async fn ask_for_one_key(store: &Arc<RedisStore>, callers: usize, times: usize) -> usize {
    let callers: Vec<_> = (0..callers)
        .map(|_| {
            let store = Arc::clone(store);
            tokio::spawn(async move {
                let mut late = 0;
                for _ in 0..times {
                    let outcome = attempt(&*store, &[take("hot", "alice", yearly(), 1)], PATIENCE).await[0];
                    assert!(outcome.verdict().is_none_or(|verdict| verdict.allowed));
                    late += usize::from(outcome.verdict().is_none());
                }
                late
            })
        })
        .collect();
    let mut late = 0;
    for caller in callers {
        late += caller.await.unwrap();
    }
    late
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hot_key_far_away_is_decided_in_time() {
    let redis = Redis::start();
    let proxy = Proxy::start(redis.address());
    let url = format!("redis://{}", proxy.address());
    let store = Arc::new(RedisStore::builder(url.parse().unwrap()).timeout(PATIENCE).start().unwrap());
    ready(&store).await;
    proxy.set_delay(SLOW);
    // How long a round trip takes has to be learnt first.
    ask_for_one_key(&store, 1, 2).await;
    // More than once only because the machine may stand still for a moment: who waits too long by nature does
    // so every time.
    let mut late = Vec::new();
    while late.last() != Some(&0) {
        assert!(late.len() < 3, "callers who were too late, each time: {late:?}");
        ready(&store).await;
        late.push(ask_for_one_key(&store, 64, 4).await);
    }
    assert_eq!(redis.keys_without_ttl(), Vec::<String>::new());
}

/// On one thread that gives no other task a turn, so that everything is asked before anything is sent, however long that takes.
#[tokio::test]
async fn a_queue_that_is_full_turns_away_at_once() {
    let proxied = Proxied::start().await;
    proxied.proxy.stall();
    let count = MAX_WAITING + 4_000;
    let users: Vec<String> = (0..count).map(|number| format!("user-{number}")).collect();
    let groups: Vec<Group<'_>> =
        users.iter().map(|user| [take("queue", user, yearly(), 1)].into_iter().collect()).collect();
    let outcomes = unconstrained(proxied.store.apply(&groups, patient())).await;
    let full =
        outcomes.iter().filter(|outcomes| outcomes[0] == Outcome::Unavailable(Failure::NotReady)).count();
    let undecided = outcomes
        .iter()
        .filter(|outcomes| {
            is_undecided(&outcomes[0], &[Failure::Deadline, Failure::Connection, Failure::LeftAlone])
        })
        .count();
    assert_eq!(full + undecided, count);
    assert_eq!(full, count - MAX_WAITING);
    assert_eq!(proxied.failed(Failure::NotReady), full as u64);

    proxied.proxy.heal();
    proxied.recovers().await;
    proxied.assert_no_key_stays();
}

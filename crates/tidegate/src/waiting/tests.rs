//! Waiting in a time that passes only when everybody waits.

mod properties;

use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use parking_lot::Mutex;
use tidegate_core::rule::{Condition, OnLimit};
use tidegate_core::{Algorithm, Facet, Quota, Retry, Rule, RuleSet, RuleSetParts, Timestamp};
use tidegate_store::Clock;
use tokio::task::{JoinHandle, yield_now};
use tokio::time::{advance, sleep};

use super::lines::MAX_IN_LINE;
use super::*;

/// The time of Tokio, which tests can stop.
struct TokioClock(tokio::time::Instant);

impl TokioClock {
    /// Starts at the start of a second, a minute, an hour and a day.
    fn start() -> Arc<Self> {
        Arc::new(Self(tokio::time::Instant::now()))
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(1_704_067_200_000 + u64::try_from(self.0.elapsed().as_millis()).unwrap())
    }
}

fn quota(algorithm: Algorithm, limit: u64, window_ms: u64) -> Quota {
    Quota::new(algorithm, limit, Span::from_millis(window_ms)).unwrap()
}

/// `limit` a second, in bursts of up to `burst`.
fn bucket(limit: u64, burst: u64) -> Quota {
    Quota::token_bucket(limit, Span::from_secs(1), burst).unwrap()
}

/// A rule for all users, each by itself, that lets them wait.
fn delaying(id: &str, quota: Quota, longest_ms: u64) -> Rule {
    let on_limit = OnLimit::Delay { longest: Span::from_millis(longest_ms) };
    Rule { on_limit, ..Rule::new(id, Facet::User, quota) }
}

fn rules(rules: Vec<Rule>, version: u64) -> RuleSet {
    RuleSet::new(RuleSetParts { rules, version, ..RuleSetParts::default() }).unwrap()
}

fn limiter(list: Vec<Rule>) -> Arc<Limiter> {
    Arc::new(Limiter::builder(rules(list, 1)).clock(TokioClock::start()).build().unwrap())
}

const PATIENT: Duration = Duration::from_secs(36_000);

async fn ask(limiter: &Limiter, user: &str, cost: u64, patience: Duration) -> Waited {
    let request = Request { user: Some(user), cost, ..Request::new("/") };
    limiter.check_or_wait(&request, Instant::now(), patience).await.unwrap()
}

fn remaining(limiter: &Limiter, user: &str) -> u64 {
    let request = Request { user: Some(user), ..Request::new("/") };
    limiter.try_explain(&request).unwrap().verdicts[0].verdict.remaining
}

/// Who was answered, whether with yes, and when, in the order in which they were.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<(u64, bool, u64)>>>);

impl Log {
    /// Has `who` ask for alice, and takes note of the answer.
    fn ask(&self, limiter: &Arc<Limiter>, who: u64, cost: u64) -> JoinHandle<()> {
        let (log, limiter, start) = (Arc::clone(&self.0), Arc::clone(limiter), tokio::time::Instant::now());
        tokio::spawn(async move {
            let waited = ask(&limiter, "alice", cost, PATIENT).await;
            let took = start.elapsed();
            assert!(waited.waited == took || waited.waited.is_zero(), "{:?} of {took:?}", waited.waited);
            log.lock().push((who, waited.checked.allowed, u64::try_from(took.as_millis()).unwrap()));
        })
    }

    fn who(&self) -> Vec<u64> {
        self.0.lock().iter().map(|(who, ..)| *who).collect()
    }

    fn list(&self) -> Vec<(u64, bool, u64)> {
        self.0.lock().clone()
    }
}

/// Lets everybody go on who can without time passing.
async fn settle() {
    for _ in 0..50 {
        yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_hundred_are_served_in_the_order_in_which_they_came() {
    let limiter = limiter(vec![delaying("r", bucket(10, 10), 60_000)]);
    let log = Log::default();
    let tasks: Vec<_> = (0..100).map(|who| log.ask(&limiter, who, 1)).collect();
    settle().await;
    assert_eq!(limiter.waiting(), Waiting { now: 90, ..Waiting::default() });
    for task in tasks {
        task.await.unwrap();
    }
    let expected: Vec<_> = (0..100).map(|who: u64| (who, true, who.saturating_sub(9) * 100)).collect();
    assert_eq!(log.list(), expected);
    assert_eq!(limiter.waiting(), Waiting { now: 0, allowed: 90, refused: 0, gone: 0 });
    assert!(limiter.lines.holds_nothing());
}

#[tokio::test(start_paused = true)]
async fn a_newcomer_does_not_overtake() {
    let limiter = limiter(vec![delaying("r", bucket(10, 20), 60_000)]);
    let log = Log::default();
    assert!(ask(&limiter, "alice", 20, PATIENT).await.checked.allowed);
    let large = log.ask(&limiter, 0, 15);
    sleep(Duration::from_millis(1_050)).await;
    assert_eq!(remaining(&limiter, "alice"), 10, "enough for the small one, not for the large");
    let small = log.ask(&limiter, 1, 1);
    settle().await;
    assert_eq!(limiter.waiting().now, 2);
    let other = ask(&limiter, "bob", 20, PATIENT).await;
    assert!(other.checked.allowed && other.waited.is_zero(), "bob has a counter of his own");
    large.await.unwrap();
    small.await.unwrap();
    assert_eq!(log.list(), [(0, true, 1_500), (1, true, 550)]);
    assert!(limiter.lines.holds_nothing());
}

#[tokio::test(start_paused = true)]
async fn who_goes_away_leaves_nothing_and_the_next_moves_up_at_once() {
    let limiter = limiter(vec![delaying("r", bucket(10, 20), 60_000)]);
    let log = Log::default();
    assert!(ask(&limiter, "alice", 20, PATIENT).await.checked.allowed);
    let tasks: Vec<_> =
        [20, 5, 1, 1].into_iter().zip(0..).map(|(cost, who)| log.ask(&limiter, who, cost)).collect();
    sleep(Duration::from_millis(950)).await;
    assert_eq!((limiter.waiting().now, log.list()), (4, vec![]));
    // From the middle, then the head: what has come back is enough for the next, without time passing.
    tasks[1].abort();
    settle().await;
    assert_eq!((limiter.waiting().now, log.list()), (3, vec![]));
    tasks[0].abort();
    settle().await;
    assert_eq!(log.list(), [(2, true, 950), (3, true, 950)]);
    assert_eq!(remaining(&limiter, "alice"), 7, "those who left have taken nothing");
    assert_eq!(limiter.waiting(), Waiting { now: 0, allowed: 2, refused: 0, gone: 2 });
    assert!(limiter.lines.holds_nothing());
}

#[tokio::test(start_paused = true)]
async fn too_many_are_refused_at_once() {
    let list = rules(vec![delaying("r", bucket(10, 10), 600_000)], 1);
    let limiter = Limiter::builder(list).clock(TokioClock::start()).max_waiting(3).build().unwrap();
    let limiter = Arc::new(limiter);
    let log = Log::default();
    assert!(ask(&limiter, "alice", 10, PATIENT).await.checked.allowed);
    let tasks: Vec<_> = (0..3).map(|who| log.ask(&limiter, who, 1)).collect();
    settle().await;
    let fourth = ask(&limiter, "alice", 1, PATIENT).await;
    assert!(!fourth.checked.allowed && fourth.waited.is_zero());
    let retry = fourth.checked.binding().unwrap().verdict.retry;
    assert_eq!(retry, Retry::After(Span::from_millis(400)), "after those who wait");
    assert!(ask(&limiter, "bob", 10, PATIENT).await.checked.allowed);
    let other = ask(&limiter, "bob", 1, PATIENT).await;
    assert!(!other.checked.allowed && other.waited.is_zero(), "all places together are three");
    tasks[2].abort();
    settle().await;
    assert!(ask(&limiter, "bob", 1, PATIENT).await.checked.allowed, "there is room again");
}

#[tokio::test(start_paused = true)]
async fn one_line_does_not_take_all_places() {
    let limiter = limiter(vec![delaying("r", bucket(10, 10), 6_000_000)]);
    let log = Log::default();
    assert!(ask(&limiter, "alice", 10, PATIENT).await.checked.allowed);
    let _tasks: Vec<_> = (0..1_010).map(|who| log.ask(&limiter, who, 1)).collect();
    settle().await;
    assert_eq!(limiter.waiting().now, MAX_IN_LINE);
    assert_eq!(log.who(), (1_000..1_010).collect::<Vec<_>>());
}

/// Has `user` ask from an address, in a task.
fn spawn_from(limiter: &Arc<Limiter>, path: &'static str, user: String, ip: &str) -> JoinHandle<Waited> {
    let (limiter, ip) = (Arc::clone(limiter), ip.parse().unwrap());
    tokio::spawn(async move {
        let request = Request { user: Some(&user), ip: Some(ip), ..Request::new(path) };
        limiter.check_or_wait(&request, Instant::now(), PATIENT).await.unwrap()
    })
}

/// Whoever makes up identities still has one address.
#[tokio::test(start_paused = true)]
async fn one_address_does_not_take_all_places() {
    let limiter = limiter(vec![delaying("r", bucket(1, 1), 6_000_000)]);
    let mut tasks = Vec::new();
    for number in 0..300 {
        let ip = if number % 2 == 0 { "2001:db8::1".to_owned() } else { format!("2001:db8::{number:x}") };
        for _ in 0..2 {
            tasks.push(spawn_from(&limiter, "/", format!("invented {number}"), &ip));
        }
    }
    settle().await;
    assert_eq!(limiter.waiting().now, 100, "a hundredth of all");
    assert_eq!(limiter.turned_away(), TurnedAway { address: 200, ..TurnedAway::default() });
    for _ in 0..2 {
        tasks.push(spawn_from(&limiter, "/", "alice".to_owned(), "192.0.2.1"));
    }
    settle().await;
    assert_eq!(limiter.waiting().now, 101, "others have their own");
    for task in tasks {
        let Waited { checked, waited } = task.await.unwrap();
        let refused = checked.binding().unwrap().verdict.retry == Retry::After(Span::from_secs(1));
        assert!(checked.allowed || (refused && waited.is_zero()), "refused as ever");
    }
    assert!(limiter.lines.holds_nothing());
    let again = [0, 1].map(|_| spawn_from(&limiter, "/", "bob".to_owned(), "2001:db8::1"));
    for task in again {
        assert!(task.await.unwrap().checked.allowed, "what was taken has been given back");
    }
}

#[tokio::test(start_paused = true)]
async fn one_rule_does_not_take_all_places() {
    let path = |pattern: &str| Condition { path: Some(pattern.parse().unwrap()), ..Condition::default() };
    let [first, second] = ["/first", "/second"].map(|pattern| {
        let rule = delaying(&pattern[1..], bucket(1, 1), 6_000_000);
        Rule { condition: path(pattern), ..rule }
    });
    let list = rules(vec![first, second], 1);
    let limiter = Limiter::builder(list).clock(TokioClock::start()).max_waiting(64).build().unwrap();
    let limiter = Arc::new(limiter);
    let ask = |path, number: usize| {
        spawn_from(&limiter, path, format!("user {}", number / 2), &format!("192.0.2.{}", number / 2))
    };
    let _first: Vec<_> = (0..100).map(|number| ask("/first", number)).collect();
    settle().await;
    assert_eq!(limiter.waiting().now, 32);
    assert_eq!(limiter.turned_away(), TurnedAway { rule: 18, ..TurnedAway::default() });
    let _second: Vec<_> = (0..100).map(|number| ask("/second", number)).collect();
    settle().await;
    assert_eq!(limiter.waiting().now, 64);
    assert_eq!(limiter.turned_away().rule + limiter.turned_away().all, 2 * 18);
}

#[tokio::test(start_paused = true)]
async fn who_cannot_make_it_is_refused_at_once() {
    let limiter = limiter(vec![delaying("r", bucket(10, 10), 300)]);
    let log = Log::default();
    assert!(ask(&limiter, "alice", 10, PATIENT).await.checked.allowed);
    let tasks: Vec<_> = (0..5).map(|who| log.ask(&limiter, who, 1)).collect();
    settle().await;
    assert_eq!(log.list(), [(3, false, 0), (4, false, 0)]);
    let impatient = ask(&limiter, "alice", 1, Duration::from_millis(399)).await;
    assert!(!impatient.checked.allowed && impatient.waited.is_zero());
    let never = ask(&limiter, "alice", 11, PATIENT).await;
    assert_eq!(never.checked.binding().unwrap().verdict.retry, Retry::Never);
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(log.list()[2..], [(0, true, 100), (1, true, 200), (2, true, 300)]);
    assert_eq!(limiter.waiting(), Waiting { now: 0, allowed: 3, refused: 0, gone: 0 });
}

/// The figures of a token bucket that others drain while somebody waits.
#[tokio::test(start_paused = true)]
async fn when_the_time_is_over_nothing_was_taken() {
    let limiter = limiter(vec![delaying("r", bucket(10, 10), 250)]);
    let log = Log::default();
    assert!(ask(&limiter, "alice", 10, PATIENT).await.checked.allowed);
    let (head, second) = (log.ask(&limiter, 0, 1), log.ask(&limiter, 1, 1));
    settle().await;
    for _ in 0..3 {
        // Those who do not queue may be lucky.
        advance(Duration::from_millis(99)).await;
        let request = Request { user: Some("alice"), ..Request::new("/") };
        advance(Duration::from_millis(1)).await;
        drop(limiter.try_check(&request).unwrap());
        settle().await;
    }
    head.await.unwrap();
    second.await.unwrap();
    let answers = log.list();
    assert!(answers.iter().all(|(_, allowed, took)| !allowed && *took <= 300), "{answers:?}");
    assert_eq!(limiter.waiting(), Waiting { now: 0, allowed: 0, refused: 2, gone: 0 });
    sleep(Duration::from_secs(1)).await;
    assert_eq!(remaining(&limiter, "alice"), 10);
}

#[tokio::test(start_paused = true)]
async fn a_rule_that_refuses_does_so_at_once() {
    let refusing = Rule::new("refusing", Facet::Global, quota(Algorithm::FixedWindow, 3, 60_000));
    let limiter = limiter(vec![delaying("delaying", bucket(1, 1), 60_000), refusing]);
    assert!(ask(&limiter, "alice", 1, PATIENT).await.checked.allowed);
    let second = ask(&limiter, "alice", 1, PATIENT).await;
    assert!(second.checked.allowed);
    assert_eq!(second.waited, Duration::from_secs(1));
    assert!(ask(&limiter, "bob", 1, PATIENT).await.checked.allowed);
    let refused = ask(&limiter, "carol", 1, PATIENT).await;
    assert!(!refused.checked.allowed && refused.waited.is_zero());
    assert_eq!(refused.checked.rule_id(), Some("refusing"));
    let both = ask(&limiter, "alice", 1, PATIENT).await;
    assert!(!both.checked.allowed && both.waited.is_zero());
}

/// The one by user, the other for all: a request waits at the one that keeps it longer, then at the other.
#[tokio::test(start_paused = true)]
async fn two_rules_that_delay() {
    let all = Rule { identifier: Facet::Global.into(), ..delaying("all", bucket(2, 2), 60_000) };
    let limiter = limiter(vec![delaying("each", bucket(1, 1), 60_000), all]);
    let users = ["alice", "alice", "bob", "carol", "alice", "bob"];
    let start = tokio::time::Instant::now();
    let tasks: Vec<_> = users
        .into_iter()
        .map(|user| {
            let limiter = Arc::clone(&limiter);
            tokio::spawn(
                async move { (ask(&limiter, user, 1, PATIENT).await.checked.allowed, start.elapsed()) },
            )
        })
        .collect();
    let mut ends = Vec::new();
    for (task, user) in tasks.into_iter().zip(users) {
        let (allowed, took) = task.await.unwrap();
        assert!(allowed);
        ends.push((user, took));
    }
    for user in ["alice", "bob", "carol"] {
        let own: Vec<_> = ends.iter().filter(|(whose, _)| *whose == user).map(|(_, took)| *took).collect();
        assert!(own.windows(2).all(|two| two[1] - two[0] >= Duration::from_secs(1)), "{ends:?}");
    }
    let mut times: Vec<_> = ends.iter().map(|(_, took)| *took).collect();
    times.sort_unstable();
    assert!(times.windows(3).all(|three| three[2] - three[0] >= Duration::from_millis(500)), "{times:?}");
    assert!(times[5] <= Duration::from_secs(3), "{times:?}");
    assert!(limiter.lines.holds_nothing());
}

#[tokio::test(start_paused = true)]
async fn other_rules_are_asked_at_once() {
    let hour = |limit| quota(Algorithm::TokenBucket, limit, 3_600_000);
    let limiter = limiter(vec![delaying("r", hour(1), 7_200_000)]);
    let log = Log::default();
    assert!(ask(&limiter, "alice", 1, PATIENT).await.checked.allowed);
    let tasks: Vec<_> = (0..3).map(|who| log.ask(&limiter, who, 1)).collect();
    sleep(Duration::from_secs(10)).await;
    assert_eq!((limiter.waiting().now, log.list()), (2, vec![(2, false, 0)]), "an hour each, for two");
    // Another counter, which nobody has used; the second goes from the old line to the new one.
    let minute = quota(Algorithm::FixedWindow, 1, 60_000);
    limiter.set_rules(rules(vec![delaying("r", minute, 7_200_000)], 2)).unwrap();
    settle().await;
    assert_eq!((limiter.waiting().now, &log.list()[1..]), (1, &[(0, true, 10_000)][..]));
    let last = log.ask(&limiter, 3, 1);
    sleep(Duration::from_secs(51)).await;
    assert_eq!((limiter.waiting().now, &log.list()[2..]), (1, &[(1, true, 60_000)][..]));
    // The same counter, for which nobody may wait any more.
    limiter.set_rules(rules(vec![Rule::new("r", Facet::User, minute)], 3)).unwrap();
    settle().await;
    assert_eq!(log.list()[3..], [(3, false, 51_000)]);
    // No rule at all, and all may go.
    limiter.set_rules(rules(vec![delaying("r", minute, 7_200_000)], 4)).unwrap();
    let freed: Vec<_> = (4..7).map(|who| log.ask(&limiter, who, 1)).collect();
    settle().await;
    assert_eq!(limiter.waiting().now, 3);
    limiter.set_rules(rules(Vec::new(), 5)).unwrap();
    settle().await;
    assert_eq!(log.list()[4..], [(4, true, 0), (5, true, 0), (6, true, 0)]);
    for task in tasks.into_iter().chain(freed).chain([last]) {
        task.await.unwrap();
    }
    assert!(limiter.lines.holds_nothing());
}

#[tokio::test(start_paused = true)]
async fn without_rules_that_delay_or_without_patience_nobody_waits() {
    let strict = limiter(vec![Rule::new("r", Facet::User, bucket(1, 1))]);
    assert!(!strict.may_delay());
    let delaying = limiter(vec![delaying("r", bucket(1, 1), 60_000)]);
    assert!(delaying.may_delay());
    for (limiter, patience) in [(strict, PATIENT), (delaying, Duration::ZERO)] {
        assert!(ask(&limiter, "alice", 1, patience).await.checked.allowed);
        let refused = ask(&limiter, "alice", 1, patience).await;
        assert!(!refused.checked.allowed && refused.waited.is_zero());
        assert_eq!(limiter.waiting(), Waiting::default());
    }
}

/// Whoever leaves when, nothing is left behind, and nobody is forgotten.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_come_and_go_at_once() {
    let limiter = Limiter::new(rules(vec![delaying("r", bucket(2_000, 2_000), 60_000)], 1)).unwrap();
    let limiter = Arc::new(limiter);
    let tasks: Vec<_> = (0..600u64)
        .map(|who| {
            let limiter = Arc::clone(&limiter);
            let user = ["alice", "bob", "carol"][usize::try_from(who % 3).unwrap()];
            tokio::spawn(async move { ask(&limiter, user, 20, PATIENT).await.checked.allowed })
        })
        .collect();
    for (task, who) in tasks.iter().zip(0..) {
        if who % 4 == 0 {
            task.abort();
        }
        if who % 50 == 0 {
            yield_now().await;
        }
    }
    for task in tasks {
        match task.await {
            Ok(allowed) => assert!(allowed),
            Err(error) => assert!(error.is_cancelled(), "{error}"),
        }
    }
    assert!(limiter.lines.holds_nothing());
}

#[test]
fn without_a_runtime_nobody_waits() {
    let limiter = Limiter::new(rules(vec![delaying("r", bucket(1, 1), 60_000)], 1)).unwrap();
    let request = Request { user: Some("alice"), ..Request::new("/") };
    for expected in [true, false] {
        let mut check = Box::pin(limiter.check_or_wait(&request, Instant::now(), PATIENT));
        let Poll::Ready(Ok(waited)) = check.as_mut().poll(&mut Context::from_waker(Waker::noop())) else {
            panic!("it waits");
        };
        assert_eq!(waited.checked.allowed, expected);
    }
}

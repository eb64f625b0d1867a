//! Waiting for a turn at a store that says when.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate::core::Action;
use tidegate::core::rule::{OnLimit, OnStoreFailure};
use tidegate::store::Store;
use tidegate::{Limiter, Request, Rule, Span, Status, Waited};
use tokio::task::JoinHandle;

use crate::fake::Say::{self, No, Unavailable, Yes};
use crate::fake::{Fake, rule, rule_set};

/// Long enough for a busy machine.
const DEADLINE: Duration = tidegate_testkit::wait::HANG_LIMIT;

/// Refusals say to come back in a minute, so that only what really happens lets anybody go earlier.
fn limiter(store: &Arc<Fake>, policy: OnStoreFailure, remember: bool) -> Arc<Limiter> {
    let on_limit = OnLimit::Delay { longest: Span::from_secs(3_600) };
    let rules = rule_set(vec![Rule { on_limit, ..rule(0, policy) }]);
    let builder = Limiter::builder(rules).store(Arc::clone(store) as Arc<dyn Store>).store_timeout(DEADLINE);
    Arc::new(builder.remember_refusals(remember).build().unwrap())
}

fn ask(limiter: &Arc<Limiter>) -> JoinHandle<Waited> {
    let limiter = Arc::clone(limiter);
    tokio::spawn(async move {
        let request = Request { user: Some("alice"), ..Request::new("/") };
        limiter.check_or_wait(&request, Instant::now(), Duration::MAX).await.unwrap()
    })
}

async fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < DEADLINE, "waited too long: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

fn say(store: &Fake, says: Say) {
    *store.says.lock().unwrap() = vec![says];
}

#[tokio::test]
async fn what_is_not_known_is_not_waited_for() {
    for (policy, allowed, status) in
        [(OnStoreFailure::Allow, true, Status::Disabled), (OnStoreFailure::Deny, false, Status::Unavailable)]
    {
        let store = Fake::new(&[Unavailable]);
        let limiter = limiter(&store, policy, false);
        let first = ask(&limiter).await.unwrap();
        assert_eq!(
            (first.checked.allowed, first.checked.status, first.waited),
            (allowed, status, Duration::ZERO)
        );
        // Nor by those who come while others wait, nor by these.
        say(&store, No);
        let waiting = ask(&limiter);
        eventually("it waits", || limiter.waiting().now == 1).await;
        say(&store, Unavailable);
        let second = ask(&limiter).await.unwrap();
        assert_eq!(
            (second.checked.allowed, second.checked.status, second.waited),
            (allowed, status, Duration::ZERO)
        );
        let waited = tokio::time::timeout(DEADLINE, waiting).await.unwrap().unwrap();
        assert_eq!((waited.checked.allowed, waited.checked.status), (allowed, status));
        assert!(!waited.waited.is_zero());
        assert_eq!(limiter.waiting().now, 0);
    }
}

#[tokio::test]
async fn only_the_first_in_line_asks_for_anything_and_a_remembered_refusal_ends() {
    let store = Fake::new(&[No]);
    let limiter = limiter(&store, OnStoreFailure::Deny, true);
    let first = ask(&limiter);
    eventually("it waits", || limiter.waiting().now == 1).await;
    let before = store.calls();
    let others: Vec<_> = (0..3).map(|_| ask(&limiter)).collect();
    eventually("they wait", || limiter.waiting().now == 4).await;
    eventually("they look", || {
        let asked = store.asked.lock().unwrap();
        asked[before..].iter().flatten().filter(|group| group[..] == [Action::Peek]).count() == 3
    })
    .await;
    // The first asks again in vain, for the refusal is remembered; but not for ever.
    eventually("it asks", || limiter.denied_from_cache() > 0).await;
    say(&store, Yes);
    for task in [first].into_iter().chain(others) {
        let waited = tokio::time::timeout(DEADLINE, task).await.unwrap().unwrap();
        assert!(waited.checked.allowed && !waited.waited.is_zero());
    }
    let asked = store.asked.lock().unwrap();
    let takes = asked.iter().flatten().filter(|group| group[..] == [Action::Take]).count();
    assert!(takes >= 5, "one in vain and one for each: {takes}");
}

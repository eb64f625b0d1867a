//! What a shared store is asked, and when.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate::core::rule::OnStoreFailure::Deny;
use tidegate::core::{Action, Secret};
use tidegate::store::{MemoryStore, Store};
use tidegate::{DEFAULT_STORE_TIMEOUT, Limiter, ManualClock, Request, RequestError, SystemClock};

use crate::fake::Say::{No, Yes};
use crate::fake::{Fake, limiter, rule, rule_set};

fn user(name: &str) -> Request<'_> {
    Request { user: Some(name), ..Request::new("/") }
}

#[tokio::test]
async fn a_check_takes_and_an_explanation_looks() {
    let store = Fake::new(&[Yes]);
    let limiter = limiter(&store, &[Deny]);
    limiter.check(&user("a")).await.unwrap();
    let explained = limiter.explain(&user("a")).await.unwrap();
    assert_eq!((explained.allowed, explained.rule_id()), (true, Some("r0")));
    limiter.check(&Request { cost: 0, ..user("a") }).await.unwrap();
    let asked = store.asked.lock().unwrap().concat().concat();
    assert_eq!(asked, [Action::Take, Action::Peek, Action::Peek]);
}

#[tokio::test]
async fn nothing_can_be_had_at_once() {
    let store = Fake::new(&[Yes]);
    let limiter = limiter(&store, &[Deny]);
    let told = |error: RequestError| error.to_string();
    let checked = limiter.try_check(&user("a")).map_err(told).unwrap_err();
    assert_eq!(checked, "store: a shared store cannot be asked without waiting; use check");
    let explained = limiter.try_explain(&user("a")).map_err(told).unwrap_err();
    assert_eq!(explained, "store: a shared store cannot be asked without waiting; use explain");
    assert!(limiter.memory().is_none() && limiter.shared().is_some());
    assert_eq!(store.calls(), 0);
}

#[tokio::test]
async fn the_time_to_wait_counts_from_the_arrival() {
    let store = Fake::new(&[Yes]);
    let limiter = limiter(&store, &[Deny]);
    let before = Instant::now();
    limiter.check(&user("a")).await.unwrap();
    let deadline = store.deadline.lock().unwrap().unwrap();
    assert!(before + DEFAULT_STORE_TIMEOUT <= deadline && deadline <= Instant::now() + DEFAULT_STORE_TIMEOUT);
    let arrived = before - Duration::from_secs(1);
    limiter.check_since(&user("a"), arrived).await.unwrap();
    assert_eq!(*store.deadline.lock().unwrap(), Some(arrived + DEFAULT_STORE_TIMEOUT));
    let before = Instant::now();
    limiter.check_all(&[user("a"); 250]).await;
    assert!(*store.deadline.lock().unwrap() >= Some(before + 3 * DEFAULT_STORE_TIMEOUT), "a batch has more");
}

#[tokio::test]
async fn whom_no_rule_concerns_nobody_is_asked_about() {
    let store = Fake::new(&[]);
    let limiter = limiter(&store, &[]);
    assert!(limiter.check(&user("a")).await.unwrap().allowed);
    assert!(limiter.check_all(&[user("a"), user("b")]).await.iter().flatten().all(|checked| checked.allowed));
    assert_eq!(store.calls(), 0);
}

#[tokio::test]
async fn a_batch_is_one_call_and_mistakes_stay_where_they_are() {
    let store = Fake::new(&[Yes]);
    let limiter = limiter(&store, &[Deny]);
    let requests = [user("a"), Request::new("/%"), user("b"), Request::new("/a%00b"), user("c")];
    let answers = limiter.check_all(&requests).await;
    let brief: Vec<_> =
        answers.iter().map(|answer| answer.as_ref().map(|checked| checked.allowed).ok()).collect();
    assert_eq!(brief, [Some(true), None, Some(true), None, Some(true)]);
    assert_eq!(answers[1].as_ref().unwrap_err().field, "resource");
    assert_eq!(store.calls(), 1);
    assert_eq!(store.asked.lock().unwrap()[0].concat().len(), 3);
}

#[tokio::test]
async fn a_batch_in_memory_is_the_same() {
    let limiter = Limiter::new(rule_set(vec![rule(0, Deny)])).unwrap();
    let requests =
        [user("a"), Request::new("/%"), Request { cost: 10, ..user("a") }, Request { cost: 9, ..user("a") }];
    let answers = limiter.check_all(&requests).await;
    let brief: Vec<_> =
        answers.iter().map(|answer| answer.as_ref().map(|checked| checked.allowed).ok()).collect();
    assert_eq!(brief, [Some(true), None, Some(false), Some(true)]);
}

/// Whoever is over the limit costs the store nothing, until the rules change.
#[tokio::test]
async fn a_refusal_is_remembered() {
    let store = Fake::new(&[Yes, No]);
    let limiter = limiter(&store, &[Deny, Deny]);
    // It is remembered for a second, which a busy machine may need for the next line; but not for all of them.
    let mut last = limiter.check(&user("a")).await.unwrap();
    for _ in 0..20 {
        last = limiter.check(&user("a")).await.unwrap();
        if limiter.denied_from_cache() > 0 {
            break;
        }
    }
    assert_eq!((last.allowed, last.rule_id(), last.verdicts.len()), (false, Some("r1"), 1));
    assert_eq!(limiter.denied_from_cache(), 1);
    let calls = store.calls();
    assert!(!limiter.check(&user("b")).await.unwrap().allowed);
    assert_eq!(store.calls(), calls + 1, "others are asked about");
    limiter.set_rules(rule_set(vec![rule(0, Deny), rule(1, Deny)])).unwrap();
    limiter.check(&user("a")).await.unwrap();
    assert_eq!(store.calls(), calls + 2);
}

/// Any store will do, with a secret of the caller's choice if it has none itself.
#[tokio::test]
async fn two_limiters_share_what_they_count() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new(1_000, Arc::new(SystemClock)));
    let limiters = [(); 2].map(|()| {
        let builder = Limiter::builder(rule_set(vec![rule(0, Deny)]));
        let builder = builder.store(Arc::clone(&store)).store_timeout(Duration::from_secs(20));
        builder.secret(Secret::new([1; 16])).clock(Arc::new(ManualClock::default())).build().unwrap()
    });
    for number in 0..20 {
        let allowed = limiters[number % 2].check(&user("a")).await.unwrap().allowed;
        assert_eq!(allowed, number < 10, "{number}");
    }
}

/// A check may be spawned, and so move between threads while it waits.
#[tokio::test]
async fn a_check_can_be_spawned() {
    let limiter = Arc::new(limiter(&Fake::new(&[Yes]), &[Deny]));
    let check = async move { limiter.check(&user("a")).await.is_ok_and(|checked| checked.allowed) };
    assert!(tokio::spawn(check).await.unwrap());
}

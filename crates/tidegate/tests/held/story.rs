//! Rules, requests and answers to try things with, and the stories that are the same wherever counters are.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate::core::cost::{Charge, Cost};
use tidegate::{Algorithm, Checked, Facet, Held, Limiter, Quota, Request, Rule, RuleSet, RuleSetParts, Span};

/// How long answers may take.
pub(crate) const WITHIN: Span = Span::from_secs(60);

/// Five failures per quarter of an hour, by address.
pub(crate) fn log_ins() -> Rule {
    let quota = Quota::new(Algorithm::FixedWindow, 5, Span::from_secs(900)).unwrap();
    let charge = Charge { header: None, statuses: vec![401..=401, 403..=403], within: WITHIN };
    Rule { charge: Some(Box::new(charge)), ..Rule::new("log_ins", Facet::Ip, quota) }
}

/// So many tokens per hour by user, of which each request is held for 500.
pub(crate) fn tokens(limit: u64) -> Rule {
    let quota = Quota::new(Algorithm::FixedWindow, limit, Span::from_secs(3_600)).unwrap();
    let charge = Charge { header: Some("x-tokens-used".into()), statuses: Vec::new(), within: WITHIN };
    Rule { cost: Cost::Fixed(500), charge: Some(Box::new(charge)), ..Rule::new("tokens", Facet::User, quota) }
}

/// So many requests per hour by tenant, whatever their answers.
pub(crate) fn requests(limit: u64) -> Rule {
    let quota = Quota::new(Algorithm::FixedWindow, limit, Span::from_secs(3_600)).unwrap();
    Rule { priority: 1, ..Rule::new("requests", Facet::Tenant, quota) }
}

pub(crate) fn rule_set(rules: Vec<Rule>, version: u64) -> RuleSet {
    RuleSet::new(RuleSetParts { rules, version, ..RuleSetParts::default() }).unwrap()
}

/// Somebody who asks.
pub(crate) fn somebody() -> Request<'static> {
    let ip = Some("203.0.113.7".parse().unwrap());
    Request { ip, user: Some("alice"), tenant: Some("acme"), ..Request::new("/") }
}

/// Checks a request whose answer will be told.
pub(crate) async fn ask(limiter: &Limiter, request: &Request<'_>) -> Checked {
    limiter.check(&Request { hold: Some(limiter.hold_id()), ..*request }).await.unwrap()
}

/// The same of one that is to be allowed, and hold something.
pub(crate) async fn hold(limiter: &Limiter, request: &Request<'_>) -> Held {
    let mut checked = ask(limiter, request).await;
    assert!(checked.allowed, "{checked:?}");
    let held = checked.take_held().expect("something is held");
    assert!(checked.take_held().is_none(), "once");
    held
}

/// Tells what an answer was: its status, and what it says to be used.
pub(crate) async fn tell(limiter: &Limiter, held: Held, status: u16, used: Option<&str>) -> bool {
    let settlement = held.answered(status, |name| used.filter(|_| name == "x-tokens-used"));
    limiter.settle(&settlement).await
}

/// What is left of each rule's quota.
pub(crate) async fn left(limiter: &Limiter) -> Vec<u64> {
    let looked = limiter.check(&Request { cost: 0, ..somebody() }).await.unwrap();
    looked.verdicts.iter().map(|said| said.verdict.remaining).collect()
}

/// Waits until so much is left of each rule's quota: a store of several places lets go of what it held for those it refused
/// when nobody waits for it any more.
async fn leaves(limiter: &Limiter, expected: &[u64], why: &str) {
    let start = Instant::now();
    loop {
        let left = left(limiter).await;
        if left == expected {
            return;
        }
        let late = start.elapsed() > Duration::from_secs(10);
        assert!(limiter.may_wait() && !late, "{why}: {left:?} left and not {expected:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Only failures count, and the attempt after the fifth is refused: by [`log_ins`].
pub(crate) async fn only_failures_count(limiter: &Limiter) {
    let me = somebody();
    for round in 0..5 {
        for status in [200, 302, 500] {
            let held = hold(limiter, &me).await;
            assert!(tell(limiter, held, status, None).await);
        }
        let held = hold(limiter, &me).await;
        assert!(tell(limiter, held, if round % 2 == 0 { 401 } else { 403 }, None).await);
        assert_eq!(left(limiter).await, [4 - round], "nothing else costs anything");
    }
    let mut refused = ask(limiter, &me).await;
    assert!(!refused.allowed && refused.take_held().is_none());
}

/// What answers say is what is used: by [`tokens`] with room for ten thousand.
pub(crate) async fn answers_say_what_is_used(limiter: &Limiter) {
    let me = somebody();
    let mut used = 0;
    for (said, costs) in
        [(Some("812"), 812), (Some("0"), 0), (None, 500), (Some("many"), 500), (Some("3"), 3)]
    {
        let held = hold(limiter, &me).await;
        assert_eq!(left(limiter).await, [9_500 - used], "held until then");
        assert!(tell(limiter, held, 200, said).await);
        used += costs;
        assert_eq!(left(limiter).await, [10_000 - used], "{said:?}");
    }
    let held = hold(limiter, &me).await;
    assert!(tell(limiter, held, 200, Some("18446744073709551615")).await);
    assert_eq!(left(limiter).await, [0], "as far as there is any");
}

/// Nothing is held of anything if one rule refuses: by [`tokens`] with room for one and [`requests`] for three.
pub(crate) async fn refused_by_one_held_by_none(limiter: &Limiter) {
    let me = somebody();
    let held = hold(limiter, &me).await;
    assert_eq!(held.costs().collect::<Vec<_>>(), [("tokens", 500)], "the other is not charged by answers");
    leaves(limiter, &[2, 499], "the first").await;
    let mut refused = ask(limiter, &me).await;
    assert!(!refused.allowed && refused.take_held().is_none());
    assert_eq!(refused.rule_id(), Some("tokens"));
    assert_eq!(refused.cost, 500, "what the binding rule was asked for");
    assert!(tell(limiter, held, 200, Some("100")).await);
    leaves(limiter, &[2, 899], "answered").await;
    // Right away, although the same was just refused.
    let held = hold(limiter, &me).await;
    let settlement = held.unanswered();
    assert!(limiter.settle(&settlement).await);
    assert!(!limiter.settle(&settlement).await, "once");
    leaves(limiter, &[1, 899], "no answer, no tokens; but a request it was").await;
    let held = hold(limiter, &me).await;
    assert!(!ask(limiter, &me).await.allowed);
    leaves(limiter, &[0, 399], "only the one that was allowed").await;
    assert!(limiter.settle(&held.unanswered()).await);
    leaves(limiter, &[0, 899], "released").await;
    assert_eq!(ask(limiter, &me).await.rule_id(), Some("requests"), "there would be tokens");
    leaves(limiter, &[0, 899], "refused by the other, so nothing is held").await;
}

/// Many hold and are answered at the same time, and it comes to exactly what the answers said: by [`tokens`] with room for
/// twenty thousand and [`requests`] with room for all.
pub(crate) async fn many_balance(limiter: Limiter, rounds: u64) {
    let limiter = Arc::new(limiter);
    let caller = |caller: u64| {
        let limiter = Arc::clone(&limiter);
        tokio::spawn(async move {
            let mut used = 0;
            for round in 0..rounds {
                let Some(held) = ask(&limiter, &somebody()).await.take_held() else { continue };
                tokio::task::yield_now().await;
                let said = (caller + round) % 3;
                if (caller + round).is_multiple_of(5) {
                    assert!(limiter.settle(&held.unanswered()).await);
                } else {
                    assert!(tell(&limiter, held, 200, Some(&said.to_string())).await);
                    used += said;
                }
            }
            used
        })
    };
    let callers: Vec<_> = (0..8).map(caller).collect();
    let mut used = 0;
    for caller in callers {
        used += caller.await.unwrap();
    }
    assert!(used > 0);
    assert_eq!(left(&limiter).await[1], 20_000 - used);
}

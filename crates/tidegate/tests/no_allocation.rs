//! A warm check allocates nothing, whatever it decides.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::sync::Arc;

use allocation_counter::measure;
use tidegate::{
    Algorithm, Condition, Facet, Limiter, ManualClock, Quota, Request, Rule, RuleSet, RuleSetParts, Span,
    Timestamp,
};

fn limiter() -> (Limiter, Arc<ManualClock>) {
    let rule = |id: &'static str, facet: Facet, algorithm| {
        let quota = Quota::new(algorithm, 50, Span::from_secs(60)).unwrap();
        let condition = Condition { path: Some("/orders/*".parse().unwrap()), ..Condition::default() };
        Rule { condition, ..Rule::new(id, facet, quota) }
    };
    let rules = vec![
        rule("user", Facet::User, Algorithm::TokenBucket),
        rule("tenant", Facet::Tenant, Algorithm::SlidingWindow),
        rule("ip", Facet::Ip, Algorithm::FixedWindow),
    ];
    let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_704_067_200_000)));
    let rules = RuleSet::new(RuleSetParts { rules, ..RuleSetParts::default() }).unwrap();
    (Limiter::builder(rules).clock(clock.clone()).build().unwrap(), clock)
}

#[test]
fn a_warm_check_allocates_nothing() {
    let (limiter, clock) = limiter();
    let request = Request {
        user: Some("alice"),
        tenant: Some("acme"),
        method: Some("GET"),
        ip: Some("203.0.113.7".parse().unwrap()),
        ..Request::new("/orders/7?page=2")
    };
    assert_eq!(limiter.try_check(&request).unwrap().verdicts.len(), 3);
    let mut allowed = 0;
    let info = measure(|| {
        for _ in 0..100 {
            allowed += u32::from(limiter.try_check(&request).unwrap().allowed);
            clock.advance(Span::from_millis(1));
        }
    });
    assert_eq!(allowed, 49, "some are allowed, some refused");
    assert_eq!(info.count_total, 0, "allocations in a hundred warm checks");
}

//! A warm check allocates nothing, whatever it decides.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::sync::Arc;

use allocation_counter::measure;
use tidegate::core::rule::Allowance;
use tidegate::core::tier::{Tier, Tiers};
use tidegate::{
    Algorithm, Condition, Facet, Limiter, ManualClock, Quota, Request, Rule, RuleSet, RuleSetParts, Span,
    TierAnswer, TierLookup, TierOptions, Timestamp,
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

struct Elsewhere;

impl TierLookup for Elsewhere {
    fn tier_of<'a>(&'a self, _: Option<&'a str>, _: &'a str) -> TierAnswer<'a> {
        Box::pin(async { Ok(Some("gold".to_owned())) })
    }
}

#[tokio::test]
async fn nor_does_one_whose_tier_has_been_looked_up() {
    let quota = |limit| Quota::new(Algorithm::TokenBucket, limit, Span::from_secs(86_400)).unwrap();
    let tier = |name: &str, limit| Tier { name: name.into(), quota: quota(limit) };
    let tiers = Tiers { list: vec![tier("free", 1), tier("gold", 50)], ..Tiers::default() };
    let rule = Rule { allowance: Allowance::Tiered, ..Rule::new("user", Facet::User, quota(1)) };
    let rules = RuleSet::new(RuleSetParts { rules: vec![rule], tiers, ..RuleSetParts::default() }).unwrap();
    let limiter = Limiter::builder(rules).tiers(Arc::new(Elsewhere), TierOptions::default()).build().unwrap();
    let request = Request { user: Some("alice"), tenant: Some("acme"), ..Request::new("/orders/7") };
    // However late the machine makes it: it is known afterwards.
    while limiter.try_check(&request).is_err() {
        limiter.explain(&request).await.unwrap();
        tokio::task::yield_now().await;
    }
    let mut allowed = 0;
    let info = measure(|| {
        for _ in 0..100 {
            allowed += u32::from(limiter.try_check(&request).unwrap().allowed);
        }
    });
    assert_eq!(allowed, 49, "some are allowed, some refused");
    assert_eq!(info.count_total, 0, "allocations in a hundred warm checks");
}

//! Rules that limit how many requests are in flight, with counters in memory.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::sync::Arc;

use tidegate::core::cost::Charge;
use tidegate::core::rule::{Allowance, OnLimit, Override, Target};
use tidegate::core::ruleset::RuleSetError;
use tidegate::core::tier::{Tier, Tiers};
use tidegate::core::{Action, Group};
use tidegate::store::{Answer, Deadline, Failure, Outcome, Store};
use tidegate::{
    Algorithm, Facet, Limiter, ManualClock, Quota, Request, Rule, RuleSet, RuleSetParts, Span, Timestamp,
    UnsupportedRules,
};

const HOLD_FOR: Span = Span::from_secs(30);

fn slots(limit: u64) -> Quota {
    Quota::new(Algorithm::InFlight, limit, HOLD_FOR).unwrap()
}

fn at_once(limit: u64) -> Rule {
    Rule::new("at_once", Facet::User, slots(limit))
}

fn per_hour(limit: u64) -> Rule {
    let quota = Quota::new(Algorithm::FixedWindow, limit, Span::from_secs(3_600)).unwrap();
    Rule::new("per_hour", Facet::User, quota)
}

/// Charges failed requests only.
fn failures(limit: u64) -> Rule {
    let charge = Charge { header: None, statuses: vec![401..=401], within: Span::from_secs(60) };
    Rule { id: "failures".into(), charge: Some(Box::new(charge)), ..per_hour(limit) }
}

fn rule_set(rules: Vec<Rule>) -> RuleSet {
    RuleSet::new(RuleSetParts { rules, ..RuleSetParts::default() }).unwrap()
}

fn limiter(rules: Vec<Rule>) -> (Limiter, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_704_067_200_000)));
    (Limiter::builder(rule_set(rules)).clock(clock.clone()).build().unwrap(), clock)
}

fn alice() -> Request<'static> {
    Request { user: Some("alice"), ..Request::new("/") }
}

/// Returns what is left of each rule.
fn left(limiter: &Limiter) -> Vec<u64> {
    let looked = limiter.try_explain(&Request { cost: 0, ..alice() }).unwrap();
    looked.verdicts.iter().map(|said| said.verdict.remaining).collect()
}

#[test]
fn a_slot_is_held_until_it_is_given_back() {
    let (limiter, _) = limiter(vec![at_once(2)]);
    let mut first = limiter.try_check(&alice()).unwrap();
    let mut second = limiter.try_check(&alice()).unwrap();
    assert!(first.allowed && second.allowed);
    assert!(!limiter.try_check(&alice()).unwrap().allowed);
    assert!(limiter.try_check(&Request { user: Some("bob"), ..alice() }).unwrap().allowed);
    let held = first.take_slots().unwrap();
    assert_eq!((held.costs().collect::<Vec<_>>(), held.within()), (vec![("at_once", 1)], HOLD_FOR));
    assert!(first.take_held().is_none() && first.take_slots().is_none(), "once");
    assert!(limiter.try_settle(&held.unanswered()).unwrap());
    assert_eq!(left(&limiter), [1]);
    // Whatever is said of the answer, it is over.
    let held = second.take_held().unwrap();
    assert!(limiter.try_settle(&held.answered(200, |_| None)).unwrap());
    assert_eq!(left(&limiter), [2]);
    let charged = limiter.try_check(&alice()).unwrap().take_held().unwrap().charged();
    assert!(limiter.try_settle(&charged).unwrap());
    assert_eq!(left(&limiter), [2]);
}

#[test]
fn a_slot_that_is_not_given_back_is_lost_for_as_long_as_the_rule_says() {
    let (limiter, clock) = limiter(vec![at_once(1)]);
    assert!(limiter.try_check(&alice()).unwrap().allowed);
    clock.advance(Span::from_millis(HOLD_FOR.as_millis() - 1));
    assert!(!limiter.try_check(&alice()).unwrap().allowed);
    clock.advance(Span::from_millis(1));
    assert!(limiter.try_check(&alice()).unwrap().allowed);
}

#[test]
fn a_request_that_another_rule_refuses_holds_nothing() {
    let (limiter, _) = limiter(vec![at_once(5), per_hour(1)]);
    let mut first = limiter.try_check(&alice()).unwrap();
    let mut refused = limiter.try_check(&alice()).unwrap();
    assert!(first.allowed && !refused.allowed && refused.take_slots().is_none());
    assert_eq!(left(&limiter), [4, 0]);
    assert!(limiter.try_settle(&first.take_slots().unwrap().unanswered()).unwrap());
    assert_eq!(left(&limiter), [5, 0], "what was made stays made");
}

#[test]
fn a_request_that_is_refused_for_those_in_flight_counts_for_no_rule() {
    let (limiter, _) = limiter(vec![at_once(1), per_hour(5)]);
    assert!(limiter.try_check(&alice()).unwrap().allowed);
    assert!(!limiter.try_check(&alice()).unwrap().allowed);
    assert_eq!(left(&limiter), [0, 4]);
}

#[test]
fn slots_and_charges_are_settled_apart() {
    let (limiter, _) = limiter(vec![at_once(2), failures(5)]);
    let request = Request { hold: Some(limiter.hold_id()), ..alice() };
    let mut checked = limiter.try_check(&request).unwrap();
    assert_eq!(left(&limiter), [1, 4]);
    let slots = checked.take_slots().unwrap();
    let held = checked.take_held().unwrap();
    assert_eq!(held.costs().collect::<Vec<_>>(), [("failures", 1)]);
    assert!(limiter.try_settle(&held.answered(200, |_| None)).unwrap());
    assert_eq!(left(&limiter), [1, 5], "its response has begun");
    assert!(limiter.try_settle(&slots.unanswered()).unwrap());
    assert_eq!(left(&limiter), [2, 5], "it is over");
}

/// Without a promise to tell the response, a charge is taken at once; a slot is held nevertheless.
#[test]
fn only_slots_are_held_for_those_who_tell_no_response() {
    let (limiter, _) = limiter(vec![at_once(2), failures(5)]);
    let mut checked = limiter.try_check(&alice()).unwrap();
    let slots = checked.take_slots().unwrap();
    assert!(checked.take_held().is_none());
    assert!(limiter.try_settle(&slots.unanswered()).unwrap());
    assert_eq!(left(&limiter), [2, 4]);
}

#[test]
fn explaining_holds_nothing_and_a_shadow_refuses_nobody() {
    let shadow = Rule { shadow: true, ..at_once(1) };
    let (limiter, _) = limiter(vec![shadow]);
    assert!(limiter.try_explain(&alice()).unwrap().take_slots().is_none());
    assert!(limiter.try_check(&alice()).unwrap().take_slots().is_some());
    let mut over = limiter.try_check(&alice()).unwrap();
    assert!(over.allowed && !over.verdicts[0].verdict.allowed && over.take_slots().is_none());
}

#[test]
fn tiers_and_overrides_limit_requests_in_flight() {
    let tier = |name: &str, quota| Tier { name: name.into(), quota };
    let hourly = Quota::new(Algorithm::FixedWindow, 9, Span::from_secs(3_600)).unwrap();
    let tiers = Tiers { list: vec![tier("free", hourly), tier("gold", slots(3))], ..Tiers::default() };
    let target = Target::Identity(vec!["mallory".into()]);
    let overrides = vec![Override { target, quota: slots(1), until: None }];
    let rule = Rule { allowance: Allowance::Tiered, overrides, ..at_once(1) };
    let parts = RuleSetParts { rules: vec![rule], tiers, ..RuleSetParts::default() };
    let limiter = Limiter::new(RuleSet::new(parts).unwrap()).unwrap();
    for (user, tier, is_slot, left) in
        [("a", "free", false, 8), ("b", "gold", true, 2), ("mallory", "gold", true, 0)]
    {
        let request = Request { user: Some(user), tier: Some(tier), ..alice() };
        let mut checked = limiter.try_check(&request).unwrap();
        assert_eq!(checked.verdicts[0].verdict.remaining, left, "{user}");
        assert_eq!(checked.take_slots().is_some(), is_slot, "{user}");
    }
}

#[test]
fn a_rule_set_knows_whether_it_limits_requests_in_flight() {
    assert!(!rule_set(vec![per_hour(1), failures(1)]).limits_in_flight());
    assert!(rule_set(vec![per_hour(1), at_once(1)]).limits_in_flight());
    let of = |rule| RuleSet::new(RuleSetParts { rules: vec![rule], ..RuleSetParts::default() }).map(|_| ());
    let charging = Rule { charge: failures(1).charge, ..at_once(1) };
    assert_eq!(of(charging), Err(RuleSetError::InFlightCharge("at_once".into())));
    let delaying = Rule { on_limit: OnLimit::Delay { longest: Span::from_secs(1) }, ..at_once(1) };
    assert_eq!(of(delaying), Err(RuleSetError::InFlightDelay("at_once".into())));
}

/// A store that is never there.
struct Away;

impl Store for Away {
    fn apply<'a, 'r: 'a>(&'a self, groups: &'a [Group<'r>], _: Deadline) -> Answer<'a> {
        let each = |op: &tidegate::core::Operation<'_>| {
            assert!(!matches!(op.action, Action::Hold { .. }));
            Outcome::Unavailable(Failure::Connection)
        };
        let outcomes = groups.iter().map(|group| group.iter().map(each).collect()).collect();
        Box::pin(std::future::ready(outcomes))
    }
}

#[test]
fn with_a_shared_store_such_rules_are_refused() {
    let build = |rules| Limiter::builder(rule_set(rules)).store(Arc::new(Away)).build();
    let error = build(vec![at_once(1)]).unwrap_err();
    assert!(error.to_string().contains("run without a shared store"), "{error}");
    let limiter = build(vec![per_hour(1)]).unwrap();
    assert_eq!(limiter.set_rules(rule_set(vec![at_once(1)])), Err(UnsupportedRules));
    assert!(limiter.rules().get("per_hour").is_some(), "those in force stay");
    assert_eq!(limiter.set_rules(rule_set(vec![per_hour(2)])), Ok(()));
}

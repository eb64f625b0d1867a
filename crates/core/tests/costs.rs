//! What rules take from their quotas, and when that is only held.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

use tidegate_core::cost::{Charge, Cost, DEFAULT_CHARGE_WITHIN};
use tidegate_core::request::Fields;
use tidegate_core::{
    Action, Algorithm, Facet, HoldId, Operation, Path, Quota, Request, Rule, RuleSet, RuleSetParts, Secret,
    Span, Timestamp,
};

const HOLD: HoldId = HoldId([3, 4]);

fn rule(id: &str, cost: Cost, charged: bool) -> Rule {
    let quota = Quota::new(Algorithm::FixedWindow, 1_000, Span::from_secs(60)).unwrap();
    let charge =
        Charge { header: Some("x-used".into()), statuses: Vec::new(), within: DEFAULT_CHARGE_WITHIN };
    let charge = charged.then(|| Box::new(charge));
    Rule { cost, charge, ..Rule::new(id, Facet::Global, quota) }
}

/// What each of the rules asks for.
fn asked(rules: Vec<Rule>, request: &Request<'_>) -> Vec<(u64, Action)> {
    let rules = RuleSet::new(RuleSetParts { rules, ..RuleSetParts::default() }).unwrap();
    let path = Path::parse(request.path).unwrap();
    let demand = rules.demand(request, &path, &Secret::new([1; 16]), Timestamp::EPOCH);
    demand.group.iter().map(|op: &Operation<'_>| (op.take.cost, op.action)).collect()
}

fn every_cost(charged: bool) -> Vec<Rule> {
    let header = Cost::Header { name: "x-cost".into(), otherwise: 7, most: 100 };
    vec![
        rule("one", Cost::default(), charged),
        rule("five", Cost::Fixed(5), charged),
        rule("header", header, charged),
        rule("body", Cost::Body { unit: 1_024, most: 50 }, charged),
    ]
}

fn hold() -> Action {
    Action::Hold { id: HOLD, ttl: DEFAULT_CHARGE_WITHIN }
}

/// Headers that nobody is to look at.
struct Untouched;

impl Fields for Untouched {
    fn value(&self, name: &str) -> Option<&str> {
        panic!("{name} was looked up")
    }

    fn each(&self, _visit: &mut dyn FnMut(&str, &str)) {
        panic!("all were looked at")
    }
}

#[test]
fn each_rule_takes_what_it_costs() {
    let headers = [("x-cost", "12")];
    let request = Request { headers: &headers, body_bytes: Some(3_000), ..Request::new("/") };
    let take = |cost| (cost, Action::Take);
    assert_eq!(asked(every_cost(false), &request), [take(1), take(5), take(12), take(3)]);
    let twice = Request { cost: 2, ..request };
    assert_eq!(asked(every_cost(false), &twice), [take(2), take(10), take(24), take(6)]);
    let nothing_known = Request::new("/");
    assert_eq!(asked(every_cost(false), &nothing_known), [take(1), take(5), take(7), take(50)]);
}

#[test]
fn whoever_only_looks_takes_nothing_from_any_rule() {
    let looks = Request { cost: 0, hold: Some(HOLD), ..Request::new("/") };
    for charged in [false, true] {
        assert_eq!(asked(every_cost(charged), &looks), [(0, Action::Peek); 4]);
    }
}

#[test]
fn a_rule_without_a_cost_of_its_own_asks_nothing_of_headers() {
    let request = Request { headers: &Untouched, hold: Some(HOLD), ..Request::new("/") };
    assert_eq!(asked(vec![rule("one", Cost::default(), false)], &request), [(1, Action::Take)]);
}

#[test]
fn only_what_answers_may_change_is_held_and_only_if_somebody_tells() {
    let mut rules = every_cost(true);
    rules.push(rule("uncharged", Cost::Fixed(2), false));
    let untold = Request { body_bytes: Some(1), ..Request::new("/") };
    let costs = [1, 5, 7, 1, 2];
    assert_eq!(asked(rules.clone(), &untold), costs.map(|cost| (cost, Action::Take)));
    let told = Request { hold: Some(HOLD), ..untold };
    let held: Vec<_> =
        costs.map(|cost| (cost, hold())).into_iter().take(4).chain([(2, Action::Take)]).collect();
    assert_eq!(asked(rules.clone(), &told), held);
    let may_come_again = Request { request_id: Some("r-1"), ..told };
    assert_eq!(asked(rules, &may_come_again), costs.map(|cost| (cost, Action::Take)), "charged at once");
}

#[test]
fn only_rules_whose_charge_names_a_known_response_apply_and_they_take_at_once() {
    let charged = |id: &str, statuses: &[std::ops::RangeInclusive<u16>]| {
        let charge = Charge { header: None, statuses: statuses.to_vec(), within: DEFAULT_CHARGE_WITHIN };
        Rule { charge: Some(Box::new(charge)), ..rule(id, Cost::Fixed(3), false) }
    };
    let mut rules = every_cost(false);
    rules.extend([
        charged("failed", &[401..=401, 403..=403]),
        charged("clients", &[400..=499]),
        charged("served", &[200..=299]),
        // Charges every response, and names none.
        rule("all", Cost::Fixed(7), true),
    ]);
    let refused = Request { answered: Some(401), hold: Some(HOLD), ..Request::new("/") };
    assert_eq!(asked(rules.clone(), &refused), [(3, Action::Take); 2]);
    assert_eq!(asked(rules, &Request { answered: Some(500), ..refused }), []);
}

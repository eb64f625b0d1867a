//! Base limits, times what plans say.

use tidegate_core::rule::Allowance;
use tidegate_core::{Path, Request, RuleSet, Secret, Timestamp};
use tidegate_rules::{Source, load, read, to_json};

use crate::good::{read_good, rule_set};

const RULE: &str = "rules: [{ rule_id: r, identifier_type: user_id, base_limit: 100, window: 1m }]\n";

fn loaded(texts: &[&str]) -> RuleSet {
    let sources: Vec<_> = texts.iter().map(|text| Source { name: "text", text }).collect();
    load(&sources, 1).unwrap_or_else(|problems| panic!("{problems}"))
}

/// Limit and capacity of each rule for a request.
fn limits(rules: &RuleSet, request: &Request<'_>) -> Vec<(u64, u64)> {
    let path = Path::parse(request.path).unwrap();
    let demand = rules.demand(request, &path, &Secret::new([1; 16]), Timestamp::from_millis(1));
    demand.group.iter().map(|op| (op.take.quota.limit(), op.take.quota.capacity())).collect()
}

fn limit_of(rules: &RuleSet, tier: &str) -> u64 {
    limits(rules, &Request { tier: Some(tier), ..Request::new("/") })[0].0
}

#[test]
fn every_way_to_name_a_plan() {
    let rules = rule_set("plans.yaml");
    let of = |user, tier| limits(&rules, &Request { user: Some(user), tier, ..Request::new("/") });
    assert_eq!(of("carol", None), [(150, 225), (13, 13), (8, 8)], "the default is a tier and a plan");
    assert_eq!(of("alice", None), [(300, 450), (27, 27), (8, 8)], "only a plan: the default tier");
    assert_eq!(of("bob", None), [(150, 225), (13, 13), (7, 7)], "only a tier: the default plan");
    assert_eq!(of("carol", Some("A la Carte")), [(12, 18), (1, 1), (8, 8)], "rounded down");
    assert_eq!(of("carol", Some("none")), [(0, 0), (0, 0), (8, 8)]);
    assert_eq!(of("carol", Some("Standard")), [(150, 225), (13, 13), (8, 8)]);
    assert_eq!(of("carol", Some("Basic")), [(150, 225), (13, 13), (8, 8)], "names of tiers have their case");
    assert_eq!(of("mallory", Some("premium"))[0], (1, 1), "an override is absolute");
    let names: Vec<_> = rules.tiers().iter().map(|standing| &*standing.name).collect();
    assert_eq!(names, ["basic", "standard", "Premium", "standard", "a la carte", "none"]);
}

#[test]
fn the_example_in_the_reference_holds() {
    let page = include_str!("../../../../docs/rules.md");
    let example = page.split("## Plans").nth(1).unwrap().split("```yaml\n").nth(1).unwrap();
    let rules = loaded(&[example.split("```").next().unwrap()]);
    let of = |user, tier| limits(&rules, &Request { user: Some(user), tier, ..Request::new("/") })[0];
    assert_eq!(of("alice", None), (303, 360));
    assert_eq!(of("bob", Some("STANDARD")), (151, 180));
    assert_eq!(of("carol", None), (101, 120));
    assert_eq!(of("mallory", Some("premium")), (5, 5));
}

#[test]
fn a_counter_by_tenant_has_one_limit_whichever_user_asks() {
    let rules = loaded(&[
        "tenants: { acme: PREMIUM, zed: STANDARD }\nusers: { alice: STANDARD, bob: PREMIUM }\nrules:\n  \
         - { rule_id: tenant, identifier_type: tenant_id, base_limit: 100, window: 1m }\n  \
         - { rule_id: user, identifier_type: user_id, base_limit: 100, window: 1m }\n",
    ]);
    let of = |tenant, user| {
        let request = Request { tenant: Some(tenant), user, ..Request::new("/") };
        limits(&rules, &request).into_iter().map(|(limit, _)| limit).collect::<Vec<_>>()
    };
    assert_eq!(of("acme", Some("alice")), [300, 200]);
    assert_eq!(of("acme", Some("carol")), [300, 300], "a user without a plan has the tenant's");
    assert_eq!(of("acme", None), [300, 300]);
    assert_eq!(of("zed", Some("bob")), [200, 300]);
    assert_eq!(of("other", Some("bob")), [100, 300], "of which nothing is known");
}

#[test]
fn the_usual_plans_where_none_are_stated() {
    let rules = loaded(&[RULE]);
    let of = |tier| limit_of(&rules, tier);
    assert_eq!([of("premium"), of("Standard"), of("FREE"), of("gold")], [300, 200, 100, 100]);
    assert!(loaded(&["rules: []"]).plans().is_empty(), "nobody asks for them");
    let elsewhere = loaded(&[RULE, "plans: { gold: 10 }\n"]);
    assert_eq!((limit_of(&elsewhere, "gold"), limit_of(&elsewhere, "premium")), (1_000, 1_000));
    let default = loaded(&[RULE, "default_tier: standard\nusers: { alice: premium }\n"]);
    assert_eq!(limit_of(&default, "?"), 200);
    assert_eq!(limits(&default, &Request { user: Some("alice"), ..Request::new("/") })[0].0, 300);
}

#[test]
fn plans_of_another_text_are_held_against_every_rule() {
    let log = "rules: [{ rule_id: r, identifier_type: user_id, base_limit: 50000, window: 1s, algorithm: sliding_log }]\n";
    let alone = Source { name: "rules.yaml", text: log };
    assert!(read(&alone).is_ok(), "what the plans are is not known yet");
    let small = Source { name: "plans.yaml", text: "plans: { a: 2, b: 0.5 }\n" };
    assert!(load(&[alone, small], 1).is_ok());
    let large = Source { name: "plans.yaml", text: "plans: { a: 2.001 }\n" };
    let problems = load(&[large, alone], 1).unwrap_err();
    let said: Vec<_> = problems.list().iter().map(ToString::to_string).collect();
    assert_eq!(
        said,
        [
            "rules.yaml:1:61: `base_limit` 50000 times 2.001 in plan `a`: a sliding_log of 100050 would remember too many \
          requests; use a limit of at most 100000, or algorithm sliding_window"
        ]
    );
    let twice = Source { name: "more.yaml", text: "plans: { A: 2 }\n" };
    let problems = load(&[small, twice], 1).unwrap_err();
    assert!(
        problems.to_string().contains("more.yaml:1:10: there is already a plan `a` at plans.yaml:1:10"),
        "{problems}"
    );
}

#[test]
fn a_base_limit_is_written_as_it_was() {
    let document = read_good("plans.yaml");
    let rule = document.rules().next().unwrap();
    assert!(matches!(rule.allowance, Allowance::Planned(_)));
    let written = to_json(rule);
    assert_eq!(
        (&written["base_limit"], &written["burst"], written.get("limit")),
        (&100.into(), &150.into(), None)
    );
}

//! Every form a document may have.

use std::fs;

use tidegate_core::pattern::Segment;
use tidegate_core::rule::{Allowance, OnMissingIdentity, OnStoreFailure, Target, Wanted};
use tidegate_core::{Algorithm, Quota, Rule, RuleSet, Span, Timestamp};
use tidegate_rules::{Document, EXAMPLE, Source, Version, compile, read};

use crate::folder;

pub(crate) fn read_good(name: &str) -> Document {
    let text = fs::read_to_string(folder("tests/good").join(name)).unwrap();
    read(&Source { name, text: &text }).unwrap_or_else(|problems| panic!("{problems}"))
}

pub(crate) fn rule_set(name: &str) -> RuleSet {
    compile(vec![read_good(name)], 5).unwrap_or_else(|problems| panic!("{problems}"))
}

fn quota(rule: &Rule) -> Quota {
    match rule.allowance {
        Allowance::Fixed(quota) => quota,
        other => panic!("{} has no quota: {other:?}", rule.id),
    }
}

/// Algorithm, limit, window in ms, capacity.
fn figures(quota: &Quota) -> (Algorithm, u64, u64, u64) {
    (quota.algorithm(), quota.limit(), quota.window().as_millis(), quota.capacity())
}

fn identifier(rule: &Rule) -> String {
    rule.identifier.facets().iter().map(ToString::to_string).collect::<Vec<_>>().join("+")
}

#[test]
fn the_contract_is_kept() {
    let document = read_good("contract.yaml");
    assert_eq!(document.version(), Some(42));
    let rules = compile(vec![document], 5).unwrap();
    assert_eq!(rules.version(), 5);
    let rule = rules.get("api_user_get_orders").unwrap();
    assert_eq!(rule.description.as_deref(), Some("GET /orders/* per signed-in user"));
    assert_eq!(identifier(rule), "user_id");
    assert_eq!(rule.priority, 10);
    assert_eq!(figures(&quota(rule)), (Algorithm::SlidingWindow, 50, 60_000, 50));
    assert_eq!(
        rule.condition.path.as_ref().unwrap().segments(),
        [Segment::Literal("orders".into()), Segment::Below]
    );
    assert_eq!(*rule.condition.methods, [Box::from("GET")]);
    assert!(rule.condition.requires_authentication);
    assert_eq!(*rule.condition.headers, [(Box::from("x-client-type"), Wanted::Value("mobile".into()))]);
    assert_eq!(rule.condition.subnets, ["192.168.1.0/24".parse().unwrap()]);
    assert!(!rule.shadow);
    let [entry] = rule.overrides.as_slice() else { panic!("one override") };
    assert_eq!(entry.target, Target::Identity(vec!["mallory".into()]));
    assert_eq!(figures(&entry.quota), (Algorithm::SlidingWindow, 0, 60_000, 0));
    assert_eq!(entry.until, Some(Timestamp::from_millis(1_798_761_600_000)));
    let tiers: Vec<_> =
        rules.tiers().iter().map(|tier| (&*tier.name, figures(&tier.quota.unwrap()))).collect();
    assert_eq!(
        tiers,
        [
            ("free", (Algorithm::TokenBucket, 10, 1_000, 10)),
            ("basic", (Algorithm::TokenBucket, 100, 1_000, 100)),
        ]
    );
}

#[test]
fn json_one_after_the_other_with_comments() {
    let rules = rule_set("concatenated_with_comments.json");
    let ids: Vec<_> = rules.rules().map(|rule| &*rule.id).collect();
    assert_eq!(ids, ["login_attempt_ip", "api_user_get_orders"]);
    let orders = rules.get("api_user_get_orders").unwrap();
    assert_eq!(figures(&quota(orders)), (Algorithm::SlidingWindow, 50, 60_000, 50));
    assert!(orders.condition.requires_authentication);
    assert!(orders.condition.headers.is_empty() && orders.condition.subnets.is_empty());
    let login = rules.get("login_attempt_ip").unwrap();
    assert_eq!(figures(&quota(login)), (Algorithm::FixedWindow, 5, 300_000, 5));
    assert_eq!(identifier(login), "ip_address");
    assert_eq!(login.priority, 5);
}

#[test]
fn tiers_alone_are_one_rule() {
    let document = read_good("rate_limits.json");
    assert_eq!(document.version(), Some(42));
    assert_eq!(document.updated_at(), Some(Timestamp::from_millis(1_704_103_200_000)));
    let rules = compile(vec![document], 1).unwrap();
    assert_eq!(rules.len(), 1);
    let rule = rules.get("tier").unwrap();
    assert_eq!(rule.allowance, Allowance::Tiered);
    assert_eq!(identifier(rule), "user_id");
    assert!(rule.condition.path.is_none());
    let tiers: Vec<_> =
        rules.tiers().iter().map(|tier| (&*tier.name, figures(&tier.quota.unwrap()))).collect();
    assert_eq!(
        tiers,
        [
            ("basic", (Algorithm::TokenBucket, 10, 1_000, 10)),
            ("premium", (Algorithm::SlidingWindow, 200, 1_000, 200)),
        ]
    );
}

#[test]
fn every_key_is_understood() {
    let rules = rule_set("everything.yaml");
    let all = rules.get("all.of-it_1").unwrap();
    assert_eq!(identifier(all), "tenant_id+header:x-device+attribute:org+path");
    assert_eq!(all.on_missing_identity, OnMissingIdentity::Refuse);
    assert_eq!(all.on_store_failure, OnStoreFailure::Allow);
    assert_eq!(figures(&quota(all)), (Algorithm::TokenBucket, 100, 60_000, 250));
    assert_eq!((all.priority, all.shadow), (-3, true));
    assert_eq!(*all.condition.methods, [Box::from("GET"), Box::from("POST")]);
    assert!(!all.condition.requires_authentication);
    assert_eq!(
        *all.condition.headers,
        [("x-client-type".into(), Wanted::Value("mobile".into())), ("x-trace".into(), Wanted::Present)]
    );
    assert_eq!(
        *all.condition.attributes,
        [("Region".into(), Wanted::Value("eu".into())), ("plan".into(), Wanted::Present)]
    );
    let subnets: Vec<_> = all.condition.subnets.iter().map(ToString::to_string).collect();
    assert_eq!(subnets, ["10.0.0.0/8", "2001:db8::/32", "203.0.113.7/32", "192.168.0.0/16"]);
    let [one, everybody] = all.overrides.as_slice() else { panic!("two overrides") };
    assert_eq!(figures(&one.quota), (Algorithm::FixedWindow, 7, 2_000, 7));
    assert!(matches!(&one.target, Target::Identity(parts) if parts.len() == 4));
    assert_eq!(figures(&everybody.quota), (Algorithm::TokenBucket, 1_000, 60_000, 1_000));
    assert_eq!(everybody.target, Target::Everybody);
    assert_eq!(everybody.until.unwrap().as_millis() % 1_000, 250);
}

#[test]
fn defaults_hold_where_a_rule_says_nothing() {
    let rules = rule_set("everything.yaml");
    let tiered = rules.get("tiered").unwrap();
    assert_eq!(tiered.on_store_failure, OnStoreFailure::Deny);
    assert_eq!(tiered.on_missing_identity, OnMissingIdentity::Shared);
    assert_eq!(tiered.priority, 100);
    let overrides: Vec<_> = tiered.overrides.iter().map(|entry| figures(&entry.quota)).collect();
    assert_eq!(overrides, [(Algorithm::TokenBucket, 5, 1_000, 5), (Algorithm::SlidingLog, 5, 60_000, 5)]);
    let blocked = rules.get("addresses").unwrap();
    assert!(quota(blocked).is_blocked());
    assert_eq!(quota(blocked).window(), Span::from_secs(366 * 86_400));
    assert_eq!(blocked.overrides[0].quota.limit(), 3);
}

#[test]
fn several_documents_in_one_text() {
    let document = read_good("documents.yaml");
    assert_eq!(document.version(), Some(3));
    let ids: Vec<_> = document.rules().map(|rule| &*rule.id).collect();
    assert_eq!(ids, ["one", "two", "three", "four"]);
    let failures: Vec<_> = document.rules().map(|rule| rule.on_store_failure).collect();
    assert_eq!(failures[2..], [OnStoreFailure::Local, OnStoreFailure::Deny]);
}

#[test]
fn lists_anchors_and_flow() {
    assert_eq!(rule_set("list.json").len(), 2);
    assert_eq!(rule_set("flow.yaml").len(), 1);
    assert_eq!(rule_set("json_documents.yaml").len(), 2);
    assert_eq!(rule_set("none.yaml").len(), 0);
    let rules = rule_set("anchors.yaml");
    assert_eq!(rules.get("other").unwrap().condition.methods.len(), 2);
    assert_eq!(rules.get("third").unwrap().condition.methods.len(), 2);
}

#[test]
fn the_stamp_is_the_version_unless_told_otherwise() {
    let stamped = |version| compile(vec![read_good("contract.yaml")], version).unwrap();
    let both = |rules: &RuleSet| (rules.version(), rules.stamp());
    assert_eq!(both(&stamped(Version::from(5))), (5, 5));
    let rules = stamped(Version { shown: 5, stamp: 77 });
    assert_eq!((both(&rules), quota(rules.get("api_user_get_orders").unwrap()).version()), ((5, 77), 77));
}

#[test]
fn no_documents_are_no_rules() {
    assert!(compile(Vec::new(), 1).unwrap().is_empty());
}

#[test]
fn the_example_is_as_the_readme_says() {
    let document = read(&Source { name: "default.yaml", text: EXAMPLE }).unwrap();
    let rules = compile(vec![document], 1).unwrap();
    let ids: Vec<_> = rules.rules().map(|rule| (&*rule.id, rule.priority)).collect();
    assert_eq!(ids, [("login_attempt_ip", 5), ("api_user_get_orders", 10), ("tier", 50)]);
    let limits: Vec<_> =
        rules.tiers().iter().map(|tier| (&*tier.name, tier.quota.unwrap().limit())).collect();
    assert_eq!(limits, [("free", 10), ("basic", 100), ("premium", 1_000), ("enterprise", 10_000)]);
    assert_eq!(rules.get("tier").unwrap().allowance, Allowance::Tiered);
    assert_eq!(
        figures(&quota(rules.get("login_attempt_ip").unwrap())),
        (Algorithm::FixedWindow, 5, 300_000, 5)
    );
}

#[test]
fn limits_on_requests_in_flight() {
    let rules = rule_set("in_flight.yaml");
    assert!(rules.limits_in_flight());
    let slots = |limit: u64, seconds: u64| (Algorithm::InFlight, limit, seconds * 1_000, limit);
    let rule = |id| rules.get(id).unwrap();
    assert_eq!(figures(&quota(rule("at_once"))), slots(20, 60), "a minute, unless the rule says so");
    assert_eq!(figures(&quota(rule("described"))), slots(3, 60));
    let exports = rule("exports");
    assert_eq!(figures(&quota(exports)), slots(2, 600));
    let overridden: Vec<_> = exports.overrides.iter().map(|entry| figures(&entry.quota)).collect();
    let fixed = (Algorithm::FixedWindow, 60, 60_000, 60);
    assert_eq!(overridden, [slots(4, 600), slots(5, 3_600), fixed]);
    assert_eq!(figures(&rule("mixed").overrides[0].quota), slots(1, 60));
    let Allowance::Planned(base) = rule("planned").allowance else { panic!("it is planned") };
    assert_eq!(figures(&base), slots(5, 90));
    let tiers: Vec<_> = rules.tiers().iter().filter_map(|tier| Some(figures(&tier.quota?))).collect();
    assert_eq!(tiers, [slots(50, 300), slots(10, 60), (Algorithm::TokenBucket, 10, 1_000, 10)]);
}

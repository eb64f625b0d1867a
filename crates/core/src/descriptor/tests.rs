use proptest::prelude::*;

use super::value::is_like;
use super::*;
use crate::identity::Facet;
use crate::key::Secret;
use crate::quota::Algorithm;
use crate::rule::{Allowance, Rule};
use crate::ruleset::{RuleSet, RuleSetError, RuleSetParts};
use crate::take::Action;
use crate::time::{Span, Timestamp};

fn quota(limit: u64) -> Quota {
    Quota::new(Algorithm::FixedWindow, limit, Span::from_secs(60)).unwrap()
}

/// A rule about `key=value, key, …` in the domain `d`, named by its own text.
fn rule(text: &str, limit: u64) -> Rule {
    let entries = text.split(", ").map(|entry| {
        let (key, value) = entry.split_once('=').unwrap_or((entry, ""));
        let (value, shared) = value.strip_suffix('!').map_or((value, false), |value| (value, true));
        EntryPattern { key: key.into(), value: ValuePattern::new(value), shared, in_metric: false }
    });
    let about = DescriptorMatch {
        domain: "d".into(),
        entries: entries.collect(),
        name: None,
        replaces: Vec::new(),
        quota_mode: false,
        charge_refused: false,
        detailed_metric: false,
    };
    Rule { descriptor: Some(Box::new(about)), ..Rule::new(text, Facet::Global, quota(limit)) }
}

fn rules(rules: Vec<Rule>) -> RuleSet {
    RuleSet::new(RuleSetParts { rules, version: 7, ..RuleSetParts::default() }).unwrap()
}

fn descriptor(text: &'static str) -> Descriptor<'static> {
    let entry = |entry: &'static str| {
        let (key, value) = entry.split_once('=').unwrap_or((entry, ""));
        Entry { key, value }
    };
    let entries = text.split(", ").map(entry).collect();
    Descriptor { entries, limit: None, hits: Hits::Take(1) }
}

fn demand<'r>(rules: &'r RuleSet, descriptors: &[Descriptor<'_>]) -> DescriptorDemand<'r> {
    rules.demand_descriptors("d", descriptors, &Secret::new([3; 16]))
}

/// The id of the rule that a descriptor meets.
fn met<'r>(rules: &'r RuleSet, text: &'static str) -> Option<&'r str> {
    match demand(rules, &[descriptor(text)]).asked[0] {
        Asked::Nothing => None,
        Asked::Unlimited(rule) | Asked::Counted(rule) | Asked::CountedApart(rule) => {
            Some(&rules.rule(rule).id)
        }
    }
}

#[test]
fn the_most_specific_rule_counts() {
    let rules = rules(vec![
        rule("user=a*", 1),
        rule("user=ab*", 1),
        rule("user=abc", 1),
        rule("user", 1),
        rule("user, path=/login", 1),
        rule("vip=yes, path", 1),
    ]);
    for (text, wanted) in [
        ("user=abc", Some("user=abc")),
        ("user=abcd", Some("user=a*")),
        ("user=Abc", Some("user")),
        ("user=", Some("user")),
        ("user", Some("user")),
        ("User=abc", None),
        ("user=x, path=/login", Some("user, path=/login")),
        // The branch of the very value counts even where it leads nowhere.
        ("user=abc, path=/login", None),
        ("user=x, path=/", None),
        ("user=x, path=/login, z=1", None),
        ("vip=yes", None),
        ("vip=no, path=/", None),
        ("vip=yes, path=/", Some("vip=yes, path")),
    ] {
        assert_eq!(met(&rules, text), wanted, "{text}");
    }
    let elsewhere = rules.demand_descriptors("e", &[descriptor("user=abc")], &Secret::new([3; 16]));
    assert_eq!(elsewhere.asked.as_slice(), [Asked::Nothing]);
    assert_eq!(rules.domains().collect::<Vec<_>>(), ["d"]);
}

#[test]
fn open_values_are_counted_apart_unless_they_are_shared() {
    let rules = rules(vec![rule("a=x", 1), rule("b", 1), rule("c=x*", 1), rule("s=x*!", 1)]);
    let key = |text| demand(&rules, &[descriptor(text)]).group[0].take.key.fingerprint();
    assert_eq!(key("a=x"), key("a=x"));
    assert_ne!(key("b=1"), key("b=2"));
    assert_ne!(key("b=1"), key("b="));
    assert_ne!(key("c=x1"), key("c=x2"));
    assert_eq!(key("s=x1"), key("s=x2"));
    assert_ne!(key("a=x"), key("s=x1"), "rules count apart");
}

#[test]
fn every_descriptor_gets_its_own_answer_in_order() {
    let open = Rule { allowance: Allowance::Unlimited, ..rule("open", 0) };
    let rules = rules(vec![rule("a", 5), open]);
    let look = Descriptor { hits: Hits::Take(0), ..descriptor("a=1") };
    let back = Descriptor { hits: Hits::GiveBack(3), ..descriptor("a=2") };
    let demand = demand(&rules, &[descriptor("none"), look, descriptor("open=1"), back]);
    let [none, counted, unlimited, returned] = demand.asked.as_slice() else { panic!("{demand:?}") };
    assert!(matches!((none, unlimited), (Asked::Nothing, Asked::Unlimited(_))));
    assert_eq!(counted, returned);
    let actions: Vec<_> = demand.group.iter().map(|op| (op.action, op.take.cost)).collect();
    let since = Timestamp::LATEST;
    assert_eq!(actions, [(Action::Peek, 1), (Action::Return { since }, 3)]);
    assert!(demand.group.iter().all(|op| op.take.quota == quota(5).at_version(7)));
}

#[test]
fn what_is_charged_in_any_case_stands_by_itself() {
    let mut tokens = rule("tokens", 5);
    tokens.descriptor.as_mut().unwrap().charge_refused = true;
    let rules = rules(vec![rule("a", 5), tokens]);
    let look = Descriptor { hits: Hits::Take(0), ..descriptor("tokens=1") };
    let demand = demand(&rules, &[descriptor("tokens=1"), descriptor("a=1"), look]);
    let kinds: Vec<_> = demand.asked.iter().map(|asked| matches!(asked, Asked::CountedApart(_))).collect();
    assert_eq!(kinds, [true, false, false], "looking charges nothing");
    assert_eq!((demand.apart.len(), demand.group.len()), (1, 2));
}

#[test]
fn a_rule_that_is_replaced_does_not_count() {
    let named = |text, name: Option<&str>, replaces: &[&str]| {
        let mut rule = rule(text, 1);
        let about = rule.descriptor.as_mut().unwrap();
        about.name = name.map(Into::into);
        about.replaces = replaces.iter().map(|&name| name.into()).collect();
        rule
    };
    let rules = rules(vec![named("a", Some("wide"), &[]), named("b", Some("narrow"), &["wide", "other"])]);
    let asked = |texts: [&'static str; 2]| demand(&rules, &texts.map(descriptor)).group.len();
    assert_eq!(asked(["a=1", "c"]), 1);
    assert_eq!(asked(["a=1", "b=1"]), 1);
    assert_eq!(asked(["b=1", "a=1"]), 1);
    let demand = demand(&rules, &[descriptor("a=1"), descriptor("b=1")]);
    assert_eq!(demand.asked[0], Asked::Nothing);
    assert_eq!(demand.group[0].take.key.rule_id, "b");
}

#[test]
fn limits_that_come_along_count_instead_of_rules() {
    let rules = rules(vec![rule("a", 5)]);
    let minute = Descriptor { limit: Some(quota(9)), ..descriptor("a=1") };
    let hour = Quota::new(Algorithm::FixedWindow, 9, Span::from_secs(3_600)).unwrap();
    let hour = Descriptor { limit: Some(hour), ..descriptor("a=1") };
    let unknown = Descriptor { limit: Some(quota(9)), ..descriptor("z=1") };
    let demand = demand(&rules, &[minute, hour, unknown, descriptor("a=1")]);
    let takes: Vec<_> = demand.group.iter().map(|op| op.take).collect();
    let keys: Vec<_> = takes.iter().map(|take| take.key.fingerprint()).collect();
    assert_eq!(takes[0].key.rule_id, "d.override");
    assert_eq!(takes[0].quota, quota(9).at_version(7));
    assert_eq!(takes[3].quota, quota(5).at_version(7));
    for (index, key) in keys.iter().enumerate() {
        assert!(!keys[..index].contains(key), "each has a counter of its own");
    }
    assert_eq!((rules.len(), rules.positions()), (1, 2));
    assert_eq!(rules.rules().count(), 1, "nobody wrote the other");
}

#[test]
fn what_makes_no_sense_does_not_compile() {
    let error = |rules| RuleSet::new(RuleSetParts { rules, ..RuleSetParts::default() }).unwrap_err();
    let again = Rule { id: "again".into(), ..rule("a=1, b", 1) };
    assert_eq!(error(vec![rule("a=1, b", 1), again]), RuleSetError::DuplicateDescriptor("again".into()));
    let unlimited = Rule { allowance: Allowance::Unlimited, ..Rule::new("u", Facet::Global, quota(1)) };
    assert_eq!(error(vec![unlimited]), RuleSetError::Unlimited("u".into()));
}

#[test]
fn stars_stand_for_any_text() {
    for (pattern, value, wanted) in [
        ("*", "", true),
        ("a*", "a", true),
        ("a*", "ba", false),
        ("*a", "ba", true),
        ("a*a", "a", false),
        ("a*a", "aa", true),
        ("/api*v1", "/api/x/v1", true),
        ("/api*v1", "/api/x/v1/", false),
        ("s*e*r", "se-er", true),
        ("s*e*r", "s-r", false),
        ("a**b", "ab", true),
        ("é*é", "é", false),
    ] {
        assert_eq!(is_like(pattern, value), wanted, "{pattern} {value}");
    }
}

proptest! {
    /// Against the definition: a star is nothing, or one character and a star.
    #[test]
    fn stars_mean_what_they_say(pattern in "[ab*é]{0,6}", value in "[abé]{0,8}") {
        fn like(pattern: &[char], value: &[char]) -> bool {
            match (pattern.split_first(), value.split_first()) {
                (None, None) => true,
                (Some(('*', rest)), None) => like(rest, value),
                (Some(('*', rest)), Some((_, left))) => like(rest, value) || like(pattern, left),
                (Some((a, rest)), Some((b, left))) => a == b && like(rest, left),
                (None, Some(_)) | (Some(_), None) => false,
            }
        }
        let chars = |text: &str| text.chars().collect::<Vec<_>>();
        prop_assert_eq!(is_like(&pattern, &value), like(&chars(&pattern), &chars(&value)));
    }
}

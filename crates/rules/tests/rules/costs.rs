//! What requests cost, what answers change about that, and who waits.

use proptest::prelude::*;
use serde_json::json;
use tidegate_core::cost::{Charge, Cost, DEFAULT_CHARGE_WITHIN};
use tidegate_core::rule::OnLimit;
use tidegate_core::{Rule, Span};
use tidegate_rules::{Source, convert, put_rule, read, to_json};

use crate::good::{read_good, rule_set};

fn header(name: &str, otherwise: u64, most: u64) -> Cost {
    Cost::Header { name: name.into(), otherwise, most }
}

#[test]
fn every_form_is_read() {
    let rules = rule_set("costs.yaml");
    let rule = |id: &str| rules.get(id).unwrap();
    for (id, cost) in [
        ("exports", Cost::Fixed(10)),
        ("reports", header("x-cost", 2, 50)),
        ("searches", header("x-cost", 1, 1_000)),
        ("uploads", Cost::Body { unit: 1_048_576, most: 100 }),
        ("bytes", Cost::Body { unit: 1_024, most: 1_000 }),
        ("failed_log_ins", Cost::Fixed(1)),
        ("tokens", Cost::Fixed(500)),
        ("both", header("x-estimate", 100, 1_000)),
        ("blocked", Cost::Fixed(7)),
    ] {
        assert_eq!(rule(id).cost, cost, "{id}");
    }
    let statuses = vec![401..=401, 403..=403, 422..=422, 500..=599, 300..=399, 410..=419, 400..=499];
    let failed = Charge { header: None, statuses, within: DEFAULT_CHARGE_WITHIN };
    assert_eq!(rule("failed_log_ins").charge.as_deref(), Some(&failed));
    let used =
        Charge { header: Some("x-tokens-used".into()), statuses: vec![], within: Span::from_secs(300) };
    assert_eq!(rule("tokens").charge.as_deref(), Some(&used));
    let both =
        Charge { header: Some("x-used".into()), statuses: vec![200..=299], within: Span::from_secs(3_600) };
    assert_eq!(rule("both").charge.as_deref(), Some(&both));
    assert_eq!(rule("exports").charge, None);
    assert_eq!(rule("shaped").on_limit, OnLimit::Delay { longest: Span::from_millis(500) });
    assert_eq!(rule("blocked").on_limit, OnLimit::Refuse);
}

#[test]
fn it_is_written_as_people_write_it() {
    let document = read_good("costs.yaml");
    let written = |id: &str| to_json(document.rules().find(|rule| &*rule.id == id).unwrap());
    assert_eq!(written("exports")["cost"], 10);
    assert_eq!(written("reports")["cost"], json!({"header": "x-cost", "default": 2, "max": 50}));
    assert_eq!(written("uploads")["cost"], json!({"body": 1_048_576, "max": 100}));
    assert_eq!(
        written("failed_log_ins")["charge"],
        json!({"statuses": [401, 403, 422, "5xx", "3xx", "410-419", "4xx"], "within": "1m"})
    );
    assert_eq!(written("both")["charge"], json!({"header": "x-used", "statuses": "2xx", "within": "1h"}));
    let shaped = written("shaped");
    assert_eq!((&shaped["on_limit"], &shaped["max_delay"]), (&json!("delay"), &json!("500ms")));
    assert!(shaped.get("cost").is_none(), "one goes without saying");
    assert!(written("blocked").get("on_limit").is_none());
}

#[test]
fn what_goes_without_saying_is_not_converted() {
    let text = "rule_id: a\nidentifier_type: global\nlimit: 9\nwindow: 1s\n\
                cost: { header: X-Cost, default: 1, max: 1000 }\ncharge: { statuses: 401, within: 60s }\n";
    let converted = convert(&[Source { name: "a.yaml", text }]).unwrap();
    let expected = "    cost:\n      header: x-cost\n    charge:\n      statuses: 401\n";
    assert!(converted.contains(expected), "{converted}");
}

#[test]
fn such_a_rule_can_be_put_into_a_text() {
    let text =
        "# Ours.\nrules:\n  - { rule_id: a, identifier_type: global, limit: 9, window: 1s } # the first\n";
    let rule =
        "rule_id: b\nidentifier_type: ip_address\nlimit: 5\nwindow: 15m\ncharge: { statuses: [401, 4xx] }\n";
    let source = Source { name: "rules.yaml", text };
    let changed = put_rule(&source, "b", rule).unwrap();
    assert!(changed.starts_with(text.trim_end()), "{changed}");
    let document = read(&Source { name: "rules.yaml", text: &changed }).unwrap();
    let charge = document.rules().find(|rule| &*rule.id == "b").and_then(|rule| rule.charge.clone());
    assert_eq!(charge.unwrap().statuses, [401..=401, 400..=499]);
}

fn costs() -> impl Strategy<Value = Cost> {
    let most = 1u64..=1_000_000_000;
    prop_oneof![
        // No more than the limit below.
        (1u64..=100_000).prop_map(Cost::Fixed),
        ("[a-z][a-z0-9-]{0,20}", most.clone()).prop_flat_map(|(name, most)| {
            (1..=most).prop_map(move |otherwise| header(&name, otherwise, most))
        }),
        (1u64.., most).prop_map(|(unit, most)| Cost::Body { unit, most }),
    ]
}

fn charges() -> impl Strategy<Value = Charge> {
    let ranges = (100u16..=599, 100u16..=599).prop_map(|(a, b)| a.min(b)..=a.max(b));
    let statuses = prop::collection::vec(ranges, 0..5).prop_map(|mut list| {
        list.sort_by_key(|range| (*range.start(), *range.end()));
        list.dedup();
        list
    });
    let header = prop::option::of("[a-z][a-z0-9-]{0,20}".prop_map(Into::into));
    (header, statuses, 1_000u64..=3_600_000)
        .prop_map(|(header, statuses, within)| Charge { header, statuses, within: Span::from_millis(within) })
        .prop_filter("says something", |charge| charge.header.is_some() || !charge.statuses.is_empty())
}

proptest! {
    /// Whatever a rule says of costs, writing it down and reading it gives the same.
    #[test]
    fn written_and_read(
        cost in costs(),
        charge in prop::option::of(charges()),
        delay in prop::option::of(1u64..=60_000),
    ) {
        let text = "rule_id: a\nidentifier_type: global\nlimit: 100000\nwindow: 1s\n";
        let plain = read(&Source { name: "a.yaml", text }).unwrap();
        let rule = Rule {
            cost,
            charge: charge.map(Box::new),
            on_limit: delay.map_or(OnLimit::Refuse, |ms| OnLimit::Delay { longest: Span::from_millis(ms) }),
            ..plain.rules().next().unwrap().clone()
        };
        let written = to_json(&rule).to_string();
        let again = read(&Source { name: "again.json", text: &written });
        let again = again.unwrap_or_else(|problems| panic!("{problems}\n{written}"));
        let again = again.rules().next().unwrap();
        prop_assert_eq!((&again.cost, &again.charge, again.on_limit), (&rule.cost, &rule.charge, rule.on_limit));
    }
}

#[test]
fn the_examples_in_the_guide_are_read() {
    let guide = std::fs::read_to_string(crate::folder("../../docs/rules.md")).unwrap();
    let examples = guide.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next());
    let about_costs: Vec<&str> = examples
        .filter(|text| ["cost:", "charge:", "on_limit:"].iter().any(|key| text.contains(key)))
        .collect();
    assert_eq!(about_costs.len(), 3);
    for text in about_costs {
        read(&Source { name: "rules.md", text }).unwrap_or_else(|problems| panic!("{problems}"));
    }
}

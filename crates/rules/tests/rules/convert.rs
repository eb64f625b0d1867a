//! What is converted means the same.

use std::fs;

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use tidegate_core::RuleSet;
use tidegate_rules::{EXAMPLE, Source, convert, load};

use crate::folder;

fn loaded(text: &str) -> RuleSet {
    load(&[Source { name: "text", text }], 1).unwrap_or_else(|problems| panic!("{problems}\n{text}"))
}

/// All there is to a rule set, compiled, one rule after the other and then the rest.
fn described(rules: &RuleSet) -> Vec<String> {
    rules.rules().map(|rule| format!("{rule:?}")).chain([format!("{rules:?}")]).collect()
}

/// Converts a text, holds both against each other, and returns what came out.
fn check(text: &str) -> String {
    let converted = convert(&[Source { name: "text", text }]).unwrap_or_else(|problems| panic!("{problems}"));
    let (before, after) = (described(&loaded(text)), described(&loaded(&converted)));
    for (before, after) in before.iter().zip(&after) {
        assert_eq!(before, after, "{converted}");
    }
    assert_eq!(before.len(), after.len());
    converted
}

#[test]
fn every_good_document_means_the_same_once_converted() {
    for entry in fs::read_dir(folder("tests/good")).unwrap() {
        let converted = check(&fs::read_to_string(entry.unwrap().path()).unwrap());
        assert_eq!(converted, check(&converted), "converting again changes nothing");
    }
    check(EXAMPLE);
}

#[test]
fn it_reads_as_if_written_by_hand() {
    let text = "domain: messaging\ncharge_refused: true\ndescriptors:\n- key: message_type\n  value: marketing\n  \
                descriptors:\n  - key: to_number\n    rate_limit: { unit: day, requests_per_unit: 5 }\n\
                - { key: to_number, value: 112 }\n";
    let expected = "\
# Converted from text.
domains:
  messaging:
    charge_refused: true
rules:
  - rule_id: messaging.message_type_marketing.to_number
    descriptor:
      domain: messaging
      entries:
        - key: message_type
          value: marketing
        - key: to_number
    algorithm: fixed_window
    limit: 5
    window: 1d
  - rule_id: messaging.to_number_112
    descriptor:
      domain: messaging
      entries:
        - key: to_number
          value: \"112\"
    unlimited: true
";
    assert_eq!(check(text), expected);
}

#[test]
fn several_texts_become_one() {
    let sources = [
        Source { name: "a\n: b", text: "domain: a\ndescriptors: [{ key: k }]\n" },
        Source {
            name: "tiers.yaml",
            text: "tiers: { z: { limit: 1, window: 1s }, a: { limit: 1, window: 1s } }\n",
        },
        Source {
            name: "c.yaml",
            text: "users: { u: z }\nrules: []\n---\nusers: { u: z, \"null\": a }\ntenants: { t: z }\ndomains: { q: {} }\n",
        },
    ];
    let converted = convert(&sources).unwrap();
    assert!(converted.starts_with("# Converted from a\u{fffd}: b, tiers.yaml, c.yaml.\n"), "{converted}");
    assert_eq!(described(&loaded(&converted)), described(&load(&sources, 1).unwrap()), "{converted}");
}

#[test]
fn what_cannot_be_read_is_not_converted() {
    let problems =
        convert(&[Source { name: "x", text: "domain: d\ndescriptors: [{ key: '' }]\n" }]).unwrap_err();
    assert_eq!(problems.to_string().lines().next(), Some("x:2:22: `key` must not be empty; write a name"));
    assert!(convert(&[Source { name: "x", text: "version: 1\n" }]).is_err());
}

/// Texts as people write them, and such as try everything that joins or quotes.
fn word() -> impl Strategy<Value = String> {
    prop_oneof!["[a-c_.]{1,3}", "[a-z]{1,8}", "[ -~]{1,6}", "\\PC{1,3}"]
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        4 => word().prop_map(Value::from),
        1 => any::<u16>().prop_map(Value::from),
        1 => any::<bool>().prop_map(Value::from),
        1 => word().prop_map(|text| format!("{text}*").into()),
        1 => any::<String>().prop_map(Value::from),
    ]
}

/// A mapping of those that are there.
fn given(pairs: Vec<(&str, Option<Value>)>) -> Value {
    let there = pairs.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)));
    there.collect::<Map<_, _>>().into()
}

fn maybe<T: std::fmt::Debug + Clone + Into<Value> + 'static>(
    values: Vec<T>,
) -> impl Strategy<Value = Option<Value>> {
    prop::option::weighted(0.2, prop::sample::select(values).prop_map(Into::into))
}

fn rate_limit() -> impl Strategy<Value = Value> {
    let units = vec!["second", "MINUTE", "Hour", "day", "week", "month", "year"];
    let figures = prop_oneof![
        (prop::sample::select(units), any::<u32>())
            .prop_map(|(unit, limit)| json!({"unit": unit, "requests_per_unit": limit})),
        (0..50u32, 1..9u32).prop_map(|(limit, times)| {
            json!({"unit": "hour", "requests_per_unit": limit, "unit_multiplier": times, "algorithm": "sliding_log"})
        }),
        (0..50u32, 0..90u32).prop_map(|(limit, burst)| {
            json!({"window": "90s", "requests_per_unit": limit, "burst": burst, "algorithm": "token_bucket"})
        }),
        Just(json!({"unlimited": true})),
    ];
    let replaces = prop::collection::vec("[f-j]{1,3}".prop_map(|name| json!({ "name": name })), 0..3);
    (figures, prop::option::of("[a-e]{1,3}"), replaces).prop_map(|(mut figures, name, replaces)| {
        if let Some(name) = name {
            figures["name"] = name.into();
            figures["replaces"] = replaces.into();
        }
        figures
    })
}

fn level(
    nested: impl Strategy<Value = Vec<Value>> + Clone + 'static,
) -> impl Strategy<Value = Vec<Value>> + Clone {
    let flags = || maybe(vec![true, false]);
    let flags = (flags(), flags(), flags(), flags());
    let failure = maybe(vec!["local", "allow", "deny"]);
    let entry = (word(), prop::option::of(value()), prop::option::of(rate_limit()), flags, failure, nested);
    let node = entry.prop_map(|(key, value, limit, (shadow, quota, detailed, metric), failure, nested)| {
        let wild = value.as_ref().and_then(Value::as_str).is_some_and(|text| text.contains('*'));
        given(vec![
            ("key", Some(key.into())),
            ("value", value),
            ("rate_limit", limit),
            ("shadow_mode", shadow.clone()),
            ("quota_mode", quota),
            ("detailed_metric", detailed),
            ("value_to_metric", metric),
            ("share_threshold", shadow.filter(|_| wild)),
            ("on_store_failure", failure),
            ("descriptors", (!nested.is_empty()).then(|| nested.into())),
        ])
    });
    prop::collection::vec(node, 0..4)
        .prop_map(|mut nodes| {
            let mut seen = std::collections::HashSet::new();
            nodes.retain(|node| {
                let value =
                    node["value"].as_str().map_or_else(|| node["value"].to_string(), ToOwned::to_owned);
                let value = if value == "null" { String::new() } else { value };
                seen.insert((node["key"].to_string(), value))
            });
            nodes
        })
        .boxed()
}

fn envoy_file() -> impl Strategy<Value = String> {
    let tree = level(level(level(Just(Vec::new()))));
    let charge = maybe(vec![true, false]);
    let domain = (charge, maybe(vec!["deny"]), tree).prop_map(|(charge, failure, tree)| {
        given(vec![
            ("charge_refused", charge),
            ("on_store_failure", failure),
            ("descriptors", Some(tree.into())),
        ])
    });
    prop::collection::btree_map("[a-c]{1,2}|/[ -~]{1,4}", domain, 1..3).prop_map(|domains| {
        let documents = domains.into_iter().map(|(name, mut domain)| {
            domain["domain"] = name.into();
            domain.to_string()
        });
        documents.collect::<Vec<_>>().join("\n")
    })
}

proptest! {
    #[test]
    fn every_file_for_envoy_means_the_same_once_converted(text in envoy_file()) {
        let converted = check(&text);
        prop_assert_eq!(&converted, &check(&converted));
    }
}

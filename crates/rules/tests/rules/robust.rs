//! Texts nobody meant well with, and very long ones.

use std::fmt::Write as _;

use proptest::prelude::*;
use tidegate_rules::{EXAMPLE, Source, compile, convert, decode, load, read};

const JSON: &str = include_str!("../good/concatenated_with_comments.json");
const ENVOY: &str = include_str!("../good/envoy.yaml");
const DESCRIPTORS: &str = include_str!("../good/descriptors.yaml");
const EVERYTHING: &str = include_str!("../good/everything.yaml");

/// Everything that files about descriptors may say, and what they may be confused with.
const VOCABULARY: [&str; 28] = [
    "domain",
    "descriptors",
    "key",
    "value",
    "rate_limit",
    "unit",
    "requests_per_unit",
    "unlimited",
    "name",
    "replaces",
    "unit_multiplier",
    "window",
    "burst",
    "algorithm",
    "shadow_mode",
    "quota_mode",
    "detailed_metric",
    "value_to_metric",
    "share_threshold",
    "on_store_failure",
    "description",
    "charge_refused",
    "rules",
    "rule_id",
    "descriptor",
    "entries",
    "domains",
    "limit",
];

const SCALARS: [&str; 26] = [
    "",
    "~",
    "true",
    "No",
    "0",
    "1",
    "-1",
    "5",
    "1e9",
    "0x10",
    "4294967296",
    "18446744073709551616",
    "day",
    "MONTH",
    "90s",
    "367d",
    "a",
    "b",
    "a*",
    "\"\"",
    "\"*\"",
    "'/x/*'",
    "token_bucket",
    "sliding_log",
    "deny",
    "!!str 5",
];

/// Reading must end in rules or in problems whose places lie in the text.
fn survives(text: &str) {
    if let Err(problems) = load(&[Source { name: "text", text }], 1) {
        let lines = text.split('\n').flat_map(|line| line.split('\r')).count();
        for problem in problems.list() {
            assert!(problem.line >= 1 && problem.column >= 1, "{problem}");
            assert!(usize::try_from(problem.line).unwrap() <= lines + 1, "{problem}");
            let safe = !problem.message.contains(char::is_control);
            assert!(safe, "control characters in {problem:?}");
        }
        assert!(!problems.to_string().is_empty());
    }
}

fn mutated(valid: &'static str) -> impl Strategy<Value = String> {
    let chars: Vec<char> = valid.chars().collect();
    let edits = prop::collection::vec(
        (0..chars.len(), 0..4u8, any::<char>(), "[\\-:{}\\[\\],\"'*&!#%|>\t\n 0-9]"),
        1..6,
    );
    edits.prop_map(move |edits| {
        let mut text = chars.clone();
        for (at, kind, any, special) in edits {
            let at = at.min(text.len().saturating_sub(1));
            match kind {
                0 if text.len() > 1 => drop(text.remove(at)),
                1 => text.insert(at, any),
                2 => text.splice(at..at, special.chars()).for_each(drop),
                _ => text.truncate(at.max(1)),
            }
        }
        text.into_iter().collect()
    })
}

/// A value in flow style, of any kind at any place.
fn any_value() -> impl Strategy<Value = String> {
    let scalar = prop::sample::select(SCALARS.to_vec()).prop_map(ToOwned::to_owned);
    scalar.prop_recursive(5, 60, 6, |inner| {
        let pair = (prop::sample::select(VOCABULARY.to_vec()), inner.clone());
        let pairs = prop::collection::vec(pair.prop_map(|(key, value)| format!("{key}: {value}")), 0..6);
        prop_oneof![
            3 => pairs.prop_map(|pairs| format!("{{ {} }}", pairs.join(", "))),
            1 => prop::collection::vec(inner, 0..4).prop_map(|items| format!("[{}]", items.join(", "))),
        ]
    })
}

/// Mostly what a descriptor looks like, with anything in the place of anything.
fn descriptor() -> impl Strategy<Value = String> {
    let leaf = || prop_oneof![6 => prop::sample::select(SCALARS.to_vec()).prop_map(ToOwned::to_owned), 1 => any_value()];
    let limit = (leaf(), leaf(), prop::option::of((prop::sample::select(VOCABULARY.to_vec()), leaf())));
    let limit = limit.prop_map(|(unit, requests, other)| {
        let other = other.map(|(key, value)| format!(", {key}: {value}")).unwrap_or_default();
        format!("rate_limit: {{ unit: {unit}, requests_per_unit: {requests}{other} }}")
    });
    let good = Just("rate_limit: { unit: day, requests_per_unit: 5 }".to_owned());
    let other = (prop::sample::select(VOCABULARY.to_vec()), leaf())
        .prop_map(|(key, value)| format!("{key}: {value}"));
    let body = prop_oneof![good, limit, other];
    let node =
        (leaf(), leaf(), body).prop_map(|(key, value, body)| format!("key: {key}, value: {value}, {body}"));
    node.prop_recursive(3, 12, 3, |inner| {
        (inner.clone(), prop::collection::vec(inner, 0..3)).prop_map(|(node, nested)| {
            let nested: Vec<_> = nested.iter().map(|node| format!("{{ {node} }}")).collect();
            format!("{node}, descriptors: [{}]", nested.join(", "))
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn no_descriptors_do_harm(
        domain in prop_oneof![3 => Just("d".to_owned()), 1 => any_value()],
        nodes in prop::collection::vec(descriptor(), 0..5),
        more in prop::option::of(any_value()),
    ) {
        let mut text = format!("domain: {domain}\ndescriptors:\n");
        for node in nodes {
            text += &format!("  - {{ {node} }}\n");
        }
        text.extend(more.map(|more| format!("---\n{more}\n")));
        survives(&text);
        let source = Source { name: "text", text: &text };
        if let Ok(rules) = load(&[source], 1) {
            let converted = convert(&[source]).unwrap();
            let again = load(&[Source { name: "converted", text: &converted }], 1).unwrap();
            assert_eq!(format!("{rules:?}"), format!("{again:?}"));
        }
    }

    #[test]
    fn no_mixture_of_keys_does_harm(text in any_value()) {
        survives(&text);
    }

    #[test]
    fn no_slip_about_descriptors_does_harm(text in mutated(ENVOY)) {
        survives(&text);
    }

    #[test]
    fn no_slip_in_own_descriptors_does_harm(text in mutated(DESCRIPTORS)) {
        survives(&text);
    }

    #[test]
    fn no_bytes_do_harm(bytes in prop::collection::vec(any::<u8>(), 0..200), after in 0..DESCRIPTORS.len()) {
        let bytes = [&DESCRIPTORS.as_bytes()[..after], &bytes].concat();
        match decode("bytes", &bytes) {
            Ok(text) => survives(text),
            Err(problem) => assert!(problem.line >= 1 && problem.column >= 1, "{problem}"),
        }
    }

    #[test]
    fn no_text_does_harm(text in any::<String>()) {
        survives(&text);
    }

    #[test]
    fn no_punctuation_does_harm(text in "([\\-:{}\\[\\],\"'*&!#%|>?@`~\t\r\n ]|rules|limit|/\\*|//|---|0|a|\u{e9}|\u{0}){0,60}") {
        survives(&text);
    }

    #[test]
    fn no_slip_in_yaml_does_harm(text in mutated(EVERYTHING)) {
        survives(&text);
    }

    #[test]
    fn no_slip_in_json_does_harm(text in mutated(JSON)) {
        survives(&text);
    }

    #[test]
    fn no_slip_in_the_example_does_harm(text in mutated(EXAMPLE)) {
        survives(&text);
    }
}

#[test]
fn deep_nesting_is_refused() {
    for open in ["[", "{\"a\":", "{a: ", "- ", "? ", "a:\n - ", "!!seq [", "&a ["] {
        survives(&open.repeat(20_000));
    }
    let indented: String = (0..2_000).map(|depth| format!("{}a:\n", " ".repeat(depth))).collect();
    survives(&indented);
}

#[test]
fn descriptors_nest_only_so_deep() {
    let nested = |levels: usize| {
        let open = "{ key: k, rate_limit: { unit: day, requests_per_unit: 1 }, descriptors: [";
        format!("domain: d\ndescriptors: [{}{}]\n", open.repeat(levels), "] }".repeat(levels))
    };
    let loaded =
        |levels| load(&[Source { name: "nested.yaml", text: &nested(levels) }], 1).map(|rules| rules.len());
    assert_eq!(loaded(30).unwrap(), 30);
    assert!(loaded(40).unwrap_err().to_string().contains("nested more than"));
    survives(&nested(20_000));
}

#[test]
fn an_alias_bomb_is_refused() {
    let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..20 {
        let last = level - 1;
        writeln!(text, "a{level}: &a{level} [{}]", vec![format!("*a{last}"); 10].join(", ")).unwrap();
    }
    let problems = read(&Source { name: "bomb.yaml", text: &text }).unwrap_err();
    assert!(problems.to_string().contains("aliases stand for more than"), "{problems}");
}

#[test]
fn an_alias_bomb_of_descriptors_is_refused() {
    let mut text =
        "domain: d\ndescriptors:\n- &a0 { key: a, rate_limit: { unit: day, requests_per_unit: 1 } }\n"
            .to_owned();
    for level in 1..12 {
        let last = level - 1;
        let nested = vec![format!("*a{last}"); 10].join(", ");
        writeln!(text, "- &a{level} {{ key: k{level}, descriptors: [{nested}] }}").unwrap();
    }
    survives(&text);
    let problems = read(&Source { name: "bomb.yaml", text: &text }).unwrap_err();
    assert!(problems.to_string().contains("aliases stand for more than"));
}

fn rules(count: usize) -> String {
    let mut text = "rules:\n".to_owned();
    for number in 0..count {
        writeln!(
            text,
            "  - rule_id: rule-{number}\n    identifier_type: user_id\n    algorithm: sliding_window\n    limit: 50\n    \
             window: 60s\n    priority: {}\n    match: {{ path_pattern: /orders/{number}/*, methods: [GET, POST] }}",
            number % 7
        )
        .unwrap();
    }
    text
}

#[test]
fn twenty_thousand_rules_load() {
    let text = rules(20_000);
    let document = read(&Source { name: "many.yaml", text: &text }).unwrap();
    assert_eq!(compile(vec![document], 1).unwrap().len(), 20_000);
}

#[test]
fn a_long_line_is_quoted_in_part() {
    let text = format!("[{}{{\"x\": 1}}]", " ".repeat(1_000_000));
    let problems = read(&Source { name: "long.json", text: &text }).unwrap_err();
    assert!(problems.to_string().len() < 2_000);
    assert!(problems.list().iter().any(|problem| problem.column == 1_000_003));
}

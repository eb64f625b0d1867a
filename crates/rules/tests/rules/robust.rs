//! Texts nobody meant well with, and very long ones.

use std::fmt::Write as _;

use proptest::prelude::*;
use tidegate_rules::{EXAMPLE, Source, compile, load, read};

const JSON: &str = include_str!("../good/concatenated_with_comments.json");
const EVERYTHING: &str = include_str!("../good/everything.yaml");

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

proptest! {
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
fn an_alias_bomb_is_refused() {
    let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..20 {
        let last = level - 1;
        writeln!(text, "a{level}: &a{level} [{}]", vec![format!("*a{last}"); 10].join(", ")).unwrap();
    }
    let problems = read(&Source { name: "bomb.yaml", text: &text }).unwrap_err();
    assert!(problems.to_string().contains("aliases stand for more than"), "{problems}");
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

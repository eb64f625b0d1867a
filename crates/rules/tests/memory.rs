//! Documents that would grow while they are read are refused before they have grown.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::fmt::Write as _;

use allocation_counter::measure;
use tidegate_rules::{Problems, Source, load};

const MIB: usize = 1024 * 1024;

/// Returns how a text is refused, having checked that reading it takes at most `times` its size at any moment.
fn refused_within(times: usize, text: &str) -> Problems {
    let mut outcome = None;
    let memory = measure(|| outcome = Some(load(&[Source { name: "bomb.yaml", text }], 1)));
    let peak = usize::try_from(memory.bytes_max).unwrap();
    // What is loaded once per process, such as the shapes of documents.
    let most = times * text.len() + MIB;
    assert!(peak <= most, "{peak} bytes for a text of {}: more than {most}", text.len());
    let left = usize::try_from(memory.bytes_current).unwrap();
    assert!(left <= text.len() + MIB, "{left} bytes are still there");
    outcome.unwrap().unwrap_err()
}

/// Fills a text with comments until it is as large as a document may be in most sources.
fn padded(text: String, size: usize) -> String {
    let line = format!("# {}\n", "-".repeat(97));
    let missing = size.saturating_sub(text.len()) / line.len();
    text + &line.repeat(missing)
}

fn assert_names_place_limit_and_fix(problems: &Problems) {
    let text = problems.to_string();
    let problem = &problems.list()[0];
    assert!(problem.line >= 1 && problem.column > 1, "{text}");
    assert!(problem.message.starts_with("aliases stand for more than "), "{text}");
    assert!(problem.message.contains(" bytes") && problem.message.contains("use fewer of them"), "{text}");
}

/// Ten aliases of ten aliases of ten aliases, and so on.
fn nested(leaf: &str, levels: usize) -> String {
    let mut text = format!("a0: &a0 [{}]\n", [leaf; 10].join(", "));
    for level in 1..levels {
        let last = format!("*a{}", level - 1);
        writeln!(text, "a{level}: &a{level} [{}]", [&*last; 10].join(", ")).unwrap();
    }
    text
}

#[test]
fn nested_aliases_take_no_memory() {
    for text in [nested("x", 20), padded(nested("x", 20), 3 * MIB), nested(&"x".repeat(50_000), 12)] {
        assert_names_place_limit_and_fix(&refused_within(40, &text));
    }
}

#[test]
fn aliases_of_a_long_text_take_no_memory() {
    // The escape makes it a text of its own, which no part of the document can stand for.
    let long = format!("\"\\x41{}\"", "y".repeat(500_000));
    let text = format!("texts:\n- &long {long}\n{}", "- *long\n".repeat(8_000));
    assert_names_place_limit_and_fix(&refused_within(40, &text));
}

#[test]
fn flat_aliases_of_rules_take_no_memory() {
    let headers: String =
        (0..400).fold(String::new(), |all, number| format!("{all}x-{number}: {}, ", "v".repeat(40)));
    let rule = format!(
        "- &rule {{rule_id: one, identifier_type: global, limit: 5, window: 1s, description: {}, \
         match: {{required_headers: {{{headers}}}}}}}\n",
        "d".repeat(4_000)
    );
    for times in [70_000, 350_000] {
        let text = format!("rules:\n{rule}{}", "- *rule\n".repeat(times));
        assert!(text.len() <= 3 * MIB);
        assert_names_place_limit_and_fix(&refused_within(40, &text));
    }
}

#[test]
fn long_lists_in_brackets_take_no_memory() {
    // The whole of it could be a key, so that the parser would keep it until it is closed.
    let text = format!("[{}]", "a,".repeat(MIB));
    let problem = refused_within(60, &text).list()[0].to_string();
    assert!(problem.starts_with("bomb.yaml:1:1: more than 100000 commas, colons and brackets"), "{problem}");
    assert!(problem.ends_with("write the list with `- `, or the document as JSON"), "{problem}");
    // It is known to be no key; no room is made for rules that there are not.
    for part in ["{a: b},", "{a},\n"] {
        refused_within(60, &format!("rules: &r [{}]", part.repeat(2 * MIB / part.len())));
    }
    // Many short ones, and long ones of JSON, are read as ever.
    let rule = |number| {
        format!(
            "{{\"rule_id\": \"r{number}\", \"identifier_type\": \"global\", \"limit\": 5, \"window\": \"1s\"}}"
        )
    };
    let rules: Vec<String> = (0..20_000).map(rule).collect();
    for text in [format!("- {}\n", rules.join("\n- ")), format!("[{}]", rules.join(","))] {
        assert_eq!(load(&[Source { name: "rules", text: &text }], 1).unwrap().len(), 20_000);
    }
}

/// Each value takes more memory than it takes to write it.
#[test]
fn many_short_values_take_no_memory() {
    let times = |part: &str| part.repeat(3 * MIB / part.len());
    for text in [
        times("- a\n"),
        times("-\n"),
        times("- - a\n"),
        times("- [a]\n"),
        times("- a:\n"),
        format!("rules:\n{}", times("  - a: b\n")),
        format!("[{}1]", times("1,")),
        format!("[{}1]", times("1,   ")),
        format!("[{}1]", times("[],")),
        format!("[{}1]", times("{\"a\":1},")),
        format!("{{{}\"a\":1}}", times("\"a\":1,")),
        format!("{{{}\"a\":1}}", times("\"a\":1,  ")),
    ] {
        refused_within(60, &text);
    }
    let problem = refused_within(60, &times("-\n")).list()[0].to_string();
    assert!(problem.contains("more than 806432 values") && problem.contains("remove"), "{problem}");
}

#[test]
fn aliases_do_not_nest_deeper_than_values() {
    let mut text = "a0: &a0 [x]\n".to_owned();
    for level in 1..100 {
        writeln!(text, "a{level}: &a{level} [*a{}]", level - 1).unwrap();
    }
    let problems = refused_within(40, &padded(text, MIB));
    assert!(problems.to_string().contains("nested more than 64 levels deep"), "{problems}");
}

#[test]
fn many_problems_with_long_texts_take_no_memory() {
    let long = format!("/{}", "{".repeat(4_000));
    let rules: String = (0..700).fold(String::new(), |all, number| {
        format!(
            "{all}- {{rule_id: r{number}, identifier_type: global, limit: 5, window: {}, \
             match: {{path_pattern: '{long}'}}}}\n",
            "9".repeat(30)
        )
    });
    let problems = refused_within(40, &rules);
    assert!(problems.list().iter().all(|problem| problem.message.len() < 10_000));
}

#[test]
fn plans_times_rules_take_no_memory() {
    let mut text = "plans:\n".to_owned();
    (0..4_000).for_each(|plan| writeln!(text, "  p{plan}: 2").unwrap());
    text.push_str("rules:\n");
    (0..4_000).for_each(|rule| {
        writeln!(text, "- {{rule_id: r{rule}, identifier_type: global, base_limit: 5, window: 1s}}").unwrap();
    });
    let problems = refused_within(40, &text);
    assert_eq!(
        problems.to_string().lines().next().unwrap(),
        "bomb.yaml:4003:54: 4000 rules with a `base_limit` times 4000 plans are more than 1000000 limits; \
         use fewer plans, or tiers"
    );
}

#[test]
fn texts_have_a_longest_length() {
    let text = |description: &str| {
        format!(
            "rules:\n- rule_id: one\n  description: {description}\n  identifier_type: global\n  limit: 5\n  window: 1s\n"
        )
    };
    let load = |text: &str| load(&[Source { name: "rules.yaml", text }], 1);
    assert_eq!(load(&text(&"\u{e9}".repeat(4_096))).unwrap().len(), 1);
    let problems = load(&text(&"\u{e9}".repeat(4_097))).unwrap_err();
    assert_eq!(
        problems.list()[0].to_string(),
        "rules.yaml:3:16: `description` must not be longer than 4096 characters; shorten it"
    );
}

#[test]
fn a_thousand_rules_share_a_match() {
    let mut text = "\
rules:
  - rule_id: first
    identifier_type: user_id
    limit: 50
    window: 60s
    match: &m
      path_pattern: /orders/**
      methods: [GET, POST, PUT, PATCH, DELETE]
      required_headers: {x-client: '*', x-region: eu, x-channel: web}
      ip_subnet: [10.0.0.0/8, 192.168.0.0/16, 2001:db8::/32]
"
    .to_owned();
    for number in 1..1_000 {
        write!(
            text,
            "  - rule_id: rule-{number}\n    identifier_type: user_id\n    limit: 50\n    window: 60s\n    match: *m\n"
        )
        .unwrap();
    }
    let rules = load(&[Source { name: "shared.yaml", text: &text }], 1).unwrap();
    assert_eq!(rules.len(), 1_000);
    let condition = |id: &str| format!("{:?}", rules.get(id).unwrap().condition);
    assert_eq!(condition("first"), condition("rule-999"));
}

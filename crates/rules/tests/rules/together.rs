//! Several texts beside each other.

use tidegate_rules::{Problems, Source, compile, decode, load, read};

const RULE: &str = "rule_id: a\nidentifier_type: global\nlimit: 1\nwindow: 1s\n";

fn check(texts: &[(&str, &str)], expected: &[&str]) {
    let sources: Vec<_> = texts.iter().map(|&(name, text)| Source { name, text }).collect();
    let problems = load(&sources, 1).err();
    let said: Vec<String> = problems.iter().flat_map(Problems::list).map(ToString::to_string).collect();
    assert_eq!(said, expected);
}

#[test]
fn an_id_is_given_once() {
    check(
        &[
            ("a.yaml", RULE),
            ("b.json", r#"{"rule_id": "a", "identifier_type": "global", "limit": 1, "window": "1s"}"#),
        ],
        &["b.json:1:13: there is already a rule `a` at a.yaml:1:10; rename one of them"],
    );
    let problems = read(&Source { name: "a.yaml", text: &format!("{RULE}---\n{RULE}") }).unwrap_err();
    assert_eq!(problems.list().len(), 1);
    assert_eq!(problems.list()[0].line, 6);
}

#[test]
fn tiers_may_come_from_another_text() {
    let tiers = "tiers: { free: { limit: 1, window: 1s } }\n";
    let users = "users: { alice: free }\nrules: []\n";
    check(&[("tiers.yaml", tiers), ("users.yaml", users)], &[]);
    check(&[("users.yaml", users)], &[]);
    check(
        &[("tiers.yaml", tiers), ("users.yaml", "users: { alice: fre }\nrules: []\n")],
        &["users.yaml:1:17: there is no tier `fre`, did you mean `free`?"],
    );
}

#[test]
fn settings_for_all_must_agree() {
    let one = "tier_from: header:x-plan\nipv6_prefix: 64\ndefault_tier: free\ntiers: { free: { limit: 1, window: 1s } }\n";
    let same = "tier_from: [header:X-Plan]\nipv6_prefix: 64\ndefault_tier: free\nrules: []\n";
    check(&[("a.yaml", one), ("b.yaml", same)], &[]);
    let other = "tier_from: attribute:plan\nipv6_prefix: 48\nusers: { u: free }\ntiers: { paid: { limit: 1, window: 1s } }\ndefault_tier: paid\nrules: []\n";
    check(
        &[("a.yaml", one), ("b.yaml", other), ("c.yaml", "users: { u: paid }\n")],
        &[
            "b.yaml:1:12: `tier_from` is different at a.yaml:1:12; it holds for all rules: keep one",
            "b.yaml:2:14: `ipv6_prefix` is different at a.yaml:2:14; it holds for all rules: keep one",
            "b.yaml:5:15: `default_tier` is different at a.yaml:3:15; it holds for all rules: keep one",
            "c.yaml:1:13: user `u` is in another tier at b.yaml:3:13; keep one",
        ],
    );
    // A user and a tenant of one name have nothing to do with each other.
    let plans = "plans: { a: 1, b: 2 }\nusers: { u: a }\ntenants: { u: b }\nrules: []\n";
    check(
        &[("a.yaml", plans), ("b.yaml", "tenants: { u: a }\n")],
        &["b.yaml:1:15: tenant `u` is in another tier at a.yaml:3:15; keep one"],
    );
    check(
        &[("a.yaml", "tenants: { u: premum }\nrules: []\n"), ("b.yaml", "plans: { premium: 1 }\n")],
        &["a.yaml:1:15: there is no tier `premum`, did you mean `premium`?"],
    );
}

#[test]
fn the_problems_of_all_texts_come_together() {
    check(
        &[("a.yaml", "rules: [1]\n"), ("b.yaml", "version: x\n"), ("c.yaml", RULE), ("d.yaml", RULE)],
        &[
            "a.yaml:1:9: a rule must be a mapping, not the number `1`; write it like `{ rule_id: orders, identifier_type: user_id, limit: 10, window: 1s }`",
            "b.yaml:1:10: `version` must be a whole number, 0 or more, not the text `x`",
            "d.yaml:1:10: there is already a rule `a` at c.yaml:1:10; rename one of them",
        ],
    );
}

#[test]
fn tiers_that_could_not_be_read_are_not_missed() {
    let broken = "tiers: { free: { limit: 1, window: 1s }\n";
    let users = "users: { alice: free }\nrules: []\n";
    let sources = [Source { name: "tiers.yaml", text: broken }, Source { name: "users.yaml", text: users }];
    let problems = load(&sources, 1).unwrap_err();
    assert!(problems.list().iter().all(|problem| &*problem.file == "tiers.yaml"), "{problems}");
}

#[test]
fn saying_nothing_about_rules_is_a_mistake() {
    let document = read(&Source { name: "a.yaml", text: "version: 1\n" }).unwrap();
    let problems = compile(vec![document], 1).unwrap_err();
    assert!(problems.to_string().contains("`rules: []`"));
}

#[test]
fn bytes_that_are_no_text_are_reported_with_their_place() {
    assert_eq!(decode("a.yaml", b"rules: []").unwrap(), "rules: []");
    let problem = decode("a.yaml", b"rules:\n  - \xff").unwrap_err();
    assert_eq!(problem.to_string(), "a.yaml:2:5: byte 0xff is not UTF-8; save the text as UTF-8");
}

//! One rule changes, and nothing around it.

use std::fmt::Write as _;
use std::fs;

use proptest::prelude::*;
use tidegate_rules::{EXAMPLE, EditError, Source, put_rule, read, remove_rule, rule_text, split, to_json};

use crate::folder;

fn source(text: &str) -> Source<'_> {
    Source { name: "text", text }
}

fn put(text: &str, id: &str, rule: &str) -> String {
    put_rule(&source(text), id, rule).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn removed(text: &str, id: &str) -> String {
    remove_rule(&source(text), id).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn text_of(text: &str, id: &str) -> String {
    rule_text(&source(text), id).unwrap_or_else(|error| panic!("{error}\n{text}")).unwrap()
}

fn ids(text: &str) -> Vec<String> {
    let document = read(&source(text)).unwrap_or_else(|problems| panic!("{problems}\n{text}"));
    document.rules().map(|rule| rule.id.to_string()).collect()
}

const NEW: &str = "rule_id: b\nidentifier_type: global\nlimit: 9 # less\nwindow: 1s\n";
const NEW_JSON: &str = r#"{"rule_id": "b", "identifier_type": "global", "limit": 9, "window": "1s"}"#;

/// Two rules and all kinds of things around them, with `@` where the second one is.
const BLOCK: &str = "\
# Head.
version: 3   # odd   spacing
defaults: {on_store_failure: deny}

rules:
  # About a.
  - rule_id: a
    identifier_type: global
    limit: 1
    window: 1s
    # burst: 3

  # Not about b.

  # About b.
@
  # About c.
  -   { rule_id: c, identifier_type: global, limit: 1, window: 1s }
# Foot.
ipv6_prefix: 64
";

const BLOCK_B: &str = "  - rule_id: b # second\n    identifier_type: global\n\n    # Half.\n    limit: 5\n    window: 1s\n    description: |\n      # no comment\n      text\n    # burst: 7\n";

#[test]
fn an_item_of_a_block_list() {
    let text = BLOCK.replace("@\n", BLOCK_B);
    let own = "# About b.\nrule_id: b # second\nidentifier_type: global\n\n# Half.\nlimit: 5\nwindow: 1s\n\
               description: |\n  # no comment\n  text\n# burst: 7\n";
    assert_eq!(text_of(&text, "b"), own);
    assert_eq!(put(&text, "b", own), text);
    let new = "  - rule_id: b\n    identifier_type: global\n    limit: 9 # less\n    window: 1s\n";
    assert_eq!(put(&text, "b", NEW), BLOCK.replace("@\n", new));
    assert_eq!(put(&text, "b", NEW_JSON), BLOCK.replace("@\n", &new.replace(" # less", "")));
    assert_eq!(
        put(&text, "b", &format!("rules:\n- {}", NEW.replace('\n', "\n  "))),
        BLOCK.replace("@\n", new)
    );
    let commented = format!("# Other.\n{NEW}");
    assert_eq!(
        put(&text, "b", &commented),
        BLOCK.replace("  # About b.\n@\n", &format!("  # Other.\n{new}"))
    );
    assert_eq!(removed(&text, "b"), BLOCK.replace("  # About b.\n@\n", ""));
    assert_eq!(
        text_of(&text, "c"),
        "# About c.\n{ rule_id: c, identifier_type: global, limit: 1, window: 1s }\n"
    );
    assert_eq!(rule_text(&source(&text), "d").unwrap(), None);
}

#[test]
fn a_rule_is_added_after_the_last_one() {
    let text = BLOCK.replace("@\n", BLOCK_B);
    let rule = NEW.replace("rule_id: b", "rule_id: d");
    let added = put(&text, "d", &format!("# About d.\n{rule}"));
    let expected = "  # About d.\n  -   rule_id: d\n      identifier_type: global\n      limit: 9 # less\n      window: 1s\n";
    assert_eq!(added, text.replace("# Foot.\n", &format!("{expected}# Foot.\n")));
    assert_eq!(removed(&added, "d"), text);
    let apart = "- {rule_id: a, identifier_type: global, limit: 1, window: 1s}\n\n- {rule_id: b, identifier_type: global, limit: 1, window: 1s}";
    let json = NEW_JSON.replace("\"b\"", "\"d\"");
    assert_eq!(
        put(apart, "d", &json),
        format!("{apart}\n\n- rule_id: d\n  identifier_type: global\n  limit: 9\n  window: 1s")
    );
}

/// A text, the rule `b` put into it, and the rule `b` removed from that.
#[test]
fn wherever_rules_may_be() {
    let a = "{rule_id: a, identifier_type: global, limit: 1, window: 1s}";
    let a_json = r#"{"rule_id": "a", "identifier_type": "global", "limit": 1, "window": "1s"}"#;
    let block = "rule_id: b\n    identifier_type: global\n    limit: 9 # less\n    window: 1s\n";
    let flow = "{rule_id: b, identifier_type: global, limit: 9, window: 1s}";
    for (text, with) in [
        ("rules: []\n".to_owned(), format!("rules:\n  - {block}")),
        ("rules: []   # none\nversion: 1\n".to_owned(), format!("rules:   # none\n  - {block}version: 1\n")),
        ("version: 1".to_owned(), format!("version: 1\nrules:\n  - {}", block.trim_end())),
        ("version: 1\r\n".to_owned(), format!("version: 1\nrules:\n  - {block}").replace('\n', "\r\n")),
        (format!("{{version: 1, rules: [{a}]}}"), format!("{{version: 1, rules: [{a}, {flow}]}}")),
        (format!("rules: [\n  {a}, # x\n]\n"), format!("rules: [\n  {a}, # x\n  {flow}\n]\n")),
        (format!("rules: [\n  {a} # x\n]\n"), format!("rules: [\n  {a}, # x\n  {flow}\n]\n")),
        (
            format!("- {}\n", a.replace("1s", "1s, ")),
            format!("- {}\n- {}", a.replace("1s", "1s, "), block.replace("\n    ", "\n  ")),
        ),
        (format!("rules: [{a},]\n"), format!("rules: [{a}, {flow}]\n")),
        (
            "  version: 1\n".to_owned(),
            format!("  version: 1\n  rules:\n    - {}", block.replace("\n    ", "\n      ")),
        ),
        (format!("- {a}\n"), format!("- {a}\n- {}", block.replace("\n    ", "\n  "))),
        (format!("{a}\n"), format!("{a}\n---\n{NEW}")),
        (format!("--- {a}\n...\n"), format!("--- {a}\n---\n{NEW}...\n")),
        (
            format!("\u{feff}rules:\n- {a}\n"),
            format!("\u{feff}rules:\n- {a}\n- {}", block.replace("\n    ", "\n  ")),
        ),
        (format!("[{a_json}]"), format!("[{a_json}, {NEW_JSON}]")),
        (format!("[\n  {a_json} // x\n]\n"), format!("[\n  {a_json}, // x\n  {NEW_JSON}\n]\n")),
        (r#"{"rules": []}"#.to_owned(), format!(r#"{{"rules": [{NEW_JSON}]}}"#)),
        (
            r#"{"version": 1 /* x */}"#.to_owned(),
            format!(r#"{{"version": 1, "rules": [{NEW_JSON}] /* x */}}"#),
        ),
    ] {
        assert_eq!(put(&text, "b", NEW), with, "{text}");
        let without = removed(&with, "b");
        assert_eq!(ids(&without), ids(&text), "{without}");
        if ids(&text).len() == 1 && !text.contains(",]") && !text.contains(", #") {
            let lines = |text: &str| text.replace(",\n", "\n").replace(", //", " //").replace(", #", " #");
            assert_eq!(lines(&without), lines(&text));
        }
        assert_eq!(ids(&put(&without, "b", NEW_JSON)), ids(&with));
    }
}

#[test]
fn json_stays_json() {
    let text = fs::read_to_string(folder("tests/good/concatenated_with_comments.json")).unwrap();
    let login = text_of(&text, "login_attempt_ip");
    assert!(login.starts_with("// Another example: IP-based limit for login attempts\n{\n"), "{login}");
    assert_eq!(put(&text, "login_attempt_ip", &login), text);
    let yaml = "# New.\nrule_id: login_attempt_ip\nidentifier_type: ip_address\nlimit: 7\nwindow: 1s\nmatch: { methods: [POST] }\n";
    let changed = put(&text, "login_attempt_ip", yaml);
    let (kept, new) = changed.split_once("// New.\n").unwrap();
    assert_eq!(kept, text.split_once("// Another").unwrap().0);
    assert_eq!(
        new,
        "{\n  \"rule_id\": \"login_attempt_ip\",\n  \"identifier_type\": \"ip_address\",\n  \"limit\": 7,\n  \
         \"window\": \"1s\",\n  \"match\": {\"methods\": [\"POST\"]}\n}\n"
    );
    assert_eq!(removed(&text, "login_attempt_ip"), format!("{}", text.split_once("// Another").unwrap().0));
}

#[test]
fn the_last_rule_leaves_an_empty_list() {
    for (text, left) in [
        (NEW.to_owned(), "rules: []\n"),
        (format!("# Head.\n\n{NEW}"), "# Head.\n\nrules: []\n"),
        (format!("- {}", NEW.trim_end().replace('\n', "\n  ")), "rules: []"),
        (format!("rules: # all\n- {}\n", NEW.trim_end().replace('\n', "\n  ")), "rules: [] # all\n"),
        (format!("rules: [{NEW_JSON}]\n"), "rules: []\n"),
        (format!("[{NEW_JSON}]\n"), "[]\n"),
        (NEW_JSON.to_owned(), r#"{"rules": []}"#),
        (format!("{NEW}---\nrules: []\n"), "---\nrules: []\n"),
        (format!("version: 1\n---\n{NEW}"), "version: 1\n---\nrules: []\n"),
    ] {
        assert_eq!(removed(&text, "b"), left, "{text}");
        assert_eq!(ids(left), Vec::<String>::new());
    }
}

#[test]
fn texts_fall_apart_into_rules() {
    let json = fs::read_to_string(folder("tests/good/concatenated_with_comments.json")).unwrap();
    let documents =
        format!("# One.\n{NEW}---\n- {{rule_id: c, identifier_type: global, limit: 1, window: 1s}}\n");
    for (text, ids) in
        [(json.as_str(), vec!["api_user_get_orders", "login_attempt_ip"]), (&documents, vec!["b", "c"])]
    {
        let rules = split(&source(text)).unwrap();
        assert_eq!(rules.iter().map(|(id, _)| id).collect::<Vec<_>>(), ids);
        let meant = |text: &str| read(&source(text)).unwrap().rules().map(to_json).collect::<Vec<_>>();
        assert_eq!(rules.iter().flat_map(|(_, rule)| meant(rule)).collect::<Vec<_>>(), meant(text));
    }
    assert_eq!(split(&source(&documents)).unwrap()[0].1, format!("# One.\n{NEW}"));
    assert_eq!(split(&source("rules: []")).unwrap(), []);
}

#[test]
fn what_is_refused_and_why() {
    let envoy = "domain: d\ndescriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 1}}]\n";
    let tiers = r#"{"rate_limits": {"basic": {"limit": 1, "window": "1s"}}}"#;
    let anchors = fs::read_to_string(folder("tests/good/anchors.yaml")).unwrap();
    let say = |error: EditError| error.to_string();
    let no_put = |text: &str, rule: &str| say(put_rule(&source(text), "b", rule).unwrap_err());
    for (said, expected) in [
        (no_put(envoy, NEW), "`descriptors` does not write its rules one by one; change the whole document"),
        (no_put(tiers, NEW), "`rate_limits` does not write its rules one by one; change the whole document"),
        (say(rule_text(&source(envoy), "d.k").unwrap_err()), "`descriptors` does not write"),
        (say(remove_rule(&source(tiers), "tier").unwrap_err()), "`rate_limits` does not write"),
        (say(split(&source(envoy)).unwrap_err()), "`descriptors` does not write"),
        (
            say(split(&source(BLOCK.replace("@\n", BLOCK_B).as_str())).unwrap_err()),
            "the text says more than rules (`version`, `defaults`, `ipv6_prefix`), which would be lost; store it as a whole document",
        ),
        (
            say(remove_rule(&source("rules: []"), "b").unwrap_err()),
            "there is no rule `b`; name one that is there",
        ),
        (
            say(remove_rule(&source("rules: ["), "b").unwrap_err()),
            "the text has problems already; fix them first\ntext:2:",
        ),
        (no_put("rules: []", "rule_id: b\nlimt: 1\n"), "the rule has problems\nb:"),
        (no_put("rules: []", "rules: []"), "there is no rule in it; write exactly one"),
        (
            no_put("rules: []", &format!("[{NEW_JSON}, {}]", NEW_JSON.replace("\"b\"", "\"c\""))),
            "these are 2 rules",
        ),
        (
            no_put("rules: []", &NEW.replace("_id: b", "_id: c")),
            "the rule is called `c` and not `b`; change its `rule_id`",
        ),
        (
            no_put("rules: []", &format!("version: 1\nrules: [{NEW_JSON}]")),
            "the text says more than rules (`version`)",
        ),
        (
            say(remove_rule(&source(&anchors), "base").unwrap_err()),
            "rule `base` shares values with the rest of the text",
        ),
        (say(rule_text(&source(&anchors), "other").unwrap_err()), "rule `other` shares values"),
    ] {
        assert!(said.starts_with(expected), "{said}\n{expected}");
    }
    let descriptor = "descriptor: { domain: d, entries: [{ key: k }] }\nlimit: 1\nwindow: 1s\n";
    let twice =
        put_rule(&source(&format!("rule_id: a\n{descriptor}")), "b", &format!("rule_id: b\n{descriptor}"));
    assert!(matches!(&twice, Err(error @ EditError::Outcome(_)) if error.problems().is_some()), "{twice:?}");
}

#[test]
fn anchors_within_a_rule_do_no_harm() {
    let text = "rules:\n- &r\n  rule_id: b\n  identifier_type: &i global\n  limit: 1\n  window: 1s\n  match: { required_attributes: { x: *i } }\n- {rule_id: c, identifier_type: global, limit: 1, window: 1s}\n";
    let own = text_of(text, "b");
    assert!(own.starts_with("&r\nrule_id: b\n"), "{own}");
    let again = put(text, "b", &own);
    assert_eq!(ids(&again), ["b", "c"]);
    assert_eq!(put(&again, "b", &text_of(&again, "b")), again);
    assert_eq!(removed(text, "b"), "rules:\n- {rule_id: c, identifier_type: global, limit: 1, window: 1s}\n");
}

#[test]
fn every_good_text_can_be_changed_and_changed_back() {
    let mut texts: Vec<String> = fs::read_dir(folder("tests/good"))
        .unwrap()
        .map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap())
        .collect();
    texts.push(EXAMPLE.to_owned());
    for text in texts {
        for id in ids(&text) {
            match rule_text(&source(&text), &id) {
                Ok(rule) => {
                    assert_eq!(put(&text, &id, &rule.unwrap()), text);
                    assert!(!ids(&removed(&text, &id)).contains(&id));
                }
                Err(EditError::Form(_) | EditError::Alias(_)) => {}
                Err(error) => panic!("{error}\n{text}"),
            }
        }
    }
}

#[test]
fn a_long_text_is_changed_in_time() {
    let mut text = "rules:\n".to_owned();
    for number in 0..5_000 {
        writeln!(
            text,
            "  - {{ rule_id: r{number}, identifier_type: global, limit: 1, window: 1s }} # \u{e9}"
        )
        .unwrap();
    }
    let changed = put(&text, "r3000", &NEW.replace("rule_id: b", "rule_id: r3000"));
    assert_eq!(changed.lines().count(), text.lines().count() + 3);
    assert_eq!(split(&source(&text)).unwrap().len(), 5_000);
    let one = |number| NEW_JSON.replace("\"b\"", &format!("\"r{number}\""));
    let all: Vec<String> = (0..5_000).map(one).collect();
    assert_eq!(split(&source(&all.join(""))).unwrap().len(), 5_000);
    assert_eq!(split(&source(&format!("[{}]", all.join(",")))).unwrap().len(), 5_000);
}

#[test]
fn many_aliases_are_no_matter() {
    let mut text = "- &a {rule_id: a, identifier_type: &i global, limit: 1, window: 1s}\n".to_owned();
    for number in 0..5_000 {
        writeln!(text, "- {{rule_id: r{number}, identifier_type: *i, limit: 1, window: 1s}}").unwrap();
    }
    text.push_str(&format!("- {}", NEW.replace('\n', "\n  ")));
    assert!(matches!(split(&source(&text)), Err(EditError::Alias(id)) if &*id == "a"));
    assert_eq!(ids(&removed(&text, "b")).len(), 5_001);
}

/// A rule in one of the ways people write it, at an indentation, as an item or alone.
fn rule_lines(id: usize, style: u8, indent: usize) -> String {
    let pad = " ".repeat(indent);
    let lines = match style % 5 {
        0 => format!("rule_id: r{id}\nidentifier_type: global\nlimit: {id}\nwindow: 1s\n"),
        1 => format!(
            "rule_id: r{id} # x\n# Why.\nidentifier_type: [user_id, \"path\"]\n\nlimit: 1\nwindow: 1s # y\n"
        ),
        2 => format!("{{ rule_id: r{id}, identifier_type: global,\n  limit: 1, window: 1s }}\n"),
        3 => format!(
            "rule_id: r{id}\nidentifier_type: user_id\nlimit: 1\nwindow: 1s\ndescription: >-\n  one\n\n  - two\n"
        ),
        _ => format!(
            "match:\n  methods:\n  - GET\n  path_pattern: /a/*\nlimit: 1\nwindow: 1s\nidentifier_type: global\nrule_id: 'r{id}'\n"
        ),
    };
    lines
        .lines()
        .map(|line| if line.is_empty() { "\n".to_owned() } else { format!("{pad}{line}\n") })
        .collect()
}

fn between() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["", "", "\n", "# c\n", "\n# - c\n\n", "# rule_id: x\n# y\n", "\n\n"])
}

/// A text with rules `r0`, `r1`, … and things between them.
fn document() -> impl Strategy<Value = (String, usize)> {
    let rules = prop::collection::vec((any::<u8>(), between(), 1usize..4), 1..5);
    (rules, 0u8..4, 0usize..3, any::<bool>(), any::<bool>()).prop_map(
        |(rules, layout, indent, ended, pairs)| {
            let count = rules.len();
            let mut text = match layout {
                0 => "# Head.\nversion: 1\nrules: # all\n".to_owned(),
                1 => "---\n".to_owned(),
                2 => "version: 2\nrules: [\n".to_owned(),
                _ => "# Head.\n\n".to_owned(),
            };
            let indent = if layout == 0 { indent } else { 0 };
            for (id, (style, between, gap)) in rules.into_iter().enumerate() {
                let pad = " ".repeat(indent);
                between.lines().for_each(|line| {
                    writeln!(text, "{}{line}", if line.is_empty() { "" } else { &pad }).unwrap();
                });
                match layout {
                    0 | 1 => {
                        let item = rule_lines(id, style, indent + 1 + gap);
                        write!(text, "{pad}-{}", &item[indent + 1..]).unwrap();
                    }
                    2 => {
                        let comma = if id + 1 < count || ended { "," } else { "" };
                        writeln!(text, "{}{comma} # z", rule_lines(id, 2, 2).trim_end()).unwrap();
                    }
                    _ => {
                        write!(text, "{}{}", if id > 0 { "---\n" } else { "" }, rule_lines(id, style, 0))
                            .unwrap();
                    }
                }
            }
            text.push_str(if layout == 2 { "]\n# Foot.\n" } else { "" });
            if layout == 0 {
                text.push_str("# Foot.\nipv6_prefix: 60\n");
            }
            if !ended && layout != 2 {
                text.truncate(text.trim_end().len());
            }
            (if pairs { text.replace('\n', "\r\n") } else { text }, count)
        },
    )
}

/// A text of one of many kinds with something put into it that it may bear.
fn slipped() -> impl Strategy<Value = String> {
    let good = |name: &str| fs::read_to_string(folder("tests/good").join(name)).unwrap();
    let texts = vec![
        BLOCK.replace("@\n", BLOCK_B),
        good("everything.yaml"),
        good("concatenated_with_comments.json"),
        good("documents.yaml"),
        good("list.json"),
        good("anchors.yaml"),
        format!(
            "rules: [\n  # x\n  {NEW_JSON}, # y\n  {{rule_id: c, identifier_type: global, limit: 1,\n   window: 1s}}\n]\n"
        ),
    ];
    let slip = "( |\n|# c\n|\n# d\n\n|  |\r\n| # e| # f\n|\n---\n|&q |,|\t|//c\n|/\\* x \\*/|\n  # g\n|\n\\.\\.\\.\n|[\\-:{}\"'\u{e9}]|)";
    (prop::sample::select(texts), any::<prop::sample::Index>(), slip).prop_map(|(mut text, at, slip)| {
        text.insert_str(at.index(text.len()), &slip);
        text
    })
}

/// Whether `shorter` is `longer` without some of its lines, or of the commas at their ends.
fn is_rest_of(shorter: &str, longer: &str) -> bool {
    let mut lines = longer.lines();
    shorter.lines().all(|line| {
        lines.any(|other| other == line || other.strip_suffix(", # z") == line.strip_suffix(" # z"))
    })
}

proptest! {
    // Each case reads a dozen texts.
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn a_rule_is_put_where_it_was((text, count) in document(), which in any::<prop::sample::Index>(), new in any::<u8>()) {
        let id = format!("r{}", which.index(count));
        let own = text_of(&text, &id);
        prop_assert_eq!(put(&text, &id, &own), text.clone(), "identity");
        let other = rule_lines(which.index(count), new, 0);
        let changed = put(&text, &id, &other);
        prop_assert_eq!(ids(&changed), ids(&text));
        prop_assert_eq!(put(&changed, &id, &other), changed.clone(), "stable");
        prop_assert_eq!(put(&changed, &id, &own), text.clone(), "there and back\n{}", changed);
    }

    #[test]
    fn the_rest_stays_when_a_rule_goes((text, count) in document(), which in any::<prop::sample::Index>()) {
        let id = format!("r{}", which.index(count));
        let own = text_of(&text, &id);
        let rest = removed(&text, &id);
        prop_assert!(!ids(&rest).contains(&id));
        if count > 1 {
            prop_assert!(is_rest_of(&rest, &text), "{}\n=>\n{}", text, rest);
        }
        let back = put(&rest, &id, &own);
        prop_assert_eq!(ids(&back).pop(), Some(id.clone()));
        prop_assert_eq!(rule_text(&source(&back), "r99").unwrap(), None);
        for other in (0..count).map(|index| format!("r{index}")).filter(|other| *other != id) {
            prop_assert_eq!(text_of(&back, &other), text_of(&text, &other));
        }
        let json = to_json(read(&source(&own)).unwrap().rules().next().unwrap()).to_string();
        prop_assert_eq!(ids(&put(&rest, &id, &json)), ids(&back));
        prop_assert_eq!(ids(&put(&text, &id, &json)), ids(&text));
    }

    #[test]
    fn no_text_does_harm(text in "([\\[\\]{}:,\"'#&*!|>%@`\\-? \n\r\t]|rules:|rule_id: b|//|---|- |: |a|\u{e9}){0,40}", rule in "\\PC{0,30}") {
        let _ = (rule_text(&source(&text), "b"), remove_rule(&source(&text), "b"), split(&source(&text)));
        let _ = (put_rule(&source(&text), "b", NEW), put_rule(&source("rules: []"), "b", &rule));
    }

    #[test]
    fn no_slip_does_harm(text in slipped(), style in 0u8..6) {
        let Ok(document) = read(&source(&text)) else { return Ok(()) };
        let others = |text: &str, but: &str| -> Vec<_> {
            read(&source(text)).unwrap().rules().filter(|rule| &*rule.id != but).map(to_json).collect()
        };
        for id in document.rules().map(|rule| rule.id.to_string()).chain(["fresh".to_owned()]) {
            let rule = if style == 5 { NEW_JSON.replace("\"b\"", &format!("\"{id}\"")) } else { rule_lines(7, style, 0).replace("r7", &id) };
            if let Ok(changed) = put_rule(&source(&text), &id, &rule) {
                prop_assert_eq!(others(&changed, &id), others(&text, &id));
                prop_assert_eq!(put(&changed, &id, &rule), changed.clone(), "stable");
                prop_assert_eq!(put(&changed, &id, &text_of(&changed, &id)), changed, "identity");
            }
            if let Ok(changed) = remove_rule(&source(&text), &id) {
                prop_assert_eq!(others(&changed, &id), others(&text, &id));
            }
        }
    }
}

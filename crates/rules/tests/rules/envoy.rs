//! Rules about descriptors, in both forms.

use tidegate_core::descriptor::{DescriptorMatch, Entry, Hits, ValuePattern};
use tidegate_core::rule::{Allowance, OnMissingIdentity, OnStoreFailure};
use tidegate_core::{Algorithm, Descriptor, Quota, Rule, RuleSet, Secret, Span};
use tidegate_rules::{Source, load};

use crate::good::rule_set;

fn parse(text: &str) -> RuleSet {
    load(&[Source { name: "text", text }], 1).unwrap_or_else(|problems| panic!("{problems}"))
}

fn about(rule: &Rule) -> &DescriptorMatch {
    rule.descriptor.as_ref().unwrap()
}

/// `key=value` per entry; `~` before what is shared, `!` after what metrics show.
fn path(rule: &Rule) -> String {
    let entries = about(rule).entries.iter().map(|entry| {
        let (shared, shown) = (if entry.shared { "~" } else { "" }, if entry.in_metric { "!" } else { "" });
        let value = entry.value.text().map(|value| format!("={value}")).unwrap_or_default();
        format!("{shared}{}{value}{shown}", entry.key)
    });
    entries.collect::<Vec<_>>().join(" ")
}

fn figures(rule: &Rule) -> String {
    match rule.allowance {
        Allowance::Unlimited => "unlimited".to_owned(),
        Allowance::Tiered | Allowance::Planned(_) => "tiered".to_owned(),
        Allowance::Fixed(quota) => {
            let (limit, window, capacity) = (quota.limit(), quota.window(), quota.capacity());
            format!("{limit}/{window} {} {capacity}", quota.algorithm())
        }
    }
}

fn domains(rules: &RuleSet) -> Vec<&str> {
    let mut names: Vec<_> = rules.domains().collect();
    names.sort_unstable();
    names
}

fn charges_refused(rules: &RuleSet, domain: &str) -> bool {
    let limit = Quota::new(Algorithm::FixedWindow, 1, Span::from_secs(1)).ok();
    let entries = [Entry { key: "any", value: "" }].into_iter().collect();
    let brought = Descriptor { entries, limit, hits: Hits::Take(1) };
    !rules.demand_descriptors(domain, &[brought], &Secret::new([0; 16])).apart.is_empty()
}

#[test]
fn a_file_for_envoy_is_a_rule_per_limit() {
    let rules = rule_set("envoy.yaml");
    let all: Vec<_> = rules.rules().map(|rule| (&*rule.id, path(rule), figures(rule))).collect();
    let expected = [
        (
            "messaging.message_type_marketing.to_number",
            "message_type=marketing! to_number",
            "5/1d fixed_window 5",
        ),
        (
            "messaging.message_type_marketing.to_number_112",
            "message_type=marketing! to_number=112",
            "unlimited",
        ),
        ("messaging.to_number", "to_number", "100/2w fixed_window 100"),
        ("messaging.path_-files--.pdf-DIGEST", "~path=/files/*.pdf", "10/90s token_bucket 30"),
        (
            "messaging.path_-files--.pdf.anonymous_True-DIGEST",
            "~path=/files/*.pdf anonymous=True",
            "0/30d fixed_window 0",
        ),
        (
            "messaging.path_-files--.pdf.anonymous_false-DIGEST",
            "~path=/files/*.pdf anonymous=false",
            "unlimited",
        ),
        ("messaging.status_4.10", "status=4.10", "unlimited"),
        ("messaging.a_b-DIGEST", "a_b", "1/1s sliding_window 1"),
        ("messaging.a_b-DIGEST", "a=b", "4294967295/365d fixed_window 4294967295"),
    ];
    assert_eq!(all.len(), expected.len());
    for ((id, path, figures), (expected_id, expected_path, expected_figures)) in all.iter().zip(expected) {
        match expected_id.strip_suffix("-DIGEST") {
            Some(start) => assert!(id.starts_with(start) && id.len() == start.len() + 9, "{id}"),
            None => assert_eq!(*id, expected_id),
        }
        assert_eq!((path.as_str(), figures.as_str()), (expected_path, expected_figures));
    }
    assert_eq!(domains(&rules), ["42", "messaging", "nothing"]);
    assert!(charges_refused(&rules, "messaging") && !charges_refused(&rules, "42"));
}

#[test]
fn flags_belong_to_their_descriptor() {
    let rules = rule_set("envoy.yaml");
    let numbers = rules.get("messaging.to_number").unwrap();
    assert_eq!(numbers.description.as_deref(), Some("Per number and fortnight"));
    assert_eq!((numbers.shadow, numbers.on_store_failure), (true, OnStoreFailure::Deny));
    let about_numbers = about(numbers);
    assert!(about_numbers.quota_mode && about_numbers.detailed_metric);
    assert_eq!(about_numbers.name.as_deref(), Some("numbers"));
    assert_eq!(about_numbers.replaces, [Box::from("all"), Box::from("7")]);
    let others = rules.rules().filter(|rule| rule.id != numbers.id);
    for rule in others {
        assert_eq!((rule.shadow, rule.on_store_failure), (false, OnStoreFailure::Allow), "{}", rule.id);
        assert!(!about(rule).quota_mode && !about(rule).detailed_metric && about(rule).name.is_none());
    }
}

/// The reference reads older YAML into Go: words are flags, and a key without a value is none.
#[test]
fn what_older_yaml_says_is_understood() {
    let rules = parse(
        "domain: d\ndescriptors:\n- key: a\n  value:\n  rate_limit:\n  descriptors: ~\n  shadow_mode: Yes\n  \
         quota_mode: off\n- key: b\n  rate_limit: { unit: hour, requests_per_unit: 1, name: null, replaces: }\n",
    );
    let all: Vec<_> = rules.rules().map(|rule| (&*rule.id, figures(rule), rule.shadow)).collect();
    let b = "1/1h fixed_window 1".to_owned();
    assert_eq!(all, [("d.a", "unlimited".to_owned(), true), ("d.b", b, false)]);
}

#[test]
fn json_will_do() {
    let rules = rule_set("envoy.json");
    let ids: Vec<_> = rules.rules().map(|rule| &*rule.id).collect();
    assert_eq!(ids, ["edge.remote_address", "edge.remote_address_192.0.2.1"]);
}

#[test]
fn what_is_exempt_and_what_only_leads_further() {
    let rules = parse(
        "domain: d\ndescriptors:\n- { key: a, rate_limit: { unit: day, requests_per_unit: 1 } }\n- { key: a, value: x }\n\
         - { key: a, value: y, descriptors: [{ key: b, rate_limit: { unit: day, requests_per_unit: 2 } }] }\n",
    );
    let met = |entries: &[(&str, &str)]| {
        let entries = entries.iter().map(|&(key, value)| Entry { key, value }).collect();
        let descriptor = Descriptor { entries, limit: None, hits: Hits::Take(1) };
        format!("{:?}", rules.demand_descriptors("d", &[descriptor], &Secret::new([0; 16])).asked)
    };
    assert_eq!(met(&[("a", "z")]), "[Counted(0)]");
    assert_eq!(met(&[("a", "x")]), "[Unlimited(1)]");
    assert_eq!(met(&[("a", "y")]), "[Nothing]");
    assert_eq!(met(&[("a", "y"), ("b", "z")]), "[Counted(2)]");
}

#[test]
fn tidegates_own_form_says_the_same() {
    let rules = rule_set("descriptors.yaml");
    let marketing = rules.get("marketing_per_number").unwrap();
    assert_eq!(path(marketing), "message_type=marketing to_number");
    assert_eq!(figures(marketing), "5/1d fixed_window 5");
    assert_eq!(marketing.on_store_failure, OnStoreFailure::Deny);
    assert_eq!(marketing.on_missing_identity, OnMissingIdentity::default());
    assert_eq!((marketing.priority, marketing.shadow), (3, true));
    assert_eq!(about(marketing).replaces, [Box::from("numbers"), Box::from("7")]);
    assert!(about(marketing).quota_mode && about(marketing).detailed_metric);
    let exempt = rules.get("exempt").unwrap();
    assert_eq!((figures(exempt), exempt.on_store_failure), ("unlimited".to_owned(), OnStoreFailure::Allow));
    let files = rules.get("files").unwrap();
    assert_eq!(path(files), "~path=/files/*! authenticated=true");
    assert_eq!(about(files).entries[1].value, ValuePattern::Is("true".into()));
    assert_eq!(figures(files), "10/1m token_bucket 20");
    assert_eq!(domains(&rules), ["edge", "messaging", "quiet"]);
    assert!(charges_refused(&rules, "messaging") && !charges_refused(&rules, "edge"));
}

#[test]
fn domains_may_come_from_several_texts() {
    let rule = "descriptors: [{ key: k, rate_limit: { unit: day, requests_per_unit: 1 } }]";
    let (a, b) = (format!("domain: a\n{rule}\n"), format!("domain: b\n{rule}\n"));
    let terms = "domains: { a: { charge_refused: true } }\nrules: []\n";
    let load = |texts: &[&str]| {
        let names = ["1.yaml", "2.yaml", "3.yaml"];
        let sources: Vec<_> = names.iter().zip(texts).map(|(name, text)| Source { name, text }).collect();
        load(&sources, 1)
    };
    let rules = load(&[&a, &b, terms]).unwrap();
    assert_eq!((rules.len(), domains(&rules)), (2, vec!["a", "b"]));
    assert!(charges_refused(&rules, "a") && !charges_refused(&rules, "b"));
    let problems = load(&[&a, &b, &a]).unwrap_err();
    assert!(problems.list()[0].to_string().starts_with(
        "3.yaml:1:9: domain `a` is already described at 1.yaml:1:9; put all its descriptors there"
    ));
}

#[test]
fn many_descriptors_load() {
    let mut text = "domain: d\ndescriptors:\n".to_owned();
    for number in 0..20_000 {
        text += &format!(
            "  - {{ key: user, value: u{number}, rate_limit: {{ unit: day, requests_per_unit: 1 }} }}\n"
        );
    }
    assert_eq!(parse(&text).len(), 20_000);
}

#[test]
fn the_documentation_is_right() {
    let page = std::fs::read_to_string(crate::folder("../../docs/rules.md")).unwrap();
    let examples: Vec<RuleSet> = page
        .split("```yaml\n")
        .filter(|block| block.starts_with("domain"))
        .map(|block| parse(block.split("```").next().unwrap()))
        .collect();
    let [envoy, own] = examples.as_slice() else { panic!("two examples, not {}", examples.len()) };
    let said = |rules: &RuleSet| rules.rules().map(|rule| (path(rule), figures(rule))).collect::<Vec<_>>();
    assert_eq!(said(envoy), said(own));
    assert!(page.contains(&*envoy.rule(0).id));
}

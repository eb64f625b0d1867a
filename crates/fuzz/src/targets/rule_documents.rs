//! Rule documents, as files, the admin API and databases have them.

use tidegate_rules::{Source, convert, load, put_rule, read, rule_text, split, to_json};

const PUT: &str = "{rule_id: put, identifier_type: global, limit: 1, window: 1s}";

/// A document that can be read can be written again, taken apart and changed, and means what it meant.
pub(crate) fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let source = Source { name: "fuzz.yaml", text };
    if let Err(problems) = read(&source) {
        assert!(!problems.to_string().is_empty(), "refused without a reason");
        return;
    }
    split(&source).ok();
    let Ok(rules) = load(&[source], 1) else { return };
    for rule in rules.rules() {
        let written = to_json(rule).to_string();
        let again = load(&[Source { name: "again.json", text: &written }], 1);
        // Tiers and plans are no part of a rule.
        if rules.tiers().is_empty() && rules.plans().is_empty() {
            assert!(again.is_ok(), "{written}: {:?}", again.err());
        }
        rule_text(&source, &rule.id).ok();
    }
    if let Ok(changed) = put_rule(&source, "put", PUT) {
        let changed = load(&[Source { name: "changed.yaml", text: &changed }], 1);
        let changed = changed.unwrap_or_else(|problems| panic!("a rule was put, and then: {problems}"));
        let new = usize::from(rules.rules().all(|rule| &*rule.id != "put"));
        assert_eq!(changed.rules().count(), rules.rules().count() + new);
    }
    let converted = convert(&[source]).unwrap_or_else(|problems| panic!("loaded, not converted: {problems}"));
    let again = load(&[Source { name: "converted.yaml", text: &converted }], 1);
    let again = again
        .unwrap_or_else(|problems| panic!("converted to what cannot be loaded: {problems}\n{converted}"));
    assert_eq!(again.rules().count(), rules.rules().count(), "{converted}");
}

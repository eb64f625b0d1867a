//! The committed schema is the generated one, and the reader reads all that it names.

use serde_json::Value;
use tidegate_rules::{Source, json_schema, read};

use crate::{check_committed, folder};

#[test]
fn the_committed_schema_is_the_generated_one() {
    let text = format!("{:#}\n", json_schema());
    if let Err(difference) = check_committed(&folder("schema/rules.schema.json"), &text) {
        panic!("{difference}");
    }
}

/// Where a mapping of a shape goes in a document.
const HOLDERS: [(&str, &str); 16] = [
    ("Document", "@"),
    ("RateLimits", "@"),
    ("Defaults", r#"{"defaults": @, "rules": []}"#),
    ("Figures", r#"{"tiers": {"t": @}, "rules": []}"#),
    ("Rule", r#"[@]"#),
    ("Match", r#"[{"match": @}]"#),
    ("Override", r#"[{"overrides": [@]}]"#),
    ("Descriptor", r#"[{"descriptor": @}]"#),
    ("Entry", r#"[{"descriptor": {"entries": [@]}}]"#),
    ("CostSaid", r#"[{"cost": @}]"#),
    ("Charge", r#"[{"charge": @}]"#),
    ("Domain", r#"{"domains": {"d": @}, "rules": []}"#),
    ("EnvoyDomain", "@"),
    ("EnvoyDescriptor", r#"{"domain": "d", "descriptors": [@]}"#),
    ("EnvoyRateLimit", r#"{"domain": "d", "descriptors": [{"key": "k", "rate_limit": @}]}"#),
    ("EnvoyReplaced", r#"{"domain": "d", "descriptors": [{"key": "k", "rate_limit": {"replaces": [@]}}]}"#),
];

/// A value that suits no key at all: if a key of the schema is read, it is refused.
#[test]
fn every_key_of_the_schema_is_read() {
    let schema = json_schema();
    let definitions = schema["$defs"].as_object().unwrap();
    assert_eq!(definitions.len(), HOLDERS.len(), "{:?}", definitions.keys());
    for (shape, holder) in HOLDERS {
        let properties = definitions[shape]["properties"].as_object().unwrap();
        assert_eq!(definitions[shape]["additionalProperties"], Value::Bool(false), "{shape}");
        for key in properties.keys() {
            // What tells such a document from others.
            let extra = match shape {
                "RateLimits" if key != "rate_limits" => r#", "rate_limits": {}"#,
                "EnvoyDomain" if key != "domain" => r#", "domain": "d""#,
                _ => "",
            };
            let text = holder.replace('@', &format!("{{\n\"{key}\":\n[[]]{extra}}}"));
            let problems = read(&Source { name: "x", text: &text }).unwrap_err();
            let refused = problems.list().iter().any(|problem| problem.line == 3);
            assert!(refused, "{key} of {shape} is not read: {problems}");
            let unknown = problems.list().iter().find(|problem| problem.message.starts_with("unknown key"));
            assert!(unknown.is_none(), "{key} of {shape} is not known: {problems}");
        }
    }
}

/// Nothing is said by `null`, and every key explains itself.
#[test]
fn the_schema_is_fit_for_editors() {
    let schema = json_schema();
    assert!(!schema.to_string().contains("null"), "{schema:#}");
    for (shape, definition) in schema["$defs"].as_object().unwrap() {
        for (key, property) in definition["properties"].as_object().unwrap() {
            assert!(property["description"].is_string(), "{key} of {shape} has no description: {property}");
        }
    }
}

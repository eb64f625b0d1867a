//! What is written is read again as the same.

use std::fs;

use serde_json::{Value, json};
use tidegate_rules::{EXAMPLE, Source, read, to_json};

use crate::folder;

fn written(name: &str, text: &str) -> Vec<Value> {
    let document = read(&Source { name, text }).unwrap_or_else(|problems| panic!("{problems}"));
    document.rules().map(to_json).collect()
}

#[test]
fn writing_and_reading_are_inverse() {
    let mut texts: Vec<String> = fs::read_dir(folder("tests/good"))
        .unwrap()
        .map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap())
        .collect();
    texts.push(EXAMPLE.to_owned());
    for text in texts {
        let first = written("text", &text);
        let again = written("written", &format!("{:#}", Value::from(first.clone())));
        assert_eq!(first, again);
    }
}

#[test]
fn a_rule_is_written_as_people_write_it() {
    let text = fs::read_to_string(folder("tests/good/contract.yaml")).unwrap();
    assert_eq!(
        written("contract.yaml", &text),
        [json!({
            "rule_id": "api_user_get_orders",
            "description": "GET /orders/* per signed-in user",
            "identifier_type": "user_id",
            "on_missing_identity": "ip",
            "algorithm": "sliding_window",
            "limit": 50,
            "window": "1m",
            "priority": 10,
            "match": {
                "path_pattern": "/orders/*",
                "methods": ["GET"],
                "requires_authentication": true,
                "required_headers": {"x-client-type": "mobile"},
                "ip_subnet": "192.168.1.0/24",
            },
            "overrides": [{
                "identity": "mallory",
                "limit": 0,
                "window": "1m",
                "algorithm": "sliding_window",
                "until": "2027-01-01T00:00:00Z",
            }],
            "on_store_failure": "local",
        })]
    );
}

#[test]
fn patterns_are_written_as_their_author_wrote_them() {
    for pattern in
        ["/", "/*", "/orders", "/orders/*", "/users/{id}", "/users/{id}/posts/*", "/**/admin", "/caf\u{e9}"]
    {
        let text = json!({"rule_id": "a", "identifier_type": "path", "limit": 1, "window": "1s",
            "match": {"path_pattern": pattern}});
        let rule = &written("a.json", &text.to_string())[0];
        assert_eq!(rule["match"]["path_pattern"], pattern);
        let again = &written("b.json", &rule.to_string())[0];
        assert_eq!(rule, again);
    }
}

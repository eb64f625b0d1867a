//! A request that some rule applies to, for people to try.

use std::net::IpAddr;

use serde_json::{Map, Value, json};
use tidegate_core::descriptor::{DescriptorMatch, EntryPattern};
use tidegate_core::pattern::Segment;
use tidegate_core::rule::Wanted;
use tidegate_core::{Facet, Rule, RuleSet};

/// Where to send what meets the first rule, and its body.
pub(crate) fn request(rules: &RuleSet) -> (&'static str, Value) {
    match rules.rules().find(|rule| !rule.shadow) {
        Some(rule) => match &rule.descriptor {
            Some(about) => ("/json", described(about)),
            None => ("/v1/check", meeting(rule)),
        },
        None => ("/v1/check", json!({ "user": "alice", "method": "GET", "resource": "/" })),
    }
}

/// A question about descriptors that the rule is about.
fn described(about: &DescriptorMatch) -> Value {
    let value = |entry: &EntryPattern| entry.value.text().unwrap_or("a").replace('*', "a");
    let entries = about.entries.iter().map(|entry| json!({ "key": entry.key, "value": value(entry) }));
    json!({ "domain": about.domain, "descriptors": [{ "entries": entries.collect::<Vec<_>>() }] })
}

fn meeting(rule: &Rule) -> Value {
    let condition = &rule.condition;
    let facets = rule.identifier.facets();
    let mut body = Map::new();
    let mut put = |field: &str, value: Value| body.insert(field.to_owned(), value);
    if facets.contains(&Facet::Tenant) {
        put("tenant", json!("acme"));
    }
    if condition.requires_authentication || facets.contains(&Facet::User) {
        put("user", json!("alice"));
    }
    put("method", json!(condition.methods.first().map_or("GET", |method| method)));
    put("resource", json!(path(rule)));
    if !condition.subnets.is_empty() || facets.contains(&Facet::Ip) {
        let ip = condition.subnets.first().map_or(IpAddr::from([203, 0, 113, 7]), ipnet::IpNet::addr);
        put("ip", json!(ip));
    }
    if facets.contains(&Facet::ApiKey) {
        put("api_key", json!("key-1"));
    }
    let headers =
        facets.iter().filter_map(|facet| if let Facet::Header(name) = facet { Some(name) } else { None });
    let attributes =
        facets.iter().filter_map(|facet| if let Facet::Attribute(name) = facet { Some(name) } else { None });
    for (field, wanted) in [
        ("headers", fields(&condition.headers, headers)),
        ("attributes", fields(&condition.attributes, attributes)),
    ] {
        if !wanted.is_empty() {
            put(field, Value::Object(wanted));
        }
    }
    Value::Object(body)
}

/// Fields with the values that are wanted, and with any where none is.
fn fields<'r>(
    wanted: &[(Box<str>, Wanted)],
    counted: impl Iterator<Item = &'r Box<str>>,
) -> Map<String, Value> {
    let any = counted.map(|name| (name.to_string(), json!("a")));
    let exact = wanted.iter().map(|(name, wanted)| match wanted {
        Wanted::Value(value) => (name.to_string(), json!(value)),
        Wanted::Present => (name.to_string(), json!("a")),
    });
    any.chain(exact).collect()
}

/// A path the rule's pattern matches.
fn path(rule: &Rule) -> String {
    let Some(pattern) = &rule.condition.path else { return "/".to_owned() };
    let segments = pattern.segments().iter().filter_map(|segment| match segment {
        Segment::Literal(text) => Some(&**text),
        Segment::One | Segment::Below => Some("7"),
        Segment::Any => None,
    });
    let path = segments.fold(String::new(), |path, segment| path + "/" + segment);
    if path.is_empty() { "/".to_owned() } else { path }
}

/// A text as one word of a shell.
pub(crate) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use tidegate::Limiter;
    use tidegate_rules::{Source, load};
    use tidegate_wire::CheckBody;

    use super::*;

    /// Whatever the rule, the sample meets it.
    #[test]
    fn a_sample_meets_its_rule() {
        for rule in [
            "{identifier_type: global, limit: 1, window: 1s}",
            "{identifier_type: user_id, limit: 1, window: 1s, match: {path_pattern: /orders/*, methods: [PUT]}}",
            "{identifier_type: [tenant_id, 'header:x-a', 'attribute:b'], on_missing_identity: skip, limit: 1, window: 1s}",
            "{identifier_type: ip_address, limit: 1, window: 1s, match: {ip_subnet: 'fd00::/8', path_pattern: '/**/a/{b}'}}",
            "{identifier_type: api_key, on_missing_identity: skip, limit: 1, window: 1s, match: {requires_authentication: true}}",
            "{identifier_type: path, limit: 0, window: 1s, match: {path_pattern: /*, required_headers: {x-client: mobile, x-any: '*'}}}",
        ] {
            let text = format!("rules:\n  - {}", rule.replacen('{', "{rule_id: r, ", 1));
            let rules = load(&[Source { name: "rules", text: &text }], 1).unwrap();
            let (path, body) = request(&rules);
            assert_eq!(path, "/v1/check");
            let body = body.to_string();
            let check = CheckBody::parse(body.as_bytes()).unwrap();
            let limiter = Limiter::new(rules).unwrap();
            assert_eq!(limiter.try_explain(&check.request()).unwrap().rule_id(), Some("r"), "{rule}: {body}");
        }
    }

    #[test]
    fn a_quote_does_not_end_the_word() {
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }
}

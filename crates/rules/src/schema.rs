//! The JSON Schema of rule documents, and the keys the reader takes from it.

use std::sync::LazyLock;

use schemars::generate::SchemaSettings;
use schemars::transform::{RecursiveTransform, Transform};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Value, json};

use crate::form;

/// The JSON Schema of a rule document, for editors and other tools.
///
/// It is committed as `schema/rules.schema.json`; a test keeps the two alike.
pub fn json_schema() -> Value {
    let mut generator = generator();
    let shapes = [
        generator.subschema_for::<form::Document>(),
        generator.subschema_for::<form::RateLimits>(),
        generator.subschema_for::<form::EnvoyDomain>(),
        generator.subschema_for::<form::Rule>(),
        generator.subschema_for::<Vec<form::Rule>>(),
    ];
    let mut schema = Schema::try_from(json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Tidegate rules",
        "description": "A rule document, tiers alone, a domain as Envoy's rate limit service reads it, one rule, or a list of rules.",
        "anyOf": shapes,
        "$defs": generator.take_definitions(true),
    }))
    .unwrap_or_default();
    RecursiveTransform(without_null).transform(&mut schema);
    RecursiveTransform(on_one_line).transform(&mut schema);
    schema.to_value()
}

fn generator() -> SchemaGenerator {
    SchemaGenerator::new(SchemaSettings::draft2020_12())
}

/// Leaving a key out is how a document says nothing; `null` is refused.
fn without_null(schema: &mut Schema) {
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            schema.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(names)) = schema.get_mut("enum") {
        names.retain(|name| !name.is_null());
    }
    if let Some(Value::Array(choices)) = schema.get_mut("anyOf") {
        choices.retain(|choice| choice != &json!({"type": "null"}));
        if let [Value::Object(only)] = choices.as_slice() {
            let only = only.clone();
            schema.remove("anyOf");
            for (key, value) in only {
                schema.ensure_object().entry(key).or_insert(value);
            }
        }
    }
}

/// How the sources are wrapped is nothing to an editor.
fn on_one_line(schema: &mut Schema) {
    if let Some(Value::String(description)) = schema.get_mut("description") {
        *description = description.replace('\n', " ");
    }
}

/// One kind of mapping: what it is called and which keys it knows.
#[derive(Debug)]
pub(crate) struct Shape {
    /// With its article, for messages.
    pub(crate) what: &'static str,
    /// Where keys that belong here go, for somebody who put them elsewhere.
    pub(crate) place: &'static str,
    /// How one may look, for somebody who wrote something else.
    pub(crate) example: &'static str,
    /// Whether it is part of the files that Envoy's rate limit service reads.
    pub(crate) envoy: bool,
    keys: Vec<String>,
}

impl Shape {
    fn of_envoy<T: JsonSchema>(what: &'static str, place: &'static str, example: &'static str) -> Self {
        Self { envoy: true, ..Self::of::<T>(what, place, example) }
    }

    fn of<T: JsonSchema>(what: &'static str, place: &'static str, example: &'static str) -> Self {
        let schema = generator().into_root_schema_for::<T>();
        let properties = schema.get("properties").and_then(Value::as_object);
        Self {
            what,
            place,
            example,
            envoy: false,
            keys: properties.into_iter().flat_map(|map| map.keys().cloned()).collect(),
        }
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.keys.iter().any(|known| known == key)
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &str> + Clone {
        self.keys.iter().map(String::as_str)
    }
}

/// All kinds of mappings with fixed keys.
#[derive(Debug)]
pub(crate) struct Shapes {
    pub(crate) document: Shape,
    pub(crate) rate_limits: Shape,
    pub(crate) defaults: Shape,
    pub(crate) tier: Shape,
    pub(crate) rule: Shape,
    pub(crate) condition: Shape,
    pub(crate) r#override: Shape,
    pub(crate) descriptor: Shape,
    pub(crate) entry: Shape,
    pub(crate) cost: Shape,
    pub(crate) charge: Shape,
    pub(crate) domain: Shape,
    pub(crate) envoy_domain: Shape,
    pub(crate) envoy_descriptor: Shape,
    pub(crate) envoy_rate_limit: Shape,
    pub(crate) envoy_replaced: Shape,
}

impl Shapes {
    /// The shapes in which a key may belong that `shape` does not know.
    pub(crate) fn kin(&self, shape: &Shape) -> Vec<&Shape> {
        if shape.envoy {
            vec![&self.envoy_descriptor, &self.envoy_rate_limit, &self.envoy_domain]
        } else {
            let requests = [&self.rule, &self.condition, &self.document, &self.r#override, &self.defaults];
            requests.into_iter().chain([&self.descriptor, &self.entry]).collect()
        }
    }
}

pub(crate) static SHAPES: LazyLock<Shapes> = LazyLock::new(|| Shapes {
    document: Shape::of::<form::Document>("a rule document", "at the top of the document", "rules: []"),
    rate_limits: Shape::of::<form::RateLimits>(
        "a document with `rate_limits`",
        "beside `rate_limits`",
        "rate_limits: { free: { limit: 10, window: 1s } }",
    ),
    defaults: Shape::of::<form::Defaults>("`defaults`", "under `defaults`", "{ on_store_failure: local }"),
    tier: Shape::of::<form::Figures>("a tier", "in a tier", "{ limit: 10, window: 1s }"),
    rule: Shape::of::<form::Rule>(
        "a rule",
        "in the rule itself",
        "{ rule_id: orders, identifier_type: user_id, limit: 10, window: 1s }",
    ),
    condition: Shape::of::<form::Match>("`match`", "under `match`", "{ path_pattern: /orders/* }"),
    r#override: Shape::of::<form::Override>(
        "an override",
        "in an entry of `overrides`",
        "{ identity: alice, limit: 0 }",
    ),
    descriptor: Shape::of::<form::Descriptor>(
        "`descriptor`",
        "under `descriptor`",
        "{ domain: messaging, entries: [{ key: to_number }] }",
    ),
    entry: Shape::of::<form::Entry>(
        "an entry of a descriptor",
        "in an entry of `entries`",
        "{ key: message_type, value: marketing }",
    ),
    cost: Shape::of::<form::CostSaid>("`cost`", "under `cost`", "{ header: X-Cost, max: 100 }"),
    charge: Shape::of::<form::Charge>("`charge`", "under `charge`", "{ statuses: [401, 403] }"),
    domain: Shape::of::<form::Domain>("a domain", "in a domain under `domains`", "{ charge_refused: true }"),
    envoy_domain: Shape::of_envoy::<form::EnvoyDomain>(
        "a document of descriptors",
        "beside `domain`",
        "{ domain: messaging, descriptors: [] }",
    ),
    envoy_descriptor: Shape::of_envoy::<form::EnvoyDescriptor>(
        "a descriptor",
        "beside the descriptor's `key`",
        "{ key: to_number, rate_limit: { unit: day, requests_per_unit: 100 } }",
    ),
    envoy_rate_limit: Shape::of_envoy::<form::EnvoyRateLimit>(
        "`rate_limit`",
        "under `rate_limit`",
        "{ unit: day, requests_per_unit: 100 }",
    ),
    envoy_replaced: Shape::of_envoy::<form::EnvoyReplaced>(
        "an entry of `replaces`",
        "in an entry of `replaces`",
        "{ name: other_limit }",
    ),
});

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::Map;

    use super::*;
    use crate::node::{Kind, Node};
    use crate::reader::Reader;
    use crate::text::Text;
    use crate::{json, yaml};

    fn to_value(node: &Node<'_>) -> Value {
        match &node.kind {
            Kind::Null => Value::Null,
            Kind::Flag(flag, _) => (*flag).into(),
            Kind::Number(number) => number.parse().map_or(Value::Null, Value::Number),
            Kind::Text(text) => (**text).into(),
            Kind::List(items) => items.iter().map(to_value).collect(),
            Kind::Map(entries) => {
                let pair = |entry: &crate::node::Entry<'_>| {
                    (entry.key.value.clone().into_owned(), to_value(&entry.value))
                };
                entries.iter().map(pair).collect::<Map<_, _>>().into()
            }
        }
    }

    fn values(content: &str) -> Vec<Value> {
        let text = Text::new("text", content);
        let mut reader = Reader::new(&text);
        let roots = if json::looks_like(content) {
            json::parse(&mut reader, content)
        } else {
            yaml::parse(&mut reader, content)
        };
        roots.iter().map(to_value).filter(|value| !value.is_null()).collect()
    }

    #[test]
    fn the_schema_admits_every_good_document() {
        let validator = jsonschema::draft202012::new(&json_schema()).unwrap();
        let mut texts = vec![crate::EXAMPLE.to_owned()];
        for entry in Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/good").read_dir().unwrap() {
            texts.push(std::fs::read_to_string(entry.unwrap().path()).unwrap());
        }
        for value in texts.iter().flat_map(|text| values(text)) {
            let errors: Vec<String> = validator.iter_errors(&value).map(|error| error.to_string()).collect();
            assert!(errors.is_empty(), "{errors:#?}\n{value:#}");
        }
    }

    #[test]
    fn the_schema_refuses_what_the_reader_does() {
        let validator = jsonschema::draft202012::new(&json_schema()).unwrap();
        let rule = |text: &str| values(&format!("rule_id: a\nidentifier_type: global\n{text}"));
        for bad in [
            "limit: 1",
            "window: 1s",
            "limit: 1\nwindow: 60",
            "limit: -1\nwindow: 1s",
            "limit: 1\nwindow: 1s\nwindow_size_seconds: 1",
            "limit: 1\nwindow: 1s\nalgorithm: leaky",
            "limit: 1\nwindow: 1s\nlimt: 2",
            "limit: 1\nwindow: 1s\nmatch: { methods: [] }",
            "limit: 1\nwindow: 1s\nburst: null",
            "tiered: true\nlimit: 1",
            "tiered: false",
            "base_limit: 1",
            "base_limit: 1\nlimit: 1\nwindow: 1s",
            "tiered: true\nbase_limit: 1",
            "tiered: true\nhold_for: 1s",
            "limit: 1\nwindow: 1s\nhold_for: 1s",
            "limit: 1\nalgorithm: in_flight\nwindow: 1s",
            "limit: 1\nalgorithm: in_flight\nburst: 1",
            "limit: 1\nalgorithm: in_flight\ncharge: { statuses: 401 }",
            "limit: 1\nalgorithm: in_flight\non_limit: delay\nmax_delay: 1s",
        ] {
            assert!(rule(bad).iter().all(|value| !validator.is_valid(value)), "{bad}");
        }
        for bad in [
            "cost: 0",
            "cost: 1000000001",
            "cost: {}",
            "cost: { header: X, body: 1 }",
            "cost: { body: 1, default: 1 }",
            "cost: { body: 0 }",
            "cost: { header: X, limit: 1 }",
            "charge: {}",
            "charge: { within: 5s }",
            "charge: { statuses: [] }",
            "charge: { statuses: 600 }",
            "charge: { statuses: 4x }",
            "on_limit: delay",
            "on_limit: queue",
            "max_delay: 1s",
            "on_limit: reject\nmax_delay: 1s",
        ] {
            let text = format!("limit: 1\nwindow: 1s\n{bad}");
            assert!(rule(&text).iter().all(|value| !validator.is_valid(value)), "{bad}");
        }
        for good in [
            "limit: 1\nwindow: 1s",
            "base_limit: 1\nwindow: 1s",
            "tiered: true",
            "limit: 1\nalgorithm: in_flight",
            "base_limit: 1\nalgorithm: in_flight\nhold_for: 5m",
        ] {
            assert!(rule(good).iter().all(|value| validator.is_valid(value)), "{good}");
        }
        let plans = |text: &str| values(text).iter().all(|value| validator.is_valid(value));
        assert!(plans("plans: { a: 1.5, b: 0 }"));
        assert!(!plans("plans: { a: -1 }") && !plans("plans: { a: x }") && !plans("plans: [a]"));
    }

    #[test]
    fn the_schema_refuses_what_the_reader_does_about_descriptors() {
        let validator = jsonschema::draft202012::new(&json_schema()).unwrap();
        let valid = |text: &str| values(text).iter().all(|value| validator.is_valid(value));
        let own = |text: &str| {
            valid(&format!("rule_id: a\ndescriptor: {{ domain: d, entries: [{{ key: k }}] }}\n{text}"))
        };
        assert!(own("unlimited: true") && own("limit: 1\nwindow: 1s"));
        for bad in [
            "",
            "unlimited: true\nlimit: 1",
            "unlimited: true\ntiered: true",
            "limit: 1\nwindow: 1s\nmatch: {}",
            "limit: 1\nwindow: 1s\ncost: 2",
            "limit: 1\nwindow: 1s\ncharge: { statuses: 401 }",
            "limit: 1\nwindow: 1s\non_limit: reject",
        ] {
            assert!(!own(bad), "{bad}");
        }
        assert!(!valid("rule_id: a\nidentifier_type: global\nunlimited: true"));
        let envoy =
            |text: &str| valid(&format!("domain: d\ndescriptors: [{{ key: k, rate_limit: {{ {text} }} }}]"));
        assert!(envoy("unit: Day, requests_per_unit: 1, unit_multiplier: 2") && envoy("unlimited: true"));
        assert!(envoy("window: 1s, requests_per_unit: 1"));
        for bad in [
            "unit: day",
            "requests_per_unit: 1",
            "unit: days, requests_per_unit: 1",
            "unit: day, requests_per_unit: 1, window: 1s",
            "window: 1s, requests_per_unit: 1, unit_multiplier: 2",
            "unit: day, requests_per_unit: 1, unit_multiplier: 0",
            "unlimited: true, unit: day",
            "unit: day, requests_per_unit: 1, limit: 1",
            "unit: day, requests_per_unit: 1, algorithm: in_flight",
        ] {
            assert!(!envoy(bad), "{bad}");
        }
        assert!(!valid("descriptors: []") && !valid("domain: d\ndescriptors: [{ value: v }]"));
    }
}

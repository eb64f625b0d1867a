//! The API described (OpenAPI 3.1), from the types that are read and written.
//!
//! Committed as `openapi.json`; tests hold it against this code and this code against the routes.

mod operations;

use std::sync::LazyLock;

use schemars::generate::{Contract, SchemaSettings};
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use crate::config::Config;
use operations::{Listener, Operation};

static DOCUMENT: LazyLock<Value> = LazyLock::new(build);

/// The description.
pub(crate) fn document() -> &'static Value {
    &DOCUMENT
}

/// What the operation at a path is for, in a few words.
pub(crate) fn summary(path: &str, method: &str) -> Option<&'static str> {
    document()["paths"].get(path)?.get(method.to_ascii_lowercase())?.get("summary")?.as_str()
}

fn build() -> Value {
    let mut schemas = Schemas::new();
    let mut paths = Map::new();
    for operation in operations::all(&mut schemas) {
        let path = paths.entry(operation.path).or_insert_with(|| json!({"servers": servers(&operation)}));
        path[operation.method.to_ascii_lowercase()] = operation.describe();
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Tidegate",
            "description": "Rate limit decisions (data listener) and administration (admin listener).",
            "version": env!("CARGO_PKG_VERSION"),
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [server(Listener::Data), server(Listener::Admin)],
        "security": [{}, {"token": []}],
        "paths": paths,
        "components": {
            "schemas": schemas.finish(),
            "securitySchemes": {"token": {
                "type": "http",
                "scheme": "bearer",
                "description": "Where a token is configured, callers from outside the machine must send it. The admin listener \
                                takes named tokens, too, which may change rules if their role is `write`.",
            }},
        },
    })
}

fn servers(operation: &Operation) -> Vec<Value> {
    operation.listeners.iter().map(|listener| server(*listener)).collect()
}

fn server(listener: Listener) -> Value {
    let config = Config::default();
    let (address, description) = match listener {
        Listener::Data => (config.http, "The data listener"),
        Listener::Admin => (config.admin, "The admin listener"),
    };
    json!({"url": format!("http://{address}"), "description": description})
}

/// The schemas of bodies: what is read and what is written differ in what must be there.
struct Schemas {
    read: SchemaGenerator,
    written: SchemaGenerator,
}

impl Schemas {
    fn new() -> Self {
        let generator = |contract: Contract| {
            SchemaSettings::draft2020_12()
                .with(|settings| {
                    settings.definitions_path = "/components/schemas".into();
                    settings.contract = contract;
                })
                .with_transform(RecursiveTransform(on_one_line))
                .into_generator()
        };
        Self { read: generator(Contract::Deserialize), written: generator(Contract::Serialize) }
    }

    /// The schema of a body callers send.
    fn request<T: JsonSchema>(&mut self) -> Schema {
        self.read.subschema_for::<T>()
    }

    /// The schema of a body callers get.
    fn response<T: JsonSchema>(&mut self) -> Schema {
        self.written.subschema_for::<T>()
    }

    fn finish(mut self) -> Map<String, Value> {
        let mut all = self.read.take_definitions(true);
        all.extend(self.written.take_definitions(true));
        all
    }
}

/// How the sources are wrapped is nothing to readers of the description.
fn on_one_line(schema: &mut Schema) {
    if let Some(Value::String(description)) = schema.get_mut("description") {
        *description = description.replace('\n', " ");
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;
    use crate::{admin, data};

    #[test]
    fn the_committed_description_is_this_one() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("openapi.json");
        if std::env::var_os("TIDEGATE_BLESS").is_some() {
            std::fs::write(&path, format!("{:#}\n", document())).unwrap();
        }
        let committed = std::fs::read_to_string(&path).unwrap_or_default();
        let committed: Value = serde_json::from_str(&committed).unwrap_or_default();
        assert!(committed == *document(), "openapi.json is out of date; run this test with TIDEGATE_BLESS=1");
    }

    #[test]
    fn every_route_is_described_and_nothing_else_is() {
        let routes: BTreeSet<_> = data::routes().chain(admin::routes()).collect();
        let all = operations::all(&mut Schemas::new());
        let described: BTreeSet<_> = all.iter().map(|operation| (operation.path, operation.method)).collect();
        assert_eq!(described, routes);
        for (listener, routes) in [
            (Listener::Data, data::routes().collect()),
            (Listener::Admin, admin::routes().collect::<BTreeSet<_>>()),
        ] {
            let on_it = all.iter().filter(|operation| operation.listeners.contains(&listener));
            assert_eq!(
                on_it.map(|operation| (operation.path, operation.method)).collect::<BTreeSet<_>>(),
                routes
            );
        }
    }

    #[test]
    fn every_reference_leads_somewhere() {
        fn visit(value: &Value) {
            match value {
                Value::Object(map) => {
                    if let Some(Value::String(reference)) = map.get("$ref") {
                        let pointer = reference.strip_prefix('#').unwrap();
                        assert!(document().pointer(pointer).is_some(), "{reference}");
                    }
                    map.values().for_each(visit);
                }
                Value::Array(items) => items.iter().for_each(visit),
                _ => {}
            }
        }
        visit(document());
    }
}

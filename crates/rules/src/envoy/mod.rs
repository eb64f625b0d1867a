//! Domains as the files of Envoy's rate limit service describe them: as trees of descriptors.

mod id;
mod limit;

use std::collections::HashMap;

use tidegate_core::descriptor::{DescriptorMatch, EntryPattern, ValuePattern};
use tidegate_core::rule::OnStoreFailure;
use tidegate_core::{Facet, Identifier, Quota, Rule};

use crate::descriptor;
use crate::document::Document;
use crate::domains::{self, Domain};
use crate::fields::Fields;
use crate::names::ON_STORE_FAILURE;
use crate::node::Node;
use crate::problem::quoted;
use crate::reader::Reader;
use crate::schema::SHAPES;
use crate::text::Place;

use id::PathId;
use limit::Limit;

impl Document {
    /// A domain with its descriptors.
    pub(crate) fn read_envoy(&mut self, reader: &mut Reader<'_>, node: &Node<'_>) {
        self.states_rules = true;
        let Some(fields) = Fields::open(reader, node, &SHAPES.envoy_domain) else { return };
        let name = descriptor::name(reader, &fields, "domain", "name the one that its proxy asks for");
        let charge_refused = domains::charge_refused(reader, &fields);
        let mut tree = Tree {
            domain: name.unwrap_or_default(),
            on_store_failure: on_store_failure(reader, &fields).unwrap_or_default(),
            path: Vec::new(),
            rules: Vec::new(),
        };
        let descriptors = nested(reader, &fields);
        tree.level(reader, descriptors);
        // Without a name nobody can say which other rules these are beside.
        if let Some(name) = name {
            let at = fields.get("domain").map_or(fields.at, |node| node.at);
            self.domains.push(Domain { at, name: name.into(), charge_refused, described: true });
            self.rules.extend(id::named(tree.rules));
        }
    }
}

/// The descriptors below `fields`.
fn nested<'n, 't>(reader: &mut Reader<'_>, fields: &Fields<'n, 't>) -> &'n [Node<'t>] {
    let example = SHAPES.envoy_descriptor.example;
    fields.read("descriptors", |key, node| reader.list(key, node, example)).unwrap_or_default()
}

fn on_store_failure(reader: &mut Reader<'_>, fields: &Fields<'_, '_>) -> Option<OnStoreFailure> {
    fields.read("on_store_failure", |key, node| reader.named(key, node, &ON_STORE_FAILURE))
}

/// A rule as far as it could be read, before it is known whether others would have the same id.
struct Found {
    at: Place,
    id: PathId,
    rule: Option<Rule>,
}

/// A domain being read.
struct Tree<'n> {
    domain: &'n str,
    on_store_failure: OnStoreFailure,
    /// The entries from the root to where reading is.
    path: Vec<EntryPattern>,
    rules: Vec<Found>,
}

impl Tree<'_> {
    fn level(&mut self, reader: &mut Reader<'_>, items: &[Node<'_>]) {
        let mut seen = HashMap::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            if reader.report.gives_up(items.len() - index) {
                break;
            }
            let Some(fields) = Fields::open(reader, item, &SHAPES.envoy_descriptor) else { continue };
            let at = fields.get("key").map_or(fields.at, |node| node.at);
            let entry = descriptor::entry(reader, &fields);
            let clear = entry.as_ref().is_some_and(|entry| is_first(reader, &mut seen, entry, at));
            let (depth, found) = (self.path.len(), self.rules.len());
            self.path.extend(entry);
            self.node(reader, &fields, at);
            self.path.truncate(depth);
            if !clear {
                self.rules.truncate(found);
            }
        }
    }

    /// Reads the descriptors that the present path leads to.
    fn node(&mut self, reader: &mut Reader<'_>, fields: &Fields<'_, '_>, at: Place) {
        let shadow = fields.flag(reader, "shadow_mode").unwrap_or_default();
        let quota_mode = fields.flag(reader, "quota_mode").unwrap_or_default();
        let charge_refused = fields.flag(reader, "charge_refused").unwrap_or_default();
        let detailed_metric = fields.flag(reader, "detailed_metric").unwrap_or_default();
        let on_store_failure = on_store_failure(reader, fields).unwrap_or(self.on_store_failure);
        let description = fields.read("description", |key, node| reader.written(key, node));
        let limit = fields.get("rate_limit").map(|node| limit::read(reader, node));
        let nested = nested(reader, fields);
        // What only leads further has no rule; what leads nowhere is exempt from wider ones.
        if limit.is_some() || nested.is_empty() {
            let Limit { allowance, name, replaces } = limit.unwrap_or_else(Limit::none);
            let rule = allowance.map(|allowance| Rule {
                description: description.map(Into::into),
                descriptor: Some(Box::new(DescriptorMatch {
                    domain: self.domain.into(),
                    entries: self.path.clone(),
                    name,
                    replaces,
                    charge_refused,
                    quota_mode,
                    detailed_metric,
                })),
                allowance,
                shadow,
                on_store_failure,
                ..Rule::new("", Identifier::from(Facet::Global), Quota::BLOCKED)
            });
            self.rules.push(Found { at, id: PathId::new(self.domain, &self.path), rule });
        }
        self.level(reader, nested);
    }
}

/// Whether no descriptor before `entry`, on the same level, has its key and value; reports it if one has.
fn is_first(
    reader: &mut Reader<'_>,
    seen: &mut HashMap<(Box<str>, ValuePattern), Place>,
    entry: &EntryPattern,
    at: Place,
) -> bool {
    let Some(earlier) = seen.insert((entry.key.clone(), entry.value.clone()), at) else { return true };
    let value = entry
        .value
        .text()
        .map_or_else(|| "without a value".to_owned(), |value| format!("with value {}", quoted(value)));
    let message = format!(
        "key {} {value} is already given on line {}; put both into one descriptor",
        quoted(&entry.key),
        earlier.line
    );
    reader.problem(at, message);
    false
}

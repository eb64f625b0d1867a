//! `overrides`: other figures for one identity or for everybody.

use std::net::IpAddr;

use tidegate_core::rule::{Override, Target};
use tidegate_core::{Facet, Identifier};

use crate::fields::Fields;
use crate::figures::{self, Base};
use crate::node::Node;
use crate::problem::quoted;
use crate::reader::Reader;
use crate::schema::SHAPES;

/// Reads the overrides of a rule that counts by `identifier`; `base` is what they do not state.
pub(crate) fn read(
    reader: &mut Reader<'_>,
    key: &str,
    node: &Node<'_>,
    base: Base,
    identifier: Option<&Identifier>,
) -> Option<Vec<Override>> {
    let items = reader.list(key, node, SHAPES.r#override.example)?;
    Some(items.iter().filter_map(|item| one(reader, item, base, identifier)).collect())
}

fn one(
    reader: &mut Reader<'_>,
    node: &Node<'_>,
    base: Base,
    identifier: Option<&Identifier>,
) -> Option<Override> {
    let fields = Fields::open(reader, node, &SHAPES.r#override)?;
    let target = match fields.get("identity") {
        Some(node) => target(reader, node, identifier),
        None => Some(Target::Everybody),
    };
    let until = fields.read("until", |key, node| reader.moment(key, node));
    let what = if matches!(base, Base::None) { "an override of a tiered rule" } else { "an override" };
    let quota = figures::quota(reader, &fields, what, base)?;
    Some(Override { target: target?, quota, until })
}

fn target(reader: &mut Reader<'_>, node: &Node<'_>, identifier: Option<&Identifier>) -> Option<Target> {
    let items = reader.many("identity", node);
    let mut texts: Vec<Box<str>> = Vec::with_capacity(items.len());
    for item in items {
        let text = reader.text("identity", item)?;
        if text.is_empty() {
            reader
                .problem(item.at, "`identity` is empty; name somebody, or remove the key to mean everybody");
            return None;
        }
        texts.push(text.into());
    }
    let last = texts.last()?;
    if let Err(message) = can_be(last, identifier?) {
        reader.problem(items.last().map_or(node.at, |item| item.at), message);
        return None;
    }
    Some(Target::Identity(texts))
}

/// Whether `text` can be the last part of an identity; what never can be would only seem to be overridden.
fn can_be(text: &str, identifier: &Identifier) -> Result<(), String> {
    match identifier.facets() {
        [Facet::Global] => {
            Err("this rule counts everybody together; remove `identity`, or count by something else"
                .to_owned())
        }
        [.., Facet::Ip] if text.parse::<IpAddr>().is_err() => {
            let written = quoted(text);
            Err(format!("this rule counts by address, and {written} is none; write one such as 203.0.113.7"))
        }
        _ => Ok(()),
    }
}

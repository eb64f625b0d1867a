//! `descriptor`: which descriptors a rule is about.

use tidegate_core::descriptor::{DescriptorMatch, EntryPattern, ValuePattern};

use crate::fields::Fields;
use crate::node::Node;
use crate::problem::quoted;
use crate::reader::Reader;
use crate::schema::SHAPES;

/// Reads the `descriptor` of a rule; what is wrong with it is reported.
pub(crate) fn read(reader: &mut Reader<'_>, node: &Node<'_>) -> Option<DescriptorMatch> {
    let fields = Fields::open(reader, node, &SHAPES.descriptor)?;
    let domain = name(reader, &fields, "domain", "name the one that its proxy asks for");
    let entries = entries(reader, &fields);
    let name = fields.read("name", |key, node| reader.written_name(key, node));
    let mut replaces = Vec::new();
    for item in fields.get("replaces").map(|node| reader.many("replaces", node)).unwrap_or_default() {
        replaces.extend(replaced(reader, "replaces", item, name));
    }
    let quota_mode = fields.flag(reader, "quota_mode").unwrap_or_default();
    let charge_refused = fields.flag(reader, "charge_refused").unwrap_or_default();
    let detailed_metric = fields.flag(reader, "detailed_metric").unwrap_or_default();
    let (domain, entries, name) = (domain?.into(), entries?, name.map(Into::into));
    Some(DescriptorMatch { domain, entries, name, replaces, charge_refused, quota_mode, detailed_metric })
}

fn entries(reader: &mut Reader<'_>, fields: &Fields<'_, '_>) -> Option<Vec<EntryPattern>> {
    let Some(node) = fields.get("entries") else {
        if fields.lacks("entries") {
            let example = SHAPES.entry.example;
            reader
                .problem(fields.at, format!("`descriptor` has no `entries`; write each like `- {example}`"));
        }
        return None;
    };
    let items = reader.list("entries", node, SHAPES.entry.example)?;
    if items.is_empty() {
        reader.problem(node.at, "`entries` is an empty list, and every descriptor has an entry; name one");
        return None;
    }
    let mut entries = Vec::with_capacity(items.len());
    for item in items {
        let fields = Fields::open(reader, item, &SHAPES.entry);
        entries.extend(fields.and_then(|fields| entry(reader, &fields)));
    }
    (entries.len() == items.len()).then_some(entries)
}

/// What the `key` and `value` of a mapping say about an entry.
pub(crate) fn entry(reader: &mut Reader<'_>, fields: &Fields<'_, '_>) -> Option<EntryPattern> {
    let key = name(reader, fields, "key", "say what it is, such as `key: remote_address`");
    let value = fields.read("value", |key, node| reader.written(key, node));
    let shared = fields.flag(reader, "share_threshold").unwrap_or_default();
    let in_metric = fields.flag(reader, "value_to_metric").unwrap_or_default();
    if fields.has("value") && value.is_none() {
        return None;
    }
    let value = ValuePattern::new(value.unwrap_or_default());
    if shared && !matches!(value, ValuePattern::Like(_)) {
        let at = fields.key_at("share_threshold").unwrap_or(fields.at);
        reader.problem(
            at,
            "`share_threshold` is for a `value` with `*` in it; remove it, or write such a value",
        );
    }
    Some(EntryPattern { key: key?.into(), value, shared, in_metric })
}

/// The name of a rule that another one, called `own`, takes the place of.
pub(crate) fn replaced(
    reader: &mut Reader<'_>,
    key: &str,
    node: &Node<'_>,
    own: Option<&str>,
) -> Option<Box<str>> {
    let name = reader.written_name(key, node)?;
    if own == Some(name) {
        let written = quoted(name);
        reader.problem(
            node.at,
            format!("{written} is its own name, and nothing replaces itself; name another"),
        );
        return None;
    }
    Some(name.into())
}

/// A name that must be there; `hint` is for those who left it out.
pub(crate) fn name<'n>(
    reader: &mut Reader<'_>,
    fields: &Fields<'n, '_>,
    key: &str,
    hint: &str,
) -> Option<&'n str> {
    if fields.lacks(key) {
        reader.problem(fields.at, format!("{} has no `{key}`; {hint}", fields.what()));
    }
    fields.read(key, |key, node| reader.written_name(key, node))
}

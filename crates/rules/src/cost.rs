//! `cost`: how much of a rule's quota a request takes.

use tidegate_core::cost::{Cost, MAX_COST};
use tidegate_core::rule::Allowance;

use crate::condition::is_header;
use crate::fields::Fields;
use crate::node::{Kind, Node};
use crate::reader::Reader;
use crate::schema::SHAPES;

/// What one request takes at most, by its own account, unless told otherwise.
pub(crate) const DEFAULT_MAX: u64 = 1_000;

/// What a request takes that does not say how much, unless told otherwise.
pub(crate) const DEFAULT_OTHERWISE: u64 = 1;

/// Reads a cost; what is wrong with it is reported.
pub(crate) fn read(reader: &mut Reader<'_>, key: &str, node: &Node<'_>) -> Option<Cost> {
    match &node.kind {
        Kind::Number(_) => number(reader, key, node).map(Cost::Fixed),
        Kind::Map(_) => said(reader, node),
        _ => {
            let fix = "write it like `5`, `{ header: X-Cost, max: 100 }` or `{ body: 1024 }`";
            reader.expected("`cost`", "a whole number or a mapping", node, Some(fix.to_owned()));
            None
        }
    }
}

fn said(reader: &mut Reader<'_>, node: &Node<'_>) -> Option<Cost> {
    let fields = Fields::open(reader, node, &SHAPES.cost)?;
    let header = fields.get("header").map(|node| header(reader, node));
    let unit = fields.get("body").map(|node| bytes(reader, node));
    let most = most(reader, &fields);
    let otherwise = fields.get("default").map(|node| (node.at, number(reader, "default", node)));
    if let (Some((at, Some(otherwise))), Some(most)) = (otherwise, most)
        && otherwise > most
    {
        let message = format!("`default` is {otherwise}, and `max` is {most}; lower one or raise the other");
        reader.problem(at, message);
    }
    match (header, unit) {
        (Some(name), None) => {
            let otherwise = otherwise.map_or(Some(DEFAULT_OTHERWISE), |(_, otherwise)| otherwise)?;
            Some(Cost::Header { name: name?, otherwise, most: most? })
        }
        (None, Some(unit)) => {
            if let Some(at) = fields.key_at("default") {
                reader.problem(at, "`default` is for costs from a `header`; remove it");
                return None;
            }
            Some(Cost::Body { unit: unit?, most: most? })
        }
        (Some(_), Some(_)) => {
            let at = fields.key_at("body").unwrap_or(fields.at);
            reader.problem(at, "`header` is given as well; remove one of the two");
            None
        }
        (None, None) => {
            if fields.lacks("header") && fields.lacks("body") {
                let hint = "say where the cost is read, such as `header: X-Cost` or `body: 1024`";
                reader.problem(fields.at, format!("`cost` has neither `header` nor `body`; {hint}"));
            }
            None
        }
    }
}

fn most(reader: &mut Reader<'_>, fields: &Fields<'_, '_>) -> Option<u64> {
    fields.get("max").map_or(Some(DEFAULT_MAX), |node| number(reader, "max", node))
}

/// The name of a header in lower case, as it is looked up.
pub(crate) fn header(reader: &mut Reader<'_>, node: &Node<'_>) -> Option<Box<str>> {
    let name = reader.text("header", node)?;
    is_header(reader, name, node.at).then(|| name.to_ascii_lowercase().into())
}

fn number(reader: &mut Reader<'_>, key: &str, node: &Node<'_>) -> Option<u64> {
    let hint = format!("write one between 1 and {MAX_COST}");
    let value = reader.whole(key, node, &hint)?;
    if (1..=MAX_COST).contains(&value) {
        return Some(value);
    }
    reader.problem(node.at, format!("`{key}` must be between 1 and {MAX_COST}, not {value}"));
    None
}

fn bytes(reader: &mut Reader<'_>, node: &Node<'_>) -> Option<u64> {
    let hint = "write how many bytes count as one, such as 1024";
    let value = reader.whole("body", node, hint)?;
    if value == 0 {
        reader.problem(node.at, format!("`body` must be at least 1, not 0; {hint}"));
    }
    (value > 0).then_some(value)
}

/// Complains about a cost that nobody could ever pay.
pub(crate) fn fits(reader: &mut Reader<'_>, node: &Node<'_>, cost: &Cost, allowance: Option<&Allowance>) {
    if let (Cost::Fixed(cost), Some(Allowance::Fixed(quota))) = (cost, allowance)
        && quota.limit() > 0
        && *cost > quota.capacity()
    {
        let most = quota.capacity();
        let hint = "lower it, or raise the limit";
        reader.problem(
            node.at,
            format!("a request costs {cost}, and no more than {most} are ever there, so none would be allowed; {hint}"),
        );
    }
}

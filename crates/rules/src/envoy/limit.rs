//! `rate_limit`: how much, per how long.

use tidegate_core::rule::Allowance;
use tidegate_core::{Algorithm, Span};

use crate::descriptor::replaced;
use crate::fields::Fields;
use crate::figures::{build, is_in_flight, whole};
use crate::names::{DEFAULT_ENVOY_ALGORITHM, ENVOY_ALGORITHMS, UNITS};
use crate::node::{Kind, Node};
use crate::reader::Reader;
use crate::schema::SHAPES;
use crate::text::Placed;

/// The keys that state figures.
const FIGURES: [&str; 6] = ["requests_per_unit", "unit", "unit_multiplier", "window", "burst", "algorithm"];

/// What a `rate_limit` says; no allowance if that could not be read.
pub(super) struct Limit {
    pub(super) allowance: Option<Allowance>,
    pub(super) name: Option<Box<str>>,
    pub(super) replaces: Vec<Box<str>>,
}

impl Limit {
    /// That of a descriptor without one.
    pub(super) fn none() -> Self {
        Self { allowance: Some(Allowance::Unlimited), name: None, replaces: Vec::new() }
    }
}

pub(super) fn read(reader: &mut Reader<'_>, node: &Node<'_>) -> Limit {
    let Some(fields) = Fields::open(reader, node, &SHAPES.envoy_rate_limit) else {
        return Limit { allowance: None, ..Limit::none() };
    };
    let is_empty = |node: &Node<'_>| matches!(&node.kind, Kind::Text(text) if text.is_empty());
    let name = fields.get("name").filter(|node| !is_empty(node));
    let name = name.and_then(|node| reader.written_name("name", node));
    let replaces = replaces(reader, &fields, name);
    Limit { allowance: allowance(reader, &fields), name: name.map(Into::into), replaces }
}

fn replaces(reader: &mut Reader<'_>, fields: &Fields<'_, '_>, own: Option<&str>) -> Vec<Box<str>> {
    let example = SHAPES.envoy_replaced.example;
    let items = fields.read("replaces", |key, node| reader.list(key, node, example)).unwrap_or_default();
    let mut names = Vec::with_capacity(items.len());
    for item in items {
        let Some(fields) = Fields::open(reader, item, &SHAPES.envoy_replaced) else { continue };
        if fields.lacks("name") {
            reader.problem(fields.at, format!("{} has no `name`; say which limit to replace", fields.what()));
        }
        names.extend(fields.read("name", |key, node| replaced(reader, key, node, own)));
    }
    names
}

fn allowance(reader: &mut Reader<'_>, fields: &Fields<'_, '_>) -> Option<Allowance> {
    let unlimited = fields.flag(reader, "unlimited");
    if unlimited == Some(true) {
        for key in FIGURES {
            if let Some(at) = fields.key_at(key) {
                let message = format!("what is unlimited has no `{key}`; remove it, or remove `unlimited`");
                reader.problem(at, message);
            }
        }
        return Some(Allowance::Unlimited);
    }
    let limit = whole(reader, fields, "requests_per_unit", "0 blocks; for no limit, write `unlimited: true`");
    let burst = whole(reader, fields, "burst", "");
    let window = window(reader, fields);
    let algorithm = fields.read("algorithm", |key, node| match &node.kind {
        // It is there, but not here.
        Kind::Text(name) if **name == *Algorithm::InFlight.name() => Some(Algorithm::InFlight),
        _ => reader.named(key, node, &ENVOY_ALGORITHMS),
    });
    if fields.has("unlimited") && unlimited.is_none() {
        return None;
    }
    if fields.lacks("requests_per_unit") {
        let hint = "say how much, such as `requests_per_unit: 100` (0 blocks), or write `unlimited: true`";
        reader.problem(fields.at, format!("`rate_limit` has no `requests_per_unit`; {hint}"));
    }
    if fields.lacks("unit") && fields.lacks("window") {
        let hint = "say per how long, such as `unit: minute`, or write `unlimited: true`";
        reader.problem(fields.at, format!("`rate_limit` has no `unit`; {hint}"));
    }
    if fields.has("algorithm") && algorithm.is_none() {
        return None;
    }
    let algorithm = algorithm.unwrap_or(DEFAULT_ENVOY_ALGORITHM);
    if let Some(at) = fields.key_at("algorithm").filter(|_| is_in_flight(algorithm)) {
        let hint = "to limit requests in flight, write a rule with a `descriptor` and `hold_for`";
        reader.problem(at, format!("a `rate_limit` is per unit of time; {hint}"));
        return None;
    }
    build(reader, algorithm, &limit?, &window?, burst.as_ref()).map(Allowance::Fixed)
}

/// The window as it is given, or so many units.
fn window(reader: &mut Reader<'_>, fields: &Fields<'_, '_>) -> Option<Placed<Span>> {
    let window =
        fields.read("window", |key, node| Some(Placed { at: node.at, value: reader.duration(key, node)? }));
    let unit = fields.read("unit", |key, node| Some(Placed { at: node.at, value: unit(reader, key, node)? }));
    let times = whole(reader, fields, "unit_multiplier", "");
    if let Some(times) = times.as_ref().filter(|times| times.value == 0) {
        let message = "`unit_multiplier` must be 1 or more; remove it if the window is one unit";
        reader.problem(times.at, message);
        return None;
    }
    if fields.has("window") {
        for key in ["unit", "unit_multiplier"] {
            if let Some(at) = fields.key_at(key) {
                reader.problem(at, "`window` is given as well; remove one of the two");
            }
        }
        return window;
    }
    let unit = unit?;
    match times {
        Some(times) => {
            let ms = unit.value.as_millis().saturating_mul(times.value);
            Some(Placed { at: times.at, value: Span::from_millis(ms) })
        }
        None if fields.has("unit_multiplier") => None,
        None => Some(unit),
    }
}

fn unit(reader: &mut Reader<'_>, key: &str, node: &Node<'_>) -> Option<Span> {
    let known = match &node.kind {
        Kind::Text(text) => UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(text)),
        _ => None,
    };
    known.map(|(_, span)| *span).or_else(|| reader.named(key, node, &UNITS))
}

//! `charge`: what the answer to a request changes about its cost.

use std::ops::RangeInclusive;

use tidegate_core::Span;
use tidegate_core::cost::{Charge, DEFAULT_CHARGE_WITHIN};

use crate::cost;
use crate::fields::Fields;
use crate::node::Node;
use crate::problem::quoted;
use crate::reader::Reader;
use crate::schema::SHAPES;

/// How long an answer may take: what is held is gone for others meanwhile, and has to be kept track of.
const WITHIN: RangeInclusive<Span> = Span::from_secs(1)..=Span::from_secs(3_600);

/// The statuses of final answers, and of those before them.
const STATUSES: RangeInclusive<u16> = 100..=599;

/// Reads a charge; what is wrong with it is reported.
pub(crate) fn read(reader: &mut Reader<'_>, node: &Node<'_>) -> Option<Charge> {
    let fields = Fields::open(reader, node, &SHAPES.charge)?;
    let header = fields.get("header").map(|node| cost::header(reader, node));
    let statuses = fields.get("statuses").map(|node| statuses(reader, node));
    let within = fields.get("within").map_or(Some(DEFAULT_CHARGE_WITHIN), |node| within(reader, node));
    if header.is_none() && statuses.is_none() {
        if fields.lacks("header") && fields.lacks("statuses") {
            let which = "say which answers are charged, such as `statuses: [401, 403]`";
            let how_much = "where they say how much, such as `header: X-Tokens-Used`";
            let message = format!("`charge` has neither `header` nor `statuses`; {which}, or {how_much}");
            reader.problem(fields.at, message);
        }
        return None;
    }
    Some(Charge {
        header: header.map_or(Some(None), |header| header.map(Some))?,
        statuses: statuses.unwrap_or(Some(Vec::new()))?,
        within: within?,
    })
}

fn statuses(reader: &mut Reader<'_>, node: &Node<'_>) -> Option<Vec<RangeInclusive<u16>>> {
    let items = reader.many("statuses", node);
    let mut list: Vec<RangeInclusive<u16>> = Vec::new();
    let mut sound = !items.is_empty();
    for item in items {
        match status(reader, item) {
            Some(range) if !list.contains(&range) => list.push(range),
            Some(_) => {}
            None => sound = false,
        }
    }
    sound.then_some(list)
}

/// One status, a class of them, or a range.
fn status(reader: &mut Reader<'_>, node: &Node<'_>) -> Option<RangeInclusive<u16>> {
    let text = reader.written("statuses", node)?;
    let range = match text.split_once('-') {
        Some((first, last)) => number(first.trim()).zip(number(last.trim())),
        None => class(text).or_else(|| number(text).map(|one| (one, one))),
    };
    match range {
        Some((first, last)) if first <= last => return Some(first..=last),
        Some((first, last)) => {
            reader.problem(node.at, format!("{} ends before it begins; write {last}-{first}", quoted(text)));
        }
        None => {
            let hint = "write one such as 401, a class such as 5xx or a range such as 400-499";
            reader.problem(node.at, format!("{} is no status between 100 and 599; {hint}", quoted(text)));
        }
    }
    None
}

fn number(text: &str) -> Option<u16> {
    let is_status = text.len() == 3 && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|status| is_status && STATUSES.contains(status))
}

fn class(text: &str) -> Option<(u16, u16)> {
    let digit = text.strip_suffix("xx").or_else(|| text.strip_suffix("XX"))?;
    let first = number(&format!("{digit}00"))?;
    Some((first, first + 99))
}

fn within(reader: &mut Reader<'_>, node: &Node<'_>) -> Option<Span> {
    let span = reader.duration("within", node)?;
    if WITHIN.contains(&span) {
        return Some(span);
    }
    reader.problem(
        node.at,
        format!("`within` must be between {} and {}, not {span}", WITHIN.start(), WITHIN.end()),
    );
    None
}

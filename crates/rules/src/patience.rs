//! `on_limit` and `max_delay`: what becomes of a request for which too little is left.

use std::ops::RangeInclusive;

use tidegate_core::Span;
use tidegate_core::rule::OnLimit;

use crate::fields::Fields;
use crate::names::ON_LIMIT;
use crate::node::Node;
use crate::reader::Reader;

/// How long a request may be made to wait.
const MAX_DELAY: RangeInclusive<Span> = Span::from_millis(1)..=Span::from_secs(60);

/// Reads what becomes of such a request; what is wrong with it is reported.
pub(crate) fn read(reader: &mut Reader<'_>, fields: &Fields<'_, '_>) -> Option<OnLimit> {
    let longest = fields.get("max_delay").map(|node| max_delay(reader, node));
    let delays = match fields.get("on_limit") {
        Some(node) => Some(reader.named("on_limit", node, &ON_LIMIT)?),
        None if fields.means("on_limit") => return None,
        None => None,
    };
    if delays == Some(true) {
        if fields.lacks("max_delay")
            && let Some(at) = fields.key_at("on_limit")
        {
            let hint = "say how long a request may wait, such as `max_delay: 500ms`";
            reader.problem(at, format!("`on_limit: delay` has no `max_delay`; {hint}"));
        }
        return Some(OnLimit::Delay { longest: longest?? });
    }
    if let Some(at) = fields.key_at("max_delay") {
        reader.problem(at, "`max_delay` is for `on_limit: delay`; write that as well, or remove it");
        return None;
    }
    Some(OnLimit::Refuse)
}

fn max_delay(reader: &mut Reader<'_>, node: &Node<'_>) -> Option<Span> {
    let span = reader.duration("max_delay", node)?;
    if MAX_DELAY.contains(&span) {
        return Some(span);
    }
    let (least, most) = (MAX_DELAY.start(), MAX_DELAY.end());
    reader.problem(node.at, format!("`max_delay` must be between {least} and {most}, not {span}"));
    None
}

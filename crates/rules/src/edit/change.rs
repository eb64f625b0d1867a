//! What has to be written where, so that a text says something else.

use std::ops::Range;

use crate::edit::error::EditError;
use crate::edit::flow;
use crate::edit::lines::{self, Language};
use crate::edit::page::{Layout, Origin, Page, Shelf, id_of};
use crate::edit::piece::Piece;
use crate::edit::spot::{Cut, Spot, comma_after};
use crate::emit;
use crate::node::Node;

/// A part of a text and what takes its place.
pub(super) type Change = (Range<usize>, String);

/// `text` with all changes, which do not overlap.
pub(super) fn apply(text: &str, mut changes: Vec<Change>) -> String {
    // Stable: what goes to one place goes there in order.
    changes.sort_by_key(|(range, _)| range.start);
    let mut out = String::with_capacity(text.len());
    let mut done = 0;
    for (range, new) in changes {
        out.push_str(&text[done.min(range.start)..range.start]);
        out.push_str(&new);
        done = done.max(range.end);
    }
    out.push_str(&text[done..]);
    out
}

/// A rule on its way into a text.
pub(super) struct Fresh<'n, 't> {
    pub(super) node: &'n Node<'t>,
    cut: Cut,
    language: Language,
    flow: bool,
}

impl<'n, 't> Fresh<'n, 't> {
    /// The only rule of a page.
    pub(super) fn of(page: &'n Page<'t>, wanted: &str) -> Result<Self, EditError> {
        let spots = page.nothing_but_rules()?;
        let [spot] = spots.as_slice() else {
            return Err(EditError::NotOne(spots.len()));
        };
        let node = page.rule(spot).ok_or(EditError::NotOne(0))?;
        let found = id_of(node).unwrap_or_default();
        if found != wanted {
            return Err(EditError::OtherId { wanted: wanted.into(), found: found.into() });
        }
        let flow = page.text[spot.value.start..].starts_with('{');
        Ok(Self { node, cut: spot.cut(page.text), language: page.language, flow })
    }

    /// The ways to write it in lines, best first: as its author did, and without comments.
    fn blocks(&self) -> Vec<String> {
        self.instead_of(false)
    }

    /// The same in place of another rule, which may be in braces as JSON is.
    fn instead_of(&self, flow: bool) -> Vec<String> {
        let mut plain = String::new();
        emit::document(&mut plain, self.node);
        let own = (self.language == Language::Yaml || flow).then(|| self.cut.body.clone());
        own.into_iter().chain([plain]).collect()
    }

    /// The ways to write it in flow style; on a line of its own each key, if `lines`.
    fn flows(&self, language: Language, lines: bool) -> Vec<String> {
        let fits = self.flow && (self.language == language || language == Language::Yaml);
        let own = fits.then(|| self.cut.body.trim_end().to_owned());
        own.into_iter().chain([flow::written(self.node, language, lines)]).collect()
    }

    /// The comments above it as lines, in another language's way.
    fn lead(&self, language: Language, indent: usize, ending: &str) -> String {
        let comment = |line: &String| {
            let said = line.strip_prefix(self.language.mark()).unwrap_or(line);
            format!("{:indent$}{}{said}{ending}", "", language.mark())
        };
        self.cut.lead.iter().map(comment).collect()
    }
}

/// The ways to put a rule where another one stands.
pub(super) fn replace(page: &Page<'_>, spot: &Spot, fresh: &Fresh<'_, '_>) -> Vec<Vec<Change>> {
    let ending = lines::ending(page.text);
    let lead = fresh.lead(page.language, spot.indent, ending);
    // The comments above stay, unless there are others.
    let other = !lead.is_empty() && fresh.cut.lead != spot.cut(page.text).lead;
    let above = (spot.lines && other).then_some((spot.whole.start..spot.own, lead));
    let (range, bodies): (_, Vec<String>) = if spot.is_block() {
        let end = if page.text[..spot.whole.end].ends_with('\n') { ending } else { "" };
        let line = |body: &String| item(body, spot.indent, spot.gap(page.text), ending) + end;
        let flow = page.text[spot.value.start..].starts_with('{');
        (spot.own..spot.whole.end, fresh.instead_of(flow).iter().map(line).collect())
    } else {
        let lines = page.language == Language::Json && page.text[spot.value.clone()].contains('\n');
        let bodies = fresh.flows(page.language, lines);
        let value = |body: &String| lines::indented(body, spot.indent, ending);
        (spot.value.clone(), bodies.iter().map(value).collect())
    };
    bodies
        .into_iter()
        .map(|body| above.clone().into_iter().chain([(range.clone(), body)]).collect())
        .collect()
}

/// Lines of a rule, after a dash if there is a gap for it; the last is not ended.
fn item(body: &str, indent: usize, gap: usize, ending: &str) -> String {
    let dash = if gap > 0 { "-" } else { "" };
    format!("{:indent$}{dash:gap$}{}", "", lines::indented(body, indent + gap, ending))
}

/// The ways to add a rule after the last one of a document.
pub(super) fn add(
    page: &Page<'_>,
    shelf: &Shelf<'_, '_>,
    fresh: &Fresh<'_, '_>,
) -> Result<Vec<Vec<Change>>, EditError> {
    let last = shelf.rules.len().checked_sub(1).map(|item| Spot::of(page, shelf, item)).transpose()?;
    let one = |change: Change| vec![change];
    Ok(match (shelf.layout, &last) {
        (Layout::Block(..), Some(last)) => {
            fresh.blocks().iter().map(|body| one(item_after(page, last, fresh, body))).collect()
        }
        (Layout::Document(_), Some(last)) => document_after(page, last, fresh).into_iter().map(one).collect(),
        (Layout::Flow(..), Some(last)) => flow_after(page, last, fresh),
        (Layout::Flow(list, _, Origin::Colon(colon)), None) if is_bare(page, shelf, list) => {
            fresh.blocks().iter().map(|body| first_item(page, list, colon, fresh, body)).collect()
        }
        (Layout::Flow(list, ..), None) => {
            let at = list.range.start + 1;
            fresh.flows(page.language, false).into_iter().map(|body| one((at..at, body))).collect()
        }
        (Layout::Absent(root), _) => list_at_the_end(page, root, fresh).into_iter().map(one).collect(),
        _ => return Err(EditError::Layout(id_of(fresh.node).unwrap_or_default().into())),
    })
}

/// Whether a list is `[]` in a mapping that is written in lines.
fn is_bare(page: &Page<'_>, shelf: &Shelf<'_, '_>, list: &Piece) -> bool {
    let inside = page.text.get(list.range.start + 1..list.range.end - 1);
    let in_flow = page.is_flow(shelf.root);
    !in_flow && inside.is_some_and(|inside| inside.trim().is_empty())
}

/// A new line at `at`, which may be the end of a text whose last line is not ended.
fn new_lines(page: &Page<'_>, at: usize, lines: &str) -> Change {
    let ending = lines::ending(page.text);
    let ended = at == 0 || page.text[..at].ends_with('\n');
    (at..at, if ended { format!("{lines}{ending}") } else { format!("{ending}{lines}") })
}

fn item_after(page: &Page<'_>, last: &Spot, fresh: &Fresh<'_, '_>, body: &str) -> Change {
    let ending = lines::ending(page.text);
    // Where rules are set apart by empty lines, this one is too.
    let above = page.text[..last.whole.start].trim_end_matches([' ', '\r']);
    let apart = last.item > 0
        && above.strip_suffix('\n').is_some_and(|above| above.trim_end_matches([' ', '\r']).ends_with('\n'));
    let apart = if apart { ending } else { "" };
    let lead = fresh.lead(page.language, last.indent, ending);
    let lines = format!("{apart}{lead}{}", item(body, last.indent, last.gap(page.text), ending));
    new_lines(page, last.whole.end, &lines)
}

fn document_after(page: &Page<'_>, last: &Spot, fresh: &Fresh<'_, '_>) -> Vec<Change> {
    let ending = lines::ending(page.text);
    let lead = fresh.lead(page.language, 0, ending);
    let at = if last.lines { last.whole.end } else { lines::next(page.text, last.value.end) };
    let (between, bodies) = match page.language {
        Language::Json => (ending.to_owned(), fresh.flows(page.language, true)),
        Language::Yaml => (format!("---{ending}"), fresh.blocks()),
    };
    let lines = |body: &String| format!("{between}{lead}{}", lines::indented(body, 0, ending));
    bodies.iter().map(|body| new_lines(page, at, &lines(body))).collect()
}

fn flow_after(page: &Page<'_>, last: &Spot, fresh: &Fresh<'_, '_>) -> Vec<Vec<Change>> {
    let ending = lines::ending(page.text);
    let comma = comma_after(page, last.value.end);
    let end = comma.map_or(last.value.end, |comma| comma + 1);
    let many = page.language == Language::Json && page.text[last.value.clone()].contains('\n');
    let bodies = fresh.flows(page.language, many);
    let indented = |body: &String| lines::indented(body, last.indent, ending);
    let separator = || comma.is_none().then(|| (end..end, ",".to_owned()));
    let own_line = |body: &String| {
        let at = lines::end(page.text, end);
        let lead = fresh.lead(page.language, last.indent, ending);
        let body = format!("{ending}{lead}{:indent$}{}", "", indented(body), indent = last.indent);
        separator().into_iter().chain([(at..at, body)]).collect()
    };
    let same_line =
        |body: &String| separator().into_iter().chain([(end..end, format!(" {}", indented(body)))]).collect();
    if last.lines { bodies.iter().map(own_line).collect() } else { bodies.iter().map(same_line).collect() }
}

/// `rules: []` becomes a list in lines; what is left of the line stays there.
fn first_item(page: &Page<'_>, list: &Piece, colon: usize, fresh: &Fresh<'_, '_>, body: &str) -> Vec<Change> {
    let ending = lines::ending(page.text);
    let indent = lines::indent(&page.text[lines::start(page.text, colon)..]) + 2;
    let lines = fresh.lead(page.language, indent, ending) + &item(body, indent, 2, ending);
    vec![
        (colon..list.range.end, String::new()),
        new_lines(page, lines::next(page.text, list.range.end), &lines),
    ]
}

/// A document that says nothing of rules gets a list of them.
fn list_at_the_end(page: &Page<'_>, root: &Piece, fresh: &Fresh<'_, '_>) -> Vec<Change> {
    let ending = lines::ending(page.text);
    if !root.is_flow() {
        let at = page.language.below(page.text, lines::next(page.text, root.range.end), 1);
        let indent = root.range.start - lines::start(page.text, root.range.start);
        let lead = fresh.lead(page.language, indent + 2, ending);
        let lines = |body: &String| {
            let item = item(body, indent + 2, 2, ending);
            format!("{:indent$}rules:{ending}{lead}{item}", "")
        };
        return fresh.blocks().iter().map(|body| new_lines(page, at, &lines(body))).collect();
    }
    let at = root.entries().last().map_or(root.range.end - 1, |(_, value)| value.range.end);
    let key = if page.language == Language::Json { "\"rules\"" } else { "rules" };
    let bodies = fresh.flows(page.language, false).into_iter();
    bodies.map(|body| (at..at, format!(", {key}: [{body}]"))).collect()
}

/// The ways to make a rule disappear; `last` tells that no other document says anything about rules.
pub(super) fn remove(page: &Page<'_>, shelf: &Shelf<'_, '_>, spot: &Spot, last: bool) -> Vec<Vec<Change>> {
    let ending = if page.text[..spot.whole.end].ends_with('\n') { lines::ending(page.text) } else { "" };
    let nothing = match page.language {
        Language::Json => format!("{{\"rules\": []}}{ending}"),
        Language::Yaml => format!("rules: []{ending}"),
    };
    let gone = |range: Range<usize>| (range, String::new());
    let changes = match shelf.layout {
        Layout::Document(_) if last => vec![(spot.whole.clone(), nothing)],
        Layout::Document(_) => {
            let from = page.marker_above(spot.whole.start).filter(|_| spot.lines);
            vec![gone(from.unwrap_or(spot.whole.start)..spot.whole.end)]
        }
        Layout::Block([_], Origin::Colon(colon)) => {
            vec![(colon..colon, " []".to_owned()), gone(spot.whole.clone())]
        }
        Layout::Block([_], Origin::Start(_)) => vec![(spot.whole.clone(), nothing)],
        Layout::Flow(list, [_], _) => return emptied(page, list, spot),
        Layout::Flow(_, items, _) => between_commas(page, items, spot),
        _ => vec![gone(spot.whole.clone())],
    };
    vec![changes]
}

/// Takes the only item out of a list in brackets. Comments that are not its own stay, if what is left can be read then.
fn emptied(page: &Page<'_>, list: &Piece, spot: &Spot) -> Vec<Vec<Change>> {
    let all = vec![(list.range.clone(), "[]".to_owned())];
    let inside =
        [list.range.start + 1..spot.whole.start, spot.whole.end.min(list.range.end)..list.range.end - 1];
    let rest = |range: &Range<usize>| page.text.get(range.clone()).unwrap_or_default();
    let bare = inside.iter().all(|range| rest(range).trim_matches(',').trim().is_empty());
    if bare { vec![all] } else { vec![between_commas(page, &[], spot), all] }
}

/// Takes an item out of a list, with the comma that set it apart.
fn between_commas(page: &Page<'_>, items: &[Piece], spot: &Spot) -> Vec<Change> {
    let gone = |range: Range<usize>| (range, String::new());
    let previous = spot.item.checked_sub(1).and_then(|index| items.get(index));
    let before = previous.and_then(|piece| comma_after(page, piece.range.end));
    match (comma_after(page, spot.value.end), before) {
        (Some(comma), _) if spot.whole.contains(&comma) => vec![gone(spot.whole.clone())],
        (Some(comma), _) if !spot.lines => {
            let rest = &page.text[comma + 1..];
            vec![gone(spot.value.start..spot.value.end), gone(comma..comma + 1 + lines::indent(rest))]
        }
        (Some(comma), _) => vec![gone(spot.whole.clone()), gone(comma..comma + 1)],
        (None, Some(comma)) if page.text[comma + 1..spot.whole.start].trim().is_empty() && !spot.lines => {
            vec![gone(comma..spot.whole.end)]
        }
        (None, Some(comma)) => vec![gone(comma..comma + 1), gone(spot.whole.clone())],
        (None, None) => vec![gone(spot.whole.clone())],
    }
}

//! Where one rule stands, and what around it belongs to it.

use std::ops::Range;

use crate::edit::error::EditError;
use crate::edit::lines::{self, Language};
use crate::edit::page::{Layout, Page, Shelf, id_of};
use crate::edit::piece::Piece;

/// Where a rule stands.
#[derive(Debug)]
pub(super) struct Spot {
    /// Its document, and its position there.
    pub(super) root: usize,
    pub(super) item: usize,
    pub(super) style: Style,
    /// The rule without any comments around it.
    pub(super) value: Range<usize>,
    /// The rule with all that belongs to it: comments directly above, beside and below.
    pub(super) whole: Range<usize>,
    /// Where the comments above end.
    pub(super) own: usize,
    /// Whether it has its lines to itself.
    pub(super) lines: bool,
    /// How far its first line is indented, and how far its further ones are at the least.
    pub(super) indent: usize,
    pub(super) hang: usize,
}

/// How a rule is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// After a dash.
    Block,
    /// As a document of YAML.
    Document,
    /// Between commas.
    Flow,
    /// As a value by itself, on a line with something else or in JSON.
    Inline,
}

/// A rule as it is written, with the comments that belong to it.
pub(super) struct Cut {
    /// The comments above, as they are written.
    pub(super) lead: Vec<String>,
    pub(super) body: String,
}

impl Cut {
    pub(super) fn into_text(self) -> String {
        let mut text: String = self.lead.iter().flat_map(|line| [line, "\n"]).collect();
        text.push_str(&self.body);
        text
    }
}

impl Spot {
    /// Where rule `item` of a document stands.
    pub(super) fn of(page: &Page<'_>, shelf: &Shelf<'_, '_>, item: usize) -> Result<Self, EditError> {
        let found = match shelf.layout {
            Layout::Document(piece) => Some(Self::document(page, shelf.root, piece)),
            Layout::Block(items, from) => Self::block(page, shelf.root, items, item, from.offset()),
            Layout::Flow(list, items, _) => Self::flow(page, shelf.root, (list, items), item),
            Layout::Absent(_) | Layout::Alias => None,
        };
        let id = || shelf.rules.get(item).and_then(id_of).unwrap_or_default().into();
        let aliased = match shelf.layout {
            Layout::Block(items, _) | Layout::Flow(_, items, _) => {
                items.get(item).is_some_and(|piece| piece.entries().is_empty())
            }
            Layout::Alias => true,
            Layout::Document(_) | Layout::Absent(_) => false,
        };
        if aliased || found.as_ref().is_some_and(|spot| page.is_shared(&spot.value)) {
            return Err(EditError::Alias(id()));
        }
        found.ok_or_else(|| EditError::Layout(id()))
    }

    fn block(page: &Page<'_>, root: usize, items: &[Piece], item: usize, from: usize) -> Option<Self> {
        let Page { text, language, .. } = *page;
        let value = items.get(item)?;
        let previous = item.checked_sub(1).and_then(|index| items.get(index)).map(|piece| piece.range.end);
        let dash = next_dash(text, previous.unwrap_or(from))?;
        let line = lines::start(text, dash);
        let indent = dash - line;
        if lines::indent(&text[line..]) != indent {
            return None;
        }
        let floor = previous.map_or(from, |end| language.below(text, lines::next(text, end), indent + 1));
        let bottom = language.below(text, lines::next(text, value.range.end), indent + 1);
        let key = value.entries().first().map(|(key, _)| key.range.start).filter(|_| !value.is_flow());
        let first = key.unwrap_or(value.range.start);
        Some(Self {
            root,
            item,
            style: Style::Block,
            value: value.range.clone(),
            whole: language.above(text, line, floor)..bottom,
            own: line,
            lines: true,
            indent,
            hang: first - lines::start(text, first),
        })
    }

    fn document(page: &Page<'_>, root: usize, piece: &Piece) -> Self {
        let Page { text, language, .. } = *page;
        let floor = page.start(root);
        let inline = || Self::inline(page, (root, 0), Style::Inline, &piece.range, floor, piece.range.end);
        if language == Language::Json {
            return inline();
        }
        let line = lines::start(text, piece.range.start);
        let indent = piece.range.start - line;
        if line < floor || lines::indent(&text[line..]) != indent {
            return inline();
        }
        Self {
            root,
            item: 0,
            style: Style::Document,
            value: piece.range.clone(),
            whole: language.above(text, line, floor)
                ..language.below(text, lines::next(text, piece.range.end), 0),
            own: line,
            lines: true,
            indent,
            hang: indent,
        }
    }

    fn flow(page: &Page<'_>, root: usize, list: (&Piece, &[Piece]), item: usize) -> Option<Self> {
        let (list, items) = list;
        let value = items.get(item)?.range.clone();
        let previous = item.checked_sub(1).and_then(|index| items.get(index));
        let floor = previous.map_or(list.range.start + 1, |piece| piece.range.end);
        let end = comma_after(page, value.end).map_or(value.end, |comma| comma + 1);
        Some(Self::inline(page, (root, item), Style::Flow, &value, floor, end))
    }

    /// A value that may share its lines; what belongs to it on its last line ends at `end`.
    fn inline(
        page: &Page<'_>,
        (root, item): (usize, usize),
        style: Style,
        value: &Range<usize>,
        floor: usize,
        end: usize,
    ) -> Self {
        let Page { text, language, .. } = *page;
        let shared = Self {
            root,
            item,
            style,
            value: value.clone(),
            whole: value.clone(),
            own: value.start,
            lines: false,
            indent: 0,
            hang: 0,
        };
        // Not further back: all rules may be on one line.
        let line = text[floor..value.start].rfind('\n').map(|end| floor + end + 1);
        let line =
            line.or((floor == 0).then_some(0)).filter(|line| text[*line..value.start].trim().is_empty());
        let Some(line) = line.filter(|_| language.is_over(&text[end..lines::end(text, end)])) else {
            return shared;
        };
        let indent = lines::indent(&text[line..]);
        let whole = language.above(text, line, floor)..lines::next(text, end);
        Self { whole, own: line, lines: true, indent, hang: indent, ..shared }
    }

    /// Whether the rule is written in lines of its own, so that lines can take its place.
    pub(super) fn is_block(&self) -> bool {
        matches!(self.style, Style::Block | Style::Document)
    }

    /// The rule as it is written.
    pub(super) fn cut(&self, text: &str) -> Cut {
        let lead = text[self.whole.start..self.own].lines().map(|line| line.trim().to_owned()).collect();
        let part = if self.is_block() { self.body(text)..self.whole.end } else { self.value.clone() };
        Cut { lead, body: lines::dedented(&text[part], self.hang) }
    }

    /// Where the rule begins; a comment right after the dash belongs to it.
    fn body(&self, text: &str) -> usize {
        let dash = self.own + self.indent;
        let rest = text[dash..].strip_prefix('-').unwrap_or_default();
        let comment = dash + 1 + lines::indent(rest);
        if self.style == Style::Block && text[comment..].starts_with('#') {
            comment
        } else {
            self.value.start
        }
    }

    /// How far the rule is from where its line starts: a dash and spaces, or nothing.
    pub(super) fn gap(&self, text: &str) -> usize {
        const USUAL: usize = 2;
        match self.style {
            Style::Block if lines::start(text, self.value.start) == self.own => {
                self.hang.saturating_sub(self.indent).max(USUAL)
            }
            Style::Block => USUAL,
            Style::Document | Style::Flow | Style::Inline => 0,
        }
    }
}

/// The comma after a value that ends at `end`.
pub(super) fn comma_after(page: &Page<'_>, end: usize) -> Option<usize> {
    let at = page.language.skip(page.text, end);
    page.text[at..].starts_with(',').then_some(at)
}

/// The dash that comes next; before the first of a list there may be its anchor and its tag.
fn next_dash(text: &str, from: usize) -> Option<usize> {
    let at = lines::skip_properties(text, from)?;
    let rest = text[at..].strip_prefix('-')?;
    rest.starts_with(char::is_whitespace).then_some(at)
}

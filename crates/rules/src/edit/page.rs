//! A text opened for changes: what it says, and where.

use std::collections::HashMap;
use std::ops::Range;

use crate::document::{self, Form};
use crate::edit::error::EditError;
use crate::edit::lines::{self, Language};
use crate::edit::piece::{self, Links, Parts, Piece};
use crate::edit::spot::Spot;
use crate::json;
use crate::node::{Kind, Node};
use crate::problem::Problems;
use crate::reader::Reader;
use crate::text::Text;
use crate::{Source, read};

/// A sound text.
pub(super) struct Page<'t> {
    /// Without a byte order mark.
    pub(super) text: &'t str,
    pub(super) language: Language,
    /// What its documents say.
    pub(super) roots: Vec<Node<'t>>,
    /// Where they say it.
    pieces: Vec<Piece>,
    links: Links,
    /// The lines between documents of YAML.
    markers: Vec<Range<usize>>,
    /// The ids of all rules, also of those that are not written as such.
    ids: Vec<Box<str>>,
}

/// The rules of one document.
pub(super) struct Shelf<'p, 't> {
    pub(super) root: usize,
    pub(super) rules: &'p [Node<'t>],
    pub(super) layout: Layout<'p>,
}

/// How the rules of a document are laid out.
#[derive(Clone, Copy)]
pub(super) enum Layout<'p> {
    /// The document is a rule.
    Document(&'p Piece),
    /// A list with a dash before each.
    Block(&'p [Piece], Origin),
    /// A list in brackets.
    Flow(&'p Piece, &'p [Piece], Origin),
    /// There is no list; this is the mapping it would be in.
    Absent(&'p Piece),
    /// An alias of a list elsewhere.
    Alias,
}

/// Where a list can begin.
#[derive(Clone, Copy)]
pub(super) enum Origin {
    /// After the colon of its key.
    Colon(usize),
    /// Where its document does.
    Start(usize),
}

impl Origin {
    pub(super) fn offset(self) -> usize {
        match self {
            Self::Colon(offset) | Self::Start(offset) => offset,
        }
    }
}

impl<'t> Page<'t> {
    pub(super) fn open(source: &Source<'t>) -> Result<Self, Problems> {
        let read = read(source)?;
        let content = source.text.strip_prefix('\u{feff}').unwrap_or(source.text);
        let text = Text::new(source.name, content);
        let roots = document::parse(&mut Reader::new(&text), content);
        let (pieces, links) = piece::documents(content);
        let is_json = json::looks_like(content);
        Ok(Self {
            text: content,
            language: if is_json { Language::Json } else { Language::Yaml },
            roots,
            pieces,
            links,
            markers: if is_json { Vec::new() } else { lines::markers(content) },
            ids: read.rules.into_iter().map(|named| named.name).collect(),
        })
    }

    /// The documents that can hold rules, with those they hold.
    pub(super) fn shelves(&self) -> impl DoubleEndedIterator<Item = Shelf<'_, 't>> {
        (0..self.roots.len()).filter_map(|root| self.shelf(root))
    }

    /// Returns the rules of the document at position `root`, if it can hold any.
    pub(super) fn shelf(&self, root: usize) -> Option<Shelf<'_, 't>> {
        let (rules, layout) = self.rules_of(root, self.roots.get(root)?, self.pieces.get(root)?)?;
        Some(Shelf { root, rules, layout })
    }

    /// Returns where each rule is: its document, and its position there. For those who look for many.
    pub(super) fn index(&self) -> HashMap<&str, (usize, usize)> {
        let mut index = HashMap::with_capacity(self.ids.len());
        for shelf in self.shelves() {
            for (item, rule) in shelf.rules.iter().enumerate() {
                // Of several the first, as `find` has it.
                id_of(rule).map(|id| index.entry(id).or_insert((shelf.root, item)));
            }
        }
        index
    }

    fn rules_of<'p>(
        &'p self,
        root: usize,
        node: &'p Node<'t>,
        piece: &'p Piece,
    ) -> Option<(&'p [Node<'t>], Layout<'p>)> {
        match Form::of(node) {
            Form::Rule => Some((std::slice::from_ref(node), Layout::Document(piece))),
            Form::List => Some((node.items(), layout(piece, Origin::Start(self.start(root))))),
            Form::Whole => {
                let index = node.entries().iter().position(|entry| entry.key.value == "rules");
                let Some((key, list)) = index.and_then(|index| piece.entries().get(index)) else {
                    return Some((&[], Layout::Absent(piece)));
                };
                let rules = node.get("rules").map_or(&[][..], Node::items);
                let colon = self.language.skip(self.text, key.range.end);
                let written = self.text[colon..].starts_with(':');
                let layout = if written { layout(list, Origin::Colon(colon + 1)) } else { Layout::Alias };
                Some((rules, layout))
            }
            Form::Nothing | Form::RateLimits | Form::Envoy | Form::Scalar => None,
        }
    }

    /// Where the part of the text starts in which a document stands.
    pub(super) fn start(&self, root: usize) -> usize {
        let piece = |index: usize| self.pieces.get(index).map(|piece| piece.range.clone());
        let own = piece(root).unwrap_or_default();
        let previous = root.checked_sub(1).and_then(piece).map_or(0, |range| range.end);
        let next = self.markers.partition_point(|marker| marker.start < own.start);
        let before = next.checked_sub(1).and_then(|index| self.markers.get(index));
        before.map_or(previous, |marker| marker.end)
    }

    /// Whether a document is in braces or brackets.
    pub(super) fn is_flow(&self, root: usize) -> bool {
        self.pieces.get(root).is_some_and(Piece::is_flow)
    }

    /// The marker line above `at`, if nothing is between them.
    pub(super) fn marker_above(&self, at: usize) -> Option<usize> {
        let next = self.markers.partition_point(|marker| marker.start < at);
        let marker = next.checked_sub(1).and_then(|index| self.markers.get(index))?;
        self.text[marker.end..at].trim().is_empty().then_some(marker.start)
    }

    /// Where the rule `id` stands; `None` if there is none.
    pub(super) fn find(&self, id: &str) -> Result<Option<Spot>, EditError> {
        for shelf in self.shelves() {
            if let Some(item) = shelf.rules.iter().position(|rule| id_of(rule) == Some(id)) {
                return Spot::of(self, &shelf, item).map(Some);
            }
        }
        if self.ids.iter().any(|known| **known == *id) { Err(self.not_one_by_one()) } else { Ok(None) }
    }

    /// The rule at a spot.
    pub(super) fn rule(&self, spot: &Spot) -> Option<&Node<'t>> {
        let root = self.roots.get(spot.root)?;
        match Form::of(root) {
            Form::Rule => Some(root),
            Form::List => root.items().get(spot.item),
            _ => root.get("rules")?.items().get(spot.item),
        }
    }

    /// Where all rules stand, in order; fails if the text says anything else.
    pub(super) fn nothing_but_rules(&self) -> Result<Vec<Spot>, EditError> {
        let forms = || self.roots.iter().map(Form::of);
        if forms().any(|form| matches!(form, Form::RateLimits | Form::Envoy)) {
            return Err(self.not_one_by_one());
        }
        let wholes = self.roots.iter().filter(|root| Form::of(root) == Form::Whole);
        let keys = wholes.flat_map(Node::entries).map(|entry| &*entry.key.value);
        let more: Vec<Box<str>> = keys.filter(|key| *key != "rules").map(Into::into).collect();
        if !more.is_empty() {
            return Err(EditError::More(more));
        }
        let mut spots = Vec::new();
        for shelf in self.shelves() {
            for item in 0..shelf.rules.len() {
                spots.push(Spot::of(self, &shelf, item)?);
            }
        }
        Ok(spots)
    }

    pub(super) fn not_one_by_one(&self) -> EditError {
        let tiers = self.roots.iter().any(|root| Form::of(root) == Form::RateLimits);
        EditError::Form(if tiers { "rate_limits" } else { "descriptors" }.into())
    }

    /// Whether an alias leads into a range or out of it.
    pub(super) fn is_shared(&self, range: &Range<usize>) -> bool {
        self.links.cross(range)
    }
}

/// The id of a rule.
pub(super) fn id_of<'n>(rule: &'n Node<'_>) -> Option<&'n str> {
    #[cfg(test)]
    tests::LOOKS.with(|looks| looks.set(looks.get() + 1));
    match &rule.get("rule_id")?.kind {
        Kind::Text(id) => Some(id),
        _ => None,
    }
}

fn layout(list: &Piece, from: Origin) -> Layout<'_> {
    match &list.parts {
        Parts::List { flow: true, items } => Layout::Flow(list, items, from),
        Parts::List { flow: false, items } => Layout::Block(items, from),
        _ => Layout::Alias,
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::fmt::Write as _;

    use crate::{Source, rule_texts, split};

    thread_local! {
        /// How often the id of a rule was looked at.
        pub(super) static LOOKS: Cell<usize> = const { Cell::new(0) };
    }

    fn looks_for(text: &str, ids: &[String]) -> usize {
        let source = Source { name: "rules.yaml", text };
        LOOKS.with(|looks| looks.set(0));
        let texts = rule_texts(&source, ids.iter().map(String::as_str));
        assert!(texts.iter().all(Option::is_some));
        split(&source).unwrap();
        LOOKS.with(Cell::get)
    }

    #[test]
    fn many_rules_are_found_in_one_pass() {
        let ids: Vec<String> = (0..1_000).map(|number| format!("r{number}")).collect();
        let mut list = String::new();
        let mut documents = String::new();
        for id in &ids {
            let rule = format!("{{rule_id: {id}, identifier_type: global, limit: 5, window: 1s}}");
            writeln!(list, "- {rule}").unwrap();
            writeln!(documents, "---\n{rule}").unwrap();
        }
        for text in [list, documents] {
            let looks = looks_for(&text, &ids);
            assert!(looks <= 10 * ids.len(), "{looks} looks at 1000 rules");
        }
    }
}

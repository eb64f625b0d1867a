//! Where the values of a text begin and end.

use std::collections::HashMap;
use std::ops::Range;

use jsonc_parser::Scanner;
use jsonc_parser::tokens::Token;
use saphyr_parser::{Event, Parser, Span, StrInput};

use crate::edit::lines::{self, Language};
use crate::json;

/// A value as a range of bytes.
#[derive(Debug)]
pub(super) struct Piece {
    /// Without comments around it; with its anchor and tag.
    pub(super) range: Range<usize>,
    pub(super) parts: Parts,
}

/// What a value is made of.
#[derive(Debug)]
pub(super) enum Parts {
    /// A scalar, or an alias of anything.
    One,
    List {
        flow: bool,
        items: Vec<Piece>,
    },
    Map {
        flow: bool,
        entries: Vec<(Piece, Piece)>,
    },
}

/// Aliases and the anchors they lead to.
#[derive(Debug, Default)]
pub(super) struct Links {
    anchors: HashMap<usize, usize>,
    /// Where one end of each is and where the other, both ways round and in order.
    ends: Vec<(usize, usize)>,
}

impl Links {
    /// Whether an alias leads into `range` or out of it.
    pub(super) fn cross(&self, range: &Range<usize>) -> bool {
        let inside = self.ends.partition_point(|(end, _)| *end < range.start)
            ..self.ends.partition_point(|(end, _)| *end < range.end);
        self.ends.get(inside).is_some_and(|ends| ends.iter().any(|(_, other)| !range.contains(other)))
    }
}

impl Piece {
    /// The entries of a mapping; none of anything else.
    pub(super) fn entries(&self) -> &[(Self, Self)] {
        match &self.parts {
            Parts::Map { entries, .. } => entries,
            _ => &[],
        }
    }

    pub(super) fn is_flow(&self) -> bool {
        matches!(self.parts, Parts::List { flow: true, .. } | Parts::Map { flow: true, .. })
    }
}

/// The documents of a text that has been read, and so is known to be sound.
pub(super) fn documents(content: &str) -> (Vec<Piece>, Links) {
    if json::looks_like(content) {
        let mut json = Json { scanner: json::scanner(content) };
        (std::iter::from_fn(|| json.value()).collect(), Links::default())
    } else {
        let mut yaml = Yaml {
            content,
            events: Parser::new_from_str(content),
            offsets: offsets(content),
            links: Links::default(),
        };
        let documents = std::iter::from_fn(|| yaml.document()).collect();
        yaml.links.ends.sort_unstable();
        (documents, yaml.links)
    }
}

struct Json<'t> {
    scanner: Scanner<'t>,
}

impl<'t> Json<'t> {
    fn next(&mut self) -> Option<Token<'t>> {
        loop {
            match self.scanner.scan().ok()?? {
                Token::CommentLine(_) | Token::CommentBlock(_) => {}
                token => return Some(token),
            }
        }
    }

    fn value(&mut self) -> Option<Piece> {
        let token = self.next()?;
        self.value_from(&token)
    }

    fn value_from(&mut self, token: &Token<'_>) -> Option<Piece> {
        let start = self.scanner.token_start();
        let parts = match token {
            Token::OpenBracket => Parts::List { flow: true, items: self.items()? },
            Token::OpenBrace => {
                let (mut keys, mut values) = (Vec::new(), Vec::new());
                // Keys and values take turns.
                for (index, piece) in self.items()?.into_iter().enumerate() {
                    if index % 2 == 0 { &mut keys } else { &mut values }.push(piece);
                }
                Parts::Map { flow: true, entries: keys.into_iter().zip(values).collect() }
            }
            _ => Parts::One,
        };
        Some(Piece { range: start..self.scanner.token_end(), parts })
    }

    /// The values up to the closing bracket or brace.
    fn items(&mut self) -> Option<Vec<Piece>> {
        let mut items = Vec::new();
        loop {
            match self.next()? {
                Token::CloseBracket | Token::CloseBrace => return Some(items),
                Token::Comma | Token::Colon => {}
                token => items.push(self.value_from(&token)?),
            }
        }
    }
}

/// The byte at which each character starts; `None` where that is the same.
fn offsets(content: &str) -> Option<Vec<usize>> {
    (!content.is_ascii()).then(|| content.char_indices().map(|(offset, _)| offset).collect())
}

struct Yaml<'t> {
    content: &'t str,
    events: Parser<'t, StrInput<'t>>,
    offsets: Option<Vec<usize>>,
    links: Links,
}

impl<'t> Yaml<'t> {
    fn next(&mut self) -> Option<(Event<'t>, Range<usize>)> {
        let (event, span) = self.events.next()?.ok()?;
        Some((event, self.bytes(span)))
    }

    fn bytes(&self, span: Span) -> Range<usize> {
        let byte = |index: usize| match &self.offsets {
            Some(offsets) => offsets.get(index).copied().unwrap_or(self.content.len()),
            None => index.min(self.content.len()),
        };
        byte(span.start.index())..byte(span.end.index())
    }

    fn document(&mut self) -> Option<Piece> {
        loop {
            match self.next()? {
                (Event::StreamEnd, _) => return None,
                (Event::StreamStart | Event::DocumentStart(_) | Event::DocumentEnd | Event::Nothing, _) => {}
                (event, range) => return self.piece(&event, range),
            }
        }
    }

    fn piece(&mut self, event: &Event<'_>, range: Range<usize>) -> Option<Piece> {
        let (Event::Scalar(_, _, anchor, _)
        | Event::SequenceStart(anchor, _)
        | Event::MappingStart(anchor, _)
        | Event::Alias(anchor)) = event
        else {
            return None;
        };
        match event {
            Event::Alias(_) => {
                let anchor = self.links.anchors.get(anchor).copied().unwrap_or_default();
                self.links.ends.extend([(anchor, range.start), (range.start, anchor)]);
            }
            _ if *anchor != 0 => drop(self.links.anchors.insert(*anchor, range.start)),
            _ => {}
        }
        match event {
            Event::SequenceStart(..) => self.list(&range),
            Event::MappingStart(..) => self.map(&range),
            _ => Some(Piece { range: range.start..self.trimmed(range), parts: Parts::One }),
        }
    }

    /// The end of a scalar; one in block style is said to go on to whatever comes next.
    fn trimmed(&self, range: Range<usize>) -> usize {
        range.start + self.content.get(range).map_or(0, |text| text.trim_end().len())
    }

    /// Where a collection that starts like this goes on after `bracket`, if it opens with it after its anchor and tag.
    fn opened(&self, start: &Range<usize>, bracket: char) -> Option<usize> {
        let at = lines::skip_properties(self.content, start.start)?;
        (!start.is_empty() && self.content[at..].starts_with(bracket)).then_some(at + 1)
    }

    /// Where a collection ends that is closed some time after `from`; what the parser says of it may be the place of a
    /// comma before, or include a comment after.
    fn closed(&self, from: usize) -> usize {
        let mut at = Language::Yaml.skip(self.content, from);
        if self.content[at..].starts_with(',') {
            at = Language::Yaml.skip(self.content, at + 1);
        }
        if self.content[at..].starts_with([']', '}']) { at + 1 } else { from }
    }

    fn list(&mut self, start: &Range<usize>) -> Option<Piece> {
        let opened = self.opened(start, '[');
        let mut items: Vec<Piece> = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, _) => {
                    let flow = opened.is_some();
                    let last = items.last().map(|item| item.range.end).or(opened).unwrap_or(start.end);
                    let end = if flow { self.closed(last) } else { last };
                    return Some(Piece { range: start.start..end, parts: Parts::List { flow, items } });
                }
                (event, range) => items.push(self.piece(&event, range)?),
            }
        }
    }

    fn map(&mut self, start: &Range<usize>) -> Option<Piece> {
        let opened = self.opened(start, '{');
        let mut entries: Vec<(Piece, Piece)> = Vec::new();
        loop {
            match self.next()? {
                (Event::MappingEnd, _) => {
                    let flow = opened.is_some();
                    let last = entries.last().map(|(key, value)| value.range.end.max(key.range.end));
                    let last = last.or(opened).unwrap_or(start.end);
                    let end = if flow { self.closed(last) } else { last };
                    return Some(Piece { range: start.start..end, parts: Parts::Map { flow, entries } });
                }
                (event, range) => {
                    let key = self.piece(&event, range)?;
                    let (event, range) = self.next()?;
                    entries.push((key, self.piece(&event, range)?));
                }
            }
        }
    }
}

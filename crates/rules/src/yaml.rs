//! YAML to nodes.

use std::borrow::Cow;
use std::collections::HashMap;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, ScanError, Span, Tag};

use crate::node::{Entry, Kind, MAX_DEPTH, Node, NodeBudget};
use crate::problem::quoted;
use crate::reader::Reader;
use crate::text::{Place, Placed};
use crate::yaml_input::{BoundedInput, Lookahead, MAX_SEPARATORS};

/// How many times its own size a text may be by its aliases: enough for thousands of rules to share a `match`, too
/// little for a bomb. What the aliases stand for shares memory, but rules that are made of it do not.
const MAX_GROWTH: usize = 16;

/// What aliases may stand for in any text, so that short ones may have some.
const FREE_GROWTH: usize = 256 * 1024;

/// The documents of a YAML text. What cannot be parsed is reported, and ends the text.
pub(crate) fn parse<'t>(reader: &mut Reader<'_>, content: &'t str) -> Vec<Node<'t>> {
    let lookahead = Lookahead::default();
    let events = Parser::new(BoundedInput::new(content, lookahead.clone()));
    let max_aliased = content.len().saturating_mul(MAX_GROWTH).saturating_add(FREE_GROWTH);
    let mut parser = Yaml {
        events,
        lookahead,
        reader,
        anchors: HashMap::new(),
        nodes: NodeBudget::of(content.len()),
        aliased: 0,
        max_aliased,
    };
    let mut documents = Vec::new();
    while let Ok((event, span)) = parser.next() {
        match event {
            Event::StreamEnd => break,
            Event::StreamStart | Event::DocumentStart(_) | Event::DocumentEnd | Event::Nothing => {}
            event => match parser.node(event, span, 0) {
                Ok(node) => documents.push(node),
                Err(Stop) => break,
            },
        }
    }
    documents
}

/// Reading cannot go on; why is reported.
struct Stop;

struct Yaml<'t, 'r, 'x> {
    events: Parser<'t, BoundedInput<'t>>,
    lookahead: Lookahead,
    reader: &'r mut Reader<'x>,
    anchors: HashMap<usize, Node<'t>>,
    nodes: NodeBudget,
    /// Bytes that the aliases so far stand for, and the most they may.
    aliased: usize,
    max_aliased: usize,
}

impl<'t> Yaml<'t, '_, '_> {
    fn next(&mut self) -> Result<(Event<'t>, Span), Stop> {
        self.lookahead.begin();
        let next = self.events.next();
        if self.lookahead.is_too_far() {
            let at = match &next {
                Some(Ok((_, span))) => place(span.start),
                Some(Err(error)) => place(*error.marker()),
                None => Place::START,
            };
            return Err(self.stop(
                at,
                format!(
                    "more than {MAX_SEPARATORS} commas, colons and brackets in one pair of brackets; write the list with `- `, \
                     or the document as JSON"
                ),
            ));
        }
        match next {
            Some(Ok(next)) => Ok(next),
            Some(Err(error)) => Err(self.stop(self.place_of(&error), syntax(&error))),
            None => Ok((Event::StreamEnd, Span::default())),
        }
    }

    /// Where an error is; the parser sees a tab only when the line before it is done with.
    fn place_of(&self, error: &ScanError) -> Place {
        let at = place(*error.marker());
        let tab = |line: u32| {
            let column = self.reader.text.line(line).position(|c| c == '\t')?;
            Some(Place { line, column: u32::try_from(column).ok()?.saturating_add(1) })
        };
        if !error.info().contains("tab") {
            return at;
        }
        tab(at.line).or_else(|| tab(at.line.saturating_add(1))).unwrap_or(at)
    }

    fn stop(&mut self, at: Place, message: impl Into<String>) -> Stop {
        self.reader.problem(at, message);
        Stop
    }

    fn node(&mut self, event: Event<'t>, span: Span, depth: usize) -> Result<Node<'t>, Stop> {
        let at = place(span.start);
        self.check_size(at, depth)?;
        let (node, anchor) = match event {
            Event::Alias(anchor) => return self.alias(at, anchor, depth),
            Event::Scalar(text, style, anchor, tag) => {
                (Node { at, kind: self.scalar(at, text, style, tag.as_deref()) }, anchor)
            }
            Event::SequenceStart(anchor, tag) => {
                self.collection_tag(at, tag.as_deref());
                (self.list(at, depth)?, anchor)
            }
            Event::MappingStart(anchor, tag) => {
                self.collection_tag(at, tag.as_deref());
                (self.map(at, depth)?, anchor)
            }
            _ => return Err(self.stop(at, "the text ends too early; complete it")),
        };
        if anchor != 0 {
            self.anchors.insert(anchor, node.clone());
        }
        Ok(node)
    }

    fn check_size(&mut self, at: Place, depth: usize) -> Result<(), Stop> {
        self.nodes.take().map_err(|message| self.stop(at, message))?;
        self.check_depth(at, depth)
    }

    fn check_depth(&mut self, at: Place, depth: usize) -> Result<(), Stop> {
        if depth > MAX_DEPTH {
            return Err(self.stop(at, format!("nested more than {MAX_DEPTH} levels deep; flatten it")));
        }
        Ok(())
    }

    fn list(&mut self, at: Place, depth: usize) -> Result<Node<'t>, Stop> {
        let mut items = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, _) => return Ok(Node { at, kind: Kind::List(items.into()) }),
                (event, span) => items.push(self.node(event, span, depth + 1)?),
            }
        }
    }

    fn map(&mut self, at: Place, depth: usize) -> Result<Node<'t>, Stop> {
        let mut entries = Vec::new();
        loop {
            let (event, span) = self.next()?;
            if event == Event::MappingEnd {
                return Ok(Node::map(self.reader, at, entries));
            }
            let written = matches!(event, Event::Scalar(..)).then(|| text_of(&event)).flatten();
            let key = self.node(event, span, depth + 1)?;
            let text = written.or_else(|| text_of_node(&key));
            let (event, span) = self.next()?;
            let value = self.node(event, span, depth + 1)?;
            match text {
                Some(text) => entries.push(Entry { key: Placed { at: key.at, value: text }, value }),
                None => self.reader.problem(key.at, format!("a key must be a text, not {}", key.describe())),
            }
        }
    }

    fn alias(&mut self, at: Place, anchor: usize, depth: usize) -> Result<Node<'t>, Stop> {
        let Some(node) = self.anchors.get(&anchor).cloned() else {
            return Err(self.stop(at, "an alias inside what it stands for has no end; write the value out"));
        };
        let extent = node.extent();
        self.check_aliased(at, extent.bytes)?;
        // Aliases of aliases get as deep as they are many.
        self.check_depth(at, depth + extent.levels - 1)?;
        Ok(node)
    }

    fn check_aliased(&mut self, at: Place, bytes: usize) -> Result<(), Stop> {
        self.aliased = self.aliased.saturating_add(bytes);
        if self.aliased <= self.max_aliased {
            return Ok(());
        }
        let message = format!(
            "aliases stand for more than {} bytes, {MAX_GROWTH} times the size of this text and {} KiB; \
             use fewer of them, give the document `defaults`, or split the text into several",
            self.max_aliased,
            FREE_GROWTH / 1024
        );
        Err(self.stop(at, message))
    }

    fn scalar(&mut self, at: Place, text: Cow<'t, str>, style: ScalarStyle, tag: Option<&Tag>) -> Kind<'t> {
        match tag {
            Some(tag) if is_core(tag) && tag.suffix == "str" => Kind::Text(text),
            Some(tag) if !is_core(tag) && !is_plain_mark(tag) => {
                self.reader.problem(at, unknown_tag(tag));
                Kind::Text(text)
            }
            _ if style == ScalarStyle::Plain => resolve(text),
            _ => Kind::Text(text),
        }
    }

    fn collection_tag(&mut self, at: Place, tag: Option<&Tag>) {
        if let Some(tag) = tag
            && !is_core(tag)
            && !is_plain_mark(tag)
        {
            self.reader.problem(at, unknown_tag(tag));
        }
    }
}

fn is_core(tag: &Tag) -> bool {
    tag.is_yaml_core_schema()
}

/// A lone `!` only says that nothing is to be read into a value.
fn is_plain_mark(tag: &Tag) -> bool {
    tag.suffix.is_empty() || tag.suffix == "!"
}

fn unknown_tag(tag: &Tag) -> String {
    format!("tag {} means nothing here; remove it", quoted(&tag.to_string()))
}

fn text_of<'t>(event: &Event<'t>) -> Option<Cow<'t, str>> {
    match event {
        Event::Scalar(text, style, ..) if !text.is_empty() || *style != ScalarStyle::Plain => {
            Some(text.clone())
        }
        _ => None,
    }
}

fn text_of_node<'t>(node: &Node<'t>) -> Option<Cow<'t, str>> {
    match &node.kind {
        Kind::Text(text) | Kind::Number(text) => Some(text.clone()),
        _ => None,
    }
}

/// What a plain scalar is (YAML 1.2, core schema).
pub(crate) fn resolve(text: Cow<'_, str>) -> Kind<'_> {
    match &*text {
        "" | "~" | "null" | "Null" | "NULL" => Kind::Null,
        "true" => Kind::Flag(true, "true"),
        "True" => Kind::Flag(true, "True"),
        "TRUE" => Kind::Flag(true, "TRUE"),
        "false" => Kind::Flag(false, "false"),
        "False" => Kind::Flag(false, "False"),
        "FALSE" => Kind::Flag(false, "FALSE"),
        number if is_number(number) => Kind::Number(text),
        _ => Kind::Text(text),
    }
}

fn is_number(text: &str) -> bool {
    if matches!(text, ".nan" | ".NaN" | ".NAN") {
        return true;
    }
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let based = |prefix, base| {
        text.strip_prefix(prefix)
            .is_some_and(|digits: &str| !digits.is_empty() && digits.chars().all(|c| c.is_digit(base)))
    };
    matches!(unsigned, ".inf" | ".Inf" | ".INF")
        || based("0o", 8)
        || based("0x", 16)
        // Rust's floats are YAML's, but for the names of the infinite ones.
        || (unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.') && unsigned.parse::<f64>().is_ok())
}

fn place(marker: Marker) -> Place {
    let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    Place { line: number(marker.line().max(1)), column: number(marker.col() + 1) }
}

/// What the parser says, with the usual way out.
fn syntax(error: &ScanError) -> String {
    let said = error.info();
    let fix = match said {
        _ if said.contains("anchor") => "a text that starts with `*` or `&` needs quotes",
        _ if said.contains("tab") => "indent with spaces",
        _ if said.contains("mapping values are not allowed") => {
            "indent like the line above, or quote a text that contains `: `"
        }
        _ if said.contains("quoted scalar") => "close the quote it opens",
        _ if said.contains("flow") || said.contains("bracket") || said.contains("':' indicator") => {
            "close every `{` and `[` on the way"
        }
        _ if said.contains("expected node content") => {
            "a value is missing, or the `]` or `}` that closes a list or mapping"
        }
        _ if said.contains("unexpected character") => "put the text in quotes",
        _ if said.contains("recursion") => "nest less deeply",
        _ if said.contains("unprintable") => {
            "remove the character, or write it as an escape in double quotes"
        }
        _ => "check the indentation here and on the line above",
    };
    format!("not YAML: {said}; {fix}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_scalars_are_what_yaml_says() {
        for number in ["0", "-1", "+1", "1.5", ".5", "1e3", "0x1F", "0o17", ".inf", "-.Inf", ".nan", "007"] {
            assert!(matches!(resolve(number.into()), Kind::Number(_)), "{number}");
        }
        for text in
            ["1s", "yes", "no", "1_000", "inf", "nan", "0x", "-", "1.2.3.4", "+", "e3", "192.168.1.0/24"]
        {
            assert!(matches!(resolve(text.into()), Kind::Text(_)), "{text}");
        }
        assert!(matches!(resolve("~".into()), Kind::Null));
        assert!(matches!(resolve("TRUE".into()), Kind::Flag(true, "TRUE")));
    }
}

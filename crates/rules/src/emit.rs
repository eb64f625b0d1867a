//! Nodes to YAML, in block style.

use std::fmt::Write as _;

use tidegate_core::Span;

use crate::node::{Entry, Kind, Node};
use crate::yaml;

/// YAML takes a longer key for one that was never finished, unless it is announced.
const LONG_KEY: usize = 1_000;

/// Words that other readers of YAML take for flags.
const FLAGS_ELSEWHERE: [&str; 6] = ["yes", "no", "on", "off", "y", "n"];

/// Appends `node` as a document. Keys of a mapping that have no value are left out.
pub(crate) fn document(out: &mut String, node: &Node<'_>) {
    Emitter { out }.block(node, 0, Start::Line);
}

/// Where the text of a node begins.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Start {
    /// On a line of its own.
    Line,
    /// After the mark of an item, on the same line.
    Mark,
    /// After a key and its colon.
    Key,
}

struct Emitter<'o> {
    out: &'o mut String,
}

impl Emitter<'_> {
    fn block(&mut self, node: &Node<'_>, indent: usize, start: Start) {
        match &node.kind {
            Kind::List(items) if !items.is_empty() => {
                let mut started = self.begin(start);
                for item in items.iter() {
                    self.line(indent, &mut started);
                    self.out.push_str("- ");
                    self.block(item, indent + 2, Start::Mark);
                }
            }
            Kind::Map(entries) if entries.iter().any(says_something) => {
                let mut started = self.begin(start);
                for entry in entries.iter().filter(|entry| says_something(entry)) {
                    self.line(indent, &mut started);
                    self.entry(entry, indent);
                }
            }
            kind => {
                if start == Start::Key {
                    self.out.push(' ');
                }
                self.scalar(kind);
                self.out.push('\n');
            }
        }
    }

    /// Goes on to where a collection can begin; whether its first line is already indented.
    fn begin(&mut self, start: Start) -> bool {
        if start == Start::Key {
            self.out.push('\n');
        }
        start == Start::Mark
    }

    fn line(&mut self, indent: usize, started: &mut bool) {
        if !std::mem::take(started) {
            self.out.extend(std::iter::repeat_n(' ', indent));
        }
    }

    fn entry(&mut self, entry: &Entry<'_>, indent: usize) {
        let before = self.out.len();
        self.text(&entry.key.value);
        if self.out.len() - before <= LONG_KEY {
            self.out.push(':');
            self.block(&entry.value, indent + 2, Start::Key);
        } else {
            self.out.insert_str(before, "? ");
            let _ = write!(self.out, "\n{:indent$}: ", "");
            self.block(&entry.value, indent + 2, Start::Mark);
        }
    }

    fn scalar(&mut self, kind: &Kind<'_>) {
        match kind {
            Kind::Null => self.out.push('~'),
            Kind::Flag(flag, _) => self.out.push_str(if *flag { "true" } else { "false" }),
            Kind::Number(number) => self.out.push_str(number),
            Kind::Text(text) => self.text(text),
            Kind::List(_) => self.out.push_str("[]"),
            Kind::Map(_) => self.out.push_str("{}"),
        }
    }

    fn text(&mut self, text: &str) {
        if is_plain(text) {
            self.out.push_str(text);
            return;
        }
        self.out.push('"');
        text.chars().for_each(|c| self.quoted(c));
        self.out.push('"');
    }

    fn quoted(&mut self, c: char) {
        match c {
            '"' | '\\' => self.out.extend(['\\', c]),
            '\n' => self.out.push_str("\\n"),
            '\t' => self.out.push_str("\\t"),
            c if is_printable(c) => self.out.push(c),
            // Writing to a text cannot fail.
            c => drop(write!(self.out, "\\U{:08X}", u32::from(c))),
        }
    }
}

fn says_something(entry: &Entry<'_>) -> bool {
    !matches!(entry.value.kind, Kind::Null)
}

/// Whether a text means itself without quotes, to every reader of YAML: words, paths and durations do.
pub(crate) fn is_plain(text: &str) -> bool {
    let word = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/');
    (word || text.parse::<Span>().is_ok())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/'))
        && !FLAGS_ELSEWHERE.iter().any(|flag| flag.eq_ignore_ascii_case(text))
        && matches!(yaml::resolve(text.into()), Kind::Text(_))
}

/// Whether a character can stand for itself, in quotes or in a comment, and does not make the text look like another.
pub(crate) fn is_printable(c: char) -> bool {
    let tricky = matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    !c.is_control() && !tricky && !matches!(c, '\u{feff}' | '\u{fffe}' | '\u{ffff}')
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use proptest::prelude::*;

    use super::*;
    use crate::reader::Reader;
    use crate::text::{Place, Placed, Text};

    fn written(node: &Node<'_>) -> String {
        let mut out = String::new();
        document(&mut out, node);
        out
    }

    fn node(kind: Kind<'static>) -> Node<'static> {
        Node { at: Place::START, kind }
    }

    fn map(entries: Vec<(String, Node<'static>)>) -> Node<'static> {
        let entry = |(key, value)| Entry { key: Placed { at: Place::START, value: Cow::Owned(key) }, value };
        node(Kind::Map(entries.into_iter().map(entry).collect()))
    }

    fn text(text: &str) -> Node<'static> {
        node(Kind::Text(Cow::Owned(text.to_owned())))
    }

    /// What a node says, whatever its places.
    fn said(node: &Node<'_>) -> String {
        match &node.kind {
            Kind::List(items) => format!("[{}]", items.iter().map(said).collect::<Vec<_>>().join(",")),
            Kind::Map(entries) => {
                let pair = |entry: &Entry<'_>| format!("{:?}:{}", entry.key.value, said(&entry.value));
                format!("{{{}}}", entries.iter().map(pair).collect::<Vec<_>>().join(","))
            }
            kind => format!("{kind:?}"),
        }
    }

    fn reads_back(node: &Node<'_>) {
        let yaml = written(node);
        let source = Text::new("written", &yaml);
        let mut reader = Reader::new(&source);
        let read = yaml::parse(&mut reader, source.content());
        let problems = reader.report.finish(()).err().map(|problems| problems.to_string());
        assert_eq!(problems, None, "{yaml}");
        assert_eq!(read.iter().map(said).collect::<Vec<_>>(), [said(node)], "{yaml}");
    }

    fn nodes() -> impl Strategy<Value = Node<'static>> {
        let texts = prop_oneof![any::<String>(), "[ \\-:{}\\[\\],\"'*&!#%|>?@`~\t\r\na-z0-9._]{0,6}"];
        let scalar = prop_oneof![
            texts.clone().prop_map(|value| text(&value)),
            any::<u64>().prop_map(|number| node(Kind::Number(number.to_string().into()))),
            Just(node(Kind::Flag(true, "true"))),
            Just(node(Kind::Flag(false, "false"))),
            prop::sample::select(vec![
                "60s", "yes", "N", "null", "~", "12", "0x1f", "1e3", "-", "---", "/a/b", "a.b"
            ])
            .prop_map(text),
        ];
        scalar.prop_recursive(4, 40, 5, move |inner| {
            let keyed = prop::collection::btree_map(texts.clone(), inner.clone(), 0..5);
            prop_oneof![
                prop::collection::vec(inner, 0..5).prop_map(|items| node(Kind::List(items.into()))),
                keyed.prop_map(|entries| map(entries.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn whatever_is_written_reads_back(node in nodes()) {
            reads_back(&node);
        }
    }

    #[test]
    fn it_looks_as_people_write_it() {
        let entry = map(vec![("key".into(), text("path")), ("value".into(), text("/a/*"))]);
        let rule = map(vec![
            ("rule_id".into(), text("a")),
            ("entries".into(), node(Kind::List([entry, text("b: c")].into()))),
            ("nothing".into(), node(Kind::Null)),
            ("none".into(), node(Kind::List([].into()))),
            ("window".into(), text("60s")),
        ]);
        let root = map(vec![("rules".into(), node(Kind::List([rule].into()))), ("on".into(), text("off"))]);
        let expected = "rules:\n  - rule_id: a\n    entries:\n      - key: path\n        value: \"/a/*\"\n      \
                        - \"b: c\"\n    none: []\n    window: 60s\n\"on\": \"off\"\n";
        assert_eq!(written(&root), expected);
    }

    #[test]
    fn long_keys_read_back() {
        for value in [text("b"), map(vec![("c".into(), text("d")), ("e".into(), text("f"))])] {
            reads_back(&map(vec![("x".repeat(5_000), value.clone()), ("y".into(), value)]));
        }
    }
}

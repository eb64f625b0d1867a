//! Nodes to flow style: JSON, and the like of it in YAML.

use std::fmt::Write as _;

use crate::edit::lines::Language;
use crate::emit;
use crate::node::{Kind, Node};

/// A value on one line, or a mapping with a line for each key.
pub(super) fn written(node: &Node<'_>, language: Language, lines: bool) -> String {
    let mut out = String::new();
    match &node.kind {
        Kind::Map(entries) if lines && !entries.is_empty() => {
            for (index, entry) in entries.iter().enumerate() {
                out.push_str(if index == 0 { "{\n  " } else { ",\n  " });
                text(&mut out, &entry.key.value, language);
                out.push_str(": ");
                value(&mut out, &entry.value, language);
            }
            out.push_str("\n}");
        }
        _ => value(&mut out, node, language),
    }
    out
}

fn value(out: &mut String, node: &Node<'_>, language: Language) {
    match &node.kind {
        Kind::Null => out.push_str("null"),
        Kind::Flag(flag, _) => out.push_str(if *flag { "true" } else { "false" }),
        Kind::Number(number) => out.push_str(number),
        Kind::Text(word) => text(out, word, language),
        Kind::List(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                out.push_str(if index == 0 { "" } else { ", " });
                value(out, item, language);
            }
            out.push(']');
        }
        Kind::Map(entries) => {
            out.push('{');
            for (index, entry) in entries.iter().enumerate() {
                out.push_str(if index == 0 { "" } else { ", " });
                text(out, &entry.key.value, language);
                out.push_str(": ");
                value(out, &entry.value, language);
            }
            out.push('}');
        }
    }
}

fn text(out: &mut String, text: &str, language: Language) {
    if language == Language::Yaml && emit::is_plain(text) {
        out.push_str(text);
        return;
    }
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c if emit::is_printable(c) => out.push(c),
            // All of these lie where both languages know this escape. Writing to a text cannot fail.
            c => drop(write!(out, "\\u{:04x}", u32::from(c))),
        }
    }
    out.push('"');
}

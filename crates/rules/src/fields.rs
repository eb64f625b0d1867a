//! Mappings whose keys are fixed.

use crate::node::{Entry, Kind, Node};
use crate::problem::quoted;
use crate::reader::Reader;
use crate::schema::{SHAPES, Shape};
use crate::suggest;
use crate::text::Place;

/// The key by which YAML 1.1 took over the keys of another mapping.
const MERGE: &str = "<<";

/// The values of a mapping, by key.
pub(crate) struct Fields<'n, 't> {
    pub(crate) at: Place,
    shape: &'static Shape,
    entries: &'n [Entry<'t>],
    /// Known keys that unknown ones were probably meant to be.
    meant: Vec<&'static str>,
    /// Whether it means to take keys from elsewhere, so that nothing can be said about missing ones.
    merges: bool,
}

impl<'n, 't> Fields<'n, 't> {
    /// Opens `node` as a mapping of this shape; reports every key it does not know.
    pub(crate) fn open(reader: &mut Reader<'_>, node: &'n Node<'t>, shape: &'static Shape) -> Option<Self> {
        let Kind::Map(entries) = &node.kind else {
            reader.expected(
                shape.what,
                "a mapping",
                node,
                Some(format!("write it like `{}`", shape.example)),
            );
            return None;
        };
        let mut fields = Self { at: node.at, shape, entries, meant: Vec::new(), merges: false };
        for (index, Entry { key, .. }) in entries.iter().enumerate() {
            if shape.has(&key.value) {
                continue;
            }
            if reader.report.gives_up(entries.len() - index) {
                break;
            }
            let message = fields.unknown(&key.value);
            reader.problem(key.at, message);
        }
        Some(fields)
    }

    fn unknown(&mut self, key: &str) -> String {
        if key == MERGE {
            self.merges = true;
            return format!("`{MERGE}` is not part of YAML 1.2 and does not merge; write the keys out");
        }
        let shapes = &*SHAPES;
        let is = |shape| std::ptr::eq(self.shape, shape);
        let what = self.shape.what;
        let written = quoted(key);
        if is(&shapes.envoy_domain) && shapes.document.has(key) {
            return format!("{written} cannot stand beside `domain`; put it in a document of its own");
        }
        // Else the nearest name would be `unlimited`.
        if is(&shapes.envoy_rate_limit) && key == "limit" {
            self.meant.push("requests_per_unit");
            return format!("unknown key {written}; beside `unit` it is called `requests_per_unit`");
        }
        // In a document of ours, `name` is more likely meant for an id than for what a descriptor's limit is called.
        let elsewhere = |other: &&Shape| other.has(key) && (other.envoy || key != "name");
        match shapes.kin(self.shape).into_iter().find(elsewhere) {
            Some(_) if is(&shapes.rate_limits) => {
                format!("{written} cannot stand beside `rate_limits`; rename `rate_limits` to `tiers`")
            }
            Some(other) => format!("unknown key {written} in {what}; it belongs {}", other.place),
            None => {
                self.meant.extend(suggest::nearest(key, self.shape.keys()));
                let known =
                    || format!("; known in {what}: {}", self.shape.keys().collect::<Vec<_>>().join(", "));
                format!("unknown key {written}{}", suggest::hint(key, self.shape.keys(), known))
            }
        }
    }

    /// Whether `key` is missing, and not just misspelt, which is reported already.
    pub(crate) fn lacks(&self, key: &str) -> bool {
        !self.merges && !self.has(key) && !self.meant.contains(&key)
    }

    /// Whether a key that is not known was probably meant to be `key`.
    pub(crate) fn means(&self, key: &str) -> bool {
        self.meant.contains(&key)
    }

    /// What is given for `key`.
    pub(crate) fn get(&self, key: &str) -> Option<&'n Node<'t>> {
        self.entry(key).map(|entry| &entry.value)
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.entry(key).is_some()
    }

    /// Where `key` itself is written.
    pub(crate) fn key_at(&self, key: &str) -> Option<Place> {
        self.entry(key).map(|entry| entry.key.at)
    }

    fn entry(&self, key: &str) -> Option<&'n Entry<'t>> {
        debug_assert!(self.shape.has(key), "{key} is no key of {}", self.shape.what);
        let entry = self.entries.iter().find(|entry| entry.key.value == key)?;
        // Envoy's rate limit service takes a key without a value for no key.
        let nothing = self.shape.envoy && matches!(entry.value.kind, Kind::Null);
        (!nothing).then_some(entry)
    }

    /// What kind of mapping it is, with its article.
    pub(crate) fn what(&self) -> &'static str {
        self.shape.what
    }

    /// A flag; Envoy's rate limit service also knows the words that older YAML had for it.
    pub(crate) fn flag(&self, reader: &mut Reader<'_>, key: &str) -> Option<bool> {
        const WORDS: [(&str, bool); 4] = [("yes", true), ("on", true), ("no", false), ("off", false)];
        self.read(key, |key, node| match &node.kind {
            Kind::Text(text) if self.shape.envoy => {
                let word = WORDS.iter().find(|(word, _)| word.eq_ignore_ascii_case(text));
                word.map(|(_, flag)| *flag).or_else(|| reader.flag(key, node))
            }
            _ => reader.flag(key, node),
        })
    }

    /// Asks `read` for the value of `key`, if it is given.
    pub(crate) fn read<T>(&self, key: &str, read: impl FnOnce(&str, &'n Node<'t>) -> Option<T>) -> Option<T> {
        self.get(key).and_then(|node| read(key, node))
    }
}

/// How many of the keys of `node` a shape knows, to tell what a mapping means to be.
pub(crate) fn known_keys(node: &Node<'_>, shape: &Shape) -> usize {
    match &node.kind {
        Kind::Map(entries) => entries.iter().filter(|entry| shape.has(&entry.key.value)).count(),
        _ => 0,
    }
}

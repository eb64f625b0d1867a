//! A text as values with places, whichever language it was written in.

use std::borrow::Cow;
use std::collections::HashMap;

use crate::problem::quoted;
use crate::reader::Reader;
use crate::text::{Place, Placed};

/// The most values one text may hold: far more than 100,000 rules have, and still no danger.
pub(crate) const MAX_NODES: usize = 10_000_000;

/// The deepest nesting; documents need six levels.
pub(crate) const MAX_DEPTH: usize = 64;

/// One value and where it starts.
#[derive(Clone, Debug)]
pub(crate) struct Node<'t> {
    pub(crate) at: Place,
    pub(crate) kind: Kind<'t>,
}

/// What a value is.
#[derive(Clone, Debug)]
pub(crate) enum Kind<'t> {
    Null,
    /// What it says, and how that is written.
    Flag(bool, &'static str),
    /// As it is written: how large it may be is the business of whoever expects it.
    Number(Cow<'t, str>),
    Text(Cow<'t, str>),
    List(Vec<Node<'t>>),
    Map(Vec<Entry<'t>>),
}

/// A key of a mapping and its value.
#[derive(Clone, Debug)]
pub(crate) struct Entry<'t> {
    pub(crate) key: Placed<Cow<'t, str>>,
    pub(crate) value: Node<'t>,
}

impl<'t> Node<'t> {
    /// A mapping; a key that is there twice is a problem, because one of the two would be ignored.
    pub(crate) fn map(reader: &mut Reader<'_>, at: Place, entries: Vec<Entry<'t>>) -> Self {
        let mut first: HashMap<&str, Place> = HashMap::with_capacity(entries.len());
        for Entry { key, .. } in &entries {
            if let Some(earlier) = first.insert(&key.value, key.at) {
                let message = format!(
                    "key {} is already given on line {}; remove one of the two",
                    quoted(&key.value),
                    earlier.line
                );
                reader.problem(key.at, message);
            }
        }
        Self { at, kind: Kind::Map(entries) }
    }

    /// What it is, to tell somebody who expected something else.
    pub(crate) fn describe(&self) -> String {
        match &self.kind {
            Kind::Null => "nothing".to_owned(),
            Kind::Flag(flag, _) => format!("`{flag}`"),
            Kind::Number(number) => format!("the number {}", quoted(number)),
            Kind::Text(text) => format!("the text {}", quoted(text)),
            Kind::List(_) => "a list".to_owned(),
            Kind::Map(_) => "a mapping".to_owned(),
        }
    }

    /// The items of a list; none of anything else.
    pub(crate) fn items(&self) -> &[Self] {
        match &self.kind {
            Kind::List(items) => items,
            _ => &[],
        }
    }

    /// The entries of a mapping; none of anything else.
    pub(crate) fn entries(&self) -> &[Entry<'t>] {
        match &self.kind {
            Kind::Map(entries) => entries,
            _ => &[],
        }
    }

    /// The value of a key.
    pub(crate) fn get(&self, key: &str) -> Option<&Self> {
        self.entries().iter().find(|entry| entry.key.value == key).map(|entry| &entry.value)
    }

    /// Whether both say the same in the same order, wherever it is written.
    pub(crate) fn says_the_same(&self, other: &Self) -> bool {
        match (&self.kind, &other.kind) {
            (Kind::Null, Kind::Null) => true,
            // How a flag is written counts where it is taken for a text.
            (Kind::Flag(_, one), Kind::Flag(_, two)) => one == two,
            (Kind::Number(one), Kind::Number(two)) | (Kind::Text(one), Kind::Text(two)) => one == two,
            (Kind::List(one), Kind::List(two)) => {
                one.len() == two.len() && one.iter().zip(two).all(|(one, two)| one.says_the_same(two))
            }
            (Kind::Map(one), Kind::Map(two)) => {
                let same = |one: &Entry<'_>, two: &Entry<'_>| {
                    one.key.value == two.key.value && one.value.says_the_same(&two.value)
                };
                one.len() == two.len() && one.iter().zip(two).all(|(one, two)| same(one, two))
            }
            _ => false,
        }
    }

    /// How many values it consists of, itself included.
    pub(crate) fn size(&self) -> usize {
        1 + match &self.kind {
            Kind::List(items) => items.iter().map(Self::size).sum(),
            Kind::Map(entries) => entries.iter().map(|entry| 1 + entry.value.size()).sum(),
            _ => 0,
        }
    }
}

//! A text as values with places, whichever language it was written in.

use std::borrow::Cow;
use std::collections::HashMap;
use std::rc::Rc;

use crate::problem::quoted;
use crate::reader::Reader;
use crate::text::{Place, Placed};

/// The most values one text may hold, however large it is: more than 100,000 rules have.
const MAX_NODES: usize = 4_000_000;

/// Bytes of a text for each value in it. A value takes some hundred bytes while it is read, so that this bounds what a text takes.
const BYTES_FOR_A_NODE: usize = 4;

/// Values that any text may hold, so that short ones may be dense.
const FREE_NODES: usize = 20_000;

/// Counts the values of a text, keys included.
#[derive(Debug)]
pub(crate) struct NodeBudget {
    used: usize,
    most: usize,
}

impl NodeBudget {
    /// Creates the budget for a text of `bytes`.
    pub(crate) fn of(bytes: usize) -> Self {
        Self { used: 0, most: MAX_NODES.min(bytes / BYTES_FOR_A_NODE + FREE_NODES) }
    }

    /// Counts a value, or says why there must be no more.
    pub(crate) fn take(&mut self) -> Result<(), String> {
        self.used += 1;
        if self.used <= self.most {
            return Ok(());
        }
        let Self { most, .. } = self;
        Err(format!(
            "more than {most} values, which is a value for every {BYTES_FOR_A_NODE} bytes of the text and {FREE_NODES}, or the most \
             there may be; remove those that say nothing, or split the text into several"
        ))
    }
}

/// The deepest nesting; documents need six levels.
pub(crate) const MAX_DEPTH: usize = 64;

/// One value and where it starts. Cloning one copies nothing of what a list or mapping holds.
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
    List(Rc<[Node<'t>]>),
    Map(Rc<[Entry<'t>]>),
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
        Self { at, kind: Kind::Map(entries.into()) }
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
                one.len() == two.len() && one.iter().zip(two.iter()).all(|(one, two)| one.says_the_same(two))
            }
            (Kind::Map(one), Kind::Map(two)) => {
                let same = |one: &Entry<'_>, two: &Entry<'_>| {
                    one.key.value == two.key.value && one.value.says_the_same(&two.value)
                };
                one.len() == two.len() && one.iter().zip(two.iter()).all(|(one, two)| same(one, two))
            }
            _ => false,
        }
    }

    /// Returns the extent of the value with all that it holds.
    pub(crate) fn extent(&self) -> Extent {
        let text = |text: &str| Extent { bytes: NODE_BYTES + text.len(), levels: 1 };
        match &self.kind {
            Kind::Null | Kind::Flag(..) => text(""),
            Kind::Number(number) => text(number),
            Kind::Text(words) => text(words),
            Kind::List(items) => Extent::around(items.iter().map(Self::extent)),
            Kind::Map(entries) => Extent::around(entries.iter().map(|entry| {
                let value = entry.value.extent();
                Extent { bytes: value.bytes + NODE_BYTES + entry.key.value.len(), ..value }
            })),
        }
    }
}

/// What a value counts for beside its text, about what it takes once it is a part of a rule.
const NODE_BYTES: usize = 32;

/// How much a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    /// Bytes of all texts in it, with [`NODE_BYTES`] for each value and key.
    pub(crate) bytes: usize,
    /// How many values lie within each other at the deepest place.
    pub(crate) levels: usize,
}

impl Extent {
    /// Returns the extent of a list or mapping that holds these.
    fn around(parts: impl Iterator<Item = Self>) -> Self {
        let empty = Self { bytes: NODE_BYTES, levels: 1 };
        parts.fold(empty, |all, part| Self {
            bytes: all.bytes.saturating_add(part.bytes),
            levels: all.levels.max(part.levels + 1),
        })
    }
}

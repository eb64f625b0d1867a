//! What can go wrong with a server, with what to do about it.

use crate::archive::ArchiveError;

/// Why there are no documents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trouble {
    pub(crate) kind: Kind,
    /// For people; names the fix.
    pub(crate) text: String,
}

/// What kind of trouble it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The servers cannot be reached or do not answer.
    Away,
    /// They answer, and refuse.
    Refused,
    /// What they hold cannot be used.
    Data,
}

impl Trouble {
    pub(crate) fn away(text: String) -> Self {
        Self { kind: Kind::Away, text }
    }

    pub(crate) fn data(text: String) -> Self {
        Self { kind: Kind::Data, text }
    }

    pub(crate) fn refused(text: String) -> Self {
        Self { kind: Kind::Refused, text }
    }

    /// The one of two that says more: what a server says beats that another says nothing.
    pub(crate) fn more_telling(worst: Option<Self>, other: Self) -> Self {
        worst.filter(|worst| worst.kind != Kind::Away || other.kind == Kind::Away).unwrap_or(other)
    }

    /// Whether telling this after `other` is no news. How a server is away may look different at every try.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        self == other || (self.kind == Kind::Away && other.kind == Kind::Away)
    }
}

impl From<Trouble> for ArchiveError {
    fn from(trouble: Trouble) -> Self {
        match trouble.kind {
            Kind::Away => Self::Away(trouble.text),
            Kind::Refused | Kind::Data => Self::Refused(trouble.text),
        }
    }
}

//! What can go wrong with a server, with what to do about it.

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

    /// Whether telling this after `other` is no news. How a server is away may look different at every try.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        self == other || (self.kind == Kind::Away && other.kind == Kind::Away)
    }
}

//! Phases, and the epochs that grants belong to.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Number of a choice of book for one part of the store: even when the store is the book, odd when owners are. Only grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Phase(pub u32);

impl Phase {
    /// Returns true if owners are the book.
    pub const fn is_owned(self) -> bool {
        self.0 % 2 == 1
    }

    /// Returns the phase after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.0, if self.is_owned() { "owners" } else { "store" })
    }
}

/// Phase that a grant belongs to and, while owners count, the roster that says who they are.
///
/// A grant is spent only in the epoch in which it was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Epoch {
    /// The phase.
    pub phase: Phase,
    /// Fingerprint of the roster; 0 while the store is the book.
    pub roster: u64,
}

impl Epoch {
    /// Epoch of `phase` among the members of the roster with this fingerprint.
    pub const fn new(phase: Phase, roster: u64) -> Self {
        Self { phase, roster: if phase.is_owned() { roster } else { 0 } }
    }
}

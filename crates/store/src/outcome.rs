//! What comes back across the store seam, and by when.

use std::fmt;
use std::time::{Duration, Instant};

use smallvec::SmallVec;
use tidegate_core::Verdict;

/// What became of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was decided.
    Verdict(Verdict),
    /// It could not be decided, and certainly nothing was changed.
    Unavailable(Failure),
    /// It is not known whether it was decided.
    Unknown(Failure),
}

impl Outcome {
    /// The verdict, if there is one.
    pub fn verdict(&self) -> Option<&Verdict> {
        match self {
            Self::Verdict(verdict) => Some(verdict),
            Self::Unavailable(_) | Self::Unknown(_) => None,
        }
    }
}

/// The outcomes of one group, in the order of its operations.
pub type Outcomes = SmallVec<[Outcome; 4]>;

/// Why an operation could not be decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Its time was over.
    Deadline,
    /// The store has no room for another hold.
    Full,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Deadline => "the store did not answer in time",
            Self::Full => "the store has no room for another hold",
        })
    }
}

/// When an answer is no longer wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline(Instant);

impl Deadline {
    /// `patience` after `start`, which is when the request arrived.
    pub fn after(start: Instant, patience: Duration) -> Self {
        Self(start + patience)
    }

    /// The moment itself.
    pub const fn at(self) -> Instant {
        self.0
    }
}

//! What crosses the store seam.

use std::fmt;
use std::time::{Duration, Instant};

use smallvec::SmallVec;
use tidegate_core::{Span, Take, Verdict};

/// One thing to do to one counter.
#[derive(Clone, Copy, Debug)]
pub struct Operation<'r> {
    /// Which counter, by what quota, how much.
    pub take: Take<'r>,
    /// What to do.
    pub action: Action,
}

impl<'r> From<Take<'r>> for Operation<'r> {
    fn from(take: Take<'r>) -> Self {
        let action = if take.cost == 0 { Action::Peek } else { Action::Take };
        Self { take, action }
    }
}

/// What to do with a take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Say what would happen; change nothing.
    Peek,
    /// Consume the cost if it fits.
    Take,
    /// Consume the cost if it fits, but let [`Action::Settle`] change that until `ttl` is over; then it is given
    /// back as if settled with 0.
    Hold {
        /// What to call the hold when settling it.
        id: HoldId,
        /// How long it can be settled.
        ttl: Span,
    },
    /// Replace a hold's cost by the take's own: what was held too much is given back, what is missing is taken as
    /// far as it fits. A hold that is gone stays gone, and the verdict is a refusal.
    Settle {
        /// The hold to settle.
        id: HoldId,
    },
}

/// The name of a hold, unique to the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HoldId(pub u128);

/// The operations of one request: all or nothing.
pub type Group<'r> = SmallVec<[Operation<'r>; 4]>;

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

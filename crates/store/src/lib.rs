//! Where counters live.
//!
//! One trait carries everything, because *data* crosses it, not code: the caller hands over groups of
//! [`Operation`]s and a [`Deadline`] and gets one [`Outcome`] per operation. The [`memory`] store runs the
//! counters of `tidegate-core` itself; other stores are second implementations of the same, held to it by the
//! conformance suite (feature `conformance`).

pub mod clock;
#[cfg(feature = "conformance")]
pub mod conformance;
pub mod memory;
mod outcome;

pub use clock::{Clock, ManualClock, SystemClock};
pub use memory::MemoryStore;
pub use outcome::{Deadline, Failure, Outcome, Outcomes};
pub use tidegate_core::{Action, Group, HoldId, Operation};

use std::pin::Pin;

/// The answer of a store, once it comes.
pub type Answer<'a> = Pin<Box<dyn Future<Output = Vec<Outcomes>> + Send + 'a>>;

/// A place where counters live.
pub trait Store: Send + Sync {
    /// Applies each group all or nothing, in order, and answers with as many outcomes as operations, in order.
    ///
    /// All or nothing: unless every operation of a group that is not a shadow's is allowed, none of them changes
    /// anything. Must answer by the deadline, with [`Outcome::Unavailable`] or [`Outcome::Unknown`] if need be.
    fn apply<'a, 'r: 'a>(&'a self, groups: &'a [Group<'r>], deadline: Deadline) -> Answer<'a>;
}

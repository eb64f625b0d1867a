//! Where counters live.
//!
//! One trait carries everything, because *data* crosses it, not code: the caller hands over groups of
//! [`Operation`]s and a [`Deadline`] and gets one [`Outcome`] per operation. The [`memory`] store runs the
//! counters of `tidegate-core` itself; other stores are second implementations of the same, held to it by the
//! conformance suite (feature `conformance`).

mod breaker;
pub mod clock;
pub mod coalesce;
#[cfg(feature = "conformance")]
pub mod conformance;
pub mod coordinator;
pub mod deadline;
pub mod deny_cache;
mod fallback;
mod histogram;
mod jitter;
pub mod memory;
mod outcome;
pub mod peers;
mod shards;
pub mod spans;
mod striped;
mod timing;

pub use breaker::{Breaker, BreakerSettings, BreakerState, Permit, Spike};
pub use clock::{Clock, ManualClock, SystemClock};
pub use deadline::Deadline;
pub use deny_cache::DenyCache;
pub use fallback::{Fallback, FallbackSettings, Settled};
pub use histogram::{Histogram, Observed};
pub use jitter::Jitter;
pub use memory::MemoryStore;
pub use outcome::{Failure, Outcome, Outcomes};
pub use shards::{Shard, ShardStats};
pub use striped::{Mine, Striped};
pub use tidegate_core::{Action, Group, HoldId, Operation};
pub use timing::{Timed, Timing};

use std::pin::Pin;

use tidegate_core::{Secret, Tag};

/// The answer of a store, once it comes.
pub type Answer<'a> = Pin<Box<dyn Future<Output = Vec<Outcomes>> + Send + 'a>>;

/// A place where counters live.
pub trait Store: Send + Sync {
    /// Applies each group all or nothing, in order, and answers with as many outcomes as operations, in order.
    ///
    /// All or nothing: unless every operation of a group that is not a shadow's is allowed, none of them changes
    /// anything. Must answer by the deadline, with [`Outcome::Unavailable`] or [`Outcome::Unknown`] if need be.
    fn apply<'a, 'r: 'a>(&'a self, groups: &'a [Group<'r>], deadline: Deadline) -> Answer<'a>;

    /// The secret that all who share this store hash their keys with, once it is known. A store in this process has
    /// none: any will do.
    fn secret(&self) -> Option<Secret> {
        None
    }

    /// What keeps the store as a whole from being used, if anything does: what is wrong and what to do about it.
    fn problem(&self) -> Option<String> {
        None
    }

    /// Which part of the store, of at most 64, has what is counted under a tag. Parts fail on their own; all who share the
    /// store mean the same by them.
    fn part_of(&self, _tag: Tag) -> u8 {
        0
    }

    /// The parts that cannot be used at present, a bit each.
    fn unwell(&self) -> u64 {
        0
    }

    /// Whether it is worth the while to ask about what is counted under a tag, or why not.
    fn reach(&self, _tag: Tag) -> Result<(), Failure> {
        Ok(())
    }

    /// The shards that can fail on their own. A store in this process has none.
    fn shards(&self) -> Vec<Shard> {
        Vec::new()
    }
}

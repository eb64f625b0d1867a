//! What a store's parts have been asked and how they answered, for metrics and health.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::breaker::BreakerState;
use crate::histogram::Histogram;
use crate::{Action, Failure};

/// One part of a store, as it is now.
#[derive(Clone, Debug)]
pub struct Shard {
    /// What to call it: an address or a name, from the configuration or the store itself.
    pub name: String,
    /// What it has been asked.
    pub stats: Arc<ShardStats>,
    /// Why it cannot be used now, if it cannot: what is wrong and what to do about it.
    pub problem: Option<String>,
    /// Whether it is asked.
    pub breaker: BreakerState,
}

/// What one part of a store has been asked so far.
#[derive(Debug, Default)]
pub struct ShardStats {
    operations: [AtomicU64; OPERATIONS.len()],
    errors: [AtomicU64; Failure::ALL.len()],
    calls: AtomicU64,
    /// How long calls took.
    pub seconds: Histogram,
}

/// The kinds of operations, as metrics name them.
const OPERATIONS: [&str; 6] = ["peek", "take", "hold", "settle", "return", "charge"];

impl ShardStats {
    /// Counts an operation that was sent.
    pub fn count_operation(&self, action: &Action) {
        let index = match action {
            Action::Peek => 0,
            Action::Take => 1,
            Action::Hold { .. } => 2,
            Action::Settle { .. } => 3,
            Action::Return { .. } => 4,
            Action::Charge => 5,
        };
        self.operations[index].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a round trip, which may carry many operations.
    pub fn count_call(&self) {
        self.calls.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a failure.
    pub fn count_error(&self, failure: Failure) {
        self.errors[failure as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Round trips so far.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// Operations sent so far, by kind.
    pub fn operations(&self) -> impl Iterator<Item = (&'static str, u64)> {
        OPERATIONS.into_iter().zip(self.operations.iter().map(|count| count.load(Ordering::Relaxed)))
    }

    /// Failures so far, by kind.
    pub fn errors(&self) -> impl Iterator<Item = (Failure, u64)> {
        Failure::ALL.into_iter().zip(self.errors.iter().map(|count| count.load(Ordering::Relaxed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_count_where_they_belong() {
        let stats = ShardStats::default();
        for (index, failure) in Failure::ALL.into_iter().enumerate() {
            assert_eq!(failure as usize, index);
            stats.count_error(failure);
        }
        assert!(stats.errors().all(|(_, count)| count == 1));
    }
}

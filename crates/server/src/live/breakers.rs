//! Noticing that a part of the store is left alone, or asked again.

use std::collections::BTreeMap;

use tidegate::store::{BreakerState, Shard};
use tidegate_core::Timestamp;

use super::journal::{Entry, Kind};
use crate::alerts::Severity;

/// The breakers as they were when last looked at.
#[derive(Debug, Default)]
pub(crate) struct Breakers(BTreeMap<String, BreakerState>);

impl Breakers {
    /// What has changed since the last look. A part that is new is taken to have been asked.
    pub(crate) fn look(&mut self, shards: &[Shard], at: Timestamp) -> Vec<Entry> {
        let mut entries = Vec::new();
        for Shard { name, breaker, problem, .. } in shards {
            let before = self.0.get(name).copied().unwrap_or(BreakerState::Closed);
            if before == *breaker {
                continue;
            }
            let severity = match breaker {
                BreakerState::Open => Severity::Critical,
                BreakerState::HalfOpen | BreakerState::Closed => Severity::Info,
            };
            let title = format!("breaker of {name} {breaker}, {before} before");
            let entry = Entry::new(at, Kind::Breaker, severity, title);
            entries.push(entry.detail(problem.as_deref().unwrap_or_default()));
        }
        self.0 = shards.iter().map(|shard| (shard.name.clone(), shard.breaker)).collect();
        entries
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shard(name: &str, breaker: BreakerState) -> Shard {
        Shard { name: name.to_owned(), stats: Default::default(), problem: None, breaker }
    }

    #[test]
    fn each_change_is_told_once() {
        let mut breakers = Breakers::default();
        let mut look = |shards: &[Shard]| breakers.look(shards, Timestamp::from_millis(0)).len();
        let (closed, open) = (shard("a", BreakerState::Closed), shard("a", BreakerState::Open));
        assert_eq!(look(std::slice::from_ref(&closed)), 0);
        assert_eq!(look(&[open.clone(), shard("b", BreakerState::Closed)]), 1);
        assert_eq!(look(std::slice::from_ref(&open)), 0);
        assert_eq!(look(&[shard("a", BreakerState::HalfOpen)]), 1);
        assert_eq!(look(&[closed]), 1);
        assert_eq!(look(&[]), 0);
        assert_eq!(look(&[open]), 1, "a new part that is left alone from the start");
    }
}

//! One node: a machine, its clocks, and the requests it has not answered.

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_core::Quota;
use tidegate_failover::Machine;

use crate::scenario::{Micros, SECOND};
use crate::world::Demand;

/// A request that a node has not answered yet.
pub(crate) struct Pending {
    pub(crate) demand: Demand,
    pub(crate) since: Micros,
}

/// One node.
pub(crate) struct Node {
    pub(crate) machine: Option<Machine>,
    /// Tells processes of one node apart, so that what was meant for an earlier one does not wake a later one.
    pub(crate) generation: u64,
    pub(crate) paused_until: Micros,
    /// Since when the process has been able to answer without having been paused.
    pub(crate) resumed: Micros,
    pub(crate) wakes_at: Micros,
    pub(crate) drift: u64,
    pub(crate) wall_offset: i64,
    pub(crate) quotas: Vec<Quota>,
    pub(crate) pending: BTreeMap<u64, Pending>,
    /// When the process was asked to end.
    pub(crate) leaving: Option<Micros>,
}

impl Node {
    /// Returns true if a wake-up is the one that the present process waits for, not one that an earlier one replaced.
    pub(crate) const fn is_waiting(&self, generation: u64, due: Micros) -> bool {
        self.generation == generation && self.wakes_at == due
    }

    pub(crate) fn local(&self, now: Micros) -> Duration {
        Duration::from_micros(SECOND + now + now * self.drift / 1_000_000)
    }

    pub(crate) fn to_true(&self, local: Duration) -> Micros {
        let micros = u64::try_from(local.as_micros()).unwrap_or(u64::MAX).saturating_sub(SECOND);
        micros * 1_000_000 / (1_000_000 + self.drift) + 1
    }
}

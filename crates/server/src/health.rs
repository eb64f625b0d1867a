//! How a node is doing, and why.

use std::sync::Arc;

use arc_swap::ArcSwap;
use tidegate_core::{Mode, Timestamp};

/// The present mode with its reasons.
#[derive(Debug)]
pub(crate) struct Health(ArcSwap<Condition>);

/// A mode, why, and since when.
#[derive(Clone, Debug)]
pub(crate) struct Condition {
    pub(crate) mode: Mode,
    pub(crate) reasons: Vec<String>,
    pub(crate) since: Timestamp,
}

impl Health {
    /// All well since `now`.
    pub(crate) fn new(now: Timestamp) -> Self {
        Self(ArcSwap::from_pointee(Condition { mode: Mode::Normal, reasons: Vec::new(), since: now }))
    }

    pub(crate) fn mode(&self) -> Mode {
        self.0.load().mode
    }

    pub(crate) fn condition(&self) -> Arc<Condition> {
        self.0.load_full()
    }

    /// Goes by `reasons` from now on: none means normal. The time stands still as long as the mode does.
    pub(crate) fn set(&self, reasons: Vec<String>, now: Timestamp) {
        let mode = if reasons.is_empty() { Mode::Normal } else { Mode::Degraded };
        let known = self.condition();
        let since = if known.mode == mode { known.since } else { now };
        self.0.store(Arc::new(Condition { mode, reasons, since }));
    }
}

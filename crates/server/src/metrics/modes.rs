//! How often the mode changed.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::encoding::{MetricEncoder, NoLabelSet};
use tidegate_core::Mode;

const MODES: [Mode; 3] = [Mode::Normal, Mode::Degraded, Mode::Emergency];

/// Changes of the mode, by what it changed to.
#[derive(Debug, Default)]
pub(crate) struct ModeChanges([AtomicU64; MODES.len()]);

impl ModeChanges {
    pub(crate) fn count(&self, to: Mode) {
        self.0[to as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn encode(&self, mut family: MetricEncoder<'_>) -> fmt::Result {
        MODES.iter().zip(&self.0).try_for_each(|(mode, count)| {
            let count = count.load(Ordering::Relaxed);
            family.encode_family(&[("to", mode.name())])?.encode_counter::<NoLabelSet, _, u64>(&count, None)
        })
    }
}

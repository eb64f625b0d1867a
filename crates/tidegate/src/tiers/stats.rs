//! What came of asking for tiers.

use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_store::Histogram;

/// What came of a request's need for a tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It was known here.
    Hit,
    /// It was looked up in time.
    Miss,
    /// It was looked up in time, and there is none.
    Absent,
    /// It was waited for in vain.
    Late,
    /// It could not be looked up, or less than a second ago it could not.
    Failed,
    /// It was not looked up, because that keeps failing, or because too much is being looked up already.
    Paused,
}

/// How often each outcome was met, and how long look-ups took.
#[derive(Debug, Default)]
pub struct TierStats {
    counts: [AtomicU64; Self::NAMES.len()],
    /// How long look-ups took, failed ones included; so how many there were.
    pub seconds: Histogram,
}

impl TierStats {
    const NAMES: [&'static str; 6] = ["hit", "miss", "absent", "late", "failed", "paused"];

    pub(super) fn count(&self, outcome: Outcome) {
        self.counts[outcome as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// How many requests had each outcome: `hit` (known here), `miss` (looked up in time), `absent` (likewise, and
    /// there is none), `late`, `failed`, `paused` (not even asked). The last three went by what was known before, or by
    /// the default tier.
    pub fn outcomes(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Self::NAMES.into_iter().zip(self.counts.iter().map(|count| count.load(Ordering::Relaxed)))
    }
}

//! One take's answer.

use crate::quota::Quota;
use crate::time::Span;

/// When the same request could be allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Retry {
    /// It was allowed.
    Now,
    /// At the earliest after this long, if nobody else comes.
    After(Span),
    /// It can never fit: the limit is 0, or the cost is above the capacity.
    Never,
}

/// What a counter says to one take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Verdict {
    /// Whether this take may go ahead as far as its own counter is concerned.
    pub allowed: bool,
    /// What is left after this decision, between 0 and the capacity, rounded down.
    pub remaining: u64,
    /// Until the counter is as if never used.
    pub reset_after: Span,
    /// When to come back.
    pub retry: Retry,
    /// Whether some of what is gone is only held, and may be back before it is waited for.
    pub held: bool,
    /// The quota that was applied: the stored one if that is newer than the take's.
    pub quota: Quota,
}

impl Verdict {
    /// The answer of a limit of 0: no, and waiting will not help.
    pub const fn blocked(quota: Quota) -> Self {
        Self {
            allowed: false,
            remaining: 0,
            reset_after: Span::ZERO,
            retry: Retry::Never,
            held: false,
            quota,
        }
    }

    /// What has been used of the capacity.
    pub const fn used(&self) -> u64 {
        self.quota.capacity().saturating_sub(self.remaining)
    }
}

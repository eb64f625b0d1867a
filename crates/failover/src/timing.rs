//! All durations that the protocol depends on, in one place.

use std::time::Duration;

/// Point in time on a node's monotonic clock, counted from an arbitrary origin.
pub type Moment = Duration;

/// Durations of the protocol. Safety uses none of them but [`FailoverTiming::forget`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailoverTiming {
    /// After this long without a decision, `allow` and `deny` rules answer and `local` rules ask for reserves.
    pub soft_deadline: Duration,
    /// After this long a request is answered, decided or not.
    pub budget: Duration,
    /// Time without a success after which the store counts as down, and with successes after which it counts as up.
    pub store_down: Duration,
    /// Time without a success after which a peer that has the store is asked instead.
    pub relay_after: Duration,
    /// Time within which a member must have been heard to count as fresh.
    pub fresh: Duration,
    /// Time within which a member must have been heard to be used as a relay or vouched for to others.
    pub recent: Duration,
    /// Time a starting node listens for a running fleet before it forms one.
    pub join: Duration,
    /// Silence after which a majority declares a member gone; `None` never does (strict).
    pub forget: Option<Duration>,
    /// Most time that a leaving node spends on handing over.
    pub handover: Duration,
    /// Age up to which a late grant is still usable.
    pub late: Duration,
    /// Time without an open book after which the emergency cap applies.
    pub emergency_after: Duration,
    /// Interval between announcements when nothing is wrong.
    pub calm_interval: Duration,
    /// Interval between announcements, probes and settling in trouble.
    pub interval: Duration,
    /// Time span of the fleet's rate that a reserve covers.
    pub reserve: Duration,
}

impl Default for FailoverTiming {
    fn default() -> Self {
        let ms = Duration::from_millis;
        Self {
            soft_deadline: ms(5),
            budget: ms(15),
            store_down: ms(500),
            relay_after: ms(200),
            fresh: ms(600),
            recent: ms(400),
            join: ms(3_000),
            forget: Some(ms(10_000)),
            handover: ms(2_000),
            late: ms(2_000),
            emergency_after: ms(1_000),
            calm_interval: ms(1_000),
            interval: ms(100),
            reserve: ms(300),
        }
    }
}

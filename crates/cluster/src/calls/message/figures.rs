//! What calls and replies have in common: quotas, counters, failures.

use tidegate_core::{Algorithm, Quota, Span};
use tidegate_store::Failure;
use tidegate_store::peers::Seen;

use super::{Unreadable, wire};

pub(super) fn write_bits([first, second]: [u64; 2]) -> wire::Bits {
    wire::Bits { first, second }
}

pub(super) fn read_bits(bits: wire::Bits) -> [u64; 2] {
    [bits.first, bits.second]
}

pub(super) fn write_quota(quota: Quota) -> wire::Quota {
    wire::Quota {
        algorithm: match quota.algorithm() {
            Algorithm::TokenBucket => 1,
            Algorithm::FixedWindow => 2,
            Algorithm::SlidingWindow => 3,
            Algorithm::SlidingLog => 4,
            Algorithm::InFlight => 5,
        },
        limit: quota.limit(),
        window_ms: quota.window().as_millis(),
        capacity: quota.capacity(),
        version: quota.version(),
    }
}

/// The quota, if there is such a one: what cannot be counted exactly must not get in by this door either.
pub(super) fn read_quota(quota: Option<wire::Quota>) -> Result<Quota, Unreadable> {
    let told = quota.ok_or(Unreadable::Missing("quota"))?;
    let algorithm = match told.algorithm {
        1 => Algorithm::TokenBucket,
        2 => Algorithm::FixedWindow,
        3 => Algorithm::SlidingWindow,
        4 => Algorithm::SlidingLog,
        5 => Algorithm::InFlight,
        _ => return Err(Unreadable::Unknown("algorithm")),
    };
    let window = Span::from_millis(told.window_ms);
    let quota = match algorithm {
        Algorithm::TokenBucket => Quota::token_bucket(told.limit, window, told.capacity)?,
        _ => Quota::new(algorithm, told.limit, window)?,
    };
    if quota.capacity() == told.capacity {
        Ok(quota.at_version(told.version))
    } else {
        Err(Unreadable::Unknown("capacity"))
    }
}

pub(super) fn write_seen(seen: Seen) -> wire::Seen {
    wire::Seen { used: seen.used, age_ms: seen.age.as_millis(), reset_after_ms: seen.reset_after.as_millis() }
}

pub(super) fn read_seen(seen: wire::Seen) -> Seen {
    Seen {
        used: seen.used,
        age: Span::from_millis(seen.age_ms),
        reset_after: Span::from_millis(seen.reset_after_ms),
    }
}

/// The failure of that name. One that only newer nodes know is still one.
pub(super) fn read_failure(name: &str) -> Failure {
    Failure::ALL.into_iter().find(|failure| failure.name() == name).unwrap_or(Failure::Other)
}

//! The names that stand for values in documents: one table each for reading, writing and the schema.

use tidegate_core::rule::{OnMissingIdentity, OnStoreFailure};
use tidegate_core::{Algorithm, Span};

/// The algorithm of a rule, tier or override that names none.
pub(crate) const DEFAULT_ALGORITHM: Algorithm = Algorithm::TokenBucket;

/// The algorithm of a descriptor's limit that names none, because its author expects to be counted so.
pub(crate) const DEFAULT_ENVOY_ALGORITHM: Algorithm = Algorithm::FixedWindow;

pub(crate) const ALGORITHMS: [(&str, Algorithm); 5] = [
    (Algorithm::TokenBucket.name(), Algorithm::TokenBucket),
    (Algorithm::FixedWindow.name(), Algorithm::FixedWindow),
    (Algorithm::SlidingWindow.name(), Algorithm::SlidingWindow),
    (Algorithm::SlidingLog.name(), Algorithm::SlidingLog),
    (Algorithm::InFlight.name(), Algorithm::InFlight),
];

/// Algorithms of a descriptor's `rate_limit`, which is per unit of time.
pub(crate) const ENVOY_ALGORITHMS: [(&str, Algorithm); 4] =
    [ALGORITHMS[0], ALGORITHMS[1], ALGORITHMS[2], ALGORITHMS[3]];

pub(crate) const ON_MISSING_IDENTITY: [(&str, OnMissingIdentity); 4] = [
    ("ip", OnMissingIdentity::Ip),
    ("shared", OnMissingIdentity::Shared),
    ("skip", OnMissingIdentity::Skip),
    ("refuse", OnMissingIdentity::Refuse),
];

pub(crate) const ON_STORE_FAILURE: [(&str, OnStoreFailure); 4] = [
    ("local", OnStoreFailure::Local),
    ("local_or_deny", OnStoreFailure::LocalOrDeny),
    ("allow", OnStoreFailure::Allow),
    ("deny", OnStoreFailure::Deny),
];

/// Whether a request for which too little is left waits.
pub(crate) const ON_LIMIT: [(&str, bool); 2] = [("reject", false), ("delay", true)];

/// The units of time of a descriptor's limit.
pub(crate) const UNITS: [(&str, Span); 7] = [
    ("second", Span::from_secs(1)),
    ("minute", Span::from_secs(60)),
    ("hour", Span::from_secs(3_600)),
    ("day", Span::from_secs(86_400)),
    ("week", Span::from_secs(7 * 86_400)),
    ("month", Span::from_secs(30 * 86_400)),
    ("year", Span::from_secs(365 * 86_400)),
];

/// The name of `value` in its table.
pub(crate) fn name_of<T: PartialEq>(table: &[(&'static str, T)], value: &T) -> &'static str {
    table.iter().find(|(_, known)| known == value).map_or("", |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_algorithm_is_without_a_name() {
        assert_eq!(ALGORITHMS.map(|(_, algorithm)| algorithm), Algorithm::ALL);
        assert_eq!(ENVOY_ALGORITHMS.map(|(_, algorithm)| algorithm), Algorithm::REFILLING);
    }
}

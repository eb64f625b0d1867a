//! The names that stand for values in documents: one table each for reading, writing and the schema.

use tidegate_core::Algorithm;
use tidegate_core::rule::{OnMissingIdentity, OnStoreFailure};

/// The algorithm of a rule, tier or override that names none.
pub(crate) const DEFAULT_ALGORITHM: Algorithm = Algorithm::TokenBucket;

pub(crate) const ALGORITHMS: [(&str, Algorithm); 4] = [
    (Algorithm::TokenBucket.name(), Algorithm::TokenBucket),
    (Algorithm::FixedWindow.name(), Algorithm::FixedWindow),
    (Algorithm::SlidingWindow.name(), Algorithm::SlidingWindow),
    (Algorithm::SlidingLog.name(), Algorithm::SlidingLog),
];

pub(crate) const ON_MISSING_IDENTITY: [(&str, OnMissingIdentity); 4] = [
    ("ip", OnMissingIdentity::Ip),
    ("shared", OnMissingIdentity::Shared),
    ("skip", OnMissingIdentity::Skip),
    ("refuse", OnMissingIdentity::Refuse),
];

pub(crate) const ON_STORE_FAILURE: [(&str, OnStoreFailure); 3] =
    [("local", OnStoreFailure::Local), ("allow", OnStoreFailure::Allow), ("deny", OnStoreFailure::Deny)];

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
    }
}

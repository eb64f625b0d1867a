//! How long things took, from how many fell into which bucket.

use super::point::{BUCKETS, Buckets, Latency};

/// The upper bounds of buckets in seconds; what is above the last has none.
pub(crate) type Bounds = [f64; BUCKETS - 1];

/// How long it took at most, in all but a share of cases: `share` of what was counted is not above it. Within a bucket all
/// are taken to be evenly spread; what is above the last bound counts as if it were there. None if nothing was counted.
pub(crate) fn percentile(share: f64, bounds: &Bounds, buckets: &Buckets) -> Option<f64> {
    let all: f64 = buckets.iter().copied().map(float).sum();
    if all <= 0.0 {
        return None;
    }
    let wanted = share.clamp(0.0, 1.0) * all;
    let (mut below, mut lower) = (0.0, 0.0);
    for (count, upper) in buckets.iter().copied().map(float).zip(bounds) {
        if count > 0.0 && below + count >= wanted {
            return Some(lower + (upper - lower) * ((wanted - below) / count).clamp(0.0, 1.0));
        }
        (below, lower) = (below + count, *upper);
    }
    bounds.last().copied()
}

/// The percentiles that are shown of decisions.
pub(crate) fn latency(bounds: &Bounds, buckets: &Buckets) -> Option<Latency> {
    let at = |share| percentile(share, bounds, buckets);
    Some(Latency { p50: at(0.5)?, p99: at(0.99)?, p999: at(0.999)? })
}

/// Counts beyond 2^53 lose their last digits, which no rate shows.
#[expect(clippy::cast_precision_loss, reason = "rates do not show it")]
pub(crate) fn float(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bounds() -> Bounds {
        std::array::from_fn(|index| float(index as u64 + 1))
    }

    fn buckets(filled: &[(usize, u64)]) -> Buckets {
        let mut buckets = Buckets::default();
        for (index, count) in filled {
            buckets[*index] = *count;
        }
        buckets
    }

    #[test]
    fn within_a_bucket_all_are_evenly_spread() {
        for (filled, share, expected) in [
            (&[(0, 10)][..], 0.5, Some(0.5)),
            (&[(3, 10)], 0.5, Some(3.5)),
            (&[(3, 10)], 1.0, Some(4.0)),
            (&[(0, 50), (9, 50)], 0.5, Some(1.0)),
            (&[(0, 50), (9, 50)], 0.75, Some(9.5)),
            (&[(16, 3)], 0.5, Some(16.0)),
            (&[(0, 99), (16, 1)], 0.999, Some(16.0)),
            (&[], 0.5, None),
        ] {
            assert_eq!(percentile(share, &bounds(), &buckets(filled)), expected, "{filled:?} {share}");
        }
    }

    proptest! {
        #[test]
        fn percentiles_rise_and_stay_where_something_was_counted(
            counts in proptest::collection::vec(0_u64..1_000, BUCKETS),
            shares in proptest::collection::vec(0.0_f64..=1.0, 2),
        ) {
            let buckets: Buckets = counts.clone().try_into().unwrap();
            let (low, high) = (shares[0].min(shares[1]), shares[0].max(shares[1]));
            let (low, high) = (percentile(low, &bounds(), &buckets), percentile(high, &bounds(), &buckets));
            prop_assert_eq!(low.is_some(), counts.iter().any(|count| *count > 0));
            if let (Some(low), Some(high)) = (low, high) {
                prop_assert!(low <= high);
                let first = counts.iter().position(|count| *count > 0).unwrap();
                let last = counts.iter().rposition(|count| *count > 0).unwrap();
                prop_assert!(low >= float(first as u64).min(16.0));
                prop_assert!(high <= float(last as u64 + 1).min(16.0));
            }
        }
    }
}

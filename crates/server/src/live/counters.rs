//! What a node has counted up to one moment, and what happened between two of them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use tidegate::store::{Histogram, Shard, Store};
use tidegate_core::Timestamp;

use super::percentile::{Bounds, float, latency, percentile};
use super::point::{BUCKETS, Buckets, MOST_SHARDS, MOST_TIERS, Point, Rates, ShardRates, TierRates};
use crate::health::Moment;
use crate::metrics::{Counted, Counts};
use crate::node::Node;

/// All counters that a [`Point`] is made of.
#[derive(Clone, Debug)]
pub(crate) struct Counters {
    pub(crate) at: Moment,
    pub(crate) decisions: Counted,
    pub(crate) fallbacks: u64,
    pub(crate) seconds: Buckets,
    pub(crate) shards: BTreeMap<String, ShardCounters>,
}

/// Those of a part of the store.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ShardCounters {
    pub(crate) calls: u64,
    pub(crate) operations: u64,
    pub(crate) errors: u64,
    pub(crate) seconds: Buckets,
}

impl Counters {
    /// Those of a node that starts at a moment.
    pub(crate) fn none(at: Moment) -> Self {
        Self {
            at,
            decisions: Counted::default(),
            fallbacks: 0,
            seconds: Buckets::default(),
            shards: BTreeMap::new(),
        }
    }

    /// Those of `node`.
    pub(crate) fn of(node: &Node) -> Self {
        let decisions = node.metrics.decisions.read();
        let shards = node.limiter.shared().map(Store::shards).unwrap_or_default();
        Self {
            at: node.moment(),
            fallbacks: decisions.fallbacks(),
            decisions,
            seconds: buckets(&node.metrics.decision_seconds.histogram),
            shards: shards.into_iter().take(MOST_SHARDS).map(ShardCounters::of).collect(),
        }
    }

    /// What happened since `before`. What has gone back was replaced: nothing is known to have happened there.
    pub(crate) fn since(&self, before: &Self, bounds: &Bounds) -> Point {
        let over = Over(self.at.instant.saturating_duration_since(before.at.instant));
        let buckets = less(&self.seconds, &before.seconds);
        let none = ShardCounters::default();
        let shards = self.shards.iter().map(|(name, shard)| {
            // One that has just appeared may have been counting before, unless they all have.
            let unknown = if before.shards.is_empty() { &none } else { shard };
            shard.since(before.shards.get(name).unwrap_or(unknown), name, over, bounds)
        });
        Point {
            at: self.at.time.as_millis(),
            decisions: over.rates(&self.decisions.totals, &before.decisions.totals),
            fallback: over.rate(self.fallbacks, before.fallbacks),
            latency: latency(bounds, &buckets),
            buckets,
            tiers: tiers(&self.decisions, &before.decisions, over),
            shards: shards.collect(),
        }
    }

    /// A point at which nothing has happened yet.
    pub(crate) fn beginning(at: Timestamp) -> Point {
        Point { at: at.as_millis(), ..Point::default() }
    }
}

impl ShardCounters {
    fn of(Shard { name, stats, .. }: Shard) -> (String, Self) {
        let counters = Self {
            calls: stats.calls(),
            operations: stats.operations().map(|(_, count)| count).sum(),
            errors: stats.errors().map(|(_, count)| count).sum(),
            seconds: buckets(&stats.seconds),
        };
        (name, counters)
    }

    fn since(&self, before: &Self, name: &str, over: Over, bounds: &Bounds) -> ShardRates {
        let buckets = less(&self.seconds, &before.seconds);
        ShardRates {
            name: name.to_owned(),
            calls: over.rate(self.calls, before.calls),
            operations: over.rate(self.operations, before.operations),
            errors: over.rate(self.errors, before.errors),
            p50: percentile(0.5, bounds, &buckets),
            p99: percentile(0.99, bounds, &buckets),
        }
    }
}

/// The time between two moments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Over(pub(crate) Duration);

impl Over {
    /// The time between two looks.
    pub(crate) fn between(before: Instant, now: Instant) -> Self {
        Self(now.saturating_duration_since(before))
    }

    /// How much it was per second; never less than nothing.
    pub(crate) fn rate(self, now: u64, before: u64) -> f64 {
        if self.0.is_zero() { 0.0 } else { float(now.saturating_sub(before)) / self.0.as_secs_f64() }
    }

    /// The same for each outcome.
    pub(crate) fn rates(self, now: &Counts, before: &Counts) -> Rates {
        let [allowed, refused, shadow_refused, failed_open, unavailable] =
            std::array::from_fn(|outcome| self.rate(now[outcome], before[outcome]));
        Rates { allowed, refused, shadow_refused, failed_open, unavailable }
    }
}

fn tiers(now: &Counted, before: &Counted, over: Over) -> Vec<TierRates> {
    let tiers = now.tiers.iter().filter(|(tier, _)| !tier.is_empty()).map(|(tier, counts)| {
        let before = before.tiers.get(tier).copied().unwrap_or_default();
        let Rates { allowed, refused, .. } = over.rates(counts, &before);
        TierRates { tier: tier.to_string(), allowed, refused }
    });
    busiest(tiers.collect(), MOST_TIERS, |tier| tier.allowed + tier.refused)
}

/// The busiest first, up to `most`; those that are equally busy stay in their order.
pub(crate) fn busiest<T>(mut all: Vec<T>, most: usize, busy: impl Fn(&T) -> f64) -> Vec<T> {
    all.sort_by(|a, b| busy(b).total_cmp(&busy(a)));
    all.truncate(most);
    all
}

fn less(now: &Buckets, before: &Buckets) -> Buckets {
    std::array::from_fn(|bucket| now[bucket].saturating_sub(before[bucket]))
}

fn buckets(histogram: &Histogram) -> Buckets {
    let mut buckets = Buckets::default();
    for (bucket, (_, count)) in buckets.iter_mut().zip(histogram.read().buckets) {
        *bucket = count;
    }
    buckets
}

/// The bounds of the buckets that all histograms here have.
pub(crate) fn bounds() -> Bounds {
    let mut bounds = [0.0; BUCKETS - 1];
    for (bound, (upper, _)) in bounds.iter_mut().zip(Histogram::default().read().buckets) {
        *bound = upper;
    }
    bounds
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;

    fn counters(seconds: u64, allowed: u64, calls: u64) -> Counters {
        static START: std::sync::LazyLock<Instant> = std::sync::LazyLock::new(Instant::now);
        let counts = [allowed, 0, 0, 0, 0];
        let mut buckets = Buckets::default();
        buckets[3] = allowed;
        let shard = ShardCounters { calls, operations: calls * 2, errors: 0, seconds: buckets };
        Counters {
            at: Moment {
                instant: *START + Duration::from_secs(seconds),
                time: Timestamp::from_millis(seconds * 1_000),
            },
            decisions: Counted {
                totals: counts,
                rules: vec![(Arc::from("a"), counts)],
                tiers: [(Arc::from("free"), counts), (Arc::from(""), counts)].into(),
                local: 0,
            },
            fallbacks: 0,
            seconds: buckets,
            shards: [("one".to_owned(), shard)].into(),
        }
    }

    #[test]
    fn a_point_is_the_difference_per_second() {
        let point = counters(2, 30, 5).since(&counters(0, 10, 1), &bounds());
        assert_eq!((point.at, point.decisions.allowed, point.buckets[3]), (2_000, 10.0, 20));
        assert_eq!(point.tiers, [TierRates { tier: "free".to_owned(), allowed: 10.0, refused: 0.0 }]);
        let [shard] = &point.shards[..] else { panic!("{point:?}") };
        assert_eq!((shard.calls, shard.operations), (2.0, 4.0));
        assert!(point.latency.is_some() && shard.p50.is_some());
    }

    #[test]
    fn a_shard_that_has_just_appeared_has_done_nothing_yet() {
        let mut before = counters(0, 10, 1);
        before.shards = [("two".to_owned(), ShardCounters::default())].into();
        let point = counters(1, 10, 1_000).since(&before, &bounds());
        assert_eq!((point.shards[0].calls, point.shards[0].p99, point.latency), (0.0, None, None));
        before.shards.clear();
        let point = counters(1, 10, 1_000).since(&before, &bounds());
        assert_eq!(point.shards[0].calls, 1_000.0, "those that a node starts with have begun with it");
    }

    #[test]
    fn the_buckets_are_those_of_the_histogram() {
        let bounds = bounds();
        assert!(bounds.is_sorted() && bounds.iter().all(|bound| bound.is_finite() && *bound > 0.0));
        assert_eq!(Histogram::default().read().buckets.len(), BUCKETS);
    }

    proptest! {
        #[test]
        fn nothing_is_ever_negative(
            times in (0_u64..100, 0_u64..100),
            allowed in (0_u64..1_000, 0_u64..1_000),
            calls in (0_u64..1_000, 0_u64..1_000),
        ) {
            let (before, now) = (counters(times.0, allowed.0, calls.0), counters(times.1, allowed.1, calls.1));
            let point = now.since(&before, &bounds());
            let shard = &point.shards[0];
            for rate in [point.decisions.allowed, point.fallback, shard.calls, shard.operations, shard.errors] {
                prop_assert!(rate >= 0.0 && rate.is_finite());
            }
            if allowed.1 < allowed.0 {
                prop_assert_eq!(point.decisions.allowed, 0.0);
            }
            if times.1 > times.0 && allowed.1 >= allowed.0 {
                let expected = float(allowed.1 - allowed.0);
                prop_assert!((point.decisions.allowed * float(times.1 - times.0) - expected).abs() < 1e-6);
            }
        }
    }
}

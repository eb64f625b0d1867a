//! Several nodes as if they were one.

use std::collections::BTreeMap;

use super::counters::busiest;
use super::percentile::{Bounds, latency};
use super::point::{Buckets, MOST_SHARDS, MOST_TIERS, Point, Rates, ShardRates, TierRates};
use super::state::Totals;

/// What happened on all nodes: rates and buckets summed, percentiles from the sums. Of a part of the store, which nodes ask
/// each for themselves, the worst percentiles are shown.
pub(crate) fn points<'p>(all: impl IntoIterator<Item = &'p Point>, bounds: &Bounds) -> Point {
    let mut sum = Point::default();
    let (mut tiers, mut shards) = (BTreeMap::<&str, TierRates>::new(), BTreeMap::<&str, ShardRates>::new());
    for point in all {
        sum.at = sum.at.max(point.at);
        sum.decisions = rates(&sum.decisions, &point.decisions);
        sum.fallback = plus(sum.fallback, point.fallback);
        sum.buckets = buckets(&sum.buckets, &point.buckets);
        for tier in &point.tiers {
            let known = tiers.entry(&tier.tier).or_default();
            known.allowed = plus(known.allowed, tier.allowed);
            known.refused = plus(known.refused, tier.refused);
        }
        for shard in &point.shards {
            add_shard(shards.entry(&shard.name).or_default(), shard);
        }
    }
    sum.latency = latency(bounds, &sum.buckets);
    let named = tiers.into_iter().map(|(name, tier)| TierRates { tier: name.to_owned(), ..tier });
    sum.tiers = busiest(named.collect(), MOST_TIERS, |tier| tier.allowed + tier.refused);
    let named = shards.into_iter().map(|(name, shard)| ShardRates { name: name.to_owned(), ..shard });
    sum.shards = named.take(MOST_SHARDS).collect();
    sum
}

/// Decisions on all nodes.
pub(crate) fn totals<'t>(all: impl IntoIterator<Item = &'t Totals>) -> Totals {
    all.into_iter().fold(Totals::default(), |sum, more| Totals {
        allowed: sum.allowed.saturating_add(more.allowed),
        refused: sum.refused.saturating_add(more.refused),
        shadow_refused: sum.shadow_refused.saturating_add(more.shadow_refused),
        failed_open: sum.failed_open.saturating_add(more.failed_open),
        unavailable: sum.unavailable.saturating_add(more.unavailable),
    })
}

fn rates(sum: &Rates, more: &Rates) -> Rates {
    Rates {
        allowed: plus(sum.allowed, more.allowed),
        refused: plus(sum.refused, more.refused),
        shadow_refused: plus(sum.shadow_refused, more.shadow_refused),
        failed_open: plus(sum.failed_open, more.failed_open),
        unavailable: plus(sum.unavailable, more.unavailable),
    }
}

fn add_shard(sum: &mut ShardRates, more: &ShardRates) {
    sum.calls = plus(sum.calls, more.calls);
    sum.operations = plus(sum.operations, more.operations);
    sum.errors = plus(sum.errors, more.errors);
    let worst = |a: Option<f64>, b: Option<f64>| a.into_iter().chain(b).reduce(f64::max);
    (sum.p50, sum.p99) = (worst(sum.p50, more.p50), worst(sum.p99, more.p99));
}

fn buckets(sum: &Buckets, more: &Buckets) -> Buckets {
    std::array::from_fn(|bucket| sum[bucket].saturating_add(more[bucket]))
}

/// What other nodes say may be anything, but JSON has no word for infinite.
fn plus(sum: f64, more: f64) -> f64 {
    (sum + more).clamp(0.0, f64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::counters::bounds;
    use super::*;

    fn point(at: u64, allowed: u32, tier: &str, p99: Option<f64>) -> Point {
        let mut buckets = Buckets::default();
        buckets[(allowed % 17) as usize] = u64::from(allowed);
        let allowed = f64::from(allowed);
        Point {
            at,
            decisions: Rates { allowed, ..Rates::default() },
            fallback: 0.0,
            latency: latency(&bounds(), &buckets),
            buckets,
            tiers: vec![TierRates { tier: tier.to_owned(), allowed, refused: 1.0 }],
            shards: vec![ShardRates {
                name: "one".to_owned(),
                calls: allowed,
                p50: None,
                p99,
                ..ShardRates::default()
            }],
        }
    }

    #[test]
    fn names_are_summed_and_the_worst_is_shown() {
        let all = [point(5, 3, "free", Some(0.1)), point(4, 4, "free", Some(0.3)), point(3, 9, "gold", None)];
        let sum = points(&all, &bounds());
        assert_eq!((sum.at, sum.decisions.allowed), (5, 16.0));
        let tiers: Vec<_> = sum.tiers.iter().map(|t| (&*t.tier, t.allowed, t.refused)).collect();
        assert_eq!(tiers, [("gold", 9.0, 1.0), ("free", 7.0, 2.0)]);
        let [shard] = &sum.shards[..] else { panic!("{sum:?}") };
        assert_eq!((shard.calls, shard.p50, shard.p99), (16.0, None, Some(0.3)));
    }

    #[test]
    fn no_nodes_have_done_nothing() {
        assert_eq!(points([], &bounds()), Point::default());
        assert_eq!(totals([]), Totals::default());
    }

    #[test]
    fn what_is_absurd_stays_a_number() {
        let absurd = Totals { allowed: u64::MAX, ..Totals::default() };
        assert_eq!(totals([&absurd, &absurd]).allowed, u64::MAX);
        let mut point = point(1, 1, "a", None);
        (point.decisions.allowed, point.fallback, point.buckets[0]) = (f64::MAX, -5.0, u64::MAX);
        let sum = points([&point, &point], &bounds());
        assert_eq!((sum.decisions.allowed, sum.fallback, sum.buckets[0]), (f64::MAX, 0.0, u64::MAX));
    }

    proptest! {
        #[test]
        fn the_order_of_nodes_does_not_matter(
            nodes in proptest::collection::vec((0_u64..9, 0_u32..1_000, "[ab]", proptest::option::of(0.0..1.0_f64)), 0..6),
        ) {
            let mut all: Vec<Point> = nodes.iter().map(|(at, n, tier, p99)| point(*at, *n, tier, *p99)).collect();
            let sum = points(&all, &bounds());
            all.reverse();
            prop_assert_eq!(&points(&all, &bounds()), &sum);
            let decided: u64 = nodes.iter().map(|(_, n, ..)| u64::from(*n)).sum();
            prop_assert_eq!(sum.buckets.iter().sum::<u64>(), decided);
        }
    }
}

//! What the store has been asked.

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use tidegate::Limiter;
use tidegate::store::{MemoryStore, Settled, Shard};

use super::{counter, encode_histogram, gauge};

/// Writes what there is to say about where the counters are.
pub(super) fn encode(limiter: &Limiter, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let memory = limiter.memory();
    gauge(encoder, "keys", "Counters in memory", memory.map_or(0, MemoryStore::keys) as u64)?;
    let help = "Counters in memory that made room for others before they were at rest";
    counter(encoder, "evicted_keys", help, memory.map_or(0, MemoryStore::evicted))?;
    let help = "Takes that shared a counter because there was no room for their own";
    counter(encoder, "overflowed", help, memory.map_or(0, MemoryStore::overflowed))?;
    let Some(store) = limiter.shared() else { return Ok(()) };
    let help = "Requests refused without asking the store, because it had just refused the same";
    counter(encoder, "denied_from_cache", help, limiter.denied_from_cache())?;
    if let Some(fallback) = limiter.fallback() {
        let help = "Keys for which the store does not know yet what was admitted without it";
        gauge(encoder, "unsettled_keys", help, fallback.unsettled() as u64)?;
        let help = "Requests sent to the nodes that count their keys while the store cannot";
        counter(encoder, "forwarded_requests", help, fallback.forwarded())?;
        let help = "Requests so sent that were refused because the other node did not answer in time";
        counter(encoder, "forwards_unanswered", help, fallback.unanswered())?;
        let Settled { admitted, settled, forgiven } = fallback.settled();
        counter(encoder, "admitted_without_store", "What was admitted here without the store", admitted)?;
        let help = "What was admitted without the store and taken there afterwards";
        counter(encoder, "settled", help, settled)?;
        let help =
            "What was admitted without the store and given back by time before it could be taken there";
        counter(encoder, "forgiven", help, forgiven)?;
    }
    shards(&store.shards(), encoder)
}

fn shards(shards: &[Shard], encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let family = encoder.encode_descriptor(
        "store_calls",
        "Round trips to the store; one may carry many operations",
        None,
        MetricType::Counter,
    )?;
    count(family, shards, |shard| [([("shard", &*shard.name)], shard.stats.calls())])?;
    let family = encoder.encode_descriptor(
        "store_operations",
        "Operations sent to the store, by kind",
        None,
        MetricType::Counter,
    )?;
    count(family, shards, |shard| {
        shard.stats.operations().map(|(op, count)| ([("shard", &*shard.name), ("op", op)], count))
    })?;
    let family = encoder.encode_descriptor(
        "store_errors",
        "Failures of the store, by kind",
        None,
        MetricType::Counter,
    )?;
    count(family, shards, |shard| {
        let seen = shard.stats.errors().filter(|(_, count)| *count > 0);
        seen.map(|(kind, count)| ([("shard", &*shard.name), ("kind", kind.name())], count))
    })?;
    let mut family = encoder.encode_descriptor(
        "breaker_state",
        "Whether a part of the store is asked: 0 closed (it is), 1 half-open, 2 open (it is left alone)",
        None,
        MetricType::Gauge,
    )?;
    shards.iter().try_for_each(|shard| {
        let state = u64::from(shard.breaker.number());
        family.encode_family(&[("shard", &*shard.name)])?.encode_gauge(&state)
    })?;
    let mut family = encoder.encode_descriptor(
        "store_seconds",
        "How long round trips to the store took",
        None,
        MetricType::Histogram,
    )?;
    shards.iter().try_for_each(|shard| {
        encode_histogram(&shard.stats.seconds, family.encode_family(&[("shard", &*shard.name)])?)
    })
}

/// Writes a counter for every combination of labels that `each` finds in a shard.
fn count<'s, const LABELS: usize, I>(
    mut family: MetricEncoder<'_>,
    shards: &'s [Shard],
    each: impl Fn(&'s Shard) -> I,
) -> fmt::Result
where
    I: IntoIterator<Item = ([(&'s str, &'s str); LABELS], u64)>,
{
    for (labels, count) in shards.iter().flat_map(each) {
        family.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(&count, None)?;
    }
    Ok(())
}

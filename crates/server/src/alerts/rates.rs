//! What happened of late: differences between looks.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::figures::Figures;

/// More looks than this are not kept, however often one looks.
const MOST: usize = 600;

/// The last looks, oldest first.
#[derive(Debug, Default)]
pub(super) struct Looks(VecDeque<Look>);

#[derive(Clone, Debug)]
struct Look {
    at: Instant,
    decisions: u64,
    refused: u64,
    calls: u64,
    errors: u64,
    evicted: u64,
    shed: u64,
    latency: Vec<(f64, u64)>,
}

/// What happened within a time.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Recent {
    pub(super) decisions: u64,
    pub(super) refused: u64,
    pub(super) calls: u64,
    pub(super) errors: u64,
    pub(super) evicted: u64,
    pub(super) shed: u64,
    pub(super) latency: Vec<(f64, u64)>,
    pub(super) over: Duration,
}

impl Looks {
    /// Takes note of `figures`, and forgets what is older than `keep`.
    pub(super) fn add(&mut self, figures: &Figures, now: Instant, keep: Duration) {
        let shards = || figures.store.iter().flat_map(|store| &store.shards);
        self.0.push_back(Look {
            at: now,
            decisions: figures.decisions,
            refused: figures.refused,
            calls: shards().map(|shard| shard.calls).sum(),
            errors: shards().map(|shard| shard.errors).sum(),
            evicted: figures.evicted,
            shed: figures.shed,
            latency: figures.latency.clone(),
        });
        // The second is enough to tell what happened since the first that is too old.
        while self.0.len() > MOST
            || self.0.get(1).is_some_and(|look| now.saturating_duration_since(look.at) > keep)
        {
            self.0.pop_front();
        }
    }

    /// What happened in the last `window`.
    pub(super) fn recent(&self, window: Duration) -> Recent {
        let Some(last) = self.0.back() else { return Recent::default() };
        between(self.at(last.at, window), Some(last))
    }

    /// What happened before the last `window`, if at least half of `baseline` was seen.
    pub(super) fn before(&self, window: Duration, baseline: Duration) -> Option<Recent> {
        let last = self.0.back()?;
        let before = between(self.at(last.at, window.saturating_add(baseline)), self.at(last.at, window));
        (before.over >= baseline / 2).then_some(before)
    }

    /// The last look that was at least so long before `now`, or else the first one.
    fn at(&self, now: Instant, ago: Duration) -> Option<&Look> {
        let old = self.0.iter().rev().find(|look| now.saturating_duration_since(look.at) >= ago);
        old.or(self.0.front())
    }
}

fn between(from: Option<&Look>, to: Option<&Look>) -> Recent {
    let (Some(from), Some(to)) = (from, to) else { return Recent::default() };
    let before = |index: usize| from.latency.get(index).map_or(0, |(_, count)| *count);
    let latency = to.latency.iter().enumerate();
    Recent {
        // Parts of a store that went have taken their counts with them.
        decisions: to.decisions.saturating_sub(from.decisions),
        refused: to.refused.saturating_sub(from.refused),
        calls: to.calls.saturating_sub(from.calls),
        errors: to.errors.saturating_sub(from.errors),
        evicted: to.evicted.saturating_sub(from.evicted),
        shed: to.shed.saturating_sub(from.shed),
        latency: latency.map(|(i, (bound, count))| (*bound, count.saturating_sub(before(i)))).collect(),
        over: to.at.saturating_duration_since(from.at),
    }
}

impl Recent {
    /// Decisions per second.
    pub(super) fn throughput(&self) -> f64 {
        if self.over.is_zero() { 0.0 } else { share_of(self.decisions) / self.over.as_secs_f64() }
    }

    pub(super) fn refused_share(&self) -> f64 {
        share(self.refused, self.decisions)
    }

    /// Failures may be of requests that were not even sent.
    pub(super) fn errors_share(&self) -> f64 {
        share(self.errors, self.calls.saturating_add(self.errors))
    }

    /// The share of decisions that took longer than so many seconds, which should be the bound of a bucket.
    pub(super) fn slower_than(&self, seconds: f64) -> f64 {
        let all: u64 = self.latency.iter().map(|(_, count)| count).sum();
        let slow =
            self.latency.iter().filter(|(bound, _)| *bound > seconds * 1.000_001).map(|(_, n)| n).sum();
        share(slow, all)
    }
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { share_of(part) / share_of(whole) }
}

/// Counts beyond 2^53 lose their last digits, which no share shows.
#[expect(clippy::cast_precision_loss, reason = "shares do not show it")]
fn share_of(count: u64) -> f64 {
    count as f64
}

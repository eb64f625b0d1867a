//! How a node is at one moment, as far as alerts go.

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate::store::{BreakerState, Shard, Store};
use tidegate_core::Mode;

use crate::keys_watch::short_of_room;
use crate::node::{Node, Shown};

/// Figures of a node. Counts are since it started.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Figures {
    pub(crate) decisions: u64,
    pub(crate) refused: u64,
    /// How many decisions took up to how many seconds, and longer than the bound before.
    pub(crate) latency: Vec<(f64, u64)>,
    pub(crate) mode: Mode,
    pub(crate) reasons: Vec<String>,
    pub(crate) rules_version: u64,
    /// None if counters are in memory.
    pub(crate) store: Option<StoreFigures>,
    /// The share of connections that are taken, of the listener that has least room.
    pub(crate) connections: Option<f64>,
    /// Number of times a counter in memory had to make room for another, or there was no room.
    pub(crate) evicted: u64,
    /// Number of requests that were shed to protect the service.
    pub(crate) shed: u64,
    /// A key that is asked for far more than others, if such are looked for and there is one.
    pub(crate) hot_key: Option<String>,
}

/// How the shared store is.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct StoreFigures {
    /// What is wrong with the store as a whole.
    pub(crate) problem: Option<String>,
    pub(crate) shards: Vec<ShardFigures>,
}

/// How a part of it is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ShardFigures {
    pub(crate) name: String,
    pub(crate) problem: Option<String>,
    pub(crate) breaker: BreakerState,
    pub(crate) calls: u64,
    pub(crate) errors: u64,
    pub(crate) load: Load,
}

/// How busy a server of the store is, as far as it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Load {
    /// The share of one processor that it uses.
    pub(crate) cpu: Option<f64>,
    /// The share of its memory that it uses.
    pub(crate) memory: Option<f64>,
    /// How much that is.
    pub(crate) memory_bytes: Option<u64>,
    /// The share of its connections that are taken.
    pub(crate) connections: Option<f64>,
    /// How far the slowest of its replicas is behind.
    pub(crate) replication_lag: Option<Duration>,
}

impl StoreFigures {
    /// What is wrong if none of it can be used.
    pub(crate) fn down(&self) -> Option<&str> {
        let part = |shard: &ShardFigures| shard.problem.is_some();
        let of_parts = if self.shards.iter().all(part) {
            self.shards.first().and_then(|shard| shard.problem.as_deref())
        } else {
            None
        };
        self.problem.as_deref().or(of_parts)
    }
}

impl Figures {
    /// How `node` is now, with what is known of how busy its store is.
    pub(super) fn of(node: &Node, loads: &BTreeMap<String, Load>) -> Self {
        let totals = node.metrics.decisions.totals();
        let condition = node.health.condition();
        Self {
            // Shadow rules count beside decisions, not as decisions.
            decisions: totals
                .iter()
                .filter(|(outcome, _)| **outcome != "shadow_refused")
                .map(|(_, n)| n)
                .sum(),
            refused: totals.get("refused").copied().unwrap_or_default(),
            latency: node.metrics.decision_seconds.histogram.read().buckets,
            mode: condition.mode,
            reasons: condition.reasons.clone(),
            rules_version: node.limiter.rules().version(),
            store: node.limiter.shared().map(|store| store_figures(store, loads)),
            connections: None,
            evicted: node.limiter.memory().map_or(0, short_of_room),
            shed: node.gateway().map_or(0, shed),
            hot_key: hot_key(node),
        }
    }
}

fn shed(gateway: &dyn Shown) -> u64 {
    gateway.upstreams().iter().flat_map(|upstream| &upstream.shed).map(|shed| shed.total).sum()
}

/// The hottest key that is hot, in words.
fn hot_key(node: &Node) -> Option<String> {
    let top = node.insight.hot_keys.top().into_iter();
    let hottest = top.filter(|key| key.since.is_some()).max_by_key(|key| key.rate)?;
    Some(format!("{} of rule {}: {} requests a second", hottest.identity, hottest.rule, hottest.rate))
}

fn store_figures(store: &dyn Store, loads: &BTreeMap<String, Load>) -> StoreFigures {
    let shards = store.shards().into_iter().map(|Shard { name, stats, problem, breaker }| ShardFigures {
        load: loads.get(&name).copied().unwrap_or_default(),
        calls: stats.calls(),
        errors: stats.errors().map(|(_, count)| count).sum(),
        name,
        problem,
        breaker,
    });
    let shards: Vec<ShardFigures> = shards.collect();
    // A store with parts is down if all of them are: its own problem may be that of one.
    let problem = store.problem().filter(|_| shards.iter().all(|shard| shard.problem.is_some()));
    StoreFigures { problem, shards }
}

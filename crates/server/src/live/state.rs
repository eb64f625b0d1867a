//! How a node is now.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate::cluster::{Cluster, State as MemberState};
use tidegate::store::{Fallback, MemoryStore, Shard, Store};
use tidegate_core::Mode;

use super::point::MOST_SHARDS;
use super::rules::RuleRates;
use crate::admin::{HotKeyBody, rfc3339};
use crate::alerts::{Evaluator, Fired, Load};
use crate::metrics::Counts;
use crate::node::{Node, Shown};

/// How a node is now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct NodeState {
    /// What it is called among others; null if it knows of none.
    pub(crate) name: Option<String>,
    /// The version of its program.
    pub(crate) version: String,
    /// How long it has been running.
    pub(crate) uptime_seconds: u64,
    /// Whether it is about to end and wants no more requests.
    pub(crate) draining: bool,
    /// How it is doing.
    pub(crate) mode: ModeName,
    /// Why it is not normal.
    pub(crate) reasons: Vec<String>,
    /// The rules in force.
    pub(crate) rules: RulesState,
    /// Decisions since it started, by outcome.
    pub(crate) totals: Totals,
    /// How many of them were taken without the store.
    pub(crate) fallback_total: u64,
    /// How many counters there are in memory.
    pub(crate) keys: u64,
    /// Where counters live.
    pub(crate) store: StoreState,
    /// The busiest rules, up to a hundred: means over the last five seconds.
    pub(crate) by_rule: Vec<RuleRates>,
    /// The keys with most requests of late.
    pub(crate) hot_keys: Vec<HotKeyBody>,
    /// The alerts that fire, the worst first.
    pub(crate) alerts: Vec<AlertState>,
    /// How many other nodes there are; null if it knows of none.
    pub(crate) cluster: Option<ClusterState>,
    /// Whether it is a gateway.
    pub(crate) gateway: bool,
    /// Upstreams with a limit on requests in flight, up to a hundred.
    pub(crate) upstreams: Vec<UpstreamState>,
}

/// An upstream with a limit on requests in flight.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UpstreamState {
    /// Its name.
    pub name: String,
    /// Number of requests in flight.
    pub in_flight: u32,
    /// Limit on them.
    pub limit: u32,
    /// Response time without a queue; null if the limit is fixed, or has seen no responses yet.
    pub base_latency_seconds: Option<f64>,
    /// Requests that were shed, by tier.
    pub shed: Vec<ShedState>,
}

/// Requests of a tier that were shed since the node started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ShedState {
    /// Name of the tier, or `other`.
    pub tier: String,
    /// Number of requests.
    pub total: u64,
}

/// The operating mode of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ModeName {
    #[default]
    Normal,
    Degraded,
    Emergency,
}

impl From<Mode> for ModeName {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Normal => Self::Normal,
            Mode::Degraded => Self::Degraded,
            Mode::Emergency => Self::Emergency,
        }
    }
}

/// The rules in force.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct RulesState {
    /// Their version.
    pub(crate) version: u64,
    /// How many there are.
    pub(crate) count: usize,
    /// How many documents are bad and not in force.
    pub(crate) quarantined: usize,
    /// How long ago their source showed that it is there; null if it cannot.
    pub(crate) age_seconds: Option<f64>,
}

/// Decisions by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Totals {
    pub(crate) allowed: u64,
    pub(crate) refused: u64,
    /// What shadow rules would have refused; such decisions are counted above as well.
    pub(crate) shadow_refused: u64,
    pub(crate) failed_open: u64,
    pub(crate) unavailable: u64,
}

impl From<Counts> for Totals {
    fn from([allowed, refused, shadow_refused, failed_open, unavailable]: Counts) -> Self {
        Self { allowed, refused, shadow_refused, failed_open, unavailable }
    }
}

/// Where counters live.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct StoreState {
    /// `memory`, or the kind of store that nodes share.
    pub(crate) kind: String,
    /// For how many keys it does not know yet what was admitted without it.
    pub(crate) unsettled: usize,
    /// Its parts; none if counters are in memory.
    pub(crate) shards: Vec<ShardState>,
}

/// A part of the store. Shares are from 0 to 1, and null if they are not known.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct ShardState {
    /// What it is called.
    pub(crate) name: String,
    /// Whether it is asked: `closed` (it is), `half-open` or `open` (it is left alone).
    pub(crate) breaker: String,
    /// Why it cannot be used; null if it can.
    pub(crate) problem: Option<String>,
    /// The share of one processor that it uses.
    pub(crate) cpu: Option<f64>,
    /// The share of the memory that it may use; null if it has no limit.
    pub(crate) memory: Option<f64>,
    /// How much memory it uses.
    pub(crate) memory_bytes: Option<u64>,
    /// The share of its connections that are taken.
    pub(crate) connections: Option<f64>,
    /// How far the slowest of its replicas is behind.
    pub(crate) replication_lag_seconds: Option<f64>,
}

/// An alert that fires.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct AlertState {
    /// What it is called.
    pub(crate) alert: String,
    /// `critical` or `warning`.
    pub(crate) severity: String,
    /// What is wrong.
    pub(crate) summary: String,
    /// Since when (RFC 3339).
    pub(crate) since: String,
    /// Where it says what to do.
    pub(crate) runbook: String,
}

/// How many other nodes there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct ClusterState {
    /// Those that answer.
    pub(crate) alive: usize,
    /// Those that do not, and are not given up yet.
    pub(crate) suspect: usize,
    /// Those that are given up.
    pub(crate) lost: usize,
}

impl NodeState {
    /// How `node` is, with how busy its rules were.
    pub(crate) fn of(node: &Node, by_rule: Vec<RuleRates>) -> Self {
        let (condition, decisions) = (node.health.condition(), &node.metrics.decisions);
        let cluster = node.cluster.as_ref().map(|membership| membership.fleet().cluster());
        let rules = node.limiter.rules();
        Self {
            name: cluster.map(|cluster| cluster.me().name.to_string()),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            uptime_seconds: node.started.elapsed().as_secs(),
            draining: node.is_draining(),
            mode: condition.mode.into(),
            reasons: condition.reasons.clone(),
            rules: RulesState {
                version: rules.version(),
                count: rules.len(),
                quarantined: node.aside().len(),
                age_seconds: node.pulse.as_ref().map(|pulse| pulse.age().as_secs_f64()),
            },
            totals: decisions.sums().into(),
            fallback_total: decisions.fallbacks(),
            keys: node.limiter.memory().map_or(0, MemoryStore::keys) as u64,
            store: StoreState::of(node),
            by_rule,
            hot_keys: HotKeyBody::top(node),
            alerts: node.alerts.read(alerts),
            cluster: cluster.map(|cluster| ClusterState::of(cluster)),
            gateway: node.gateway().is_some(),
            upstreams: node.gateway().map_or_else(Vec::new, upstreams),
        }
    }
}

/// Number of upstreams that are shown.
const MOST_UPSTREAMS: usize = 100;

fn upstreams(gateway: &dyn Shown) -> Vec<UpstreamState> {
    let mut upstreams = gateway.upstreams();
    upstreams.truncate(MOST_UPSTREAMS);
    upstreams
}

impl StoreState {
    fn of(node: &Node) -> Self {
        let (shards, loads) =
            (node.limiter.shared().map(Store::shards).unwrap_or_default(), node.alerts.loads());
        let shards = shards.into_iter().take(MOST_SHARDS).map(|shard| {
            let load = loads.get(&shard.name).copied().unwrap_or_default();
            ShardState::new(shard, load)
        });
        Self {
            kind: node.store_kind.clone(),
            unsettled: node.limiter.fallback().map_or(0, Fallback::unsettled),
            shards: shards.collect(),
        }
    }
}

impl ShardState {
    fn new(Shard { name, problem, breaker, .. }: Shard, load: Load) -> Self {
        let Load { cpu, memory, memory_bytes, connections, replication_lag } = load;
        let replication_lag_seconds = replication_lag.map(|lag| lag.as_secs_f64());
        let breaker = breaker.name().to_owned();
        Self { name, breaker, problem, cpu, memory, memory_bytes, connections, replication_lag_seconds }
    }
}

impl ClusterState {
    fn of(cluster: &Cluster) -> Self {
        cluster.members().iter().fold(Self::default(), |mut counts, member| {
            match member.state {
                MemberState::Alive => counts.alive += 1,
                MemberState::Suspect => counts.suspect += 1,
                MemberState::Lost => counts.lost += 1,
            }
            counts
        })
    }
}

fn alerts(evaluator: &Evaluator) -> Vec<AlertState> {
    let active = evaluator.active().into_iter().map(|Fired { alert, summary, since, .. }| AlertState {
        alert: alert.name().to_owned(),
        severity: alert.severity().name().to_owned(),
        summary,
        since: rfc3339(since.as_millis()),
        runbook: evaluator.settings().runbook(alert.name()),
    });
    active.collect()
}

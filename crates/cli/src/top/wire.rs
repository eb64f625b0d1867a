//! What a node says of itself, as far as it is shown. Fields that are missing are empty, others than these are passed over:
//! a node may be older or newer than this command.

use serde::Deserialize;

use super::bounded::first;
use super::text::Text;

/// Numbers of what was decided, or rates of it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Decisions {
    pub(super) allowed: f64,
    pub(super) refused: f64,
    pub(super) shadow_refused: f64,
    pub(super) failed_open: f64,
    pub(super) unavailable: f64,
}

impl Decisions {
    /// All of them; shadow rules count beside decisions, not as decisions.
    pub(super) fn all(&self) -> f64 {
        self.allowed + self.refused + self.failed_open + self.unavailable
    }
}

/// How long decisions took, in seconds.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Latency {
    pub(super) p50: Option<f64>,
    pub(super) p99: Option<f64>,
    pub(super) p999: Option<f64>,
}

/// What happened in one second.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Point {
    /// Milliseconds since 1970.
    pub(super) at: f64,
    pub(super) decisions: Decisions,
    pub(super) fallback: f64,
    pub(super) latency: Option<Latency>,
    #[serde(deserialize_with = "first::<_, _, 20>")]
    pub(super) tiers: Vec<Tier>,
    #[serde(deserialize_with = "first::<_, _, 256>")]
    pub(super) shards: Vec<Shard>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Tier {
    pub(super) tier: Text,
    pub(super) allowed: f64,
    pub(super) refused: f64,
}

/// How one server of the store did in one second.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Shard {
    pub(super) name: Text,
    pub(super) operations: f64,
    pub(super) errors: f64,
    pub(super) p99: Option<f64>,
}

/// The last minutes.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct History {
    #[serde(deserialize_with = "first::<_, _, 300>")]
    pub(super) points: Vec<Brief>,
}

/// A point without its lists, of which only the latest are shown.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Brief {
    pub(super) at: f64,
    pub(super) decisions: Decisions,
    pub(super) latency: Option<Latency>,
}

/// What comes each second.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Tick {
    pub(super) point: Point,
    pub(super) state: State,
}

/// How a node is now.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct State {
    pub(super) name: Option<Text>,
    pub(super) version: Text,
    pub(super) uptime_seconds: f64,
    pub(super) draining: bool,
    pub(super) mode: Text,
    #[serde(deserialize_with = "first::<_, _, 20>")]
    pub(super) reasons: Vec<Text>,
    pub(super) rules: Rules,
    pub(super) totals: Decisions,
    pub(super) fallback_total: f64,
    pub(super) keys: Option<f64>,
    pub(super) store: Store,
    #[serde(deserialize_with = "first::<_, _, 100>")]
    pub(super) by_rule: Vec<RuleRate>,
    #[serde(deserialize_with = "first::<_, _, 50>")]
    pub(super) hot_keys: Vec<HotKey>,
    #[serde(deserialize_with = "first::<_, _, 50>")]
    pub(super) alerts: Vec<Alert>,
    pub(super) cluster: Option<Others>,
    pub(super) gateway: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Rules {
    pub(super) version: f64,
    pub(super) count: f64,
    pub(super) quarantined: f64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Store {
    pub(super) kind: Text,
    pub(super) unsettled: f64,
    #[serde(deserialize_with = "first::<_, _, 256>")]
    pub(super) shards: Vec<ShardState>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ShardState {
    pub(super) name: Text,
    pub(super) breaker: Text,
    pub(super) problem: Option<Text>,
    pub(super) cpu: Option<f64>,
    pub(super) memory: Option<f64>,
    pub(super) memory_bytes: Option<f64>,
    pub(super) replication_lag_seconds: Option<f64>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct RuleRate {
    pub(super) rule: Text,
    pub(super) allowed: f64,
    pub(super) refused: f64,
    pub(super) shadow_refused: f64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct HotKey {
    pub(super) rule: Text,
    pub(super) identity: Text,
    pub(super) rate_per_second: f64,
    pub(super) since: Option<Text>,
    pub(super) hot: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Alert {
    pub(super) alert: Text,
    pub(super) severity: Text,
    pub(super) summary: Text,
    pub(super) since: Option<Text>,
}

/// How many other nodes are known.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Others {
    pub(super) alive: f64,
    pub(super) suspect: f64,
    pub(super) lost: f64,
}

/// Who is refused most.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Insight {
    pub(super) refusals: Refusals,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Refusals {
    #[serde(rename = "5m")]
    pub(super) five_minutes: Refused,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Refused {
    #[serde(deserialize_with = "first::<_, _, 10>")]
    pub(super) users: Vec<Named>,
    #[serde(deserialize_with = "first::<_, _, 10>")]
    pub(super) addresses: Vec<Named>,
    #[serde(deserialize_with = "first::<_, _, 10>")]
    pub(super) tenants: Vec<Named>,
    #[serde(deserialize_with = "first::<_, _, 10>")]
    pub(super) descriptors: Vec<Named>,
    #[serde(deserialize_with = "first::<_, _, 10>")]
    pub(super) rules: Vec<Named>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Named {
    pub(super) name: Text,
    pub(super) count: f64,
}

/// What has happened, newest first.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Journal {
    #[serde(deserialize_with = "first::<_, _, 100>")]
    pub(super) entries: Vec<Entry>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Entry {
    pub(super) at: Text,
    pub(super) kind: Text,
    pub(super) severity: Text,
    pub(super) title: Text,
    pub(super) detail: Text,
}

/// All nodes, as one of them sees them.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Fleet {
    #[serde(deserialize_with = "first::<_, _, 256>")]
    pub(super) nodes: Vec<Node>,
    pub(super) sum: Sum,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Node {
    pub(super) name: Option<Text>,
    pub(super) address: Option<Text>,
    pub(super) me: bool,
    pub(super) state: Text,
    pub(super) problem: Option<Text>,
    pub(super) tick: Option<NodeTick>,
}

/// The little that is shown of a node among others.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct NodeTick {
    pub(super) point: Brief,
    pub(super) state: NodeState,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct NodeState {
    pub(super) mode: Text,
    pub(super) uptime_seconds: f64,
    pub(super) rules: Rules,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Sum {
    pub(super) point: Brief,
    pub(super) mode: Text,
    pub(super) asked: f64,
    pub(super) answered: f64,
}

//! When alerts fire.

use std::time::Duration;

use super::kind::Alert;

/// When alerts fire and when they are over. Shares are of 1.
#[derive(Clone, Debug, PartialEq)]
pub struct AlertSettings {
    /// How often to look.
    pub every: Duration,
    /// The time over which rates and latencies are taken.
    pub window: Duration,
    /// The time before that, which throughput is compared with.
    pub baseline: Duration,
    /// How long the store has to be down.
    pub store_down_for: Duration,
    /// How long a breaker has to be not closed.
    pub breaker_for: Duration,
    /// How long the node has to be degraded.
    pub degraded_for: Duration,
    /// How long everything else has to be so.
    pub others_for: Duration,
    /// How long it has to be not so any more, for an alert to be over.
    pub resolves_after: Duration,
    /// The share of the store's calls that may fail.
    pub store_errors: f64,
    /// The share of a store's processor or memory that is a warning.
    pub store_warning: f64,
    /// The share that is critical.
    pub store_critical: f64,
    /// How long 99 of 100 decisions may take.
    pub latency: Duration,
    /// How far replicas may be behind.
    pub replication_lag: Duration,
    /// The share of connections that may be taken.
    pub connections: f64,
    /// The share of decisions that may be refusals.
    pub rejections: f64,
    /// Throughput has dropped if it is less than this share of what it was.
    pub throughput: f64,
    /// Shares of fewer decisions or calls than this in a window say nothing.
    pub least: u64,
    /// Where the runbooks are; the name of an alert comes behind `#`.
    pub runbooks: String,
}

impl Default for AlertSettings {
    fn default() -> Self {
        let minute = Duration::from_secs(60);
        Self {
            every: Duration::from_secs(2),
            window: minute,
            baseline: 10 * minute,
            store_down_for: Duration::from_secs(5),
            breaker_for: 5 * minute,
            degraded_for: minute,
            others_for: minute,
            resolves_after: minute,
            store_errors: 0.05,
            store_warning: 0.8,
            store_critical: 0.9,
            latency: Duration::from_millis(5),
            replication_lag: Duration::from_millis(100),
            connections: 0.95,
            rejections: 0.2,
            throughput: 0.5,
            least: 100,
            runbooks: "docs/operations/runbooks.md".to_owned(),
        }
    }
}

impl AlertSettings {
    /// How long the condition of an alert has to hold.
    pub(crate) fn fires_after(&self, alert: Alert) -> Duration {
        match alert {
            Alert::StoreDown => self.store_down_for,
            Alert::BreakerOpen => self.breaker_for,
            Alert::Degraded => self.degraded_for,
            _ => self.others_for,
        }
    }

    /// Where it says what to do about an alert.
    pub(crate) fn runbook(&self, name: &str) -> String {
        format!("{}#{name}", self.runbooks)
    }
}

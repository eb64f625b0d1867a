//! How busy the servers of a store are, by what they say of themselves.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::figures::Load;

/// What a server of a store says of itself. What it does not say is none.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StoreReport {
    /// The time that it has used processors for since it started.
    pub cpu_time: Option<Duration>,
    /// How much memory it uses, in bytes.
    pub memory: Option<u64>,
    /// How much it may use; none if there is no limit.
    pub max_memory: Option<u64>,
    /// Its connections, and how many it may have.
    pub connections: Option<(u64, u64)>,
    /// How far the slowest of its replicas is behind.
    pub replication_lag: Option<Duration>,
}

/// What all of them say, by the names of the store's shards.
pub type StoreReports = Pin<Box<dyn Future<Output = Vec<(String, StoreReport)>> + Send>>;

/// Asks the servers of a store. It is asked every few seconds, one time after the other, and need not be fast.
#[derive(Clone)]
pub struct StoreReporter(Arc<dyn Fn() -> StoreReports + Send + Sync>);

impl StoreReporter {
    /// One that asks by `ask`.
    pub fn new(ask: impl Fn() -> StoreReports + Send + Sync + 'static) -> Self {
        Self(Arc::new(ask))
    }

    pub(super) fn ask(&self) -> StoreReports {
        (self.0)()
    }
}

impl fmt::Debug for StoreReporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StoreReporter")
    }
}

/// More servers than a store can have shards for are not believed.
const MOST: usize = 1_000;

/// The last reports, by which time used becomes a share.
#[derive(Debug, Default)]
pub(super) struct Loads {
    last: BTreeMap<String, (Instant, Duration)>,
}

impl Loads {
    /// What these reports of `now` say.
    pub(super) fn read(
        &mut self,
        reports: Vec<(String, StoreReport)>,
        now: Instant,
    ) -> BTreeMap<String, Load> {
        let mut last = BTreeMap::new();
        let loads = reports.into_iter().take(MOST).map(|(name, report)| {
            let cpu = report.cpu_time.and_then(|used| {
                let before = self.last.get(&name).copied();
                last.insert(name.clone(), (now, used));
                let (then, before) = before?;
                let passed = now.saturating_duration_since(then).as_secs_f64();
                // A server that was started again has used less than before.
                let used = used.checked_sub(before)?.as_secs_f64();
                (passed > 0.0).then(|| used / passed)
            });
            let share = |of: Option<(u64, u64)>| of.filter(|(_, all)| *all > 0).map(share);
            let load = Load {
                cpu,
                memory: share(report.memory.zip(report.max_memory)),
                memory_bytes: report.memory,
                connections: share(report.connections),
                replication_lag: report.replication_lag,
            };
            (name, load)
        });
        let loads = loads.collect();
        self.last = last;
        loads
    }
}

#[expect(clippy::cast_precision_loss, reason = "shares do not show it")]
fn share((part, whole): (u64, u64)) -> f64 {
    part as f64 / whole as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_used_becomes_a_share_from_the_second_report_on() {
        let (mut loads, start) = (Loads::default(), Instant::now());
        let mut at = |second: u64, cpu_ms: u64| {
            let cpu_time = Some(Duration::from_millis(cpu_ms));
            let report = StoreReport {
                cpu_time,
                memory: Some(9),
                max_memory: Some(10),
                connections: Some((5, 0)),
                ..Default::default()
            };
            let now = start + Duration::from_secs(second);
            loads.read(vec![("a".to_owned(), report)], now)["a"]
        };
        let first = at(0, 5_000);
        assert_eq!((first.cpu, first.memory, first.connections), (None, Some(0.9), None));
        assert_eq!(first.memory_bytes, Some(9));
        assert_eq!(at(10, 10_000).cpu, Some(0.5));
        assert_eq!(at(20, 100).cpu, None, "it was started again");
        assert_eq!(at(30, 9_100).cpu, Some(0.9));
    }

    #[test]
    fn what_has_no_limit_has_no_share() {
        let report = StoreReport { memory: Some(9), ..Default::default() };
        let loads = Loads::default().read(vec![("a".to_owned(), report)], Instant::now());
        assert_eq!((loads["a"].memory, loads["a"].memory_bytes), (None, Some(9)));
    }
}

//! What has to be so for an alert.

use tidegate::store::BreakerState;
use tidegate_core::Mode;

use super::figures::{Figures, Load, ShardFigures};
use super::kind::Alert;
use super::rates::Recent;
use super::settings::AlertSettings;

/// What is known at one look.
pub(super) struct Seen<'a> {
    pub(super) figures: &'a Figures,
    /// Of the last window.
    pub(super) recent: &'a Recent,
    /// Of the time before it, if it was long enough.
    pub(super) before: Option<&'a Recent>,
    pub(super) settings: &'a AlertSettings,
}

impl Seen<'_> {
    /// Says what is wrong if the condition of `alert` holds.
    pub(super) fn wrong(&self, alert: Alert) -> Option<String> {
        let Self { figures, recent, settings, .. } = self;
        match alert {
            Alert::StoreDown => {
                let why = figures.store.as_ref()?.down()?;
                Some(format!("the store cannot be used: {why}"))
            }
            Alert::BreakerOpen => {
                let open = self.shards().find(|shard| shard.breaker != BreakerState::Closed)?;
                Some(format!("the breaker of {} is {}", open.name, open.breaker.name()))
            }
            Alert::StoreErrors => {
                let share = recent.errors_share();
                let enough = recent.calls.saturating_add(recent.errors) >= settings.least;
                (enough && share > settings.store_errors)
                    .then(|| format!("{} of the store's calls fail", percent(share)))
            }
            Alert::StoreCpuCritical => self.loaded("processor", |load| load.cpu, settings.store_critical),
            Alert::StoreCpu => self.loaded("processor", |load| load.cpu, settings.store_warning),
            Alert::StoreMemoryCritical => self.loaded("memory", |load| load.memory, settings.store_critical),
            Alert::StoreMemory => self.loaded("memory", |load| load.memory, settings.store_warning),
            Alert::Latency => {
                let slow = recent.slower_than(settings.latency.as_secs_f64());
                (recent.decisions >= settings.least && slow > 0.01).then(|| {
                    format!("{} of decisions take longer than {:?}", percent(slow), settings.latency)
                })
            }
            Alert::HotKey => {
                figures.hot_key.as_ref().map(|key| format!("a key is asked for far more than others: {key}"))
            }
            Alert::ReplicationLag => self.shards().find_map(|shard| {
                let lag = shard.load.replication_lag.filter(|lag| *lag > settings.replication_lag)?;
                Some(format!("a replica of {} is {lag:?} behind", shard.name))
            }),
            Alert::ConnectionsExhausted => {
                let here = figures.connections.filter(|share| *share >= settings.connections);
                let here =
                    here.map(|share| format!("{} of a listener's connections are taken", percent(share)));
                here.or_else(|| self.loaded("connections", |load| load.connections, settings.connections))
            }
            Alert::KeysExhausted => (recent.evicted > 0).then(|| {
                format!(
                    "there is no room for more counters: new ones displaced others {} times",
                    recent.evicted
                )
            }),
            Alert::Overload => (recent.shed > 0).then(|| {
                let shed = recent.shed;
                format!("clients ask for more than the service can serve: {shed} requests were shed")
            }),
            Alert::Rejections => {
                let share = recent.refused_share();
                (recent.decisions >= settings.least && share > settings.rejections)
                    .then(|| format!("{} of requests are refused", percent(share)))
            }
            Alert::ThroughputDrop => self.dropped(),
            Alert::Degraded => (figures.mode != Mode::Normal).then(|| {
                let why = figures.reasons.first().map_or_else(String::new, |reason| format!(": {reason}"));
                format!("the node is in mode {}{why}", figures.mode.name())
            }),
        }
    }

    fn shards(&self) -> impl Iterator<Item = &ShardFigures> {
        self.figures.store.iter().flat_map(|store| &store.shards)
    }

    fn loaded(&self, what: &str, of: impl Fn(&Load) -> Option<f64>, above: f64) -> Option<String> {
        self.shards().find_map(|shard| {
            let share = of(&shard.load).filter(|share| *share > above)?;
            Some(format!("{} uses {} of its {what}", shard.name, percent(share)))
        })
    }

    /// Says that far fewer requests are decided than before, and what is wrong with the node besides. Fewer requests alone are
    /// clients that ask less, which is no fault: a load test has ended, or a busy hour.
    fn dropped(&self) -> Option<String> {
        let before = self.before?;
        let (was, is) = (before.throughput(), self.recent.throughput());
        let enough = before.decisions >= self.settings.least && was * self.recent.over.as_secs_f64() >= 10.0;
        if !enough || is >= was * self.settings.throughput {
            return None;
        }
        let fault = self.fault()?;
        Some(format!("{is:.1} requests a second, where it was {was:.1} before, while {fault}"))
    }

    /// Says what may keep requests from this node, or from being decided by it.
    fn fault(&self) -> Option<String> {
        let faults = [
            Alert::StoreDown,
            Alert::Degraded,
            Alert::BreakerOpen,
            Alert::StoreErrors,
            Alert::Latency,
            Alert::ConnectionsExhausted,
        ];
        // A load test may be refused as it ends, so only a growing share counts.
        let more_refused =
            || self.before.is_some_and(|before| self.recent.refused_share() > before.refused_share());
        let refused = || self.wrong(Alert::Rejections).filter(|_| more_refused());
        faults.into_iter().find_map(|alert| self.wrong(alert)).or_else(refused)
    }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

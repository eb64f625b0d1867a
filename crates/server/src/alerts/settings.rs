//! When alerts fire.

use std::time::Duration;

use tidegate_core::Span;

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

/// What can be said otherwise, one by one.
enum Threshold<'a> {
    Share(&'a mut f64),
    Time(&'a mut Duration),
}

impl AlertSettings {
    /// Changes what a list says, such as `latency=10ms, rejections=50%`; or says what is wrong with it, and changes nothing.
    pub fn change(&mut self, list: &str) -> Result<(), String> {
        let mut changed = self.clone();
        for item in list.split(',').map(str::trim).filter(|item| !item.is_empty()) {
            let (name, value) = item.split_once('=').ok_or_else(|| format!("`{item}` is not NAME=VALUE"))?;
            let (name, value) = (name.trim(), value.trim());
            match changed.threshold(name).ok_or_else(|| unknown(name))? {
                Threshold::Share(share) => *share = parse_share(name, value)?,
                Threshold::Time(time) => *time = parse_time(name, value)?,
            }
        }
        if changed.store_warning > changed.store_critical {
            return Err("`store_warning` is above `store_critical`; have it be below".to_owned());
        }
        *self = changed;
        Ok(())
    }

    fn threshold(&mut self, name: &str) -> Option<Threshold<'_>> {
        Some(match name {
            "store_errors" => Threshold::Share(&mut self.store_errors),
            "store_warning" => Threshold::Share(&mut self.store_warning),
            "store_critical" => Threshold::Share(&mut self.store_critical),
            "connections" => Threshold::Share(&mut self.connections),
            "rejections" => Threshold::Share(&mut self.rejections),
            "throughput" => Threshold::Share(&mut self.throughput),
            "latency" => Threshold::Time(&mut self.latency),
            "replication_lag" => Threshold::Time(&mut self.replication_lag),
            "store_down_for" => Threshold::Time(&mut self.store_down_for),
            "breaker_for" => Threshold::Time(&mut self.breaker_for),
            "degraded_for" => Threshold::Time(&mut self.degraded_for),
            "others_for" => Threshold::Time(&mut self.others_for),
            "resolves_after" => Threshold::Time(&mut self.resolves_after),
            _ => return None,
        })
    }

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

fn unknown(name: &str) -> String {
    let known = "store_errors, store_warning, store_critical, connections, rejections, throughput, latency, replication_lag, \
                 store_down_for, breaker_for, degraded_for, others_for or resolves_after";
    let name: String = name.chars().take(40).collect();
    format!("there is no threshold `{name}`; use {known}")
}

fn parse_share(name: &str, value: &str) -> Result<f64, String> {
    let (number, whole) = value.strip_suffix('%').map_or((value, 1.0), |percent| (percent.trim_end(), 100.0));
    let share =
        number.parse().ok().map(|number: f64| number / whole).filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| format!("`{name}` is a share from 0% to 100%, such as {name}=20%"))
}

fn parse_time(name: &str, value: &str) -> Result<Duration, String> {
    let span: Span =
        value.parse().map_err(|_| format!("`{name}` is a time, such as {name}=10ms or {name}=2m"))?;
    Ok(Duration::from_millis(span.as_millis()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_are_changed_one_by_one() {
        let mut settings = AlertSettings::default();
        assert_eq!(settings.change("latency=10ms, rejections = 50% ,throughput=0.25,"), Ok(()));
        let expected = AlertSettings {
            latency: Duration::from_millis(10),
            rejections: 0.5,
            throughput: 0.25,
            ..AlertSettings::default()
        };
        assert_eq!(settings, expected);
        assert_eq!(settings.change(""), Ok(()));
        assert_eq!(settings, expected);
    }

    #[test]
    fn a_mistake_changes_nothing() {
        for (list, part) in [
            ("latency=7ms,rejections", "not NAME=VALUE"),
            ("latency=7ms,rejection=5%", "there is no threshold `rejection`; use"),
            ("latency=7ms,rejections=101%", "share from 0% to 100%"),
            ("rejections=NaN", "share from 0% to 100%"),
            ("rejections=-1%", "share from 0% to 100%"),
            ("latency=7", "is a time"),
            ("store_warning=95%", "above `store_critical`"),
        ] {
            let mut settings = AlertSettings::default();
            let error = settings.change(list).unwrap_err();
            assert!(error.contains(part), "{list}: {error}");
            assert_eq!(settings, AlertSettings::default(), "{list}");
        }
    }
}

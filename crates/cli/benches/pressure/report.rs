//! Figures on the outcomes of all requests.

use std::ops::Range;

use crate::clients::{Outcome, Sent, TIERS};
use crate::{QUIET, RECOVERY, SPIKE};

/// Seconds at the start in which proxies learn, and which are left out.
const LEARNING: usize = 3;

const BEFORE: Range<usize> = LEARNING..QUIET;
const DURING: Range<usize> = QUIET..QUIET + SPIKE;
/// Requests of the last second may not have been answered.
const AFTER: Range<usize> = QUIET + SPIKE..QUIET + SPIKE + RECOVERY - 1;

pub(crate) struct Report<'a>(&'a [Sent]);

impl<'a> Report<'a> {
    pub(crate) fn of(sent: &'a [Sent]) -> Self {
        Self(sent)
    }

    pub(crate) fn print(&self, name: &str, times: f64) {
        let served = |tier| 100.0 * self.served(Some(tier), DURING);
        let p99 = |when| 1_000.0 * self.percentile(TIERS.len() - 1, 99.0, when);
        let rates: Vec<f64> = DURING.skip(1).map(|second| self.rate(second)).collect();
        let mean = rates.iter().sum::<f64>() / rates.len() as f64;
        let variance = rates.iter().map(|rate| (rate - mean).powi(2)).sum::<f64>() / rates.len() as f64;
        let recovers = AFTER.clone().position(|second| self.served(None, second..second + 1) > 0.999);
        println!(
            "{name:<26} {:>6} {:>9.2} {:>9.2} {:>9.2} {:>15} {mean:>9.0} {:>9.1} {:>9} {:>9.2}",
            format!("{times}x"),
            served(2),
            served(1),
            served(0),
            format!("{:.0} / {:.0}", p99(DURING), p99(BEFORE)),
            100.0 * variance.sqrt() / mean,
            recovers.map_or_else(|| "never".to_owned(), |seconds| seconds.to_string()),
            100.0 * (1.0 - self.served(None, BEFORE)),
        );
    }

    fn within(&self, when: Range<usize>) -> impl Iterator<Item = &Sent> {
        self.0.iter().filter(move |sent| when.contains(&(sent.at as usize)))
    }

    /// Share of requests that were served, of one tier or of all.
    fn served(&self, tier: Option<usize>, when: Range<usize>) -> f64 {
        let of_tier = |sent: &&Sent| tier.is_none_or(|tier| sent.tier == tier);
        let is_served = |sent: &&Sent| matches!(sent.outcome, Outcome::Served(_));
        let all = self.within(when.clone()).filter(of_tier).count();
        let served = self.within(when).filter(of_tier).filter(is_served).count();
        served as f64 / all.max(1) as f64
    }

    /// Requests sent in a second that were served.
    fn rate(&self, second: usize) -> f64 {
        self.within(second..second + 1).filter(|sent| matches!(sent.outcome, Outcome::Served(_))).count()
            as f64
    }

    fn percentile(&self, tier: usize, percent: f64, when: Range<usize>) -> f64 {
        let took = self.within(when).filter(|sent| sent.tier == tier).filter_map(|sent| match sent.outcome {
            Outcome::Served(took) => Some(took),
            Outcome::Shed | Outcome::Late => None,
        });
        let mut took: Vec<f64> = took.collect();
        took.sort_by(f64::total_cmp);
        let index = (took.len().saturating_sub(1)) as f64 * percent / 100.0;
        took.get(index.round() as usize).copied().unwrap_or(f64::NAN)
    }
}

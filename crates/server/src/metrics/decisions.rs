//! Counting decisions by rule, tier and outcome.
//!
//! Labels are looked up once, not per request: the rules in force carry a [`Table`] beside them in which position of
//! rule and tier leads to the counters. A series comes to be when it is first counted, so that 10,000 rules nobody
//! meets cost a scrape nothing, and goes on when the rules are replaced.

use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use prometheus_client::encoding::{MetricEncoder, NoLabelSet};
use tidegate::{Decision, RuleSet, Status};
use tidegate_core::tier::TierIndex;

/// What became of a request, as the label says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Allowed,
    Refused,
    ShadowRefused,
    FailedOpen,
    Unavailable,
}

impl Outcome {
    const NAMES: [&'static str; 5] = ["allowed", "refused", "shadow_refused", "failed_open", "unavailable"];

    /// Those shown even at 0, so that the first refusal is a change a query can see.
    const ALWAYS_SHOWN: usize = 2;

    fn of(decision: &Decision) -> Self {
        match (decision.status, decision.allowed) {
            (Status::Disabled, _) => Self::FailedOpen,
            (Status::Unavailable, _) => Self::Unavailable,
            (_, true) => Self::Allowed,
            (_, false) => Self::Refused,
        }
    }
}

/// The label of decisions that no rule applied to.
const NO_RULE: &str = "";

/// The label of requests whose tier is none of the known ones.
const OTHER_TIER: &str = "other";

/// The counters of one rule and tier.
#[derive(Debug, Default)]
struct Series([AtomicU64; Outcome::NAMES.len()]);

impl Series {
    fn add(&self, outcome: Outcome) {
        self.0[outcome as usize].fetch_add(1, Ordering::Relaxed);
    }

    fn read(&self) -> Counts {
        std::array::from_fn(|outcome| self.0[outcome].load(Ordering::Relaxed))
    }

    fn add_all(&self, other: &Self) {
        for (mine, theirs) in self.0.iter().zip(&other.0) {
            mine.fetch_add(theirs.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }
}

/// Rule and tier.
type Labels = (Arc<str>, Arc<str>);

/// All series there are.
#[derive(Debug, Default)]
pub(crate) struct Decisions {
    series: Mutex<BTreeMap<Labels, Arc<Series>>>,
    /// What those counted that have ended, so that the totals never fall.
    ended: Series,
    /// How many were counted by this node because the store could not be asked.
    local: AtomicU64,
}

impl Decisions {
    /// A table for `rules`. Series that belong neither to them nor to `previous` end here, which bounds how many
    /// there can be; those of a rule just removed can still be read once more.
    pub(crate) fn table(&self, rules: &Arc<RuleSet>, previous: Option<&Table>) -> Table {
        if let Some(previous) = previous {
            let sets = [rules, &previous.rules];
            let ids = sets.into_iter().flat_map(|set| (0..).map_while(move |rule| id_of(set, rule)));
            let ids: HashSet<&str> = ids.chain([NO_RULE]).collect();
            let tiers: HashSet<&str> = sets
                .iter()
                .flat_map(|set| set.tiers().iter().map(|tier| &*tier.name))
                .chain([OTHER_TIER])
                .collect();
            self.series.lock().retain(|(rule, tier), series| {
                let goes_on = ids.contains(&**rule) && tiers.contains(&**tier);
                if !goes_on {
                    self.ended.add_all(series);
                }
                goes_on
            });
        }
        Table { rules: Arc::clone(rules), rows: (0..=rules.positions()).map(|_| OnceLock::new()).collect() }
    }

    /// Counts `decision`, taken by `rules`: once on the rule it is put down to, and once on each shadow rule that
    /// refused.
    pub(crate) fn count(&self, table: &Table, decision: &Decision, rules: &RuleSet) {
        // The table lags behind the rules for a moment when they are replaced.
        let table = std::ptr::eq(Arc::as_ptr(&table.rules), rules).then_some(table);
        if decision.status == Status::Local {
            self.local.fetch_add(1, Ordering::Relaxed);
        }
        let tier = decision.tier.map_or(rules.tiers().len(), TierIndex::get);
        let cause = decision.cause().map_or(rules.positions(), |rule| rule as usize);
        self.with_series(table, rules, (cause, tier), |series| series.add(Outcome::of(decision)));
        for said in decision.verdicts.iter().filter(|said| said.shadow && !said.verdict.allowed) {
            let place = (said.rule as usize, tier);
            self.with_series(table, rules, place, |series| series.add(Outcome::ShadowRefused));
        }
    }

    fn with_series(
        &self,
        table: Option<&Table>,
        rules: &RuleSet,
        (rule, tier): (usize, usize),
        add: impl FnOnce(&Series),
    ) {
        let cell = table.and_then(|table| table.rows.get(rule)).and_then(|row| {
            row.get_or_init(|| (0..=rules.tiers().len()).map(|_| OnceLock::new()).collect()).get(tier)
        });
        match cell {
            Some(cell) => add(cell.get_or_init(|| self.series(rules, rule, tier))),
            None => add(&self.series(rules, rule, tier)),
        }
    }

    fn series(&self, rules: &RuleSet, rule: usize, tier: usize) -> Arc<Series> {
        let rule = u32::try_from(rule).ok().and_then(|rule| id_of(rules, rule)).unwrap_or(NO_RULE);
        let tier = rules.tiers().get(tier).map_or(OTHER_TIER, |tier| &tier.name);
        Arc::clone(self.series.lock().entry((rule.into(), tier.into())).or_default())
    }

    /// How many decisions there were, by outcome.
    pub(crate) fn totals(&self) -> BTreeMap<&'static str, u64> {
        Outcome::NAMES.into_iter().zip(self.sums()).collect()
    }

    /// How many decisions were taken without the store.
    pub(crate) fn fallbacks(&self) -> u64 {
        let sums = self.sums();
        let local = self.local.load(Ordering::Relaxed);
        sums[Outcome::FailedOpen as usize] + sums[Outcome::Unavailable as usize] + local
    }

    /// All of it at one moment. Only series that exist cost anything, and names are shared, not copied.
    pub(crate) fn read(&self) -> Counted {
        let mut counted = Counted { totals: self.ended.read(), ..Counted::default() };
        for ((rule, tier), series) in self.series.lock().iter() {
            let counts = series.read();
            add(&mut counted.totals, &counts);
            match counted.tiers.get_mut(tier) {
                Some(sum) => add(sum, &counts),
                None => drop(counted.tiers.insert(Arc::clone(tier), counts)),
            }
            // Those of one rule are next to each other.
            match counted.rules.last_mut() {
                Some((last, sum)) if last == rule => add(sum, &counts),
                _ => counted.rules.push((Arc::clone(rule), counts)),
            }
        }
        counted.local = self.local.load(Ordering::Relaxed);
        counted
    }

    /// How many decisions there were, in the order of the names of outcomes.
    pub(crate) fn sums(&self) -> Counts {
        let all = Series::default();
        let series = self.series.lock();
        series.values().map(|series| &**series).chain([&self.ended]).for_each(|series| all.add_all(series));
        all.0.map(AtomicU64::into_inner)
    }

    pub(crate) fn encode(&self, mut encoder: MetricEncoder<'_>) -> std::fmt::Result {
        for ((rule, tier), series) in self.series.lock().iter() {
            for (index, (outcome, count)) in Outcome::NAMES.iter().zip(&series.0).enumerate() {
                let count = count.load(Ordering::Relaxed);
                if count > 0 || index < Outcome::ALWAYS_SHOWN {
                    let labels = [("rule", &**rule), ("tier", &**tier), ("outcome", outcome)];
                    encoder.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(&count, None)?;
                }
            }
        }
        Ok(())
    }
}

/// How many decisions there were by outcome, in the order of their names.
pub(crate) type Counts = [u64; Outcome::NAMES.len()];

/// What was counted up to one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counted {
    /// With what has ended.
    pub(crate) totals: Counts,
    /// By rule, in the order of their ids.
    pub(crate) rules: Vec<(Arc<str>, Counts)>,
    /// By tier.
    pub(crate) tiers: BTreeMap<Arc<str>, Counts>,
    /// How many this node counted because the store could not be asked.
    pub(crate) local: u64,
}

impl Counted {
    /// How many decisions were taken without the store.
    pub(crate) fn fallbacks(&self) -> u64 {
        let Self { totals, local, .. } = self;
        totals[Outcome::FailedOpen as usize] + totals[Outcome::Unavailable as usize] + local
    }
}

fn add(sum: &mut Counts, more: &Counts) {
    sum.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
}

/// The id of the rule at a position that a verdict can name.
fn id_of(rules: &RuleSet, rule: u32) -> Option<&str> {
    ((rule as usize) < rules.positions()).then(|| &*rules.rule(rule).id)
}

/// Where the counters of the rules in force are. The last row and column are for no rule and no known tier.
#[derive(Debug)]
pub(crate) struct Table {
    rules: Arc<RuleSet>,
    rows: Box<[OnceLock<Row>]>,
}

type Row = Box<[OnceLock<Arc<Series>>]>;

impl Table {
    /// The rules it is for.
    pub(crate) fn rules(&self) -> &Arc<RuleSet> {
        &self.rules
    }
}

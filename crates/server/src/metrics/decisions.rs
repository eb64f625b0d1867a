//! Counting decisions by rule, tier and outcome.
//!
//! Rules keep a [`Table`] in which every thread has counters of its own, so that a decision costs one addition that nobody else's
//! stands in the way of. Reading adds them up. A series comes to be when it is first counted, so that 10,000 rules nobody meets cost
//! a scrape nothing, and goes on when the rules are replaced.

use std::array;
use std::collections::{BTreeMap, HashSet};
use std::iter::repeat_with;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use prometheus_client::encoding::{MetricEncoder, NoLabelSet};
use tidegate::store::Striped;
use tidegate::{Decision, RuleSet, Status};
use tidegate_core::tier::TierIndex;

use crate::node::InForce;

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

/// How many decisions there were by outcome, in the order of their names.
pub(crate) type Counts = [u64; Outcome::NAMES.len()];

/// The same while they are counted.
type Counters = [AtomicU64; Outcome::NAMES.len()];

/// Rule and tier.
type Labels = (Arc<str>, Arc<str>);

/// How many series are made room for at a time.
const PAGE: usize = 64;

type Page = Box<[Counters; PAGE]>;

/// How many pages are found without a list of them.
const NEAR: usize = 4;

/// Where decisions by some rules are counted.
#[derive(Debug)]
pub(crate) struct Table {
    sheets: Striped<Sheet>,
    /// The ids of rules by position, and the names of tiers; the last of each is for none.
    rules: Box<[Arc<str>]>,
    tiers: Box<[Arc<str>]>,
    /// Those of all tables together.
    local: Arc<AtomicU64>,
}

/// One thread's counters. Pages come to be as they are needed.
#[derive(Debug, Default)]
struct Sheet {
    near: [OnceLock<Page>; NEAR],
    far: OnceLock<Box<[OnceLock<Page>]>>,
}

impl Table {
    fn new(rules: &RuleSet, local: Arc<AtomicU64>) -> Self {
        let ids = (0..).take(rules.positions()).map(|rule| &*rules.rule(rule).id);
        let tiers = rules.tiers().iter().map(|tier| &*tier.name);
        Self {
            sheets: Striped::default(),
            rules: ids.chain([NO_RULE]).map(Arc::from).collect(),
            tiers: tiers.chain([OTHER_TIER]).map(Arc::from).collect(),
            local,
        }
    }

    /// Counts `decision`, taken by `rules`, which have this table: once on the rule it is put down to, and once on each shadow
    /// rule that refused.
    #[inline]
    pub(crate) fn count(&self, decision: &Decision, rules: &RuleSet) {
        if decision.status == Status::Local {
            self.local.fetch_add(1, Ordering::Relaxed);
        }
        let tier = decision.tier.map_or(rules.tiers().len(), TierIndex::get);
        let cause = decision.cause().map_or(rules.positions(), |rule| rule as usize);
        self.add(cause, tier, Outcome::of(decision));
        for said in decision.verdicts.iter().filter(|said| said.shadow && !said.verdict.allowed) {
            self.add(said.rule as usize, tier, Outcome::ShadowRefused);
        }
    }

    #[inline]
    fn add(&self, rule: usize, tier: usize, outcome: Outcome) {
        let series = rule * self.tiers.len() + tier;
        self.sheets.mine().add(|sheet| &sheet.counters(self, series)[outcome as usize], 1);
    }

    fn pages(&self) -> usize {
        (self.rules.len() * self.tiers.len()).div_ceil(PAGE)
    }

    /// All that was counted on a page, by each thread that has it.
    fn counted_on(&self, page: usize) -> impl Iterator<Item = &Page> {
        self.sheets.iter().filter_map(move |sheet| sheet.page(page))
    }

    /// How many decisions there were.
    fn total(&self) -> Counts {
        let pages = (0..self.pages()).flat_map(|page| self.counted_on(page));
        sum(pages.flat_map(|page| page.iter().map(read)))
    }

    /// What was counted, if anything, in the order of rules.
    fn read(&self) -> impl Iterator<Item = (Labels, Counts)> {
        (0..self.pages()).flat_map(|page| {
            let mut sums: [Counts; PAGE] = [Counts::default(); PAGE];
            for counters in self.counted_on(page) {
                for (sum, counters) in sums.iter_mut().zip(counters.iter()) {
                    add(sum, &read(counters));
                }
            }
            let counted = (page * PAGE..).zip(sums).filter(|(_, counts)| *counts != Counts::default());
            counted.map(|(series, counts)| {
                let (rule, tier) = (series / self.tiers.len(), series % self.tiers.len());
                ((Arc::clone(&self.rules[rule]), Arc::clone(&self.tiers[tier])), counts)
            })
        })
    }
}

impl Sheet {
    #[inline]
    fn counters(&self, table: &Table, series: usize) -> &Counters {
        let page = self.near.get(series / PAGE).unwrap_or_else(|| self.far(table, series / PAGE));
        let page = page.get_or_init(|| Box::new(array::from_fn(|_| Counters::default())));
        &page[series % PAGE]
    }

    /// Where a page is that is not near.
    fn far(&self, table: &Table, page: usize) -> &OnceLock<Page> {
        let far = self.far.get_or_init(|| repeat_with(OnceLock::new).take(table.pages() - NEAR).collect());
        &far[page - NEAR]
    }

    fn page(&self, page: usize) -> Option<&Page> {
        match page.checked_sub(NEAR) {
            None => self.near[page].get(),
            Some(page) => self.far.get()?.get(page)?.get(),
        }
    }
}

/// All decisions there were.
#[derive(Debug, Default)]
pub(crate) struct Decisions {
    book: Mutex<Book>,
    /// How many were counted by this node because the store could not be asked.
    local: Arc<AtomicU64>,
}

#[derive(Debug, Default)]
struct Book {
    /// What is counted in: what the rules in force keep, and earlier ones that somebody still has.
    in_use: Vec<Arc<InForce>>,
    /// What was counted by rules before them.
    before: Vec<(Labels, Counts)>,
    /// What those counted that have ended, so that the totals never fall.
    ended: Counts,
}

impl Decisions {
    /// A table for decisions by `rules`, to be [counted in](Self::count_in).
    pub(crate) fn table(&self, rules: &RuleSet) -> Table {
        Table::new(rules, Arc::clone(&self.local))
    }

    /// From now on decisions are counted in this, too. Series end here that none of those in use know, which bounds how many there
    /// can be; those of rules just replaced can still be read.
    pub(crate) fn count_in(&self, in_force: Arc<InForce>) {
        let mut book = self.book.lock();
        let Book { in_use, before, ended } = &mut *book;
        in_use.push(in_force);
        // Whoever had it last has added to it before.
        for over in in_use.extract_if(.., |it| Arc::get_mut(it).is_some()) {
            before.extend(over.table.read());
        }
        *before = merged(std::mem::take(before));
        let rules: HashSet<&str> = in_use.iter().flat_map(|it| &it.table.rules).map(|id| &**id).collect();
        let tiers: HashSet<&str> = in_use.iter().flat_map(|it| &it.table.tiers).map(|name| &**name).collect();
        before.retain(|((rule, tier), counts)| {
            let goes_on = rules.contains(&**rule) && tiers.contains(&**tier);
            if !goes_on {
                add(ended, counts);
            }
            goes_on
        });
    }

    /// How many decisions there were, by outcome.
    pub(crate) fn totals(&self) -> BTreeMap<&'static str, u64> {
        Outcome::NAMES.into_iter().zip(self.sums()).collect()
    }

    /// How many decisions were taken without the store.
    pub(crate) fn fallbacks(&self) -> u64 {
        without_store(&self.sums(), self.local.load(Ordering::Relaxed))
    }

    /// All of it at one moment. Only series that exist cost anything, and names are shared, not copied.
    pub(crate) fn read(&self) -> Counted {
        let (series, totals) = self.series();
        let mut counted = Counted { totals, local: self.local.load(Ordering::Relaxed), ..Counted::default() };
        for ((rule, tier), counts) in series {
            add(&mut counted.totals, &counts);
            add(counted.tiers.entry(tier).or_default(), &counts);
            // Those of one rule are next to each other.
            match counted.rules.last_mut() {
                Some((last, sum)) if *last == rule => add(sum, &counts),
                _ => counted.rules.push((rule, counts)),
            }
        }
        counted
    }

    /// How many decisions there were, in the order of the names of outcomes.
    pub(crate) fn sums(&self) -> Counts {
        let book = self.book.lock();
        let before = book.before.iter().map(|(_, counts)| *counts);
        sum(book.in_use.iter().map(|it| it.table.total()).chain(before).chain([book.ended]))
    }

    pub(crate) fn encode(&self, mut encoder: MetricEncoder<'_>) -> std::fmt::Result {
        for ((rule, tier), counts) in self.series().0 {
            for (index, (outcome, count)) in Outcome::NAMES.iter().zip(counts).enumerate() {
                if count > 0 || index < Outcome::ALWAYS_SHOWN {
                    let labels = [("rule", &*rule), ("tier", &*tier), ("outcome", outcome)];
                    encoder.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(&count, None)?;
                }
            }
        }
        Ok(())
    }

    /// All series, in the order of their labels, and what those counted that have ended.
    fn series(&self) -> (Vec<(Labels, Counts)>, Counts) {
        let book = self.book.lock();
        let now = book.in_use.iter().flat_map(|it| it.table.read());
        (merged(book.before.iter().cloned().chain(now).collect()), book.ended)
    }
}

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
        without_store(&self.totals, self.local)
    }
}

fn without_store(totals: &Counts, local: u64) -> u64 {
    totals[Outcome::FailedOpen as usize] + totals[Outcome::Unavailable as usize] + local
}

/// In the order of labels, each of which is there once.
fn merged(mut series: Vec<(Labels, Counts)>) -> Vec<(Labels, Counts)> {
    series.sort_by(|(one, _), (other, _)| one.cmp(other));
    series.dedup_by(|(labels, counts), (kept, sum)| {
        let same = labels == kept;
        if same {
            add(sum, counts);
        }
        same
    });
    series
}

fn read(counters: &Counters) -> Counts {
    counters.each_ref().map(|counter| counter.load(Ordering::Relaxed))
}

fn sum(all: impl Iterator<Item = Counts>) -> Counts {
    all.fold(Counts::default(), |mut sum, counts| {
        add(&mut sum, &counts);
        sum
    })
}

fn add(sum: &mut Counts, more: &Counts) {
    sum.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
}

#[cfg(test)]
mod tests {
    use std::thread;

    use proptest::collection::vec;
    use proptest::prelude::*;
    use tidegate_core::rule::Rule;
    use tidegate_core::{Facet, Quota, RuleSetParts};

    use super::*;

    /// So many rules that not all are near.
    const RULES: usize = 400;

    fn rules() -> RuleSet {
        let rule = |n: usize| Rule::new(format!("rule-{n:03}"), Facet::User, Quota::per_minute(1));
        RuleSet::new(RuleSetParts { rules: (0..RULES).map(rule).collect(), ..RuleSetParts::default() })
            .unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn a_table_says_what_all_threads_counted(steps in vec((0..=RULES, 0..3_usize), 0..200)) {
            let table = Table::new(&rules(), Arc::default());
            let outcomes = [Outcome::Allowed, Outcome::Refused, Outcome::ShadowRefused];
            thread::scope(|scope| {
                for _ in 0..3 {
                    scope.spawn(|| steps.iter().for_each(|(rule, outcome)| table.add(*rule, 0, outcomes[*outcome])));
                }
            });
            let mut expected: BTreeMap<Labels, Counts> = BTreeMap::new();
            for (rule, outcome) in steps {
                let id = if rule == RULES { NO_RULE.into() } else { format!("rule-{rule:03}").into() };
                expected.entry((id, OTHER_TIER.into())).or_default()[outcome] += 3;
            }
            prop_assert_eq!(table.total(), sum(expected.values().copied()));
            prop_assert_eq!(merged(table.read().collect()), expected.into_iter().collect::<Vec<_>>());
        }
    }

    #[test]
    fn series_of_one_name_become_one() {
        let labels = |rule: &str| (rule.into(), "t".into());
        let series = vec![(labels("b"), [1; 5]), (labels("a"), [2; 5]), (labels("b"), [3; 5])];
        assert_eq!(merged(series), [(labels("a"), [2; 5]), (labels("b"), [4; 5])]);
    }
}

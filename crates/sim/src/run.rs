//! Running seeds.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use tidegate_failover::{Mistake, plant};

use crate::scenario::Scenario;
use crate::stats::RunStats;
use crate::truth::KeyTruth;
use crate::world::{Violation, World};

/// Result of one seed.
#[derive(Clone, Debug)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// The first violation, if there is one.
    pub violation: Option<Violation>,
    /// Figures.
    pub stats: RunStats,
    /// Number that differs between different runs.
    pub fingerprint: u64,
    /// Events up to the violation; empty unless traced.
    pub trace: Vec<String>,
}

/// Runs one seed.
pub fn run(seed: u64) -> Report {
    run_scenario(Scenario::draw(seed), false)
}

/// Runs one seed and records what happens. A seed that fails is reduced to the faults that it takes to fail.
pub fn run_traced(seed: u64) -> Report {
    let mut scenario = Scenario::draw(seed);
    if run_scenario(scenario.clone(), false).violation.is_some() {
        reduce(&mut scenario);
    }
    let mut report = run_scenario(scenario.clone(), true);
    report.trace.insert(0, describe(&scenario));
    report
}

fn run_scenario(scenario: Scenario, tracing: bool) -> Report {
    let mut world = World::new(scenario, tracing);
    world.run();
    world.stats.splits = world.splits;
    world.stats.worst = world.truth.iter().map(KeyTruth::worst).max().unwrap_or(0);
    Report {
        seed: world.scenario.seed,
        violation: world.violation,
        stats: world.stats,
        fingerprint: world.fingerprint,
        trace: world.trace.lines,
    }
}

/// Leaves out every fault without which the run still fails in the same way.
fn reduce(scenario: &mut Scenario) {
    let invariant = |scenario: &Scenario| {
        let violation = run_scenario(scenario.clone(), false).violation;
        violation.and_then(|violation| violation.what.split(':').next().map(str::to_owned))
    };
    let wanted = invariant(scenario);
    let mut index = scenario.faults.len();
    while index > 0 {
        index -= 1;
        let mut smaller = scenario.clone();
        smaller.faults.remove(index);
        if invariant(&smaller) == wanted {
            *scenario = smaller;
        }
    }
}

fn describe(scenario: &Scenario) -> String {
    let keys: Vec<String> = scenario
        .keys
        .iter()
        .map(|plan| format!("{} {} per {}", plan.quota.algorithm(), plan.quota.limit(), plan.quota.window()))
        .collect();
    format!("{} nodes, {} parts, keys: {}", scenario.nodes, scenario.parts, keys.join("; "))
}

/// Result of many seeds.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// The failure with the lowest seed that was found.
    pub failure: Option<Report>,
    /// Seeds that were run.
    pub seeds: u64,
    /// Figures of all of them.
    pub stats: RunStats,
}

impl Summary {
    fn add(&mut self, report: Report) {
        self.seeds += 1;
        self.stats += report.stats;
        let lower = self.failure.as_ref().is_none_or(|failure| report.seed < failure.seed);
        if report.violation.is_some() && lower {
            self.failure = Some(report);
        }
    }
}

/// Runs seeds from `first` on in all threads, with a mistake planted if one is given, until `count` have run or one fails.
pub fn search(first: u64, count: u64, mistake: Option<Mistake>) -> Summary {
    let (next, summary) = (AtomicU64::new(0), Mutex::new(Summary::default()));
    let lock = || summary.lock().unwrap_or_else(PoisonError::into_inner);
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                plant(mistake);
                while lock().failure.is_none() {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count {
                        break;
                    }
                    let report = run(first + number);
                    lock().add(report);
                }
            });
        }
    });
    summary.into_inner().unwrap_or_else(PoisonError::into_inner)
}

//! Thousands of schedules in every test run, and proof that the checkers can fail.

use tidegate_sim::{Mistake, run, run_traced, search};

#[test]
fn two_thousand_seeds_hold() {
    let summary = search(0, 2_000, None);
    if let Some(report) = summary.failure {
        let report = run_traced(report.seed);
        panic!("seed {}: {:?}\n{}", report.seed, report.violation, report.trace.join("\n"));
    }
    assert_eq!(summary.seeds, 2_000);
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in 0..50 {
        assert_eq!(run(seed).fingerprint, run(seed).fingerprint, "seed {seed}");
    }
}

/// Returns the first seed that finds a planted mistake.
fn seeds_to_find(mistake: Mistake) -> Option<(u64, String)> {
    let failure = search(0, 10_000, Some(mistake)).failure;
    failure.map(|report| (report.seed, report.violation.map(|violation| violation.what).unwrap_or_default()))
}

#[test]
fn every_planted_mistake_is_found() {
    let mut missed = Vec::new();
    for mistake in Mistake::ALL {
        match seeds_to_find(mistake) {
            Some((seed, what)) => println!("{mistake:?}: seed {seed}: {what}"),
            None => missed.push(mistake),
        }
    }
    assert!(missed.is_empty(), "not found within 10,000 seeds: {missed:?}");
}

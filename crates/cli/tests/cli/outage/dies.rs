//! A store that is killed.

use tidegate_testkit::Redis;

use super::story::{AFTER, ALL, BACK, BEFORE, DURING, counted_all, tell};

/// One that writes down what it knows before it says so.
#[test]
fn a_store_that_dies_costs_nobody_a_decision_and_gives_nobody_more() {
    let redis = Redis::options().args(["--appendonly", "yes", "--appendfsync", "always"]).start();
    let (fleet, tally) = tell(&redis, Redis::kill, Redis::restart);
    counted_all(&redis, &fleet, &tally, &ALL);
}

/// One that forgets everything knows at least what was admitted without it.
#[test]
fn a_store_that_loses_everything_is_told_what_was_admitted_without_it() {
    let redis = Redis::start();
    let (_fleet, tally) = tell(&redis, Redis::kill, Redis::restart);
    tally.within_limit(&[BEFORE, DURING]);
    tally.within_limit(&[DURING, BACK, AFTER]);
}

//! A store that stands still, with all its connections open.

use tidegate_testkit::Redis;

use super::story::{ALL, counted_all, tell};

#[test]
fn a_store_that_hangs_costs_nobody_a_decision_and_gives_nobody_more() {
    let redis = Redis::start();
    let (fleet, tally) = tell(&redis, Redis::pause, Redis::resume);
    counted_all(&redis, &fleet, &tally, &ALL);
}

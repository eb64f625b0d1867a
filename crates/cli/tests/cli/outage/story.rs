//! The story of an outage: five nodes, two hundred users, and a store that goes and comes back.

use std::time::{Duration, Instant};

use tidegate_testkit::Redis;

use super::crowd::{Crowd, Plan};
use super::tally::Tally;
use super::{Fleet, LIMIT, RULES, body, counters, metric};
use crate::support::wait_for;

const USERS: usize = 200;
const NODES: usize = 5;

/// All of the story.
pub(super) const ALL: [usize; 4] = [BEFORE, DURING, BACK, AFTER];

pub(super) const BEFORE: usize = 0;
pub(super) const DURING: usize = 1;
pub(super) const BACK: usize = 2;
pub(super) const AFTER: usize = 3;
const NAMES: [&str; 4] = ["before", "during", "back", "after"];

/// Every other user stays below the limit in all phases together.
fn is_below(user: usize) -> bool {
    user.is_multiple_of(2)
}

/// How often a user asks at most.
fn most(user: usize, phase: usize) -> usize {
    if is_below(user) { [10, 10, 14, 14][phase] } else { [16, 24, 60, 50][phase] }
}

/// Tells the story, and checks what is so however the store goes.
pub(super) fn tell(
    redis: &Redis,
    goes: impl FnOnce(&Redis),
    comes_back: impl FnOnce(&Redis),
) -> (Fleet, Tally) {
    let fleet = Fleet::ready(&vec![redis.url(); NODES], RULES, &["--degraded-after", "500ms"]);
    let pause = Duration::from_millis(10);
    let crowd =
        Crowd::start(&fleet, Plan { bodies: (0..USERS).map(body).collect(), most, callers: 2, pause });
    crowd.each_has_had(6);

    let gone = Instant::now();
    crowd.enter(DURING);
    goes(redis);
    for node in &fleet.nodes {
        wait_for("a breaker to open", || (metric(node, "tidegate_breaker_state") > 0).then_some(()));
    }
    println!("all breakers open {:.1?} after the store went", gone.elapsed());
    fleet.are("degraded");
    println!("all nodes degraded {:.1?} after the store went", gone.elapsed());
    crowd.each_has_had(16);

    let returned = Instant::now();
    crowd.enter(BACK);
    comes_back(redis);
    fleet.are("normal");
    println!("all nodes normal {:.1?} after the store was back", returned.elapsed());
    fleet.settled();
    println!("all is settled {:.1?} after the store was back", returned.elapsed());

    crowd.enter(AFTER);
    crowd.each_has_had(30);
    let tally = crowd.end();
    tally.print(&NAMES);
    // How many depends on how busy the machine is.
    println!(
        "told to come again although below the limit: {} of {}",
        tally.spares(is_below),
        tally.answers.len()
    );
    assert!(tally.of_phase(DURING).filter(|answer| answer.status() == "local").count() > USERS);
    fleet.owes_nothing();
    (fleet, tally)
}

/// A store that kept what it knew has counted everything that was admitted in these phases, and nobody above the limit.
pub(super) fn counted_all(redis: &Redis, fleet: &Fleet, tally: &Tally, phases: &[usize]) {
    tally.within_limit(phases);
    let (admitted, mut more) = (tally.admitted(phases), 0);
    for (user, admitted) in &admitted {
        let counted = fleet.counted(*user);
        assert!(
            *admitted <= counted && counted <= LIMIT,
            "user {user}: {admitted} admitted, {counted} counted"
        );
        more += counted - admitted;
    }
    let (inside, total) = (counters(redis), admitted.values().sum::<u64>());
    assert_eq!(
        (inside.len(), inside.iter().sum::<u64>()),
        (admitted.len(), total + more),
        "as the nodes say"
    );
    println!("{total} admitted; the store counts {more} more, of which it was asked when it went");
}

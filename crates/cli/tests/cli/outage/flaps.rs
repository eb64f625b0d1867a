//! A store that comes and goes.

use std::thread;
use std::time::{Duration, Instant};

use tidegate_testkit::Redis;

use super::crowd::{Crowd, Plan};
use super::{Fleet, LIMIT, RULES, body, changes_to};

const USERS: usize = 60;
const NODES: usize = 3;

const BEFORE: usize = 0;
const FLAPPING: usize = 1;
const AFTER: usize = 2;

/// Every other user stays below the limit.
fn is_below(user: usize) -> bool {
    user.is_multiple_of(2)
}

fn most(user: usize, phase: usize) -> usize {
    if is_below(user) { [5, 40, 10][phase] } else { [5, 200, 30][phase] }
}

#[test]
fn a_store_that_flaps_neither_flaps_the_mode_nor_gives_away_limits() {
    let redis = Redis::start();
    let fleet = Fleet::ready(&vec![redis.url(); NODES], RULES, &["--degraded-after", "2s"]);
    let changed = |mode| fleet.nodes.iter().map(|node| changes_to(node, mode)).collect::<Vec<_>>();
    let (degraded, normal) = (changed("degraded"), changed("normal"));
    let bodies = (0..USERS).map(body).collect();
    let crowd = Crowd::start(&fleet, Plan { bodies, most, callers: 2, pause: Duration::from_millis(20) });
    crowd.each_has_had(5);

    // Time is what this story is about: 20 s, as long as a bad quarter of a minute and then some.
    crowd.enter(FLAPPING);
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(20) {
        redis.pause();
        thread::sleep(Duration::from_millis(700));
        redis.resume();
        thread::sleep(Duration::from_millis(700));
    }
    let over = Instant::now();
    fleet.are("normal");
    println!("all nodes normal {:.1?} after the last pause", over.elapsed());
    fleet.settled();
    println!("all is settled {:.1?} after the last pause", over.elapsed());
    crowd.enter(AFTER);
    crowd.each_has_had(10);

    let tally = crowd.end();
    tally.print(&["before", "flapping", "after"]);
    tally.spares(is_below);
    assert!(tally.of_phase(FLAPPING).any(|answer| answer.status() == "local"));
    let since = |mode, before: &[usize]| {
        changed(mode).iter().zip(before).map(|(now, before)| now - before).collect::<Vec<_>>()
    };
    let (degraded, normal) = (since("degraded", &degraded), since("normal", &normal));
    println!("changes of each node to degraded: {degraded:?}, to normal: {normal:?}");
    // On a machine that is busy with other things, a store may really have been well for three seconds in between, once.
    assert!(degraded.iter().chain(&normal).all(|changes| *changes <= 2), "{degraded:?} {normal:?}");
    fleet.owes_nothing();
    // Each time the store comes or goes, requests are being decided of which some nodes think that it counts them, and others that it
    // does not.
    let admitted = tally.admitted(&[BEFORE, FLAPPING, AFTER]);
    let worst = admitted.values().copied().max().unwrap_or_default();
    println!("of {LIMIT} nobody was admitted more than {worst}");
    assert!(worst <= LIMIT + LIMIT / 10, "{admitted:?}");
}

//! Some nodes lose the store, others keep it; and one of them is slow for a while.

use std::time::Duration;

use tidegate_testkit::{Proxy, Redis};

use super::crowd::{Crowd, Plan};
use super::story::counted_all;
use super::{Fleet, RULES, body, cluster, metric};
use crate::support::wait_for;

const USERS: usize = 100;
const NODES: usize = 5;

/// The nodes that lose the store.
const CUT: [usize; 2] = [0, 1];

/// The one that stands still for a while: it has the store, and counts for others.
const SLOW: usize = 4;

const BEFORE: usize = 0;
const CUTTING: usize = 1;
const PARTED: usize = 2;
const STOPPED: usize = 3;
const AFTER: usize = 4;

/// Every other user stays below the limit.
fn is_below(user: usize) -> bool {
    user.is_multiple_of(2)
}

fn most(user: usize, phase: usize) -> usize {
    if is_below(user) { [6, 8, 10, 20, 10][phase] } else { [10, 20, 20, 40, 30][phase] }
}

#[test]
fn nodes_without_the_store_use_that_of_others() {
    let redis = Redis::start();
    let proxies: Vec<Proxy> = (0..NODES).map(|_| Proxy::start(redis.address())).collect();
    let stores: Vec<String> = proxies.iter().map(|proxy| format!("redis://{}", proxy.address())).collect();
    // Nodes that lend their store have a quarter of it: enough for a machine that is busy with other things.
    let fleet = Fleet::ready(&stores, RULES, &["--degraded-after", "500ms", "--store-timeout", "200ms"]);
    let bodies = (0..USERS).map(body).collect();
    let crowd = Crowd::start(&fleet, Plan { bodies, most, callers: 2, pause: Duration::from_millis(20) });
    crowd.each_has_had(5);

    crowd.enter(CUTTING);
    CUT.iter().for_each(|&node| proxies[node].cut());
    for node in &fleet.nodes {
        wait_for("all to know who has no store", || {
            let cluster = cluster(node);
            let members = cluster["members"].as_array()?;
            let lacking = members.iter().chain([&cluster]).filter(|node| node["has_store"] == false);
            (lacking.count() == CUT.len()).then_some(())
        });
    }
    crowd.enter(PARTED);
    crowd.each_has_had(8);

    crowd.enter(STOPPED);
    let unanswered = || {
        CUT.iter().map(|&node| metric(&fleet.nodes[node], "tidegate_forwards_unanswered_total")).sum::<u64>()
    };
    let before = unanswered();
    fleet.nodes[SLOW].signal("STOP");
    // Not so long that anybody gives it up.
    wait_for("requests that it does not answer", || (unanswered() > before + 10).then_some(()));
    fleet.nodes[SLOW].signal("CONT");
    println!("{} forwards unanswered", unanswered() - before);
    proxies.iter().for_each(Proxy::heal);
    fleet.are("normal");
    fleet.settled();
    crowd.enter(AFTER);
    crowd.each_has_had(30);

    let tally = crowd.end();
    tally.print(&["before", "cutting", "parted", "stopped", "after"]);
    let lent = || tally.of_phase(PARTED).filter(|answer| CUT.contains(&answer.node));
    let (enforced, all) = (lent().filter(|answer| answer.status() == "enforced").count(), lent().count());
    println!("at nodes without the store: {enforced} of {all} decided with that of others");
    // How many depends on how busy the machine is: whoever lends its store has little time.
    assert!(enforced > 0, "none of {all}");
    tally.spares(is_below);
    let again = tally.of_phase(STOPPED).filter(|answer| answer.come_again()).count();
    println!("{again} told to come again while a node stood still");
    assert!(again > 0 && metric(&fleet.nodes[CUT[0]], "tidegate_forwarded_requests_total") > 0);
    fleet.owes_nothing();
    counted_all(&redis, &fleet, &tally, &[BEFORE, CUTTING, PARTED, STOPPED, AFTER]);
}

//! One of three shards dies: its keys are counted by nodes, all others go on as ever.

use tidegate_testkit::{Cluster, Redis};

use super::{Fleet, LIMIT, health};
use crate::support::wait_for;

const USERS: usize = 24;

const RULES: &str =
    "rules: [{rule_id: each, identifier_type: user_id, algorithm: fixed_window, limit: 60, window: 366d}]";

/// What a user asks here: one key, in one shard.
fn body(user: usize) -> String {
    format!(r#"{{"user":"user-{user}","resource":"/"}}"#)
}

fn keys(redis: &Redis) -> u64 {
    redis.query(&["DBSIZE"])
}

#[test]
fn a_dead_shard_is_counted_by_nodes_and_the_others_are_exact() {
    // Nobody takes the place of a master that dies.
    let redis = Cluster::options()
        .args(["--cluster-require-full-coverage", "no", "--cluster-replica-no-failover", "yes"])
        .start();
    // Long enough that every answer of a shard that lives is waited for.
    let args = ["--degraded-after", "500ms", "--store-timeout", "500ms"];
    let fleet = Fleet::ready(&vec![redis.url(); 3], RULES, &args);
    let mut admitted = [0_u64; USERS];
    let mut ask = |user: usize, round: usize| {
        let decision = fleet.nodes[(user + round) % 3].check(&body(user));
        admitted[user] += u64::from(decision["allowed"] == true);
        (decision["status"].as_str().unwrap().to_owned(), admitted[user])
    };

    // The first request of each user shows where its key is.
    let masters = &redis.nodes()[..3];
    let mut homes = Vec::new();
    for user in 0..USERS {
        let before: Vec<u64> = masters.iter().map(keys).collect();
        assert_eq!(ask(user, 0).0, "enforced");
        homes.push(masters.iter().zip(before).position(|(master, before)| keys(master) > before).unwrap());
    }
    for round in 1..10 {
        (0..USERS).for_each(|user| assert_eq!(ask(user, round).0, "enforced"));
    }
    let dead = homes[0];
    let lost = homes.iter().filter(|home| **home == dead).count();
    println!("{lost} of {USERS} users are in the shard that dies");
    assert!(lost < USERS, "all users are in one shard");

    masters[dead].kill();
    let name = masters[dead].address().to_string();
    for node in &fleet.nodes {
        wait_for("the dead shard to be named", || {
            let health = health(node);
            (health["status"] == "degraded" && health["reasons"].to_string().contains(&name)).then_some(())
        });
        let reasons = health(node)["reasons"].to_string();
        let others = masters.iter().filter(|master| master.address() != masters[dead].address());
        for other in others {
            assert!(!reasons.contains(&other.address().to_string()), "{reasons}");
        }
    }
    for round in 0..70 {
        for (user, home) in homes.iter().enumerate() {
            let (status, _) = ask(user, round);
            assert_eq!(
                status,
                if *home == dead { "local" } else { "enforced" },
                "user {user}, round {round}"
            );
        }
    }
    let of = |home_is_dead: bool, admitted: &[u64; USERS]| {
        let those = homes.iter().zip(admitted).filter(|(home, _)| (**home == dead) == home_is_dead);
        those.map(|(_, admitted)| *admitted).collect::<Vec<_>>()
    };
    println!(
        "admitted in live shards: {:?}, in the dead one: {:?}",
        of(false, &admitted),
        of(true, &admitted)
    );
    assert!(of(false, &admitted).iter().all(|admitted| *admitted == LIMIT));
    assert!(of(true, &admitted).iter().all(|admitted| *admitted <= LIMIT && *admitted > LIMIT / 2));

    masters[dead].restart();
    println!("all nodes normal {:.1?} after the shard was back", fleet.are("normal"));
    fleet.owes_nothing();
    let before = admitted;
    let mut again = [0_u64; USERS];
    for (user, again) in again.iter_mut().enumerate() {
        for round in 0..15 {
            let decision = fleet.nodes[(user + round) % 3].check(&body(user));
            assert_eq!(decision["status"], "enforced", "{decision}");
            *again += u64::from(decision["allowed"] == true);
        }
    }
    println!("admitted afterwards, of ten that a shard forgot: {:?}", of(true, &again));
    assert!(of(false, &again).iter().all(|again| *again == 0));
    // It has forgotten what it knew, but not what was admitted without it: ten before it died.
    let without = of(true, &before);
    assert!(of(true, &again).iter().zip(without).all(|(again, admitted)| admitted - 10 + again <= LIMIT));
}

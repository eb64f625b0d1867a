//! All or nothing, over several slots of a Cluster.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_core::{Action, Algorithm, Group, Operation, Quota, Span};
use tidegate_redis::RedisStore;
use tidegate_store::Store;
use tidegate_testkit::{Cluster, wait};

use crate::node::{Node, USERS, Work, group_quota};
use crate::support::{connect, one, patient, quota, take};

const NEVER: Span = Span::from_secs(366 * 86_400);

/// Identities in three slots, and what they may have: the first runs out first.
const LIMITS: [u64; 3] = [400, 700, 1_000];

/// What is left once nothing is held any more.
async fn left(store: &RedisStore, rule: &str, user: &str, quota: Quota) -> u64 {
    let start = Instant::now();
    loop {
        let look = |cost| Operation { action: Action::Peek, ..take(rule, user, quota, cost) };
        let left = one(store, look(0)).await.remaining;
        // Asked for more than there is, a counter says whether some of what is missing is only held.
        if left == quota.limit() || !one(store, look(left + 1)).await.held {
            return left;
        }
        assert!(start.elapsed() < Duration::from_secs(10), "{rule}, {user}: held for ever");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// What one caller saw: the costs it was admitted with, by identity, and those it did not wait to hear about.
#[derive(Default)]
struct Seen {
    admitted: [u64; 3],
    unheard: [u64; 3],
}

/// Asks for random groups; now and then gives up waiting.
async fn ask(store: Arc<RedisStore>, algorithm: Algorithm, rule: String, seed: u64, rounds: u32) -> Seen {
    let (mut seen, mut dice) = (Seen::default(), seed * 2_654_435_761 + 1);
    for _ in 0..rounds {
        dice ^= dice << 13;
        dice ^= dice >> 7;
        dice ^= dice << 17;
        let costs: [u64; 3] = std::array::from_fn(|index| dice >> (8 * index) & 3);
        let ops: Group<'_> = (0..3)
            .filter(|&index| costs[index] > 0)
            .map(|index| take(&rule, USERS[index], quota(algorithm, LIMITS[index], NEVER), costs[index]))
            .collect();
        let count = |sums: &mut [u64; 3]| (0..3).for_each(|index| sums[index] += costs[index]);
        let groups = [ops];
        let answer = store.apply(&groups, patient());
        if dice >> 32 & 15 == 0 {
            // Long enough to be sent; whether an answer came is nobody's business.
            tokio::time::timeout(Duration::from_micros(300), answer).await.ok();
            count(&mut seen.unheard);
            continue;
        }
        let outcomes = answer.await.remove(0);
        let allowed = outcomes.iter().map(|outcome| outcome.verdict().expect("a verdict").allowed);
        if allowed.fold(true, |all, one| all & one) {
            count(&mut seen.admitted);
        }
    }
    seen
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_over_several_slots_are_all_or_nothing() {
    let cluster = Cluster::start();
    let stores = [Arc::new(connect(&cluster.url()).await), Arc::new(connect(&cluster.url()).await)];
    for algorithm in Algorithm::REFILLING {
        let rule = format!("random-{algorithm}");
        let callers: Vec<_> = (0..16)
            .map(|number| {
                let store = Arc::clone(&stores[number % 2]);
                tokio::spawn(ask(store, algorithm, rule.clone(), number as u64 + 1, 60))
            })
            .collect();
        let mut all = Seen::default();
        for caller in callers {
            let seen = caller.await.unwrap();
            for index in 0..3 {
                all.admitted[index] += seen.admitted[index];
                all.unheard[index] += seen.unheard[index];
            }
        }
        for (index, user) in USERS.into_iter().enumerate() {
            let (limit, admitted) = (LIMITS[index], all.admitted[index]);
            let quota = quota(algorithm, limit, NEVER);
            assert!(admitted <= limit, "{algorithm}, {user}: {admitted} of {limit}");
            let most = limit - admitted;
            let least = most.saturating_sub(all.unheard[index]);
            let left = left(&stores[0], &rule, user, quota).await;
            assert!(
                (least..=most).contains(&left),
                "{algorithm}, {user}: {left} left of {limit} after {admitted} admitted and {} unheard of",
                all.unheard[index]
            );
        }
        // What refuses is used up in earnest: a request for no more than is left everywhere goes through.
        let ops = (0..3).map(|index| quota(algorithm, LIMITS[index], NEVER)).zip(USERS);
        let mut lefts = Vec::new();
        for (quota, user) in ops {
            lefts.push((quota, user, left(&stores[0], &rule, user, quota).await));
        }
        let group: Group<'_> = lefts
            .iter()
            .filter(|(_, _, left)| *left > 0)
            .map(|(quota, user, left)| take(&rule, user, *quota, *left))
            .collect();
        let outcomes = stores[1].apply(&[group], patient()).await.remove(0);
        assert!(
            outcomes.iter().all(|outcome| outcome.verdict().is_some_and(|verdict| verdict.allowed)),
            "{algorithm}: {outcomes:?}"
        );
    }
    for master in cluster.masters() {
        assert_eq!(master.keys_without_ttl(), Vec::<String>::new());
    }
}

/// A node that dies between holding and settling leaves its holds to expire: nothing is lost, and nothing stays.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_dies_holds_nothing_for_long() {
    let cluster = Cluster::start();
    let store = connect(&cluster.url()).await;
    let quota = group_quota();
    for round in 0..5 {
        let mut before = Vec::new();
        for user in USERS {
            before.push(left(&store, "groups", user, quota).await);
        }
        let node = Node::start(&cluster.url(), Work::Groups, None);
        wait::until("the node to be admitted", Duration::from_secs(30), || {
            node.said("admitted").filter(|&admitted| admitted > 50)
        });
        node.kill();
        let admitted = node.said("admitted").unwrap();
        for (user, before) in USERS.into_iter().zip(before) {
            let left = left(&store, "groups", user, quota).await;
            // Its last group may have been settled without its being able to say so.
            let used = before - left;
            assert!(
                (admitted..=admitted + 1).contains(&used),
                "round {round}, {user}: {used} used, {admitted} admitted"
            );
        }
    }
}

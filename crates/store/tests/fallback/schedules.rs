//! Whatever happens in whatever order, nobody gets more than the limit.

use proptest::prelude::*;
use tidegate_core::{Algorithm, Span, Take};

use crate::fleet::Fleet;
use crate::support::{ALGORITHMS, take};

const NODES: usize = 4;
const USERS: [&str; 3] = ["alice", "bob", "carol"];
const LIMIT: u64 = 12;

/// What may happen.
#[derive(Clone, Debug)]
enum Event {
    /// A request for a user, or for two at once, at a node.
    Ask { node: usize, user: usize, and: Option<usize> },
    /// A node loses the store or has it back, and notices.
    Store { node: usize, away: bool },
    /// All do.
    All { away: bool },
    /// The store's answers to a node are lost, or are not any more, and it notices.
    Mute { node: usize, mute: bool },
    /// A node does not answer for a while, though it is there.
    Silent { node: usize, silent: bool },
    /// A little time passes.
    Pass,
}

fn event(silence: u32) -> impl Strategy<Value = Event> {
    let node = 0..NODES;
    let and = prop_oneof![3 => Just(None), 1 => (0..USERS.len()).prop_map(Some)];
    prop_oneof![
        12 => (node.clone(), 0..USERS.len(), and).prop_map(|(node, user, and)| Event::Ask { node, user, and }),
        2 => (node.clone(), any::<bool>()).prop_map(|(node, away)| Event::Store { node, away }),
        1 => any::<bool>().prop_map(|away| Event::All { away }),
        1 => (node.clone(), any::<bool>()).prop_map(|(node, mute)| Event::Mute { node, mute }),
        silence => (node, any::<bool>()).prop_map(|(node, silent)| Event::Silent { node, silent }),
        3 => Just(Event::Pass),
    ]
}

/// Nobody may be admitted more often than `most`.
async fn run(algorithm: Algorithm, events: &[Event], most: u64) {
    let fleet = Fleet::new(NODES);
    let takes: Vec<Take<'static>> = USERS.iter().map(|user| take("r", user, algorithm, LIMIT)).collect();
    let mut admitted = [1; USERS.len()];
    for take in &takes {
        assert!(fleet.admits(0, &[*take]).await);
    }
    for event in events {
        match *event {
            Event::Ask { node, user, and } => {
                let mut users = vec![user];
                users.extend(and.filter(|other| *other != user));
                let group: Vec<Take<'_>> = users.iter().map(|&user| takes[user]).collect();
                if fleet.admits(node, &group).await {
                    users.iter().for_each(|&user| admitted[user] += 1);
                }
            }
            Event::Store { node, away } => {
                fleet.set_away(node, away);
                fleet.tend().await;
            }
            Event::All { away } => fleet.set_all_away(away).await,
            Event::Mute { node, mute } => {
                fleet.set_mute(node, mute);
                fleet.tend().await;
            }
            Event::Silent { node, silent } => fleet.set_silent(node, silent),
            Event::Pass => {
                fleet.clock.advance(Span::from_millis(100));
                fleet.tend().await;
            }
        }
        for (user, admitted) in USERS.iter().zip(admitted) {
            assert!(admitted <= most, "{algorithm:?}: {user} was admitted {admitted} times");
        }
    }
    for node in 0..NODES {
        fleet.set_mute(node, false);
        fleet.set_silent(node, false);
    }
    fleet.set_all_away(false).await;
    fleet.settle().await;
    for (user, (take, admitted)) in takes.iter().zip(&mut admitted).enumerate() {
        let counted = fleet.counted(take);
        assert!(counted >= (*admitted).min(LIMIT), "{algorithm:?}: of {admitted} the store knows {counted}");
        *admitted += fleet.admitted(2 * NODES, *take).await;
        assert!(*admitted <= most, "{algorithm:?}: {} was admitted {admitted} times", USERS[user]);
    }
}

/// A node that counts for others knows nothing of what another counts in the store while that has it for a moment.
#[tokio::test]
async fn what_was_counted_in_a_store_that_came_and_went_is_known_to_all() {
    let ask = |node, user, and| Event::Ask { node, user, and };
    for algorithm in ALGORITHMS {
        let mut events = vec![ask(0, 0, None); 10];
        events.extend(vec![ask(0, 2, None); 10]);
        events.push(Event::All { away: true });
        // The last of one, and then one of both, for which the other is held and let go.
        events.extend([ask(0, 2, None), ask(0, 0, Some(2))]);
        events.extend([Event::Store { node: 3, away: false }, ask(3, 0, None), Event::All { away: true }]);
        events.extend(vec![ask(0, 0, None); 2]);
        run(algorithm, &events, LIMIT).await;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn nobody_gets_more_than_the_limit(
        algorithm in prop::sample::select(&ALGORITHMS[..]),
        events in prop::collection::vec(event(0), 1..80),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(run(algorithm, &events, LIMIT));
    }

    /// What only a node knows that does not answer is not known: then counting begins with a share.
    #[test]
    fn nor_more_than_a_share_on_top_if_nodes_are_silent(
        algorithm in prop::sample::select(&ALGORITHMS[..]),
        events in prop::collection::vec(event(1), 1..80),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(run(algorithm, &events, LIMIT + LIMIT / NODES as u64));
    }
}

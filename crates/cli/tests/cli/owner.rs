//! Five nodes without their store: what becomes of keys whose owner dies, leaves, or dies while it settles.

use crate::support::wait_for;
use crate::together::{At, Nodes, Tally, Told};

const NODES: usize = 5;
const LIMIT: u64 = 30;

/// A window that does not end during a test.
const RULES: &str =
    "rules: [{rule_id: each, identifier_type: user_id, algorithm: fixed_window, limit: 30, window: 366d}]";

/// How often each user asks the owner itself before it dies.
const UNHEARD: u64 = 5;

/// Nodes that have lost their store, with users whom all of them know, and who counts each.
struct Story {
    nodes: Nodes<'static>,
    /// What the store counted before.
    known: Tally,
    all: Tally,
    owners: Vec<usize>,
}

impl Story {
    fn begin(users: usize) -> Self {
        let nodes = Nodes::start(At::Loopback, NODES, RULES);
        let users: Vec<usize> = (0..users).collect();
        nodes.round(&nodes.live(), &users);
        nodes.settle();
        let known = nodes.hear(&users, LIMIT);
        let mut all = known.clone();
        nodes.lose_store();
        let owners = nodes.owners(&users, &mut all);
        all.merge(&nodes.round(&nodes.live(), &users));
        Self { nodes, known, all, owners }
    }

    /// The node that counts most users.
    fn busiest(&self) -> usize {
        (0..NODES).max_by_key(|node| self.users(*node).0.len()).unwrap()
    }

    /// The users that a node counts, and all others.
    fn users(&self, owner: usize) -> (Vec<usize>, Vec<usize>) {
        (0..self.owners.len()).partition(|user| self.owners[*user] == owner)
    }

    /// A user asks once.
    fn ask(&mut self, node: usize, user: usize) -> Told {
        let told = self.nodes.ask(node, user);
        self.all.add(user, told);
        told
    }

    /// A user has had the limit, and no more. Answers that got lost may be part of it.
    fn has_the_limit(&self, user: usize) {
        let (admitted, perhaps) = (self.all.of(user), self.all.perhaps(user));
        assert!(admitted <= LIMIT && LIMIT <= perhaps, "user {user}: {admitted}, perhaps {perhaps}");
    }

    /// Users ask all nodes until there is nothing left.
    fn exhaust(&mut self) -> u64 {
        let users: Vec<usize> = (0..self.owners.len()).collect();
        let tally = self.nodes.exhaust(&self.nodes.live(), &users);
        self.all.merge(&tally);
        tally.total()
    }
}

#[test]
fn an_owner_that_is_killed_takes_with_it_only_what_it_told_nobody() {
    let mut story = Story::begin(30);
    let victim = story.busiest();
    let (orphans, others) = story.users(victim);
    // Whoever asks another node hears what is left; what the owner is asked itself nobody else hears.
    let rest: Vec<usize> = story.nodes.live().into_iter().filter(|node| *node != victim).collect();
    story.all.merge(&story.nodes.round(&rest, &orphans));
    let heard = story.all.clone();
    for &user in &orphans {
        for _ in 0..UNHEARD {
            assert_eq!(story.ask(victim, user), Told::Admitted);
        }
    }
    story.nodes.kill(victim);

    // Until it is given up nobody counts in its place, and whoever asks is told to come again.
    let mut waited = 0;
    wait_for("the owner to be given up", || {
        let mut given_up = true;
        for (&node, &user) in rest.iter().zip(orphans.iter().cycle()) {
            let told = story.ask(node, user);
            // It was not given up before if it is not by now.
            if story.nodes.state(node, victim).as_deref() != Some("lost") {
                assert_eq!(told, Told::ComeAgain, "user {user} at node {node}");
                (waited, given_up) = (waited + 1, false);
            }
        }
        // Those whom others count do not notice.
        for (&node, &user) in rest.iter().zip(others.iter().cycle().skip(waited)) {
            if story.ask(node, user) == Told::Refused {
                assert!(story.all.perhaps(user) >= LIMIT, "user {user} at node {node}");
            }
        }
        given_up.then_some(())
    });
    assert!(waited > 0);
    let after = story.exhaust();
    println!("{waited} had to come again until the owner was given up; {after} admitted after that");
    others.iter().for_each(|user| story.has_the_limit(*user));
    let mut worst = 0;
    for &user in &orphans {
        let (heard, admitted) = (heard.of(user), story.all.of(user));
        worst = worst.max(admitted);
        // Four of five nodes have as much of what is left, and less if one of them did not answer when they began.
        let (least, most) = (heard + UNHEARD + 1, heard + UNHEARD + (LIMIT - heard) * 4 / 5);
        assert!((least..=most).contains(&admitted), "user {user}: {admitted}; {heard} were heard of");
        assert!(admitted <= LIMIT + UNHEARD);
    }
    println!("of {LIMIT} and {UNHEARD} that nobody heard of: {worst} at most, for {} users", orphans.len());

    // Started again, it goes on from what the others say. Whoever counted meanwhile did so on four fifths of the limit, and has left
    // of it what it has left of those.
    story.nodes.start_node(victim);
    story.nodes.know_each_other();
    let again = story.exhaust();
    println!("{again} admitted after it was started again");
    for &user in &orphans {
        let most = LIMIT + UNHEARD;
        assert!(story.all.of(user) <= most, "user {user}: {}", story.all.of(user));
    }
    // What it had not told the store is lost with it, heard of or not.
    story.nodes.redis.restart();
    story.nodes.are("normal");
    story.nodes.settle();
    let after = story.exhaust();
    println!("{after} admitted after the store was back");
    others.iter().for_each(|user| story.has_the_limit(*user));
    for &user in &orphans {
        let lost = heard.of(user) - story.known.of(user) + UNHEARD;
        assert!(story.all.of(user) <= LIMIT + lost, "user {user}: {}; {lost} were lost", story.all.of(user));
    }
}

#[test]
fn a_node_that_leaves_takes_nothing_with_it() {
    let mut story = Story::begin(30);
    let leaver = story.busiest();
    let (moving, _) = story.users(leaver);
    let rest: Vec<usize> = story.nodes.live().into_iter().filter(|node| *node != leaver).collect();
    // All that it counts is heard of.
    story.all.merge(&story.nodes.round(&rest, &moving));
    story.nodes.stop(leaver);
    for &node in &rest {
        wait_for("the node to be gone", || match story.nodes.state(node, leaver).as_deref() {
            None => Some(()),
            Some(state) => {
                assert_eq!(state, "alive", "it was not given up, it left");
                None
            }
        });
    }
    story.exhaust();
    (0..story.owners.len()).for_each(|user| story.has_the_limit(user));
    println!("{} users were counted elsewhere from then on", moving.len());
}

#[test]
fn a_node_that_is_killed_while_it_settles_charges_nobody_twice() {
    const USERS: usize = 300;
    let users: Vec<usize> = (0..USERS).collect();
    let mut nodes = Nodes::start(At::Loopback, NODES, RULES);
    nodes.round(&[0], &users);
    nodes.settle();
    let mut all = nodes.hear(&users, LIMIT);
    nodes.lose_store();
    // Each asks some nodes, some more than others.
    for turn in 0..4 {
        let (some, _): (Vec<usize>, Vec<usize>) = users.iter().partition(|user| **user % 4 >= turn);
        all.merge(&nodes.round(&[turn], &some));
    }
    let victim = 2;
    let owed = nodes.unsettled(victim);
    let unsettled: u64 = nodes.live().into_iter().map(|node| nodes.unsettled(node)).sum();
    nodes.redis.restart();
    let left =
        wait_for("it to settle", || Some(nodes.unsettled(victim)).filter(|left| *left <= owed * 2 / 3));
    nodes.kill(victim);
    println!("killed with {left} of {owed} keys to be settled; {unsettled} in all");
    assert!(left > 0, "it was too late");
    nodes.start_node(victim);
    nodes.know_each_other();
    nodes.are("normal");
    nodes.settle();
    let (mut exact, mut forgotten) = (0, 0);
    for &user in &users {
        let (counted, admitted) = (nodes.counted(victim, user, LIMIT), all.of(user));
        assert!(counted <= all.perhaps(user) && counted <= LIMIT, "user {user}: {counted} of {admitted}");
        exact += usize::from(counted >= admitted);
        forgotten += usize::from(counted < admitted);
    }
    println!("{exact} of {USERS} users were charged all they were admitted, {forgotten} less");
    assert!(forgotten as u64 <= left, "nobody else's debts were lost");
}

//! Five nodes in a network that is cut in two: a limit is exceeded by what is documented, and by nothing more.

use tidegate_testkit::Network;

use crate::support::wait_for;
use crate::together::{At, Nodes, Tally, Told};

const NODES: usize = 5;
const USERS: usize = 30;
const LIMIT: u64 = 30;
const SIDES: [&[usize]; 2] = [&[0, 1], &[2, 3, 4]];

/// A window that does not end during a test.
const RULES: &str =
    "rules: [{rule_id: each, identifier_type: user_id, algorithm: fixed_window, limit: 30, window: 366d}]";

fn users() -> Vec<usize> {
    (0..USERS).collect()
}

/// Both sides ask at the same time until there is nothing left on either.
fn exhaust_both(nodes: &Nodes<'_>) -> [Tally; 2] {
    std::thread::scope(|scope| {
        SIDES.map(|side| scope.spawn(move || nodes.exhaust(side, &users()))).map(|side| side.join().unwrap())
    })
}

#[test]
fn parted_without_the_store_the_side_without_the_owner_has_its_share() {
    let network = Network::new(NODES);
    let _inside = network.enter();
    let nodes = Nodes::start(At::Network(&network), NODES, RULES);

    // All are known before: each has used some, and every node has heard so.
    nodes.round(&nodes.live(), &users());
    nodes.settle();
    let known = nodes.hear(&users(), LIMIT);
    let mut all = known.clone();
    nodes.lose_store();
    let owners = nodes.owners(&users(), &mut all);
    all.merge(&nodes.round(&nodes.live(), &users()));
    let before = all.clone();

    network.part(&SIDES);
    let during = exhaust_both(&nodes);
    for (side, other) in [(0, 1), (1, 0)] {
        nodes.see(SIDES[side], SIDES[side], Some("alive"));
        nodes.see(SIDES[side], SIDES[other], Some("lost"));
    }
    during.iter().for_each(|tally| all.merge(tally));
    let (mut worst, mut whole) = ((0, 0), 0);
    for user in users() {
        let home = SIDES.iter().position(|side| side.contains(&owners[user])).unwrap();
        let others = SIDES[1 - home].len() as u64;
        let (here, there) = (before.of(user) + during[home].of(user), during[1 - home].of(user));
        assert!(here <= LIMIT && all.perhaps(user) >= LIMIT, "user {user}: {here} where the owner is");
        let share = (LIMIT - known.of(user)) * others / NODES as u64;
        assert!((1..=share).contains(&there), "user {user}: {there}, not {share}, where the owner is not");
        assert!(all.of(user) <= LIMIT + LIMIT * others / NODES as u64, "user {user}");
        worst = worst.max((all.of(user), others));
        whole += usize::from(here == LIMIT);
    }
    println!(
        "of {LIMIT}: {} at most, with {} of {NODES} nodes on the side without the owner",
        worst.0, worst.1
    );
    println!("{whole} of {USERS} users had the whole limit where the owner is");

    // Together again, with and without the store, nobody gets any more than the limit, or than they had.
    let parted = all.clone();
    network.heal();
    nodes.know_each_other();
    let healed = nodes.exhaust(&nodes.live(), &users());
    nodes.redis.restart();
    nodes.are("normal");
    nodes.settle();
    let after = nodes.exhaust(&nodes.live(), &users());
    println!("{} admitted once healed, {} once the store was back", healed.total(), after.total());
    [healed, after].iter().for_each(|tally| all.merge(tally));
    for user in users() {
        assert!(all.of(user) <= parted.of(user).max(LIMIT), "user {user}: {}", all.of(user));
        assert_eq!(nodes.counted(user % NODES, user, LIMIT), LIMIT, "user {user}");
    }
}

#[test]
fn parted_with_the_store_nothing_changes() {
    let network = Network::new(NODES);
    let _inside = network.enter();
    let nodes = Nodes::start(At::Network(&network), NODES, RULES);
    let mut all = nodes.round(&nodes.live(), &users());
    network.part(&SIDES);
    all.merge(&nodes.round(&nodes.live(), &users()));
    for (side, other) in [(0, 1), (1, 0)] {
        nodes.see(SIDES[side], SIDES[other], Some("lost"));
    }
    for tally in exhaust_both(&nodes) {
        all.merge(&tally);
    }
    network.heal();
    nodes.know_each_other();
    all.merge(&nodes.exhaust(&nodes.live(), &users()));
    nodes.are("normal");
    let (exact, late): (Vec<usize>, Vec<usize>) =
        users().into_iter().partition(|user| nodes.always_had_store(*user));
    for user in &exact {
        assert_eq!(all.of(*user), LIMIT, "user {user}");
    }
    for user in &late {
        assert!(all.of(*user) <= LIMIT + LIMIT * 3 / 5, "user {user}");
    }
    println!(
        "{} users were admitted {LIMIT} times each; for {} the store was too late once",
        exact.len(),
        late.len()
    );
    assert!(!exact.is_empty());
}

/// One rule refuses in an emergency.
const STRICT: &str = "rules:
  - {rule_id: each, identifier_type: user_id, match: {path_pattern: /}, algorithm: fixed_window, limit: 1000, window: 366d}
  - {rule_id: strict, identifier_type: user_id, match: {path_pattern: /strict}, algorithm: fixed_window, limit: 1000, window: 366d,
     on_store_failure: local_or_deny}";

#[test]
fn a_node_that_is_cut_off_from_all_is_in_an_emergency() {
    let network = Network::new(3);
    let _inside = network.enter();
    let nodes = Nodes::start(At::Network(&network), 3, STRICT);
    ["/", "/strict"].iter().for_each(|resource| is_admitted(&nodes, 2, 0, resource));
    network.cut_off(2);
    nodes.is(2, "emergency");
    let health = nodes.health(2);
    let reasons = health["reasons"].to_string();
    println!("{reasons}");
    assert!(reasons.contains("peers: none has been heard for more than 10s"), "{reasons}");
    // A minute may end meanwhile, once.
    for user in 0..4 {
        let admitted = (0..20).filter(|_| nodes.ask(2, user) == Told::Admitted).count();
        println!("user {user}: {admitted} of 20 in an emergency");
        assert!((1..=6).contains(&admitted), "user {user}: {admitted}");
        assert!((0..5).all(|_| nodes.ask_for(2, user, "/strict") != Told::Admitted));
    }
    // The others do not mind.
    nodes.is(0, "normal");
    is_admitted(&nodes, 0, 0, "/");

    network.heal();
    nodes.know_each_other();
    nodes.are("normal");
    nodes.settle();
    assert_eq!(nodes.health(2)["reasons"], serde_json::json!([]));
    ["/", "/strict"].iter().for_each(|resource| is_admitted(&nodes, 2, 0, resource));
    // There is no cap any more.
    (0..30).for_each(|_| is_admitted(&nodes, 2, 1, "/"));
}

/// A user is admitted, if need be when asking again.
fn is_admitted(nodes: &Nodes<'_>, node: usize, user: usize, resource: &str) {
    wait_for("to be admitted", || match nodes.ask_for(node, user, resource) {
        Told::Admitted => Some(()),
        Told::ComeAgain => None,
        Told::Refused => panic!("user {user} is refused {resource} by node {node}"),
    });
}

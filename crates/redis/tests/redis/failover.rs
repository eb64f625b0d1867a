//! Masters that die, hang or hand over, under load: what is lost, and that it goes on.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{Group, Operation};
use tidegate_redis::RedisStore;
use tidegate_store::{Failure, Outcome, Store};
use tidegate_testkit::{Cluster, Program, Redis, Sentinel, wait};

use crate::load::{LIMIT, Load, SOON, attempt, left, slot_of, tag_of, yearly};
use crate::support::{apply, connect, one, patient, take};

/// How long callers wait. Shorter than any failover by force takes, so that each of them meets with it.
const PATIENCE: Duration = Duration::from_millis(450);

/// How long callers of a Cluster wait: so long that on a busy machine nobody fails whose master is well.
const CLUSTER_PATIENCE: Duration = Duration::from_secs(2);

fn users(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("user-{number}")).collect()
}

fn assert_no_key_stays<'n>(masters: impl IntoIterator<Item = &'n Redis>) {
    for node in masters {
        assert_eq!(node.keys_without_ttl(), Vec::<String>::new(), "{}", node.address());
    }
}

/// A group under load.
struct Watched {
    group: Sentinel,
    store: Arc<RedisStore>,
    users: Vec<String>,
    load: Load,
}

impl Watched {
    async fn start() -> Self {
        let group = Sentinel::start();
        let store = Arc::new(connect(&group.url()).await);
        let users = users(4);
        let load = Load::start(&store, &users, PATIENCE);
        load.wait_until_served(&users);
        Self { group, store, users, load }
    }

    /// What is admitted by now and would survive the master.
    fn replicated(&self) -> Vec<u64> {
        let master = self.group.master();
        let replicas = self.group.nodes().iter().filter(|node| node.info("replication")["role"] == "slave");
        self.load.replicated(&self.users, master, &replicas.collect::<Vec<_>>())
    }

    /// What the old master, which was lost after `safe` was admitted, may have said yes to for nothing, by
    /// user.
    fn acknowledged_since(&self, safe: &[u64]) -> Vec<u64> {
        self.load.admitted(&self.users).iter().zip(safe).map(|(admitted, safe)| admitted - safe).collect()
    }

    /// Ends the load and looks at what everybody got.
    async fn settle(self, most_over: &[u64]) {
        self.load.wait_until_served(&self.users);
        for (settled, most) in self.load.settle(&self.users).await.iter().zip(most_over) {
            settled.assert_over_by_at_most(*most);
        }
        assert_no_key_stays([self.group.master()]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_that_dies_is_followed_by_the_one_the_sentinels_choose() {
    let watched = Watched::start().await;
    let old = watched.group.master();
    let safe = watched.replicated();
    old.kill();
    watched.load.wait_until_failing(&watched.users);
    let most_over = watched.acknowledged_since(&safe);
    watched.group.wait_for_new_master(old);
    watched.settle(&most_over).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_that_hangs_is_replaced_and_not_used_when_it_wakes_up() {
    let watched = Watched::start().await;
    let old = watched.group.master();
    let safe = watched.replicated();
    old.pause();
    watched.load.wait_until_failing(&watched.users);
    let most_over = watched.acknowledged_since(&safe);
    watched.group.wait_for_new_master(old);
    watched.load.wait_until_served(&watched.users);

    old.resume();
    // It still takes itself for a master, and carries out what it was sent before.
    wait::until("the old master has done what it was sent", SOON, || {
        let clients: String = old.query(&["CLIENT", "LIST"]);
        (!clients.contains("cmd=evalsha")).then_some(())
    });
    let calls = old.command_calls("evalsha");
    watched.load.wait_until_served(&watched.users);
    assert_eq!(old.command_calls("evalsha"), calls, "the old master is used again");
    watched.settle(&most_over).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_the_sentinels_are_told_to_replace_is_left_whichever_of_them_leads() {
    let watched = Watched::start().await;
    let mut most_over = vec![0; watched.users.len()];
    // Each of the sentinels leads once: which of them the store hears last must not matter.
    for leader in watched.group.sentinels() {
        let old = watched.group.master();
        let mut safe = Vec::new();
        for user in &watched.users {
            safe.push(LIMIT - left(&*watched.store, user).await);
        }
        watched.replicated();
        wait::until("the sentinel has moved the master", SOON, || {
            let named: (String, u16) = leader.query(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", "mymaster"]);
            let moved = named.1 != old.address().port();
            // Refused while a failover is under way; one that has failed begins again.
            moved.then_some(()).or_else(|| {
                leader.try_query::<()>(&["SENTINEL", "FAILOVER", "mymaster"]).ok();
                None
            })
        });
        let new = watched.group.wait_for_new_master(old);
        watched.load.wait_until_served(&watched.users);
        // Until the sentinels demote it, the old master has in its own books all that it has said yes to.
        assert_eq!(old.info("replication")["role"], "master");
        let last = connect(&format!("redis://{}", old.address())).await;
        for ((user, safe), most) in watched.users.iter().zip(&safe).zip(&mut most_over) {
            *most += LIMIT - left(&last, user).await - safe;
        }
        let calls = old.command_calls("evalsha");
        let before = new.command_calls("evalsha");
        watched.load.wait_until_served(&watched.users);
        assert!(new.command_calls("evalsha") > before);
        assert_eq!(old.command_calls("evalsha"), calls, "the old master is used again");
    }
    watched.settle(&most_over).await;
}

/// A Cluster under load, one of whose masters is going to have trouble.
struct Troubled {
    cluster: Cluster,
    load: Load,
    /// Users of the master in question, and those of the others.
    users: Vec<String>,
    others: Vec<String>,
}

impl Troubled {
    async fn start() -> Self {
        // As it must be set for one master's trouble not to be everybody's.
        let cluster = Cluster::options()
            .node_timeout(Duration::from_secs(2))
            .args(["--cluster-require-full-coverage", "no"])
            .start();
        let store = Arc::new(connect(&cluster.url()).await);
        let mut by_master = [Vec::new(), Vec::new(), Vec::new()];
        for user in users(100) {
            let part = &mut by_master[usize::from(slot_of(&user) / 5_462)];
            if part.len() < 2 {
                part.push(user);
            }
        }
        let [users, others, third] = by_master;
        let others = [others, third].concat();
        let load = Load::start(&store, &[users.clone(), others.clone()].concat(), CLUSTER_PATIENCE);
        load.wait_until_served(&users);
        load.wait_until_served(&others);
        Self { cluster, load, users, others }
    }

    fn slot(&self) -> u16 {
        slot_of(&self.users[0])
    }

    fn master(&self) -> &Redis {
        self.cluster.node_for_slot(self.slot())
    }

    /// What is admitted by now and would survive the master.
    fn replicated(&self) -> Vec<u64> {
        let master = self.master();
        self.load.replicated(&self.users, master, &[self.cluster.replica_of(master)])
    }

    /// Waits until the master in question is out of service for all its users; what it may have said yes to
    /// for nothing since `safe` was admitted, by user.
    fn wait_until_out(&self, safe: &[u64]) -> Vec<u64> {
        self.load.wait_until_failing(&self.users);
        self.load.admitted(&self.users).iter().zip(safe).map(|(admitted, safe)| admitted - safe).collect()
    }

    /// Ends the load and looks at what everybody got. Those of the other masters must not have noticed
    /// anything.
    async fn settle(self, most_over: &[u64]) {
        let Self { cluster, load, users, others } = self;
        load.wait_until_served(&users);
        load.wait_until_served(&others);
        let all = [users, others].concat();
        let settled = load.settle(&all).await;
        let most_over = most_over.iter().copied().chain(std::iter::repeat(0));
        for (index, (settled, most)) in settled.iter().zip(most_over).enumerate() {
            settled.assert_over_by_at_most(most);
            if index >= 2 {
                assert_eq!((settled.books.unavailable, settled.books.unknown), (0, 0), "{settled}");
            }
        }
        assert_no_key_stays(cluster.masters());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_master_that_dies_is_replaced_and_the_others_go_on() {
    let troubled = Troubled::start().await;
    let (old, slot) = (troubled.master(), troubled.slot());
    let safe = troubled.replicated();
    old.kill();
    let most_over = troubled.wait_until_out(&safe);
    troubled.cluster.wait_for_new_master(slot, old);
    troubled.settle(&most_over).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_master_that_hangs_is_replaced_and_not_used_when_it_wakes_up() {
    let troubled = Troubled::start().await;
    let old = troubled.master();
    let safe = troubled.replicated();
    old.pause();
    let most_over = troubled.wait_until_out(&safe);
    troubled.load.wait_until_served(&troubled.users);

    old.resume();
    troubled.load.wait_until_served(&troubled.users);
    troubled.cluster.wait_until_settled();
    assert_ne!(troubled.master().address(), old.address());
    let calls = old.command_calls("evalsha");
    troubled.load.wait_until_served(&troubled.users);
    assert_eq!(old.command_calls("evalsha"), calls, "the old master is used again");
    troubled.settle(&most_over).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_master_that_hands_over_costs_nobody_anything() {
    let troubled = Troubled::start().await;
    for _ in 0..2 {
        troubled.cluster.failover(troubled.slot());
        troubled.load.wait_until_served(&troubled.users);
        troubled.cluster.wait_until_settled();
    }
    let books = troubled.load.books(&troubled.users);
    assert_eq!((books.unavailable, books.unknown), (0, 0), "{books:?}, {:?}", troubled.load.failures());
    troubled.settle(&[0, 0]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_script_that_is_forgotten_is_loaded_again_before_anybody_notices() {
    let redis = Redis::start();
    let store = Arc::new(connect(&redis.url()).await);
    let users = users(3);
    let load = Load::start(&store, &users, CLUSTER_PATIENCE);
    for _ in 0..5 {
        load.wait_until_served(&users);
        redis.query::<()>(&["SCRIPT", "FLUSH"]);
    }
    load.wait_until_served(&users);
    for settled in load.settle(&users).await {
        assert_eq!((settled.books.unavailable, settled.books.unknown), (0, 0), "{settled}");
        settled.assert_over_by_at_most(0);
    }
    assert_eq!(redis.keys_without_ttl(), Vec::<String>::new());
}

/// Rules whose keys for one user are all in one slot.
const RULES: [&str; 12] = ["r0", "r1", "r2", "r3", "r4", "r5", "r6", "r7", "r8", "r9", "r10", "r11"];

/// One take under each of the rules, all at once, and that all of them are allowed.
async fn take_each(store: &RedisStore, user: &str, rules: &[&str], taken: &mut u64) {
    let groups: Vec<Group<'_>> =
        rules.iter().map(|rule| [take(rule, user, yearly(), 1)].into_iter().collect()).collect();
    for (rule, outcomes) in rules.iter().zip(store.apply(&groups, patient()).await) {
        let allowed = outcomes[0].verdict().is_some_and(|verdict| verdict.allowed);
        assert!(allowed, "{rule}: {:?}", outcomes[0]);
    }
    *taken += 1;
}

async fn assert_taken(store: &RedisStore, user: &str, rules: &[&str], taken: u64) {
    let mut found = Vec::new();
    for rule in rules {
        found.push(LIMIT - one(store, take(rule, user, yearly(), 0)).await.remaining);
    }
    assert_eq!(found, vec![taken; rules.len()], "{rules:?}");
}

async fn a_slot_moves_under_traffic(program: Program) {
    let cluster = Cluster::options().program(program).start();
    let store = connect(&cluster.url()).await;
    let (user, slot) = ("mover", slot_of("mover"));
    assert_eq!(cluster.slot_of(&tag_of(user)), slot);
    let from = cluster.node_for_slot(slot);
    let to = *cluster.masters().iter().find(|node| node.address() != from.address()).unwrap();
    let (old, new) = RULES.split_at(8);
    let (mut of_old, mut of_new) = (0, 0);
    take_each(&store, user, old, &mut of_old).await;

    let migration = cluster.start_migration(slot, to);
    take_each(&store, user, &RULES[..8], &mut of_old).await;
    while migration.move_keys(2) > 0 {
        // Some of the keys are here, some there: each is counted where it is.
        take_each(&store, user, old, &mut of_old).await;
    }
    // Keys that are new are begun where the slot is going.
    for _ in 0..3 {
        take_each(&store, user, new, &mut of_new).await;
        take_each(&store, user, old, &mut of_old).await;
    }
    migration.finish();
    take_each(&store, user, old, &mut of_old).await;
    take_each(&store, user, new, &mut of_new).await;
    assert_taken(&store, user, old, of_old).await;
    assert_taken(&store, user, new, of_new).await;
    assert_no_key_stays(cluster.masters());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_that_moves_loses_nothing_and_holds_up_nobody() {
    a_slot_moves_under_traffic(Program::Debian).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_that_moves_in_redis_6_2_loses_nothing_and_holds_up_nobody() {
    a_slot_moves_under_traffic(Program::Redis62).await;
}

/// Takes under two rules together.
fn pair<'r>(rules: [&'r str; 2], user: &str) -> [Operation<'r>; 2] {
    rules.map(|rule| take(rule, user, yearly(), 1))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_whose_keys_are_apart_waits_until_they_are_together() {
    let cluster = Cluster::start();
    let store = Arc::new(connect(&cluster.url()).await);
    let (user, slot) = ("couple", slot_of("couple"));
    let from = cluster.node_for_slot(slot);
    let to = *cluster.masters().iter().find(|node| node.address() != from.address()).unwrap();
    let known = ["left", "right"];
    assert!(apply(&*store, &pair(known, user)).await.iter().all(|outcome| outcome.verdict().is_some()));

    let migration = cluster.start_migration(slot, to);
    assert_eq!(migration.move_keys(1), 1);
    let short = Duration::from_millis(100);
    let undecided = |outcome: &Outcome| {
        let (Outcome::Unavailable(why) | Outcome::Unknown(why)) = outcome else { return false };
        matches!(why, Failure::NotReady | Failure::Deadline)
    };
    // A couple that has never been seen has no place yet.
    for couple in [known, ["new-left", "new-right"]] {
        let torn = attempt(&*store, &pair(couple, user), short).await;
        assert!(torn.iter().all(undecided), "{torn:?}");
    }
    assert_taken(&store, user, &known, 1).await;

    let waiting = tokio::spawn({
        let store = Arc::clone(&store);
        async move { apply(&*store, &pair(known, "couple")).await }
    });
    let asked = || from.info("errorstats").get("errorstat_TRYAGAIN").cloned();
    let before = asked();
    wait::until("the group has been sent back", SOON, || (asked() != before).then_some(()));
    assert_eq!(migration.move_keys(1), 1);
    let outcomes = waiting.await.unwrap();
    assert!(outcomes.iter().all(|outcome| outcome.verdict().is_some()), "{outcomes:?}");
    migration.finish();
    for couple in [known, ["new-left", "new-right"]] {
        let outcomes = apply(&*store, &pair(couple, user)).await;
        assert!(outcomes.iter().all(|outcome| outcome.verdict().is_some()), "{outcomes:?}");
    }
    assert_taken(&store, user, &known, 3).await;
    assert_taken(&store, user, &["new-left", "new-right"], 1).await;
    assert_no_key_stays(cluster.masters());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_may_move_to_a_master_that_had_none() {
    let cluster = Cluster::start();
    let store = connect(&cluster.url()).await;
    let (user, slot) = ("pioneer", slot_of("pioneer"));
    let mut taken = 0;
    take_each(&store, user, &RULES, &mut taken).await;
    let (from, masters) = (cluster.node_for_slot(slot), cluster.masters());
    let newcomer =
        Redis::options().args(["--cluster-enabled", "yes", "--cluster-node-timeout", "15000"]).start();
    let port = from.address().port().to_string();
    newcomer.query::<()>(&["CLUSTER", "MEET", "127.0.0.1", &port]);
    let id: String = from.query(&["CLUSTER", "MYID"]);
    wait::until("the newcomer and the master know each other", SOON, || {
        let newcomer_id: String = newcomer.query(&["CLUSTER", "MYID"]);
        let knows = |node: &Redis, id: &str| {
            let nodes: String = node.query(&["CLUSTER", "NODES"]);
            nodes.lines().any(|line| line.starts_with(id) && !line.contains("handshake"))
        };
        let ready = newcomer.query::<String>(&["CLUSTER", "INFO"]).contains("cluster_state:ok");
        (ready && knows(from, &newcomer_id) && knows(&newcomer, &id)).then_some(())
    });
    let migration = cluster.start_migration(slot, &newcomer);
    while migration.move_keys(3) > 0 {
        take_each(&store, user, &RULES, &mut taken).await;
    }
    let newcomer_id: String = newcomer.query(&["CLUSTER", "MYID"]);
    for node in [&newcomer, from] {
        node.query::<()>(&["CLUSTER", "SETSLOT", &slot.to_string(), "NODE", &newcomer_id]);
    }
    take_each(&store, user, &RULES, &mut taken).await;
    assert_taken(&store, user, &RULES, taken).await;
    // Each connection is taught both scripts.
    let connections = newcomer.command_calls("script|load") / 2;
    assert_eq!(connections, 1, "connections to one new master");
    assert_no_key_stays(masters.into_iter().chain([&newcomer]));
}

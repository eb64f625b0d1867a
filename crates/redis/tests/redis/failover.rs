//! Masters that die, hang or hand over, under load: what is lost, and that it goes on.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::Action;
use tidegate_redis::RedisStore;
use tidegate_testkit::{Cluster, Redis, Sentinel, wait};

use crate::load::{LIMIT, Load, SOON, left, slot_of, yearly};
use crate::support::{connect, one, take};

/// How long callers wait. Shorter than any failover by force takes, so that each of them meets with it.
const PATIENCE: Duration = Duration::from_millis(450);

/// How long callers of a Cluster wait: so long that on a busy machine nobody fails whose master is well.
const CLUSTER_PATIENCE: Duration = Duration::from_secs(2);

fn users(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("user-{number}")).collect()
}

fn assert_no_key_stays(nodes: &[Redis]) {
    for node in nodes.iter().filter(|node| node.is_running()) {
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

    /// What the old master, which was lost after `safe` was admitted, may have said yes to for nothing, by user.
    fn acknowledged_since(&self, safe: &[u64]) -> Vec<u64> {
        self.load.admitted(&self.users).iter().zip(safe).map(|(admitted, safe)| admitted - safe).collect()
    }

    /// Ends the load and looks at what everybody got.
    async fn settle(self, most_over: &[u64]) {
        self.load.wait_until_served(&self.users);
        for (settled, most) in self.load.settle(&self.users).await.iter().zip(most_over) {
            settled.assert_over_by_at_most(*most);
        }
        assert_no_key_stays(self.group.nodes());
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
        wait::until("the sentinel starts the failover", SOON, || {
            leader.try_query::<()>(&["SENTINEL", "FAILOVER", "mymaster"]).ok()
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

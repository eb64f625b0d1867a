//! A Redis cluster.

mod build;
mod migration;
mod topology;

use std::time::Duration;

use self::topology::{Member, View};
use crate::redis::Redis;
use crate::{Program, wait};

pub use self::build::ClusterOptions;
pub use self::migration::Migration;

/// Long enough for an election that has to be held twice.
const SETTLE: Duration = crate::wait::HANG_LIMIT;

/// Three masters that share all slots, and a replica of each.
///
/// Nodes can be paused, killed and restarted one by one; a restarted node is empty and knows its cluster.
#[derive(Debug)]
pub struct Cluster {
    nodes: Vec<Redis>,
}

impl Cluster {
    /// Starts a cluster of Debian's servers, in some three seconds.
    ///
    /// # Panics
    /// If any node does not start, or they do not find each other.
    #[must_use]
    pub fn start() -> Self {
        Self::options().start()
    }

    /// For a cluster that needs saying more about.
    #[must_use]
    pub fn options() -> ClusterOptions {
        ClusterOptions {
            program: Program::default(),
            args: Vec::new(),
            password: None,
            // On a busy machine a node may not run for a while; only tests of failures want that to be one.
            node_timeout: Duration::from_secs(15),
        }
    }

    /// The addresses of the first masters as a URL, to find all others from.
    #[must_use]
    pub fn url(&self) -> String {
        let seeds = self.nodes.iter().take(build::MASTERS);
        let addresses: Vec<String> = seeds.map(|node| node.address().to_string()).collect();
        format!("redis+cluster://{}", addresses.join(","))
    }

    /// All nodes; the first three were the masters at the start.
    #[must_use]
    pub fn nodes(&self) -> &[Redis] {
        &self.nodes
    }

    /// The nodes that have slots at this moment.
    ///
    /// # Panics
    /// If no node answers.
    #[must_use]
    #[track_caller]
    pub fn masters(&self) -> Vec<&Redis> {
        let view = self.view();
        view.members().filter(|member| !member.slots.is_empty()).map(|member| self.node(member)).collect()
    }

    /// The slot of a key.
    #[must_use]
    #[track_caller]
    pub fn slot_of(&self, key: &str) -> u16 {
        let slot = self.nodes.iter().find_map(|node| node.ask(&["CLUSTER", "KEYSLOT", key]));
        slot.expect("a node answers")
    }

    /// The node that has a slot at this moment.
    ///
    /// # Panics
    /// If no node answers, or none has the slot.
    #[must_use]
    #[track_caller]
    pub fn node_for_slot(&self, slot: u16) -> &Redis {
        self.node(self.view().owner(slot).expect("a node has the slot"))
    }

    /// The first running replica of a master at this moment.
    ///
    /// # Panics
    /// If it has none.
    #[must_use]
    #[track_caller]
    pub fn replica_of(&self, master: &Redis) -> &Redis {
        let view = self.view();
        let id = &view.at(master.address().port()).expect("the node is of this cluster").id;
        let replicas = view.members().filter(|member| member.master.as_ref() == Some(id));
        replicas
            .map(|member| self.node(member))
            .find(|node| node.is_running())
            .expect("the master has a replica")
    }

    /// Moves the role of a slot's master to its replica without losing anything, and returns the new master.
    pub fn failover(&self, slot: u16) -> &Redis {
        let old = self.node_for_slot(slot);
        let replica = self.replica_of(old);
        replica.query::<()>(&["CLUSTER", "FAILOVER"]);
        self.wait_for_new_master(slot, old)
    }

    /// Waits until the cluster has elected another master for a slot, and all agree on it.
    ///
    /// # Panics
    /// If that does not happen within half a minute.
    pub fn wait_for_new_master(&self, slot: u16, old: &Redis) -> &Redis {
        wait::until("the cluster has a new master for the slot", SETTLE, || {
            let settled = self.settled_view()?;
            let new = self.node(settled.owner(slot)?);
            (new.address() != old.address()).then_some(new)
        })
    }

    /// Waits until all nodes that run agree on who has what, serve it, and replicas follow their masters.
    ///
    /// # Panics
    /// If that does not happen within half a minute.
    pub fn wait_until_settled(&self) {
        wait::until("the cluster has settled", SETTLE, || self.settled_view());
    }

    fn settled_view(&self) -> Option<View> {
        let running = || self.nodes.iter().filter(|node| node.is_running());
        if !running().all(is_serving) {
            return None;
        }
        let views: Vec<View> = running().map(view_of).collect::<Option<_>>()?;
        let first = views.first()?;
        let all_known = first.roles().len() == views.len();
        let agreed = views.iter().all(|view| view.roles() == first.roles());
        (all_known && agreed && first.epochs_differ()).then(|| first.clone())
    }

    #[track_caller]
    fn view(&self) -> View {
        self.nodes.iter().find_map(view_of).expect("a node answers")
    }

    #[track_caller]
    fn node(&self, member: &Member) -> &Redis {
        let found = self.nodes.iter().find(|node| node.address().port() == member.port);
        found.expect("the cluster has only nodes of ours")
    }
}

fn view_of(node: &Redis) -> Option<View> {
    node.ask::<String>(&["CLUSTER", "NODES"]).map(|nodes| View::parse(&nodes))
}

fn is_serving(node: &Redis) -> bool {
    let info = |command: &[&str]| node.ask::<String>(command).unwrap_or_default();
    info(&["CLUSTER", "INFO"]).contains("cluster_state:ok")
        && !info(&["INFO", "replication"]).contains("master_link_status:down")
}

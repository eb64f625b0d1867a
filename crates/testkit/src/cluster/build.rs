//! From six servers to a cluster.

use std::time::Duration;

use super::{Cluster, SETTLE};
use crate::ports::Port;
use crate::redis::Redis;
use crate::start::{StartError, retry_ports};
use crate::{Program, wait};

pub(super) const MASTERS: usize = 3;
const SLOTS: usize = 16_384;

/// How a [`Cluster`] is to be started.
#[derive(Debug, Clone)]
pub struct ClusterOptions {
    pub(super) program: Program,
    pub(super) args: Vec<String>,
    pub(super) password: Option<String>,
    pub(super) node_timeout: Duration,
}

impl ClusterOptions {
    /// Which server; Debian's unless said otherwise.
    #[must_use]
    pub fn program(mut self, program: Program) -> Self {
        self.program = program;
        self
    }

    /// Adds arguments for all nodes.
    #[must_use]
    pub fn args(mut self, args: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Requires this password of clients, and has the nodes use it among themselves. It is not in the URL.
    #[must_use]
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.into());
        self
    }

    /// How long a node has to be silent to be called down; 15 seconds unless said otherwise.
    #[must_use]
    pub fn node_timeout(mut self, silence: Duration) -> Self {
        self.node_timeout = silence;
        self
    }

    /// Starts the cluster. This takes more than two seconds: so long nodes wait before they believe in their
    /// cluster.
    ///
    /// # Panics
    /// If any node does not start, or they do not find each other.
    #[must_use]
    pub fn start(&self) -> Cluster {
        let cluster = Cluster { nodes: retry_ports(|| self.start_nodes()) };
        give_out_slots(&cluster.nodes);
        introduce(&cluster.nodes);
        for (index, replica) in cluster.nodes.iter().enumerate().skip(MASTERS) {
            follow(replica, &cluster.nodes[index - MASTERS]);
        }
        cluster.wait_until_settled();
        cluster
    }

    fn start_nodes(&self) -> Result<Vec<Redis>, StartError> {
        let timeout = self.node_timeout.as_millis().to_string();
        let own = ["--cluster-enabled", "yes", "--cluster-node-timeout", &timeout];
        // Whoever asks for the data gets it at once, and from memory.
        let quick = ["--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "0"];
        let options =
            Redis::options().program(self.program).args(own).args(quick).args(self.args.iter().cloned());
        let options = self.password.iter().fold(options, |options, password| options.password(password));
        (0..2 * MASTERS).map(|_| options.start_on(Port::claim())).collect()
    }
}

fn give_out_slots(nodes: &[Redis]) {
    let slots: Vec<String> = (0..SLOTS).map(|slot| slot.to_string()).collect();
    for (index, node) in nodes.iter().enumerate() {
        // Nodes that start out with one epoch would first have to settle whose is whose, those without slots, too.
        node.query::<()>(&["CLUSTER", "SET-CONFIG-EPOCH", &(index + 1).to_string()]);
    }
    for (node, share) in nodes.iter().zip(slots.chunks(SLOTS.div_ceil(MASTERS))) {
        let command: Vec<&str> =
            ["CLUSTER", "ADDSLOTS"].into_iter().chain(share.iter().map(String::as_str)).collect();
        node.query::<()>(&command);
    }
}

/// Introduces each node to each other: waiting for the word to get around takes longer.
fn introduce(nodes: &[Redis]) {
    for (index, node) in nodes.iter().enumerate() {
        for other in &nodes[index + 1..] {
            node.query::<()>(&["CLUSTER", "MEET", "127.0.0.1", &other.address().port().to_string()]);
        }
    }
}

fn follow(replica: &Redis, master: &Redis) {
    let id: String = master.query(&["CLUSTER", "MYID"]);
    // Refused until the two have met.
    wait::until("a replica knows its master", SETTLE, || {
        replica.try_query::<()>(&["CLUSTER", "REPLICATE", &id]).ok()
    });
}

//! A master and its replicas, watched by sentinels.

mod build;

use std::collections::HashMap;
use std::time::Duration;

use self::build::{NODES, SENTINELS};
use crate::redis::Redis;
use crate::{Program, wait};

pub use self::build::SentinelOptions;

/// What the sentinels call the master.
const NAME: &str = "mymaster";

/// Long enough for a failover that has to be tried twice, by sentinels that do nothing for half a minute
/// because they have noticed that the machine stood still.
const SETTLE: Duration = crate::wait::HANG_LIMIT;

/// A master, two replicas and three sentinels, two of which must agree.
///
/// Nodes can be paused, killed and restarted one by one; the sentinels do what they do.
#[derive(Debug)]
pub struct Sentinel {
    // Gone first, so that they do not act on the nodes going.
    sentinels: Vec<Redis>,
    nodes: Vec<Redis>,
}

impl Sentinel {
    /// Starts a group of Debian's servers.
    ///
    /// # Panics
    /// If any part of it does not start, or they do not find each other.
    #[must_use]
    pub fn start() -> Self {
        Self::options().start()
    }

    /// For a group that needs saying more about.
    #[must_use]
    pub fn options() -> SentinelOptions {
        SentinelOptions {
            program: Program::default(),
            args: Vec::new(),
            password: None,
            down_after: Duration::from_millis(500),
            failover_timeout: Duration::from_secs(3),
        }
    }

    /// The sentinels' addresses and the master's name as a URL.
    #[must_use]
    pub fn url(&self) -> String {
        let addresses: Vec<String> =
            self.sentinels.iter().map(|sentinel| sentinel.address().to_string()).collect();
        format!("redis+sentinel://{}/{NAME}", addresses.join(","))
    }

    /// Master and replicas, whoever is which.
    #[must_use]
    pub fn nodes(&self) -> &[Redis] {
        &self.nodes
    }

    /// The sentinels.
    #[must_use]
    pub fn sentinels(&self) -> &[Redis] {
        &self.sentinels
    }

    /// The node that the sentinels call the master at this moment.
    ///
    /// # Panics
    /// If no sentinel answers.
    #[must_use]
    #[track_caller]
    pub fn master(&self) -> &Redis {
        self.sentinels.iter().find_map(|sentinel| self.named_by(sentinel)).expect("a sentinel answers")
    }

    /// Makes the sentinels move the role of the master to a replica, and waits for the new master.
    ///
    /// The old one goes on as a second master until a sentinel demotes it, some ten seconds later: whatever
    /// is written to it until then is lost.
    pub fn failover(&self) -> &Redis {
        let old = self.master();
        let command = ["SENTINEL", "FAILOVER", NAME];
        // Refused while a sentinel has not yet looked at the replicas closely.
        wait::until("a sentinel starts the failover", SETTLE, || {
            self.sentinels.iter().find_map(|sentinel| sentinel.ask::<()>(&command))
        });
        self.wait_for_new_master(old)
    }

    /// Waits until all sentinels that run agree on another master, and it knows that it is.
    ///
    /// # Panics
    /// If that does not happen within a minute.
    pub fn wait_for_new_master(&self, old: &Redis) -> &Redis {
        wait::until("the sentinels agree on a new master", SETTLE, || {
            let running = self.sentinels.iter().filter(|sentinel| sentinel.is_running());
            let named: Option<Vec<&Redis>> = running.map(|sentinel| self.named_by(sentinel)).collect();
            let (first, others) = named.as_deref()?.split_first()?;
            let agreed = others.iter().all(|other| other.address() == first.address());
            (agreed && first.address() != old.address() && is_master(first)).then_some(*first)
        })
    }

    fn named_by(&self, sentinel: &Redis) -> Option<&Redis> {
        let (_, port): (String, u16) = sentinel.ask(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME])?;
        self.nodes.iter().find(|node| node.address().port() == port)
    }

    fn is_complete(&self) -> bool {
        self.sentinels.iter().all(|sentinel| {
            let healthy = |subject: &str, count: usize, flags: &str| {
                let seen: Vec<HashMap<String, String>> =
                    sentinel.ask(&["SENTINEL", subject, NAME]).unwrap_or_default();
                seen.len() == count && seen.iter().all(|each| each.get("flags").is_some_and(|f| f == flags))
            };
            healthy("SENTINELS", SENTINELS - 1, "sentinel")
                && healthy("REPLICAS", NODES - 1, "slave")
                && sentinel.ask::<()>(&["SENTINEL", "CKQUORUM", NAME]).is_some()
        })
    }
}

fn is_master(node: &Redis) -> bool {
    node.ask::<String>(&["INFO", "replication"]).is_some_and(|info| info.contains("role:master"))
}

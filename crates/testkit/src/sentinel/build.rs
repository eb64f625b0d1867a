//! From six servers to a watched group.

use std::time::Duration;

use super::{NAME, SETTLE, Sentinel};
use crate::ports::Port;
use crate::redis::{Redis, RedisOptions};
use crate::start::{StartError, retry_ports};
use crate::{Program, wait};

pub(super) const NODES: usize = 3;
pub(super) const SENTINELS: usize = 3;

/// How a [`Sentinel`] group is to be started.
#[derive(Debug, Clone)]
pub struct SentinelOptions {
    pub(super) program: Program,
    pub(super) args: Vec<String>,
    pub(super) password: Option<String>,
    pub(super) down_after: Duration,
    pub(super) failover_timeout: Duration,
}

impl SentinelOptions {
    /// Which server; Debian's unless said otherwise.
    #[must_use]
    pub fn program(mut self, program: Program) -> Self {
        self.program = program;
        self
    }

    /// Adds arguments for the master and the replicas.
    #[must_use]
    pub fn args(mut self, args: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Requires this password of clients, and has the nodes use it among themselves. Sentinels ask for none.
    #[must_use]
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.into());
        self
    }

    /// How long a node has to be silent for a sentinel to call it down; half a second unless said otherwise.
    #[must_use]
    pub fn down_after(mut self, silence: Duration) -> Self {
        self.down_after = silence;
        self
    }

    /// How long a failover may take before another one is tried; three seconds unless said otherwise.
    #[must_use]
    pub fn failover_timeout(mut self, timeout: Duration) -> Self {
        self.failover_timeout = timeout;
        self
    }

    /// Starts the group.
    ///
    /// # Panics
    /// If any part of it does not start, or they do not find each other.
    #[must_use]
    pub fn start(&self) -> Sentinel {
        let group = retry_ports(|| self.try_start());
        wait::until("all sentinels see the whole group", SETTLE, || group.is_complete().then_some(()));
        group
    }

    fn try_start(&self) -> Result<Sentinel, StartError> {
        let master = self.node().start_on(Port::claim())?;
        let replica_of = ["--replicaof".into(), "127.0.0.1".into(), master.address().port().to_string()];
        let replica = self.node().args(replica_of);
        let mut nodes = vec![master];
        for _ in 1..NODES {
            nodes.push(replica.start_on(Port::claim())?);
        }
        for replica in &nodes[1..] {
            wait::until("the replicas follow the master", SETTLE, || follows(replica).then_some(()));
        }
        let sentinels = self.start_sentinels(&nodes)?;
        Ok(Sentinel { sentinels, nodes })
    }

    fn node(&self) -> RedisOptions {
        // Whoever asks for the data gets it at once, and from memory.
        let quick = ["--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "0"];
        let options = Redis::options().program(self.program).args(quick).args(self.args.iter().cloned());
        self.password.iter().fold(options, |options, password| options.password(password))
    }

    fn start_sentinels(&self, nodes: &[Redis]) -> Result<Vec<Redis>, StartError> {
        let ports: Vec<Port> = (0..SENTINELS).map(|_| Port::claim()).collect();
        let numbers: Vec<u16> = ports.iter().map(Port::number).collect();
        let start = |port: Port| {
            let config = self.config(port.number(), &numbers, nodes);
            Redis::options().program(self.program).config(config).args(["--sentinel"]).start_on(port)
        };
        ports.into_iter().map(start).collect()
    }

    /// Tells each sentinel about all others and all replicas, which it would otherwise find within some
    /// seconds.
    fn config(&self, own: u16, sentinels: &[u16], nodes: &[Redis]) -> String {
        let port = |node: &Redis| node.address().port();
        let mut lines = vec![
            format!("sentinel myid {}", sentinel_id(own)),
            format!("sentinel monitor {NAME} 127.0.0.1 {} 2", port(&nodes[0])),
            format!("sentinel down-after-milliseconds {NAME} {}", self.down_after.as_millis()),
            format!("sentinel failover-timeout {NAME} {}", self.failover_timeout.as_millis()),
            format!("sentinel parallel-syncs {NAME} 1"),
        ];
        lines.extend(self.password.iter().map(|password| format!("sentinel auth-pass {NAME} {password}")));
        let replicas = nodes[1..].iter().map(port);
        lines.extend(replicas.map(|port| format!("sentinel known-replica {NAME} 127.0.0.1 {port}")));
        let others = sentinels.iter().filter(|port| **port != own);
        lines.extend(
            others.map(|port| {
                format!("sentinel known-sentinel {NAME} 127.0.0.1 {port} {}", sentinel_id(*port))
            }),
        );
        lines.join("\n") + "\n"
    }
}

fn sentinel_id(port: u16) -> String {
    format!("{port:040x}")
}

fn follows(replica: &Redis) -> bool {
    replica.info("replication").get("master_link_status").is_some_and(|status| status == "up")
}

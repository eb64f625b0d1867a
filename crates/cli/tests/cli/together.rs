//! Nodes that know each other, with a store that can be taken from them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::Mutex;
use std::thread;
use std::time::Instant;

use serde_json::{Value, json};
use tempfile::TempDir;
use tidegate_testkit::{Network, Redis, Wire};

use crate::support::{Server, wait_for};

/// Where nodes talk to each other in a network of their own.
const CLUSTER_PORT: u16 = 8083;

/// Where nodes are.
#[derive(Clone, Copy)]
pub(crate) enum At<'n> {
    /// All on loopback.
    Loopback,
    /// Each in a namespace of its own. Whoever talks to them has to be there.
    Network(&'n Network),
}

/// What a user was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    Admitted,
    /// The limit is used up.
    Refused,
    /// Nobody can say now: to be tried again after a second.
    ComeAgain,
}

/// How often each user was told what.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) admitted: BTreeMap<usize, u64>,
    pub(crate) refused: u64,
    /// Whoever was told to come again may have been counted: then the answer got lost.
    again: BTreeMap<usize, u64>,
}

impl Tally {
    pub(crate) fn of(&self, user: usize) -> u64 {
        self.admitted.get(&user).copied().unwrap_or_default()
    }

    /// How often a user was admitted, or may have been counted and not told so.
    pub(crate) fn perhaps(&self, user: usize) -> u64 {
        self.of(user) + self.again.get(&user).copied().unwrap_or_default()
    }

    pub(crate) fn come_again(&self) -> u64 {
        self.again.values().sum()
    }

    pub(crate) fn total(&self) -> u64 {
        self.admitted.values().sum()
    }

    pub(crate) fn add(&mut self, user: usize, told: Told) {
        match told {
            Told::Admitted => *self.admitted.entry(user).or_default() += 1,
            Told::Refused => self.refused += 1,
            Told::ComeAgain => *self.again.entry(user).or_default() += 1,
        }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        for (into, from) in [(&mut self.admitted, &other.admitted), (&mut self.again, &other.again)] {
            from.iter().for_each(|(user, count)| *into.entry(*user).or_default() += count);
        }
        self.refused += other.refused;
    }
}

/// Nodes that know each other. Their store keeps what it knows when it is killed.
pub(crate) struct Nodes<'n> {
    servers: Vec<Option<Server>>,
    pub(crate) redis: Redis,
    /// Where each is reached by the others.
    addresses: Vec<String>,
    at: At<'n>,
    folder: TempDir,
    /// Users about whom something was decided without the store.
    local: Mutex<BTreeSet<usize>>,
}

impl<'n> Nodes<'n> {
    /// Starts them, and waits until all know each other and the store.
    pub(crate) fn start(at: At<'n>, count: usize, rules: &str) -> Self {
        // Written before it answers, so that a crash loses nothing.
        let redis = Redis::options().args(["--appendonly", "yes", "--appendfsync", "no"]);
        let redis = match at {
            At::Loopback => redis,
            At::Network(network) => redis.inside(network.hub(), network.shared_address()),
        };
        let (redis, folder) = (redis.start(), tempfile::tempdir().unwrap());
        fs::write(folder.path().join("rules.yaml"), rules).unwrap();
        fs::write(folder.path().join("secret"), "c".repeat(44)).unwrap();
        let mut nodes =
            Self { servers: Vec::new(), redis, addresses: Vec::new(), at, folder, local: Mutex::default() };
        for node in 0..count {
            let address = match at {
                At::Loopback => "127.0.0.1:0".to_owned(),
                At::Network(network) => format!("{}:{CLUSTER_PORT}", network.address(node, Wire::Peers)),
            };
            nodes.addresses.push(address);
            nodes.servers.push(None);
            nodes.start_node(node);
        }
        nodes.know_each_other();
        nodes.are("normal");
        nodes
    }

    /// Starts one of them, under its name.
    pub(crate) fn start_node(&mut self, node: usize) {
        let file = |name: &str| self.folder.path().join(name).to_str().unwrap().to_owned();
        let (rules, secret, url) = (file("rules.yaml"), file("secret"), self.redis.url());
        let others = self.addresses.iter().filter(|address| !address.ends_with(":0"));
        let (peers, name) = (others.cloned().collect::<Vec<_>>().join(","), format!("node-{node}"));
        // A port that any may have got meanwhile is not tried again.
        let listen = match self.at {
            At::Loopback => "127.0.0.1:0",
            At::Network(_) => &self.addresses[node],
        };
        let mut args = vec!["--store", &url, "--rules", &rules, "--cluster", listen, "--node-name", &name];
        args.extend(["--cluster-secret", &secret, "--store-timeout", "50ms", "--degraded-after", "200ms"]);
        args.extend(["--emergency-cap", "3"]);
        if !peers.is_empty() {
            args.extend(["--peers", &peers]);
        }
        let server = match self.at {
            At::Loopback => Server::start(&args),
            At::Network(network) => {
                let _inside = network.node(node).enter();
                args.extend(["--allow-networks", Network::ALL]);
                Server::start_at(&network.address(node, Wire::Test).to_string(), &args, |command| command)
            }
        };
        self.servers[node] = Some(server);
        self.addresses[node] = self.cluster(node)["address"].as_str().unwrap().to_owned();
    }

    /// Kills the store, and waits until nobody thinks that anybody has it.
    pub(crate) fn lose_store(&self) {
        self.redis.kill();
        for node in self.live() {
            wait_for("all to have lost the store", || {
                let cluster = self.cluster(node);
                let mut members = cluster["members"].as_array().unwrap().iter().chain([&cluster]);
                members.all(|member| member["has_store"] == false).then_some(())
            });
        }
    }

    /// Those that run.
    pub(crate) fn live(&self) -> Vec<usize> {
        (0..self.servers.len()).filter(|node| self.servers[*node].is_some()).collect()
    }

    pub(crate) fn server(&self, node: usize) -> &Server {
        self.servers[node].as_ref().unwrap()
    }

    /// Ends a node as a crash does.
    pub(crate) fn kill(&mut self, node: usize) {
        // Dropped, it is killed and waited for.
        self.servers[node] = None;
    }

    /// Ends a node as an operator does.
    pub(crate) fn stop(&mut self, node: usize) {
        let mut server = self.servers[node].take().unwrap();
        server.signal("TERM");
        assert_eq!(server.wait(), 0, "{}", server.log());
    }

    fn json(&self, node: usize, path: &str) -> Value {
        let (status, text) = self.server(node).admin(path);
        assert_eq!(status, 200, "{path}: {text}");
        serde_json::from_str(&text).unwrap()
    }

    /// What a node knows of the others.
    pub(crate) fn cluster(&self, node: usize) -> Value {
        self.json(node, "/v1/cluster")
    }

    /// How a node is doing, and why.
    pub(crate) fn health(&self, node: usize) -> Value {
        serde_json::from_str(&self.server(node).admin("/health").1).unwrap()
    }

    /// Another node's state, as a node sees it; nothing if it knows of no such.
    pub(crate) fn state(&self, seen_by: usize, node: usize) -> Option<String> {
        let (cluster, name) = (self.cluster(seen_by), format!("node-{node}"));
        let members = cluster["members"].as_array().unwrap();
        let member = members.iter().find(|member| member["name"] == name.as_str())?;
        Some(member["state"].as_str().unwrap().to_owned())
    }

    /// Waits until each of some nodes sees each of some others in a state.
    pub(crate) fn see(&self, nodes: &[usize], others: &[usize], state: Option<&str>) {
        for (&node, &other) in nodes.iter().flat_map(|node| others.iter().map(move |other| (node, other))) {
            if node != other {
                wait_for(&format!("node {node} to see node {other} as {state:?}"), || {
                    (self.state(node, other).as_deref() == state).then_some(())
                });
            }
        }
    }

    /// Waits until all that run have found each other.
    pub(crate) fn know_each_other(&self) {
        self.see(&self.live(), &self.live(), Some("alive"));
    }

    /// Waits until all that run are in a mode.
    pub(crate) fn are(&self, mode: &str) {
        self.live().into_iter().for_each(|node| self.is(node, mode));
    }

    /// Waits until one is.
    pub(crate) fn is(&self, node: usize, mode: &str) {
        wait_for(&format!("node {node} to be {mode}"), || {
            (self.health(node)["status"] == mode).then_some(())
        });
    }

    /// Waits until all that run have told the store what they admitted without it.
    pub(crate) fn settle(&self) {
        for node in self.live() {
            wait_for("all to be settled", || (self.unsettled(node) == 0).then_some(()));
        }
    }

    /// For how many keys a node has to tell the store something.
    pub(crate) fn unsettled(&self, node: usize) -> u64 {
        self.cluster(node)["unsettled"].as_u64().unwrap()
    }

    /// How much nodes have admitted without the store, each by itself.
    fn admitted_without_store(&self) -> Vec<(usize, u64)> {
        let read = |node: usize| {
            let metrics = self.server(node).admin("/metrics").1;
            let line =
                metrics.lines().find(|line| line.starts_with("tidegate_admitted_without_store_total "));
            line.unwrap_or_else(|| panic!("{metrics}")).split(' ').nth(1).unwrap().parse().unwrap()
        };
        self.live().into_iter().map(|node| (node, read(node))).collect()
    }

    fn check(&self, node: usize, user: usize, cost: u64, resource: &str) -> Value {
        let body = json!({"user": format!("user-{user}"), "resource": resource, "cost": cost});
        let decision = self.server(node).check(&body.to_string());
        let status = decision["status"].as_str().unwrap();
        assert!(["enforced", "local"].contains(&status), "{decision}");
        if status == "local" {
            self.local.lock().unwrap().insert(user);
        }
        decision
    }

    /// Whether the store has decided everything about a user. On a busy machine it may have been too late for some.
    pub(crate) fn always_had_store(&self, user: usize) -> bool {
        !self.local.lock().unwrap().contains(&user)
    }

    /// A user asks a node. Whatever happens, there is a decision.
    pub(crate) fn ask(&self, node: usize, user: usize) -> Told {
        self.ask_for(node, user, "/")
    }

    pub(crate) fn ask_for(&self, node: usize, user: usize, resource: &str) -> Told {
        let decision = self.check(node, user, 1, resource);
        match (decision["allowed"] == true, decision["retry_after"].as_u64()) {
            (true, _) => Told::Admitted,
            (false, Some(1)) => {
                assert_eq!(decision["status"], "local", "{decision}");
                Told::ComeAgain
            }
            (false, _) => Told::Refused,
        }
    }

    /// Every user asks each of some nodes once, all nodes at the same time.
    pub(crate) fn round(&self, nodes: &[usize], users: &[usize]) -> Tally {
        let tally = Mutex::new(Tally::default());
        thread::scope(|scope| {
            for &node in nodes {
                let tally = &tally;
                scope.spawn(move || {
                    for &user in users {
                        let told = self.ask(node, user);
                        tally.lock().unwrap().add(user, told);
                    }
                });
            }
        });
        tally.into_inner().unwrap()
    }

    /// Users ask until all of them are told by all of these nodes that there is nothing left.
    pub(crate) fn exhaust(&self, nodes: &[usize], users: &[usize]) -> Tally {
        let (mut all, begun) = (Tally::default(), Instant::now());
        wait_for("limits to be used up", || {
            let round = self.round(nodes, users);
            all.merge(&round);
            (round.total() == 0 && round.come_again() == 0).then_some(())
        });
        println!(
            "  {nodes:?}: {} admitted, {} to come again, in {:?}",
            all.total(),
            all.come_again(),
            begun.elapsed()
        );
        all
    }

    /// Which node counts each user, who is admitted once for it. The store is away, and nobody else asks.
    pub(crate) fn owners(&self, users: &[usize], tally: &mut Tally) -> Vec<usize> {
        let live = self.live();
        let each = users.iter().map(|&user| {
            let before = self.admitted_without_store();
            wait_for("to be admitted", || {
                (self.ask(live[user % live.len()], user) == Told::Admitted).then_some(())
            });
            tally.add(user, Told::Admitted);
            let after = self.admitted_without_store();
            let mut counted = before.iter().zip(&after).filter(|(before, after)| before != after);
            let owner = counted.next().unwrap().1.0;
            assert!(counted.next().is_none(), "user {user} is counted in two places");
            owner
        });
        each.collect()
    }

    /// How much the store has counted for a user, as a node is told by it.
    pub(crate) fn counted(&self, by: usize, user: usize, limit: u64) -> u64 {
        let remaining = wait_for("the store to answer", || {
            let decision = self.check(by, user, 0, "/");
            (decision["status"] == "enforced").then(|| decision["remaining"].as_u64().unwrap())
        });
        limit - remaining
    }

    /// Has every node hear from the store what users have used, and returns that.
    pub(crate) fn hear(&self, users: &[usize], limit: u64) -> Tally {
        let used =
            |user: usize| self.live().iter().map(|node| self.counted(*node, user, limit)).max().unwrap();
        Tally { admitted: users.iter().map(|user| (*user, used(*user))).collect(), ..Tally::default() }
    }
}

//! Networks of machines that can be cut apart.
//!
//! Each node is a network namespace with three wires, each to a bridge of its own in another namespace. Moving wires from
//! bridge to bridge parts nodes: packets get lost then, in silence, as they do in real networks. Addresses are the same in each network
//! and meet nobody else's: whoever wants to talk to nodes [goes in](Network::enter).

mod namespace;

use std::fmt::Write;
use std::net::Ipv4Addr;

use tempfile::TempDir;

pub use self::namespace::{Inside, Namespace};

/// The most nodes that a network can have.
const MOST: usize = 16;

/// What a wire of a node is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    /// Between the test and the node. It is never cut.
    Test,
    /// To what all nodes share, which is at the hub.
    Shared,
    /// Between nodes.
    Peers,
}

impl Wire {
    const ALL: [Wire; 3] = [Wire::Test, Wire::Shared, Wire::Peers];

    const fn name(self) -> &'static str {
        match self {
            Wire::Test => "test",
            Wire::Shared => "shared",
            Wire::Peers => "peers",
        }
    }
}

/// Nodes, a hub for the test and for what they share, and the switch between them. Gone when it is dropped, or the test process dies.
#[derive(Debug)]
pub struct Network {
    nodes: Vec<Namespace>,
    hub: Namespace,
    switch: Namespace,
    _folder: TempDir,
}

impl Network {
    /// All addresses.
    pub const ALL: &'static str = "10.77.0.0/16";

    /// So many nodes, which all reach each other.
    ///
    /// # Panics
    /// If there are more than 16, or namespaces cannot be made: the message says what is missing.
    #[must_use]
    pub fn new(nodes: usize) -> Self {
        assert!((1..=MOST).contains(&nodes), "a network has 1 to {MOST} nodes, not {nodes}");
        let folder = TempDir::with_prefix("tidegate-network-").expect("a temporary folder can be made");
        let make = |name: &str| Namespace::new(folder.path().join(name));
        let (hub, switch) = (make("hub"), make("switch"));
        let nodes = (0..nodes).map(|node| make(&format!("node-{node}"))).collect();
        let network = Self { nodes, hub, switch, _folder: folder };
        network.lay();
        network
    }

    /// Bridges, and a wire of each kind from everybody to them.
    fn lay(&self) {
        let mut script = String::new();
        let groups = (0..self.nodes.len()).map(|group| bridge(Wire::Peers, group));
        for bridge in groups.chain([bridge(Wire::Test, 0), bridge(Wire::Shared, 0)]) {
            writeln!(script, "link add {bridge} type bridge forward_delay 0").unwrap();
            writeln!(script, "link set {bridge} up").unwrap();
        }
        let places =
            self.nodes.iter().enumerate().map(|(node, place)| (wire_of(node), node_host(node), place));
        for (end, host, place) in places.chain([("hub".to_owned(), HUB, &self.hub)]) {
            let mut inside = String::new();
            for wire in Wire::ALL {
                let (name, pid, address) = (wire.name(), place.pid(), address(wire, host));
                writeln!(script, "link add {end}-{name} type veth peer name {name} netns {pid}").unwrap();
                writeln!(script, "link set {end}-{name} master {} up", bridge(wire, 0)).unwrap();
                writeln!(inside, "addr add {address}/24 dev {name}\nlink set {name} up").unwrap();
            }
            self.switch.ip(&std::mem::take(&mut script));
            place.ip(&inside);
        }
    }

    /// A node.
    #[must_use]
    pub fn node(&self, node: usize) -> &Namespace {
        &self.nodes[node]
    }

    /// Where the test is, and what nodes share.
    #[must_use]
    pub fn hub(&self) -> &Namespace {
        &self.hub
    }

    /// Takes the calling thread to the hub, from where it reaches all nodes by [`Wire::Test`], always.
    #[must_use]
    pub fn enter(&self) -> Inside {
        self.hub.enter()
    }

    /// The address of a node at the end of a wire.
    #[must_use]
    pub fn address(&self, node: usize, wire: Wire) -> Ipv4Addr {
        assert!(node < self.nodes.len(), "there is no node {node}");
        address(wire, node_host(node))
    }

    /// Where nodes reach what is at the hub.
    #[must_use]
    pub fn shared_address(&self) -> Ipv4Addr {
        address(Wire::Shared, HUB)
    }

    /// Parts groups of nodes from each other. All keep what they share. Nodes of no group stay with the first.
    pub fn part(&self, groups: &[&[usize]]) {
        let mut script = String::new();
        for (group, nodes) in groups.iter().enumerate() {
            for &node in *nodes {
                plug(&mut script, node, Wire::Peers, group);
            }
        }
        self.switch.ip(&script);
    }

    /// Cuts a node off from all others and from what they share.
    pub fn cut_off(&self, node: usize) {
        let wires = [Wire::Shared, Wire::Peers];
        let pull = |wire: Wire| format!("link set {}-{} nomaster\n", wire_of(node), wire.name());
        self.switch.ip(&wires.map(pull).concat());
    }

    /// Mends all that was cut.
    pub fn heal(&self) {
        let mut script = String::new();
        for node in 0..self.nodes.len() {
            for wire in [Wire::Shared, Wire::Peers] {
                plug(&mut script, node, wire, 0);
            }
        }
        self.switch.ip(&script);
    }
}

/// The hub's number in each network.
const HUB: u8 = 254;

/// A node's number in each network.
fn node_host(node: usize) -> u8 {
    u8::try_from(node + 1).expect("there are few nodes")
}

const fn address(wire: Wire, host: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 77, wire as u8, host)
}

fn wire_of(node: usize) -> String {
    format!("n{node}")
}

fn bridge(wire: Wire, group: usize) -> String {
    format!("{}{group}", wire.name())
}

fn plug(script: &mut String, node: usize, wire: Wire, group: usize) {
    let (end, name) = (wire_of(node), wire.name());
    writeln!(script, "link set {end}-{name} master {}", bridge(wire, group)).unwrap();
}

#[cfg(test)]
mod tests {
    use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
    use std::time::Duration;

    use super::*;
    use crate::wait;

    /// Whether what a node says to another arrives. Each time it is said again, since the first of it may get lost while addresses
    /// are found out.
    fn reaches(network: &Network, from: usize, to: usize, patience: Duration) -> bool {
        let socket = |node: usize| {
            let _inside = network.node(node).enter();
            UdpSocket::bind((network.address(node, Wire::Peers), 0)).unwrap()
        };
        let (from, to) = (socket(from), socket(to));
        to.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        wait::poll(patience, || {
            // A send may be told of an address that was not found.
            from.send_to(b"hello", to.local_addr().unwrap()).ok();
            to.recv(&mut [0; 8]).ok()
        })
        .is_some()
    }

    #[test]
    fn nodes_are_parted_and_brought_together() {
        const LONG: Duration = wait::HANG_LIMIT;
        // As long as anything takes that would arrive.
        const SHORT: Duration = Duration::from_millis(300);

        let network = Network::new(3);
        let shared = {
            let _inside = network.hub().enter();
            TcpListener::bind((network.shared_address(), 0)).unwrap().local_addr().unwrap()
        };
        let listener = {
            let _inside = network.enter();
            TcpListener::bind(shared).unwrap()
        };
        let shares = |node: usize, patience: Duration| {
            let _inside = network.node(node).enter();
            TcpStream::connect_timeout(&shared, patience).is_ok()
        };
        assert!(reaches(&network, 0, 1, LONG) && reaches(&network, 2, 0, LONG) && shares(0, LONG));
        network.part(&[&[0, 1], &[2]]);
        assert!(reaches(&network, 0, 1, LONG) && shares(1, LONG) && shares(2, LONG));
        assert!(!reaches(&network, 0, 2, SHORT) && !reaches(&network, 2, 1, SHORT));
        network.heal();
        assert!(reaches(&network, 0, 2, LONG) && reaches(&network, 2, 1, LONG));
        network.cut_off(1);
        assert!(!reaches(&network, 0, 1, SHORT) && !shares(1, SHORT) && shares(0, LONG));
        // The test itself is never cut off, and is nowhere else after it was in there.
        let there: SocketAddr = {
            let _inside = network.node(1).enter();
            let listener = TcpListener::bind((network.address(1, Wire::Test), 0)).unwrap();
            let there = listener.local_addr().unwrap();
            let _from_the_hub = network.enter();
            assert!(TcpStream::connect_timeout(&there, LONG).is_ok());
            there
        };
        assert!(TcpListener::bind(there).is_err(), "{there} is no address out here");
        network.heal();
        assert!(reaches(&network, 0, 1, LONG) && shares(1, LONG));
        drop(listener);
    }
}

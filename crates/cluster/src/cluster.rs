//! This node among the others.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tidegate_core::Timestamp;
use tidegate_store::clock::{Clock, SystemClock};
use tidegate_store::peers::{NodeId, Standing};
use tokio::net::{TcpListener, UdpSocket};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Duration;

use crate::keyring::{Keyring, SharedKeyring};
use crate::member::{Member, MemberInfo};
use crate::membership::lookout::Lookout;
use crate::membership::udp::{Node, Refused};
use crate::membership::{Machine, PeerName, Timing};
use crate::seal::{Opener, Sealer};
use crate::start::{self, StartError};
use crate::view::View;

/// How long a clock that is far from ours is complained about.
const COMPLAIN: Duration = Duration::from_secs(60);

/// How a node joins others.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where to listen, over UDP and TCP alike. Port 0: any that is free for both.
    pub listen: SocketAddr,
    /// Where others reach it, if that is not where it listens. Port 0: the one that it listens on.
    pub advertise: Option<SocketAddr>,
    /// What it is called; the advertised address if nothing is said. Keys go by it: no two may be called the same.
    pub name: Option<String>,
    /// Where to look for others. Its own address may be among them.
    pub peers: Vec<PeerName>,
    /// What tells the fleet from strangers.
    pub keyring: Keyring,
    /// How soon others are given up.
    pub timing: Timing,
}

/// This node among the others. Dropping it looks to them as if it had crashed; [`Cluster::leave`] tells them.
pub struct Cluster {
    address: SocketAddr,
    listener: Mutex<Option<TcpListener>>,
    keyring: SharedKeyring,
    sealer: Arc<Sealer>,
    opener: Arc<Opener>,
    node: Arc<Node>,
    lookout: Arc<Lookout>,
    tasks: [JoinHandle<()>; 2],
}

impl Cluster {
    /// Binds the sockets and begins to look for others. Nobody need be there.
    pub fn start(settings: Settings) -> BoxFuture<'static, Result<Arc<Self>, StartError>> {
        Box::pin(Self::bind(settings))
    }

    async fn bind(settings: Settings) -> Result<Arc<Self>, StartError> {
        let Settings { listen, advertise, name, peers, keyring, timing } = settings;
        start::check(listen, advertise, name.as_deref())?;
        let (listener, socket, address) = start::bind(listen).await?;
        let advertised = start::advertised(address, advertise);
        let name = name.unwrap_or_else(|| advertised.to_string());
        let now = SystemClock.now();
        let node = NodeId(start::random()?);
        let me = Member { name: name.into(), address: advertised, node, incarnation: now.as_millis() };

        let keyring = keyring.shared();
        let sealer = Sealer::new(Arc::clone(&keyring)).map_err(StartError::Random)?;
        let (sealer, opener) = (Arc::new(sealer), Arc::new(Opener::new(Arc::clone(&keyring))));
        let machine = Machine::new(me, timing, start::random()?, now);
        let node = Self::node(socket, &sealer, &opener, machine, now);
        let lookout = Arc::new(Lookout::new(peers));
        let tasks = Self::spawn(&node, &lookout, timing);
        let listener = Mutex::new(Some(listener));
        Ok(Arc::new(Self { address, listener, keyring, sealer, opener, node, lookout, tasks }))
    }

    fn node(
        socket: UdpSocket,
        sealer: &Arc<Sealer>,
        opener: &Arc<Opener>,
        machine: Machine,
        now: Timestamp,
    ) -> Arc<Node> {
        let start = (tokio::time::Instant::now(), now);
        Arc::new(Node::new(socket, Arc::clone(sealer), Arc::clone(opener), machine, start))
    }

    fn spawn(node: &Arc<Node>, lookout: &Arc<Lookout>, timing: Timing) -> [JoinHandle<()>; 2] {
        let (runs, looks, lookout) = (Arc::clone(node), Arc::clone(node), Arc::clone(lookout));
        [
            tokio::spawn(async move { runs.run().await }),
            tokio::spawn(async move { lookout.run(&looks, timing.resolve_every).await }),
        ]
    }

    /// Where it listens, over UDP and TCP.
    pub const fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// The listener for calls, at the same port. Whoever answers them takes it, once.
    pub fn take_listener(&self) -> Option<TcpListener> {
        self.listener.lock().take()
    }

    /// Seals what this process sends to others.
    pub const fn sealer(&self) -> &Arc<Sealer> {
        &self.sealer
    }

    /// Opens what others send to this process.
    pub const fn opener(&self) -> &Arc<Opener> {
        &self.opener
    }

    /// This node, as others know it.
    pub fn me(&self) -> Member {
        self.view().me().clone()
    }

    /// All others, for people to look at.
    pub fn members(&self) -> Vec<MemberInfo> {
        self.node.look(Machine::members)
    }

    /// Who is there, as keys go by it.
    pub fn view(&self) -> Arc<View> {
        self.node.view()
    }

    /// Tells of every change of the view.
    pub fn changed(&self) -> watch::Receiver<u64> {
        self.node.changes()
    }

    /// When another node last said anything to this one.
    pub fn last_heard(&self) -> Option<Instant> {
        self.node.last_heard().map(tokio::time::Instant::into_std)
    }

    /// Tells the others how this node is doing.
    pub fn announce(&self, standing: Standing) {
        self.node.with(|machine, now| machine.announce(standing, now));
    }

    /// How many packets changed nothing, because they are not from this fleet or not from now.
    pub fn refused(&self) -> Refused {
        self.node.refused()
    }

    /// What is wrong, for people: peers that cannot be found or have never answered, a name that another node has, a clock
    /// that is far from the others'.
    pub fn problem(&self) -> Option<String> {
        let taken = self.node.look(|machine| {
            let by = machine.taken()?;
            Some(format!("the node at {} is called {} too: give each its own name", by.address, by.name))
        });
        let stale = self.node.last_stale().filter(|at| at.elapsed() < COMPLAIN).map(|_| {
            "packets came that were sealed more than 30 s ago or hence: compare the nodes' clocks".to_owned()
        });
        let problems: Vec<_> =
            [taken, stale, self.lookout.problem(&self.node)].into_iter().flatten().collect();
        (!problems.is_empty()).then(|| problems.join("; "))
    }

    /// Exchanges the secrets. So that nobody is shut out on the way: first all nodes know the new one, then all seal with it
    /// (it comes first), then the old one goes.
    pub fn set_keyring(&self, keyring: Keyring) {
        self.keyring.store(Arc::new(keyring));
    }

    /// The secrets as they are now.
    pub fn keyring(&self) -> Arc<Keyring> {
        self.keyring.load_full()
    }

    /// Looks for others elsewhere from now on. Those who are known stay.
    pub fn set_peers(&self, peers: Vec<PeerName>) {
        self.lookout.set(peers);
    }

    /// Tells the others that this node leaves, so that they need not find out. It hears and says nothing after that.
    pub async fn leave(&self) {
        self.node.with(Machine::leave);
        // What was sent is with the network; whoever runs this may end at once.
        tokio::task::yield_now().await;
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster").field("me", &self.me()).finish_non_exhaustive()
    }
}

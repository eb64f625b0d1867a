//! Looks up where peers are, again and again.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Duration, timeout};

use super::peers::PeerName;
use super::udp::Node;

/// How long a lookup may take. Another may still answer the next time.
const LOOKUP: Duration = Duration::from_secs(5);

/// The peers that were named, and what their names stand for.
#[derive(Debug, Default)]
pub(crate) struct Lookout {
    peers: Mutex<Arc<[PeerName]>>,
    found: Mutex<HashMap<PeerName, Found>>,
    renamed: Notify,
}

/// What a name stood for when it was last looked up, or what went wrong.
type Found = (Vec<SocketAddr>, Option<String>);

impl Lookout {
    pub(crate) fn new(peers: Vec<PeerName>) -> Self {
        Self { peers: Mutex::new(peers.into()), ..Self::default() }
    }

    /// Looks for these from now on.
    pub(crate) fn set(&self, peers: Vec<PeerName>) {
        *self.peers.lock() = peers.into();
        self.renamed.notify_one();
    }

    /// Looks names up and tells the machine, for ever.
    pub(crate) async fn run(&self, node: &Node, every: Duration) {
        loop {
            let peers = Arc::clone(&self.peers.lock());
            for peer in peers.iter().filter(|peer| self.is_wanted(peer, &peers, node)) {
                self.look_up(peer).await;
            }
            self.found.lock().retain(|peer, _| peers.contains(peer));
            let all: Vec<_> = self.found.lock().values().flat_map(|(found, _)| found.clone()).collect();
            node.with(|machine, now| machine.set_seeds(all, now));
            // Whoever finds nobody at all looks again soon.
            let none = !peers.is_empty() && self.found.lock().values().all(|(found, _)| found.is_empty());
            let pause = if none { every / 10 } else { every };
            timeout(pause, self.renamed.notified()).await.ok();
        }
    }

    /// Whether a name is to be looked up: those that stand for many always, others until as many are there as were named.
    fn is_wanted(&self, peer: &PeerName, peers: &[PeerName], node: &Node) -> bool {
        let known = self.found.lock().get(peer).is_some_and(|(_, problem)| problem.is_none());
        peer.is_dns() || !known || node.view().others().count() < peers.len()
    }

    /// What a name stood for is kept when it cannot be looked up.
    async fn look_up(&self, peer: &PeerName) {
        let found = timeout(LOOKUP, peer.resolve()).await;
        let found = found.map_err(|_| "no answer within 5 s".to_owned());
        let found = found.and_then(|found| found.map_err(|error| error.to_string()));
        let mut all = self.found.lock();
        let entry = all.entry(peer.clone()).or_default();
        match found {
            Ok(found) => *entry = (found, None),
            Err(problem) => entry.1 = Some(problem),
        }
    }

    /// Which peers cannot be found, or have never answered.
    pub(crate) fn problem(&self, node: &Node) -> Option<String> {
        let answered = |at: &SocketAddr| node.look(|machine| machine.has_answered(*at));
        let peers = Arc::clone(&self.peers.lock());
        let found = self.found.lock();
        let problems = peers.iter().filter_map(|peer| match found.get(peer) {
            Some((_, Some(problem))) => Some(format!("peer {peer} cannot be looked up: {problem}")),
            Some((found, None)) if !found.iter().any(answered) => {
                Some(format!("peer {peer} has never answered: is it running, with the same secret?"))
            }
            _ => None,
        });
        let problems: Vec<_> = problems.collect();
        (!problems.is_empty()).then(|| problems.join("; "))
    }
}

//! Asking other nodes.

use std::collections::HashMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use tidegate_store::deadline::{Late, until};
use tidegate_store::peers::{Call, Called, NodeId};
use tidegate_store::spans::Origin;
use tidegate_store::{Deadline, Failure};
use tokio::sync::oneshot;

use super::message::Packed;
use super::peer::{Peer, Waiting};
use super::seals::Seals;
use crate::{Opener, Sealer};

/// Asks other nodes: one connection to each, few requests with many calls, and nobody for long who does not answer.
pub struct Caller {
    seals: Seals,
    peers: Mutex<HashMap<NodeId, Arc<Peer>>>,
}

impl Caller {
    /// Seals calls with one and opens replies with the other.
    pub fn new(sealer: Arc<Sealer>, opener: Arc<Opener>) -> Self {
        Self { seals: Seals { sealer, opener }, peers: Mutex::default() }
    }

    /// Asks a node at its address. Must be called within a Tokio runtime; what is returned may be dropped, which cancels
    /// nothing.
    ///
    /// Fails with [`Failure::LeftAlone`] at once if the node has not answered of late, with [`Failure::Connection`] if it
    /// cannot be reached or the connection was lost, with [`Failure::Credentials`] if it does not know us, with
    /// [`Failure::NotAStore`] if what answers is not that node, and with [`Failure::Deadline`] when time is over. Unless it was
    /// left alone, it may have done what it was asked.
    pub fn call(&self, node: NodeId, address: SocketAddr, call: Call, deadline: Deadline) -> Called<'static> {
        self.call_from(None, node, address, call, deadline)
    }

    /// The same from within a span, if there is one that the other node is to know of.
    #[expect(clippy::needless_pass_by_value, reason = "the seam hands it over")]
    pub(crate) fn call_from(
        &self,
        origin: Option<Origin>,
        node: NodeId,
        address: SocketAddr,
        call: Call,
        deadline: Deadline,
    ) -> Called<'static> {
        let deadline = deadline.at();
        if deadline <= Instant::now() {
            return Box::pin(async { Err(Failure::Deadline) });
        }
        let call = match Packed::new(&call, origin) {
            Ok(call) => call,
            Err(error) => {
                tracing::debug!(%error, "no node would read a call");
                return Box::pin(async { Err(Failure::Other) });
            }
        };
        let (reply, answer) = oneshot::channel();
        let peer = self.peer(node, address);
        peer.submit(Waiting { call, deadline, reply });
        Box::pin(async move {
            match until(deadline, answer).await {
                Ok(answered) => answered.unwrap_or(Err(Failure::Other)),
                Err(Late) => {
                    peer.look();
                    Err(Failure::Deadline)
                }
            }
        })
    }

    /// Forgets all nodes but these. What is on its way to others comes back all the same.
    pub fn retain(&self, nodes: &[NodeId]) {
        self.peers.lock().retain(|node, _| nodes.contains(node));
    }

    /// The node, at that address. One that has moved begins anew.
    fn peer(&self, node: NodeId, address: SocketAddr) -> Arc<Peer> {
        let mut peers = self.peers.lock();
        match peers.get(&node) {
            Some(peer) if peer.address == address => Arc::clone(peer),
            _ => {
                let peer = Arc::new(Peer::new(node, address, self.seals.clone()));
                peers.insert(node, Arc::clone(&peer));
                peer
            }
        }
    }
}

impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Caller").field("peers", &self.peers.lock().len()).finish_non_exhaustive()
    }
}

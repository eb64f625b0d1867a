//! The other nodes, as whoever stands in for the store needs them.

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tidegate_core::{Secret, Tag};
use tidegate_store::peers::{Answers, Call, Called, NodeId, Owner, Peers, Reply, Standing};
use tidegate_store::spans::{self, Origin};
use tidegate_store::{Deadline, Failure};
use tracing::Span;

use crate::calls::{CallServer, Caller};
use crate::cluster::Cluster;
use crate::keyring::Keyring;
use crate::view::View;

/// What the fleet derives the keys' secret for, until the store has one.
const KEYS: &str = "keys";

/// Answering other nodes.
pub type Serving = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What others are to be told of a span, if it is recorded.
pub type Origins = Box<dyn Fn(&Span) -> Option<Origin> + Send + Sync>;

/// The other nodes: who they are, and how to ask them.
pub struct Fleet {
    cluster: Arc<Cluster>,
    caller: Caller,
    /// The view that was last looked at.
    known: ArcSwap<View>,
    /// How many views there have been that differ in who is there.
    version: AtomicU64,
    changing: Mutex<()>,
    announced: Mutex<Option<Standing>>,
    origins: OnceLock<Origins>,
}

impl Fleet {
    /// Those that `cluster` finds.
    pub fn new(cluster: Arc<Cluster>) -> Self {
        let caller = Caller::new(Arc::clone(cluster.sealer()), Arc::clone(cluster.opener()));
        let known = ArcSwap::new(cluster.view());
        Self {
            cluster,
            caller,
            known,
            version: AtomicU64::new(1),
            changing: Mutex::new(()),
            announced: Mutex::new(None),
            origins: OnceLock::new(),
        }
    }

    /// From now on nodes that are asked are told which span they are asked from, so that traces go on there.
    pub fn tell_origins(&self, origins: Origins) {
        self.origins.set(origins).ok();
    }

    /// Who is there.
    pub fn cluster(&self) -> &Arc<Cluster> {
        &self.cluster
    }

    /// What keys are hashed with until the store says: the same on all nodes of the fleet.
    pub fn secret(&self) -> Secret {
        Self::secret_of(&self.cluster.keyring())
    }

    /// Returns what [`secret`](Self::secret) of a fleet with this keyring is, for those who have not joined it yet.
    pub fn secret_of(keyring: &Keyring) -> Secret {
        Secret::new(keyring.derive(KEYS))
    }

    /// Answers what other nodes ask, for as long as it is polled; nothing if somebody does already.
    pub fn serve(&self, answers: Arc<dyn Answers>) -> Option<Serving> {
        let listener = self.cluster.take_listener()?;
        let (sealer, opener) = (Arc::clone(self.cluster.sealer()), Arc::clone(self.cluster.opener()));
        let server = CallServer::new(self.cluster.me().node, sealer, opener, answers);
        Some(Box::pin(server.serve(listener, std::future::pending())))
    }

    /// The present view, with what depends on it brought up to date.
    fn view(&self) -> Arc<View> {
        let view = self.cluster.view();
        if !Arc::ptr_eq(&view, &self.known.load()) {
            let _one_at_a_time = self.changing.lock();
            let before = self.known.swap(Arc::clone(&view));
            let same = view.is_same_fleet(&before);
            if !same || !view.has_same_stores(&before) {
                self.version.fetch_add(1, Ordering::Release);
            }
            if !same {
                let there: Vec<NodeId> = view.others().map(|(other, _)| other.node).collect();
                self.caller.retain(&there);
            }
        }
        view
    }
}

impl Peers for Fleet {
    fn me(&self) -> NodeId {
        self.cluster.view().me().node
    }

    fn owner(&self, tag: Tag) -> Owner {
        self.view().owner(tag)
    }

    fn version(&self) -> u64 {
        self.view();
        self.version.load(Ordering::Acquire)
    }

    fn count(&self) -> u32 {
        self.view().count()
    }

    fn others(&self) -> Vec<(NodeId, Standing)> {
        self.view().others().map(|(other, standing)| (other.node, standing)).collect()
    }

    fn any_has_store(&self) -> bool {
        self.cluster.view().others().any(|(_, standing)| standing.has_store)
    }

    fn call(&self, node: NodeId, call: Call, deadline: Deadline) -> Called<'static> {
        let span = spans::peer(node.0, call.name());
        let origin = self.origins.get().filter(|_| !span.is_disabled()).and_then(|origin| origin(&span));
        let called = match self.view().address(node) {
            Some(address) => self.caller.call_from(origin, node, address, call, deadline),
            None => Box::pin(std::future::ready(Err(Failure::Connection))),
        };
        if span.is_disabled() {
            return called;
        }
        Box::pin(async move {
            let reply = called.await;
            match &reply {
                Ok(Reply::Outcomes(outcomes)) => spans::record(&span, outcomes),
                Ok(_) => drop(span.record("tidegate.outcome", "answered")),
                Err(failure) => {
                    span.record("tidegate.outcome", "unanswered");
                    span.record("tidegate.failure", failure.name());
                }
            }
            reply
        })
    }

    fn announce(&self, standing: Standing) {
        // It is repeated by itself.
        if self.announced.lock().replace(standing) != Some(standing) {
            self.cluster.announce(standing);
        }
    }
}

impl std::fmt::Debug for Fleet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fleet").field("cluster", &self.cluster).finish_non_exhaustive()
    }
}

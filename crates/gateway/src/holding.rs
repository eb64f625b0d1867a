//! Quota that a request holds until its response says what it takes, or until it is over.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::HeaderMap;
use parking_lot::Mutex;
use tidegate::{Held, Settlement};
use tidegate_core::request::Fields;
use tidegate_server::front::Node;
use tokio::time::Instant;

/// Quota held for a request. Dropped without a response, it is charged if anything of the request was sent to a server, and given
/// back otherwise: a server may have acted on what it was sent, whoever was there to hear of it.
pub(crate) struct Holding {
    node: Arc<Node>,
    held: Mutex<Option<Held>>,
    forwarded: AtomicBool,
    deadline: Instant,
}

impl Holding {
    pub(crate) fn new(node: &Arc<Node>, held: Held) -> Self {
        // The rest is for telling the store: it gives back what it was not told of in time.
        let patience = Duration::from_millis(held.within().as_millis()) / 10 * 9;
        Self {
            node: Arc::clone(node),
            held: Mutex::new(Some(held)),
            forwarded: AtomicBool::new(false),
            deadline: Instant::now() + patience,
        }
    }

    /// Until when a response can say what the request takes.
    pub(crate) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Notes whether any of the request may have reached a server.
    pub(crate) fn set_forwarded(&self, forwarded: bool) {
        self.forwarded.store(forwarded, Ordering::Relaxed);
    }

    /// Settles it by a response with this status and these headers, unless it was settled before.
    pub(crate) fn answered(&self, status: u16, headers: &HeaderMap) {
        self.settle(|held| held.answered(status, |name| headers.value(name)));
    }

    /// Settles it without a response, unless it was settled before.
    pub(crate) fn unanswered(&self) {
        let forwarded = self.forwarded.load(Ordering::Relaxed);
        self.settle(|held| if forwarded { held.charged() } else { held.unanswered() });
    }

    fn settle(&self, outcome: impl FnOnce(Held) -> Settlement) {
        let held = self.held.lock().take();
        if let Some(held) = held {
            self.node.settle(outcome(held));
        }
    }
}

/// Slots of rules that limit how many requests are in flight, given back when this is dropped.
pub(crate) struct InFlightSlots {
    node: Arc<Node>,
    held: Option<Held>,
}

impl InFlightSlots {
    pub(crate) fn new(node: &Arc<Node>, held: Held) -> Self {
        Self { node: Arc::clone(node), held: Some(held) }
    }
}

impl Drop for InFlightSlots {
    fn drop(&mut self) {
        if let Some(held) = self.held.take() {
            self.node.settle(held.unanswered());
        }
    }
}

impl fmt::Debug for InFlightSlots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("InFlightSlots").field(&self.held).finish()
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        self.unanswered();
    }
}

//! Telling the store what requests with a charge cost.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tidegate::Settlement;
use tokio::runtime::Handle;

use crate::node::Node;

/// Number of settlements that a shared store has not been told of yet.
#[derive(Debug, Default)]
pub(crate) struct Settlements(AtomicUsize);

impl Settlements {
    pub(crate) fn under_way(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// Counts as under way until it is dropped.
struct UnderWay(Arc<Node>);

impl UnderWay {
    fn new(node: &Arc<Node>) -> Self {
        node.settlements.0.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(node))
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.settlements.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Node {
    /// Settles what was held for a request: at once in memory, elsewhere without anybody waiting for it.
    pub fn settle(self: &Arc<Self>, settlement: Settlement) {
        if self.limiter.memory().is_some() {
            // What has expired meanwhile costs nothing, which is as it should be.
            self.limiter.try_settle(&settlement).ok();
            return;
        }
        // There is no runtime when a whole one goes down with requests in flight; then the hold expires.
        if let Ok(runtime) = Handle::try_current() {
            let under_way = UnderWay::new(self);
            runtime.spawn(async move { under_way.0.limiter.settle(&settlement).await });
        }
    }
}

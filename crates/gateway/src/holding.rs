//! What a request holds of quotas until its answer says what it takes.

use std::sync::Arc;

use http::HeaderMap;
use tidegate::{Held, Settlement};
use tidegate_core::request::Fields;
use tidegate_server::front::Node;

/// Quota held for a request. If there is no answer, it is given back as soon as that is known.
pub(crate) struct Holding {
    node: Arc<Node>,
    held: Option<Held>,
}

impl Holding {
    pub(crate) fn new(node: &Arc<Node>, held: Option<Held>) -> Self {
        Self { node: Arc::clone(node), held }
    }

    /// The answer has this status and these headers. It does not wait for what that means to be written down.
    pub(crate) fn answered(mut self, status: u16, headers: &HeaderMap) {
        if let Some(held) = self.held.take() {
            settle(&self.node, held.answered(status, |name| headers.value(name)));
        }
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        if let Some(held) = self.held.take() {
            settle(&self.node, held.unanswered());
        }
    }
}

fn settle(node: &Arc<Node>, settlement: Settlement) {
    if node.limiter().memory().is_some() {
        // What has expired meanwhile costs nothing, which is as it should be.
        node.limiter().try_settle(&settlement).ok();
        return;
    }
    let node = Arc::clone(node);
    // There is none when a whole runtime goes down with requests in flight; then it expires.
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        runtime.spawn(async move { node.limiter().settle(&settlement).await });
    }
}

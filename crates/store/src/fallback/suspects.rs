//! Nodes that may have admitted something that the store does not know of: their keys are theirs until they have settled.

use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use smallvec::SmallVec;

use crate::peers::NodeId;

/// Who they are, and for which parts of the store, a bit each. There are never more than there are nodes.
#[derive(Debug, Default)]
pub(super) struct Suspects {
    nodes: Mutex<SmallVec<[(NodeId, u64); 8]>>,
    count: AtomicUsize,
}

impl Suspects {
    /// Whether there is any.
    pub(super) fn any(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    /// Whether a node is one, as far as a part of the store goes.
    pub(super) fn includes(&self, node: NodeId, part: u8) -> bool {
        self.any() && self.parts(node) & bit(part) != 0
    }

    fn parts(&self, node: NodeId) -> u64 {
        let nodes = self.nodes.lock();
        nodes.iter().find(|(known, _)| *known == node).map_or(0, |(_, parts)| *parts)
    }

    /// Suspects a node as far as these parts go, too.
    pub(super) fn add(&self, node: NodeId, parts: u64) {
        self.set(node, self.parts(node) | parts);
    }

    /// Suspects a node as far as these parts go, and no others.
    pub(super) fn set(&self, node: NodeId, parts: u64) {
        let mut nodes = self.nodes.lock();
        nodes.retain(|(known, _)| *known != node);
        if parts != 0 {
            nodes.push((node, parts));
        }
        self.count.store(nodes.len(), Ordering::Relaxed);
    }

    /// Forgets all that are not there any more, and returns who is left.
    pub(super) fn among(&self, live: impl Fn(NodeId) -> bool) -> SmallVec<[NodeId; 8]> {
        let mut nodes = self.nodes.lock();
        nodes.retain(|(node, _)| live(*node));
        self.count.store(nodes.len(), Ordering::Relaxed);
        nodes.iter().map(|(node, _)| *node).collect()
    }
}

/// A part's bit.
pub(super) const fn bit(part: u8) -> u64 {
    1 << (part % 64)
}

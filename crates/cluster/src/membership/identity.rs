//! A node as foca knows it.

use std::net::SocketAddr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tidegate_store::peers::NodeId;

use crate::member::Member;

/// Who a node is. Told in every packet, so it is short.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Identity {
    pub(super) name: Arc<str>,
    pub(super) address: SocketAddr,
    pub(super) node: u64,
    pub(super) incarnation: u64,
}

impl Identity {
    /// The same node after others have given it up.
    pub(super) fn after(&self, incarnation: u64) -> Option<Self> {
        let incarnation = incarnation.max(self.incarnation).checked_add(1)?;
        Some(Self { incarnation, ..self.clone() })
    }

    /// Whether this is what the other was, or was to be, before.
    pub(super) fn supersedes(&self, other: &Self) -> bool {
        (self.incarnation, self.node) > (other.incarnation, other.node)
    }

    pub(super) fn member(&self) -> Member {
        let Self { name, address, node, incarnation } = self.clone();
        Member { name, address, node: NodeId(node), incarnation }
    }
}

impl From<Member> for Identity {
    fn from(member: Member) -> Self {
        let Member { name, address, node: NodeId(node), incarnation } = member;
        Self { name, address, node, incarnation }
    }
}

/// A name is one node, wherever it is started next.
impl foca::Identity for Identity {
    type Addr = Arc<str>;

    /// Never at once, by foca: two who have the same name by mistake would give each other up without a pause.
    fn renew(&self) -> Option<Self> {
        None
    }

    fn addr(&self) -> Arc<str> {
        Arc::clone(&self.name)
    }

    fn win_addr_conflict(&self, adversary: &Self) -> bool {
        self.supersedes(adversary)
    }
}

//! One node, as others know it.

use std::net::SocketAddr;
use std::sync::Arc;

use tidegate_core::Timestamp;
use tidegate_store::peers::{NodeId, Standing};

/// What is taken to be so of a node that has not said anything of itself yet: it cannot help, and may owe something.
pub const UNHEARD: Standing = Standing { has_store: false, owes: u64::MAX };

/// A node of the fleet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// What it is called. Keys go by it, so a node that is started again under its name counts what it counted.
    pub name: Arc<str>,
    /// Where others reach it, over UDP and TCP.
    pub address: SocketAddr,
    /// Which process it is.
    pub node: NodeId,
    /// When it was started, in milliseconds since 1970, or later: of two with one name the higher is the node.
    pub incarnation: u64,
}

/// How another node is doing, as far as is known here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It answers.
    Alive,
    /// It does not answer, and has not been given up. It counts as if it did.
    Suspect,
    /// It was given up without having said that it leaves.
    Lost,
}

/// Another node, for people to look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberInfo {
    /// Who it is.
    pub member: Member,
    /// How it is doing.
    pub state: State,
    /// Since when, by this node's clock.
    pub since: Timestamp,
    /// What it last said of itself.
    pub standing: Standing,
}

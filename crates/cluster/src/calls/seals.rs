//! What is bound to what when nodes call each other.
//!
//! A call is bound to the node it is for, so that it cannot be taken to another; a reply to the call as it was sealed, so
//! that it cannot be taken for the reply to another.

use std::sync::Arc;

use aws_lc_rs::digest::{Digest, SHA256, digest};
use tidegate_store::peers::NodeId;
use tidegate_store::{Clock, SystemClock};

use crate::{Opener, Purpose, Sealer, Unopened};

/// Seals and opens calls and replies.
#[derive(Clone, Debug)]
pub(super) struct Seals {
    pub(super) sealer: Arc<Sealer>,
    pub(super) opener: Arc<Opener>,
}

/// What ties a reply to its call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tie(Digest);

impl Seals {
    /// Seals a call for a node; with what its reply will be tied to it.
    pub(super) fn seal_call(&self, node: NodeId, plain: &[u8]) -> (Vec<u8>, Tie) {
        let sealed = self.sealer.seal(Purpose::Call, &node.0.to_be_bytes(), plain, SystemClock.now());
        let tie = Tie::to(&sealed);
        (sealed, tie)
    }

    /// Opens a call that is for the node `me`.
    pub(super) fn open_call(&self, me: NodeId, sealed: &[u8]) -> Result<Vec<u8>, Unopened> {
        self.opener.open(Purpose::Call, &me.0.to_be_bytes(), sealed, SystemClock.now())
    }

    pub(super) fn seal_reply(&self, tie: Tie, plain: &[u8]) -> Vec<u8> {
        self.sealer.seal(Purpose::Reply, tie.0.as_ref(), plain, SystemClock.now())
    }

    pub(super) fn open_reply(&self, tie: Tie, sealed: &[u8]) -> Result<Vec<u8>, Unopened> {
        self.opener.open(Purpose::Reply, tie.0.as_ref(), sealed, SystemClock.now())
    }
}

impl Tie {
    pub(super) fn to(sealed_call: &[u8]) -> Self {
        Self(digest(&SHA256, sealed_call))
    }
}

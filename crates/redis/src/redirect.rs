//! Groups that belong to another master.

use std::sync::Arc;

use tidegate_store::{Failure, Outcome};
use tokio::sync::Notify;

use crate::waiting::Waiting;

/// Who knows where a group belongs if it does not belong here.
pub(crate) trait Redirect: Send + Sync {
    /// The slot belongs to the server at `address` now.
    fn moved(&self, waiting: Waiting, address: &str);
    /// The slot is moving to the server at `address`, and this key may be there already.
    fn ask(&self, waiting: Waiting, address: &str);
    /// Some keys are here and some there: not for long, or not if it goes alone.
    fn try_again(&self, waiting: Waiting);
    /// The server is a replica, so that another one has the group's slot, or will have it soon.
    fn not_master(&self, waiting: Waiting);
    /// What is known about who serves what may be out of date.
    fn doubt(&self);
}

/// Nobody to ask: there is one server, and what it says goes.
pub(crate) struct NoRedirect(pub(crate) Arc<Notify>);

impl Redirect for NoRedirect {
    fn moved(&self, waiting: Waiting, _address: &str) {
        waiting.fail(Outcome::Unavailable(Failure::NotAStore));
    }

    fn ask(&self, waiting: Waiting, _address: &str) {
        waiting.fail(Outcome::Unavailable(Failure::NotAStore));
    }

    fn try_again(&self, waiting: Waiting) {
        waiting.fail(Outcome::Unavailable(Failure::NotReady));
    }

    fn not_master(&self, waiting: Waiting) {
        waiting.fail(Outcome::Unavailable(Failure::Replica));
    }

    fn doubt(&self) {
        self.0.notify_waiters();
    }
}

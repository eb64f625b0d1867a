//! Trust in the client of a connection, by what it has shown so far.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::connection_limiter::ConnectionPermit;

/// No request has been authenticated or refused yet.
const UNKNOWN: u8 = 0;

/// A request was refused for want of credentials, and none has been authenticated.
const REFUSED: u8 = 1;

/// A request has been authenticated.
const AUTHENTICATED: u8 = 2;

/// Trust in the client of one connection.
///
/// A client that may not ask keeps no connection: it is closed with the first refusal. One that may ask keeps its
/// connection whatever else comes over it, so that a proxy does not lose one because of a single client.
#[derive(Debug, Default)]
pub(crate) struct Trust {
    state: AtomicU8,
    permit: ConnectionPermit,
}

impl Trust {
    /// Returns trust in a client that has shown nothing yet, whose connection has `permit`.
    pub(crate) fn new(permit: ConnectionPermit) -> Arc<Self> {
        Arc::new(Self { state: AtomicU8::new(UNKNOWN), permit })
    }

    /// Takes note that a request was authenticated.
    pub(crate) fn authenticate(&self) {
        if self.state.load(Ordering::Relaxed) != AUTHENTICATED {
            self.state.store(AUTHENTICATED, Ordering::Relaxed);
            self.permit.authenticate();
        }
    }

    /// Takes note that a request was refused because its sender may not ask.
    pub(crate) fn refuse(&self) {
        // Fails if one was authenticated before, as it should.
        self.state.compare_exchange(UNKNOWN, REFUSED, Ordering::Relaxed, Ordering::Relaxed).ok();
    }

    /// Returns whether the connection is to be closed because its client may not ask.
    pub(crate) fn is_refused(&self) -> bool {
        self.state.load(Ordering::Relaxed) == REFUSED
    }

    /// Takes note that the connection has ended.
    pub(crate) fn end(&self) {
        self.permit.release();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_closes_only_connections_that_nobody_has_authenticated() {
        let stranger = Trust::default();
        assert!(!stranger.is_refused());
        stranger.refuse();
        assert!(stranger.is_refused());
        let known = Trust::default();
        known.authenticate();
        known.refuse();
        assert!(!known.is_refused());
    }
}

//! What nodes say to each other about who is there, before it is sealed.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use super::identity::Identity;

/// One datagram. The order of these never changes; what is new comes last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Message<'a> {
    /// One of foca's own, for the process with this number: caught on the way to one, it says nothing to another.
    Swim { to: u64, data: &'a [u8] },
    /// Is anybody there? Said to an address, about which nothing else is known.
    Hello {
        from: Identity,
        /// The address that was tried, told back to know which it was.
        at: SocketAddr,
    },
    /// I am. Said to the one who asked, with those who were lost before it came and may be counting still.
    Welcome { to: u64, from: Identity, at: SocketAddr, lost: Vec<Missing> },
    /// You were given up: be another, later than this.
    Outdated { to: u64, incarnation: u64 },
    /// Somebody else has your name.
    Taken { to: u64, by: Identity },
    /// I leave.
    Goodbye { from: Identity },
}

/// Somebody who was given up without a goodbye.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Missing {
    pub(super) who: Identity,
    /// For so many milliseconds, since clocks differ.
    pub(super) for_ms: u64,
}

impl<'a> Message<'a> {
    /// What was received, unless it is nothing that is known here.
    pub(super) fn read(plain: &'a [u8]) -> Option<Self> {
        postcard::from_bytes(plain).ok()
    }

    /// As it is sealed and sent.
    pub(super) fn write(&self) -> Vec<u8> {
        postcard::to_allocvec(self).unwrap_or_default()
    }
}

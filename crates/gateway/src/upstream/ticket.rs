//! One attempt at one server.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use super::server::Entry;
use super::{Lease, Origin, Pool, Server, ServerId, UpstreamPermit};
use crate::body::Outgoing;

/// How an attempt failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// No connection came about.
    Connect,
    /// The connection broke before there was an answer.
    Reset,
    /// There was no answer in time.
    Timeout,
    /// There was an answer with this status. A failure only if the group's document says so; a success otherwise.
    Status(u16),
}

impl Failure {
    /// What a group's client says went wrong; nothing if the request's own body did, which is not the server's fault.
    pub fn of(error: &hyper_util::client::legacy::Error) -> Option<Self> {
        if error.is_connect() {
            return Some(Self::Connect);
        }
        let cause = error.source().and_then(|cause| cause.downcast_ref::<hyper::Error>());
        cause.map_or(Some(Self::Reset), Self::of_connection)
    }

    /// The same of what a connection says.
    pub(super) fn of_connection(error: &hyper::Error) -> Option<Self> {
        let stream = error.source().and_then(|cause| cause.downcast_ref::<h2::Error>());
        if error.is_user() {
            return None;
        }
        // Ended from here, and not for anything that the server did.
        if stream.is_some_and(|stream| stream.is_reset() && !stream.is_remote() && !stream.is_library()) {
            return None;
        }
        Some(if error.is_timeout() { Self::Timeout } else { Self::Reset })
    }

    pub(super) fn text(self) -> Cow<'static, str> {
        match self {
            Self::Connect => "no connection".into(),
            Self::Reset => "connection lost before an answer".into(),
            Self::Timeout => "no answer in time".into(),
            Self::Status(status) => format!("answered {status}").into(),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

/// One attempt at one server. Counts as under way until it is dropped, so it belongs to the answer's body.
///
/// The first outcome told is the one that counts. To drop it without any (the client went away) says nothing about the
/// server.
#[derive(Debug)]
pub struct Ticket {
    server: Arc<Server>,
    entry: Entry,
    settled: bool,
    lease: Option<Lease<Outgoing>>,
    permit: Option<UpstreamPermit>,
}

impl Ticket {
    pub(super) fn new(server: Arc<Server>, entry: Entry) -> Self {
        server.begin();
        Self { server, entry, settled: false, lease: None, permit: None }
    }

    /// Where to go.
    pub fn origin(&self) -> &Origin {
        self.server.origin()
    }

    /// Connections to the server, unless they are to be made by the [client](super::Group::client) of its group.
    pub(crate) fn pool(&self) -> Option<&Arc<Pool<Outgoing>>> {
        self.server.pool()
    }

    /// The answer comes by a connection of the server's pool.
    pub(crate) fn comes_by(&mut self, lease: Lease<Outgoing>) {
        self.lease = Some(lease);
    }

    /// Keeps the request's room at the upstream as long as the response takes.
    pub(crate) fn keep(&mut self, permit: Option<UpstreamPermit>) {
        self.permit = permit;
    }

    /// All of the answer is there.
    pub(crate) fn over(mut self) {
        if let Some(lease) = self.lease.take() {
            lease.free();
        }
    }

    /// What to tell the next pick, should this fail.
    pub fn id(&self) -> ServerId {
        self.server.id()
    }

    /// Whether the group knew of nobody who was well, and this is but an attempt.
    pub fn is_desperate(&self) -> bool {
        self.entry == Entry::InSpite
    }

    /// The head of an answer arrived.
    pub fn succeeded(&mut self) {
        if !std::mem::replace(&mut self.settled, true) {
            self.server.succeeded(self.entry);
        }
    }

    /// None did, or one that may count as none ([`Failure::Status`]; to be told of every 5xx does no harm).
    pub fn failed(&mut self, failure: Failure, now: Instant) {
        if !std::mem::replace(&mut self.settled, true) {
            self.server.failed(self.entry, failure, now);
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.server.end();
        if self.entry == Entry::Trial && !self.settled {
            self.server.given_up();
        }
    }
}

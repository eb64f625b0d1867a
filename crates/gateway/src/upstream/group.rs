//! A group of servers, any of which can answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use hyper::body::Body;
use parking_lot::Mutex;

use super::balance::{Turns, least};
use super::server::Entry;
use super::{
    Balance, Clients, GroupClient, LoadShedder, Member, Server, ServerId, ServerStatus, Settings, Ticket,
    TlsError,
};

/// A group of servers, any of which can answer.
#[derive(Debug)]
pub struct Group {
    name: Box<str>,
    settings: Settings,
    members: Vec<Member>,
    servers: Vec<Arc<Server>>,
    clients: Arc<Clients>,
    turns: Mutex<Turns>,
    cursor: AtomicUsize,
    desperate: AtomicU64,
    shedder: Option<Arc<LoadShedder>>,
}

/// Why there is no such group.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GroupError {
    /// Nobody could answer.
    #[error("it has no servers; give at least one URL")]
    NoServers,
    /// More than can be told apart.
    #[error("it has more than {} servers; make several groups of them", Group::MAX_SERVERS)]
    TooMany,
    /// Encryption is not possible.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

impl Group {
    /// The most servers a group can have.
    pub const MAX_SERVERS: usize = 256;

    /// A group of servers of which nothing is known yet. Reads the files that TLS needs; connects to nobody.
    pub fn new(name: &str, members: Vec<Member>, settings: Settings) -> Result<Self, GroupError> {
        if members.is_empty() {
            return Err(GroupError::NoServers);
        }
        if members.len() > Self::MAX_SERVERS {
            return Err(GroupError::TooMany);
        }
        let https = members.iter().any(|member| member.origin.is_https());
        if https && settings.tls.insecure {
            tracing::warn!(group = name, "certificates are not looked at: anybody can be these servers");
        }
        let clients = Arc::new(Clients::new(&settings, https)?);
        Ok(Self::made_of(name, members, settings, clients, None))
    }

    fn made_of(
        name: &str,
        members: Vec<Member>,
        settings: Settings,
        clients: Arc<Clients>,
        old: Option<&Self>,
    ) -> Self {
        let known = |member: &Member| {
            old?.servers.iter().find(|server| *server.origin() == member.origin).map(Arc::as_ref)
        };
        let same_clients = old.is_some_and(|old| Arc::ptr_eq(&old.clients, &clients));
        let server = |(id, member): (u16, &Member)| {
            let known = known(member);
            let pool = match known.filter(|_| same_clients) {
                Some(known) => known.pool().cloned(),
                None => clients.pool(&member.origin),
            };
            Arc::new(Server::new(ServerId(id), member.clone(), &settings, known, pool))
        };
        let servers: Vec<_> = (0..).zip(&members).map(server).collect();
        let turns = Mutex::new(Turns::new(servers.len()));
        let desperate = AtomicU64::new(old.map_or(0, Self::desperate_picks));
        let cursor = AtomicUsize::new(0);
        let shedder = settings.concurrency.as_ref().map(|concurrency| {
            let known = old.and_then(|old| old.shedder.clone());
            known
                .filter(|known| known.settings() == concurrency)
                .unwrap_or_else(|| Arc::new(LoadShedder::new(concurrency.clone())))
        });
        Self { shedder, name: name.into(), settings, members, servers, clients, turns, cursor, desperate }
    }

    /// This group with all that an older one of its name knows: how servers are doing, and open connections. If
    /// nothing has changed, it is the older one.
    #[must_use]
    pub fn carry_over(self: Arc<Self>, old: &Arc<Self>) -> Arc<Self> {
        let same_clients = self.clients.is_like(&old.clients);
        if same_clients && self.settings == old.settings && self.members == old.members {
            return Arc::clone(old);
        }
        let clients = Arc::clone(if same_clients { &old.clients } else { &self.clients });
        Arc::new(Self::made_of(&self.name, self.members.clone(), self.settings.clone(), clients, Some(old)))
    }

    /// What documents call it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What documents say about it.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The client that speaks to those of its servers that have no pool of their own, for requests with bodies of type `B`: send it requests for
    /// [`Origin::uri`](super::Origin::uri) of a ticket's origin. Asking again gives a clone with the same connections.
    ///
    /// Over HTTP/2 the authority that a server sees is that of the URI. A `Host` header would be sent beside it, and
    /// must be taken out.
    pub fn client<B>(&self) -> GroupClient<B>
    where
        B: Body + Send + Unpin + 'static,
        B::Data: Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        self.clients.of()
    }

    /// Whether the files that TLS needs have other content than when they were read, so that the group should be made
    /// anew. An error says that they could not be used now. Reads them, so it may take a while.
    pub fn has_other_files(&self) -> Result<bool, TlsError> {
        self.clients.has_other_files()
    }

    /// Picks a server that this request has not `tried` yet, of those that are well; if none of them is, any: an
    /// attempt is better than a sure failure. `None` once all were tried.
    pub fn pick(&self, now: Instant, tried: &[ServerId]) -> Option<Ticket> {
        let is_left = |server: &Server| !tried.contains(&server.id());
        // Others may be faster at a trial, each at one server once.
        for _ in 0..self.servers.len() {
            let Some(server) = self.choose(|server| is_left(server) && server.admits(now)) else { break };
            if let Some(entry) = server.enter(now) {
                return Some(Ticket::new(Arc::clone(server), entry));
            }
        }
        let server = self.choose(is_left)?;
        self.desperate.fetch_add(1, Ordering::Relaxed);
        Some(Ticket::new(Arc::clone(server), Entry::InSpite))
    }

    fn choose(&self, may: impl Fn(&Server) -> bool) -> Option<&Arc<Server>> {
        if let [only] = self.servers.as_slice() {
            return may(only).then_some(only);
        }
        let index = match self.settings.balance {
            Balance::RoundRobin => self.turns.lock().next(|index| {
                let server = &self.servers[index];
                may(server).then(|| server.weight())
            }),
            Balance::LeastRequests => {
                let start = self.cursor.fetch_add(1, Ordering::Relaxed);
                least(self.servers.len(), start, |index| {
                    let server = &self.servers[index];
                    may(server).then(|| (server.in_flight(), server.weight()))
                })
            }
        };
        self.servers.get(index?)
    }

    /// Its servers, in the order of the document.
    pub fn members(&self) -> &[Arc<Server>] {
        &self.servers
    }

    /// How its servers are doing at `now`.
    pub fn servers(&self, now: Instant) -> Vec<ServerStatus> {
        self.servers.iter().map(|server| server.status(now)).collect()
    }

    /// Returns what sheds requests that its servers have no room for, if there is a limit on requests in flight.
    pub fn shedder(&self) -> Option<&Arc<LoadShedder>> {
        self.shedder.as_ref()
    }

    /// How often a server was picked though none that was left was known to be well.
    pub fn desperate_picks(&self) -> u64 {
        self.desperate.load(Ordering::Relaxed)
    }
}

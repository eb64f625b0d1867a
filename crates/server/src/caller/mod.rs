//! Who asks the admin listener, and what they may do there.

#[cfg(test)]
mod tests;

use std::net::IpAddr;
use std::sync::Arc;

use http::header::AUTHORIZATION;
use http::{HeaderMap, Method, Request, StatusCode};

use crate::access::{Access, bearer, unauthorized};
use crate::admin;
use crate::config::Config;
use crate::error::StartError;
use crate::node::Node;
use crate::reply::Wrong;
use crate::tokens::{LOCAL, NETWORK, Role, SHARED, WATCHER, WatchedTokens};

/// What probes and scrapers read: they go on as before when tokens are given out for the rest.
const WATCHED: [&str; 4] = ["/health", "/livez", "/metrics", "/readyz"];

/// What is posted only to be asked about, and changes nothing.
const QUESTIONS: [&str; 2] = ["/v1/explain", "/v1/rules/validate"];

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Caller {
    /// The name of the token, or one that no token can have.
    pub(crate) name: String,
    pub(crate) role: Role,
}

impl Caller {
    fn new(name: &str, role: Role) -> Self {
        Self { name: name.to_owned(), role }
    }

    /// Returns whether it has shown a token or needs none, rather than only asking for what nobody needs one for.
    pub(crate) fn is_authenticated(&self) -> bool {
        self.name != WATCHER
    }

    /// Why a role is not enough, and what would be.
    fn may_not(&self, needed: Role) -> Wrong {
        let Self { name, role } = self;
        let message = if name == NETWORK {
            format!(
                "callers whom nothing but their network admits have the role {role}, and this needs {needed}; serve \
                 with `--admin-tokens FILE` and send a token that has it"
            )
        } else {
            format!(
                "the token `{name}` has the role {role}, and this needs {needed}; send a token that has it"
            )
        };
        Wrong::new(StatusCode::FORBIDDEN, "forbidden", message).about("authorization")
    }
}

/// The rule for callers of the admin listener.
#[derive(Debug)]
pub(crate) struct Gate {
    tokens: Option<WatchedTokens>,
    /// Whether callers on this machine need no token.
    local: bool,
}

impl Gate {
    pub(crate) fn new(config: &Config, access: &Access) -> Result<Self, StartError> {
        let tokens = config.admin_tokens.clone().map(WatchedTokens::new).transpose()?;
        if !config.admin_local && tokens.is_none() && !access.has_token() {
            return Err(StartError::AdminLocal);
        }
        Ok(Self { tokens, local: config.admin_local })
    }

    /// Whether there are named tokens.
    pub(crate) fn has_tokens(&self) -> bool {
        self.tokens.is_some()
    }

    /// Whether there are tokens of any kind.
    pub(crate) fn knows_tokens(&self, access: &Access) -> bool {
        self.has_tokens() || access.has_token()
    }

    /// Keeps the tokens true to their file, for as long as this runs.
    pub(crate) async fn follow(self: Arc<Self>, node: Arc<Node>) {
        if let Some(tokens) = &self.tokens {
            tokens.follow(&node).await;
        }
    }

    /// Finds out who asks, and whether they may.
    pub(crate) fn admit<B>(
        &self,
        access: &Access,
        peer: IpAddr,
        request: &Request<B>,
    ) -> Result<Caller, Wrong> {
        let (method, path, headers) = (request.method(), request.uri().path(), request.headers());
        let watches = is_reading(method) && is_watched(path);
        // They have no data; what they ask for goes through here, too.
        if admin::is_page(method, path, headers) {
            access.admit_network(peer)?;
            return Ok(Caller::new(WATCHER, Role::Read));
        }
        let caller = match self.identify(access, peer, headers) {
            Err(_) if watches && self.is_watcher(access, peer, headers) => Caller::new(WATCHER, Role::Read),
            identified => identified?,
        };
        let needed = needed(method, path);
        if caller.role >= needed { Ok(caller) } else { Err(caller.may_not(needed)) }
    }

    fn identify(&self, access: &Access, peer: IpAddr, headers: &HeaderMap) -> Result<Caller, Wrong> {
        access.admit_network(peer)?;
        let knows_tokens = self.knows_tokens(access);
        if knows_tokens && headers.contains_key(AUTHORIZATION) {
            return self.holder(access, headers);
        }
        match (peer.is_loopback(), self.local) {
            (true, true) => Ok(Caller::new(LOCAL, Role::Write)),
            (true, false) => Err(unauthorized(
                "callers on this machine need a token here; send one as `Authorization: Bearer TOKEN`",
            )),
            (false, _) if knows_tokens => {
                Err(unauthorized("the token is missing; send it as `Authorization: Bearer TOKEN`"))
            }
            (false, _) => Ok(Caller::new(NETWORK, Role::Read)),
        }
    }

    /// Whose token was sent.
    fn holder(&self, access: &Access, headers: &HeaderMap) -> Result<Caller, Wrong> {
        let wrong = || unauthorized("the token is wrong; send a good one as `Authorization: Bearer TOKEN`");
        let mut values = headers.get_all(AUTHORIZATION).iter();
        // Of two, others on the way may have looked at either.
        let (Some(value), None) = (values.next(), values.next()) else { return Err(wrong()) };
        let sent = bearer(value.as_bytes()).ok_or_else(wrong)?;
        let Some(tokens) = &self.tokens else {
            return if access.is_token(sent) { Ok(Caller::new(SHARED, Role::Write)) } else { Err(wrong()) };
        };
        let tokens = tokens.load();
        match tokens.find(sent) {
            Some(token) => Ok(Caller::new(token.name(), token.role())),
            None if access.is_token(sent) => Err(unauthorized(
                "this token is for the other listeners; send one of the admin tokens as `Authorization: Bearer TOKEN`",
            )),
            None => Err(wrong()),
        }
    }

    /// Whether somebody whom nothing else admits may watch: as if there were no named tokens, and by the network alone if
    /// there are.
    fn is_watcher(&self, access: &Access, peer: IpAddr, headers: &HeaderMap) -> bool {
        let as_ever = access.is_restricted() && access.admit(peer, headers).is_ok();
        peer.is_loopback() || as_ever || (self.has_tokens() && access.allows(peer))
    }
}

/// Returns whether `path` is one of those that probes and scrapers read.
pub(crate) fn is_watched(path: &str) -> bool {
    WATCHED.contains(&path)
}

fn is_reading(method: &Method) -> bool {
    method == Method::GET || method == Method::HEAD
}

/// What it takes to send such a request.
fn needed(method: &Method, path: &str) -> Role {
    let question = method == Method::POST && QUESTIONS.contains(&path);
    if is_reading(method) || question { Role::Read } else { Role::Write }
}

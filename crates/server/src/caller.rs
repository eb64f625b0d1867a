//! Who asks the admin listener, and what they may do there.

use std::net::IpAddr;
use std::sync::Arc;

use http::header::AUTHORIZATION;
use http::{HeaderMap, Method, Request, StatusCode};

use crate::access::{Access, bearer, unauthorized};
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
        let watches = is_reading(method) && WATCHED.contains(&path);
        let caller = match self.identify(access, peer, headers) {
            Err(_) if watches && self.is_watcher(access, peer, headers) => Caller::new(WATCHER, Role::Read),
            identified => identified?,
        };
        let needed = needed(method, path);
        if caller.role >= needed { Ok(caller) } else { Err(caller.may_not(needed)) }
    }

    fn identify(&self, access: &Access, peer: IpAddr, headers: &HeaderMap) -> Result<Caller, Wrong> {
        access.admit_network(peer)?;
        let knows_tokens = self.has_tokens() || access.has_token();
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

fn is_reading(method: &Method) -> bool {
    method == Method::GET || method == Method::HEAD
}

/// What it takes to send such a request.
fn needed(method: &Method, path: &str) -> Role {
    let question = method == Method::POST && QUESTIONS.contains(&path);
    if is_reading(method) || question { Role::Read } else { Role::Write }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::AdminTokens;
    use crate::tokens::NamedToken;

    const ALICE: &str = "tg_0000000000000000000000000000000000000000000000000000000000000001";
    const BOB: &str = "tg_0000000000000000000000000000000000000000000000000000000000000002";
    const SHARED_TOKEN: &str = "s3cret";

    const IN: &str = "127.0.0.1";
    const NEAR: &str = "10.0.0.1";
    const FAR: &str = "192.0.2.1";

    /// A configuration by what is in it: `named`, `token`, `net` (which [`NEAR`] is in), `deny`.
    fn config(parts: &str) -> Config {
        let has = |part: &str| parts.split(' ').any(|each| each == part);
        let line = |name, role, secret| NamedToken::new(name, role, secret).unwrap().to_string();
        let (alice, bob) = (line("alice", Role::Write, ALICE), line("bob", Role::Read, BOB));
        Config {
            admin_tokens: has("named").then(|| AdminTokens::Inline(format!("{alice},{bob}"))),
            token: has("token").then(|| SHARED_TOKEN.to_owned()),
            allowed_networks: has("net").then(|| "10.0.0.0/8".parse().unwrap()).into_iter().collect(),
            admin_local: !has("deny"),
            ..Config::default()
        }
    }

    /// Who is admitted, as `name role`, or the status of the refusal.
    fn admit(parts: &str, peer: &str, authorization: &[&str], method: &str, path: &str) -> String {
        let config = config(parts);
        let access = Access::new(&config).unwrap();
        let gate = Gate::new(&config, &access).unwrap();
        let request = Request::builder().method(method).uri(path);
        let request =
            authorization.iter().fold(request, |request, value| request.header(AUTHORIZATION, *value));
        match gate.admit(&access, peer.parse().unwrap(), &request.body(()).unwrap()) {
            Ok(Caller { name, role }) => format!("{name} {role}"),
            Err(wrong) => wrong.status().as_u16().to_string(),
        }
    }

    /// What becomes of callers who send nothing, the shared token, a wrong one, bob's (read) and alice's (write).
    fn check(parts: &str, peer: &str, path: &str, expected: [&str; 5]) {
        let sent = [None, Some(SHARED_TOKEN), Some("wrong"), Some(BOB), Some(ALICE)];
        for (token, expected) in sent.iter().zip(expected) {
            let value = token.map(|token| format!("Bearer {token}"));
            let values: Vec<&str> = value.iter().map(String::as_str).collect();
            let caller = admit(parts, peer, &values, "GET", path);
            assert_eq!(caller, expected, "{parts:?} {peer} {token:?} {path}");
        }
    }

    #[test]
    fn who_asks() {
        let table = [
            ("", IN, ["local write"; 5]),
            ("", FAR, ["network read"; 5]),
            ("net", IN, ["local write"; 5]),
            ("net", NEAR, ["network read"; 5]),
            ("net", FAR, ["403"; 5]),
            ("token", IN, ["local write", "token write", "401", "401", "401"]),
            ("token", FAR, ["401", "token write", "401", "401", "401"]),
            ("token net", NEAR, ["401", "token write", "401", "401", "401"]),
            ("token net", FAR, ["403"; 5]),
            ("token deny", IN, ["401", "token write", "401", "401", "401"]),
            ("named", IN, ["local write", "401", "401", "bob read", "alice write"]),
            ("named", FAR, ["401", "401", "401", "bob read", "alice write"]),
            ("named deny", IN, ["401", "401", "401", "bob read", "alice write"]),
            ("named net", NEAR, ["401", "401", "401", "bob read", "alice write"]),
            ("named net", FAR, ["403"; 5]),
            ("named token", IN, ["local write", "401", "401", "bob read", "alice write"]),
            ("named token", FAR, ["401", "401", "401", "bob read", "alice write"]),
            ("named token deny", IN, ["401", "401", "401", "bob read", "alice write"]),
        ];
        for (parts, peer, expected) in table {
            check(parts, peer, "/v1/rules", expected);
        }
    }

    /// For probes and scrapers, whatever was open without named tokens stays so with them.
    #[test]
    fn who_watches() {
        let table = [
            ("token", IN, ["local write", "token write", "watcher read", "watcher read", "watcher read"]),
            ("token", FAR, ["401", "token write", "401", "401", "401"]),
            (
                "token deny",
                IN,
                ["watcher read", "token write", "watcher read", "watcher read", "watcher read"],
            ),
            ("token net", NEAR, ["401", "token write", "401", "401", "401"]),
            ("named", IN, ["local write", "watcher read", "watcher read", "bob read", "alice write"]),
            ("named", FAR, ["401", "401", "401", "bob read", "alice write"]),
            ("named deny", IN, ["watcher read", "watcher read", "watcher read", "bob read", "alice write"]),
            ("named net", NEAR, ["watcher read", "watcher read", "watcher read", "bob read", "alice write"]),
            ("named net", FAR, ["403"; 5]),
            ("named token", FAR, ["401", "watcher read", "401", "bob read", "alice write"]),
            (
                "named token net",
                NEAR,
                ["watcher read", "watcher read", "watcher read", "bob read", "alice write"],
            ),
            ("named token net", FAR, ["403"; 5]),
        ];
        for (parts, peer, expected) in table {
            WATCHED.into_iter().for_each(|path| check(parts, peer, path, expected));
        }
    }

    #[test]
    fn only_one_bearer_token_counts() {
        let (alice, bob) = (format!("Bearer {ALICE}"), format!("bearer   {BOB} "));
        for (sent, expected) in [
            (vec![bob.as_str()], "bob read"),
            (vec![alice.as_str(), alice.as_str()], "401"),
            (vec![bob.as_str(), "Basic eDp5"], "401"),
            (vec!["Basic eDp5"], "401"),
            (vec!["Bearer"], "401"),
            (vec![""], "401"),
            (vec![ALICE], "401"),
        ] {
            assert_eq!(admit("named", IN, &sent, "GET", "/v1/rules"), expected, "{sent:?}");
        }
    }

    #[test]
    fn changes_need_the_role_write() {
        let (alice, bob) = (format!("Bearer {ALICE}"), format!("Bearer {BOB}"));
        for (method, path, bob_gets) in [
            ("GET", "/v1/rules", "bob read"),
            ("HEAD", "/v1/rules", "bob read"),
            ("POST", "/v1/explain", "bob read"),
            ("POST", "/v1/rules/validate", "bob read"),
            ("POST", "/v1/rules/validate/", "403"),
            ("PUT", "/v1/rules/validate", "403"),
            ("DELETE", "/v1/explain", "403"),
            ("POST", "/v1/rules", "403"),
            ("PUT", "/v1/rules/a", "403"),
            ("PATCH", "/v1/rules/a", "403"),
            ("DELETE", "/v1/rules/a", "403"),
            ("OPTIONS", "/v1/rules", "403"),
            ("POST", "/health", "403"),
        ] {
            assert_eq!(admit("named", FAR, &[&bob], method, path), bob_gets, "{method} {path}");
            assert_eq!(admit("named", FAR, &[&alice], method, path), "alice write", "{method} {path}");
            assert_eq!(admit("named", IN, &[], method, path), "local write", "{method} {path}");
            let network = bob_gets.replace("bob", "network");
            assert_eq!(admit("net", NEAR, &[], method, path), network, "{method} {path}");
        }
        assert_eq!(admit("named net", NEAR, &[], "POST", "/health"), "401", "watching changes nothing");
    }

    #[test]
    fn somebody_on_this_machine_must_be_able_to_ask() {
        for parts in ["deny", "deny net"] {
            let config = config(parts);
            let gate = Gate::new(&config, &Access::new(&config).unwrap());
            assert!(matches!(gate, Err(StartError::AdminLocal)), "{parts}");
        }
    }
}

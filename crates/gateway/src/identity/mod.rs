//! Who asks.
//!
//! A client may show a certificate, a token or an API key, and a trusted proxy may say who its client is. Whatever is shown
//! must be good: a bad token is refused even if a certificate names a user. The first that names a user, in that order,
//! says whose tenant, tier and plan it is, too; names of different origins are never mixed.
//!
//! [`Identify::who`] does not wait for anything and copies nothing in the usual cases. [`Identify::follow`] has to run
//! beside it, so that keys that are elsewhere are loaded and changed.

mod api_keys;
mod certificate;
mod config;
mod failures;
mod file;
pub(crate) mod hops;
mod jwt;
#[cfg(test)]
mod tests;
mod who;

use std::net::IpAddr;
use std::sync::Arc;

use http::header::HeaderName;
use http::request::Parts;
use http::{HeaderMap, StatusCode};
use tidegate_core::request::canonical_ip;
use tidegate_server::IdentityHeaders;
use tidegate_server::forwarded::{TrustedProxies, text};
use tidegate_store::{Clock, SystemClock};

pub use certificate::{CertificateError, ClientName};
pub use config::{
    ApiKeyConfig, CertificateConfig, CertificateTenant, CertificateUser, IdentityConfig, JwtConfig, JwtKeys,
};
pub use who::{How, NotAdmitted, Peer, Text, Who};

use api_keys::{ApiKeys, Sent};
use failures::Failures;
use jwt::{Pace, Tokens};

/// Why nobody can be identified as configured.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdentityError {
    /// The keys for tokens cannot work.
    #[error("tokens cannot be verified: {0}")]
    Jwt(String),
    /// The known API keys cannot be used: all that is wrong with them, by line.
    #[error("the API keys cannot be used\n{0}")]
    ApiKeys(String),
    /// Failures to prove who asks cannot be counted.
    #[error("failed authentication cannot be limited: {0}")]
    Failures(String),
}

/// Finds out who asks.
pub struct Identify {
    trusted: TrustedProxies,
    headers: IdentityHeaders,
    request_id: Option<HeaderName>,
    certificates: CertificateConfig,
    tokens: Option<Tokens>,
    api_keys: ApiKeys,
    /// How often an address may show something that is not good, if there is anything to be shown.
    failures: Option<Failures>,
    clock: Arc<dyn Clock>,
}

/// Names of one origin.
#[derive(Default)]
struct Names<'a> {
    user: Option<Text<'a>>,
    tenant: Option<Text<'a>>,
    tier: Option<Text<'a>>,
    plan: Option<Text<'a>>,
    how: How,
}

impl Names<'_> {
    fn says_something(&self) -> bool {
        [&self.user, &self.tenant, &self.tier, &self.plan].into_iter().any(Option::is_some)
    }
}

impl Identify {
    /// Fails if something is configured that cannot work. Sets of keys may come later.
    pub fn new(config: &IdentityConfig) -> Result<Self, IdentityError> {
        Self::with(config, Arc::new(SystemClock), Pace::default())
    }

    /// The same by another clock than the machine's, for tests.
    pub fn with_clock(config: &IdentityConfig, clock: Arc<dyn Clock>) -> Result<Self, IdentityError> {
        Self::with(config, clock, Pace::default())
    }

    fn with(config: &IdentityConfig, clock: Arc<dyn Clock>, pace: Pace) -> Result<Self, IdentityError> {
        let tokens = config.jwt.as_ref().map(|jwt| Tokens::new(jwt, pace)).transpose();
        let can_fail = config.jwt.is_some() || config.api_keys.known.is_some();
        let limit = config.failures_per_minute.filter(|_| can_fail);
        let failures = limit.map(|limit| Failures::new(limit, Arc::clone(&clock))).transpose();
        Ok(Self {
            trusted: TrustedProxies::new(config.trusted_proxies.clone()),
            headers: config.headers.clone(),
            request_id: config.request_id.clone(),
            certificates: config.certificates,
            tokens: tokens.map_err(IdentityError::Jwt)?,
            api_keys: ApiKeys::new(&config.api_keys).map_err(IdentityError::ApiKeys)?,
            failures: failures.map_err(IdentityError::Failures)?,
            clock,
        })
    }

    /// Returns the address of the client that sends `head` on the connection of `peer`.
    pub fn client(&self, peer: &Peer, head: &Parts) -> IpAddr {
        let ip = canonical_ip(peer.ip);
        if self.trusted.trusts(ip) { hops::client(&self.trusted, ip, &head.headers) } else { ip }
    }

    /// Who asks by `head` on the connection of `peer`, or why that is not to be found out.
    pub fn who<'a>(&self, peer: &Peer, head: &'a Parts) -> Result<Who<'a>, NotAdmitted> {
        let trusted = self.trusts(peer.ip);
        let client = || self.client(peer, head);
        let (token, sent) = self.proof(head, client)?;
        let (by_header, request_id) = if trusted {
            (Some(self.by_header(&head.headers)?), self.request_id(&head.headers)?)
        } else {
            (None, None)
        };
        let names =
            [self.by_certificate(peer), token.as_deref().map(by_token), by_key(sent.as_ref()), by_header];
        let Names { user, tenant, tier, plan, how } = first(names).unwrap_or_default();
        let ip = client();
        let api_key = sent.map(|sent| sent.key.into());
        Ok(Who { user, tenant, tier, plan, api_key, request_id, ip, how })
    }

    /// The token and the key that a request shows. Nothing is looked up for a `client` that has failed too often. A trusted proxy that
    /// does not say who its client is stands for any number of them, and is not counted.
    fn proof<'a>(
        &self,
        head: &'a Parts,
        client: impl Fn() -> IpAddr,
    ) -> Result<(Option<Arc<jwt::Verified>>, Option<Sent<'a>>), NotAdmitted> {
        let Some(failures) = &self.failures else { return self.verify(head) };
        let counted = || Some(client()).filter(|ip| !self.trusted.trusts(*ip));
        if !failures.is_quiet()
            && self.shows_something(head)
            && let Some(ip) = counted()
        {
            failures.admit(ip)?;
        }
        let proof = self.verify(head);
        if proof.as_ref().is_err_and(|refused| refused.status == StatusCode::UNAUTHORIZED) {
            counted().into_iter().for_each(|ip| failures.note(ip));
        }
        proof
    }

    fn verify<'a>(
        &self,
        head: &'a Parts,
    ) -> Result<(Option<Arc<jwt::Verified>>, Option<Sent<'a>>), NotAdmitted> {
        let token = match &self.tokens {
            Some(tokens) => tokens.find(&head.headers, || self.clock.now())?,
            None => None,
        };
        Ok((token, self.api_keys.find(head)?))
    }

    /// Whether there may be something in a request that has to be verified.
    pub(crate) fn shows_something(&self, head: &Parts) -> bool {
        self.credential_headers().any(|name| head.headers.contains_key(name)) || self.api_keys.in_query(head)
    }

    fn by_certificate(&self, peer: &Peer) -> Option<Names<'static>> {
        let name = peer.certificate.as_ref()?;
        let user = shared(name.user(self.certificates));
        Some(Names {
            user,
            tenant: shared(name.tenant(self.certificates)),
            how: How::Certificate,
            ..Names::default()
        })
    }

    fn by_header<'a>(&self, headers: &'a HeaderMap) -> Result<Names<'a>, NotAdmitted> {
        let named = |name: &HeaderName| one(headers, name);
        let named_if = |name: &Option<HeaderName>| name.as_ref().map_or(Ok(None), named);
        Ok(Names {
            user: named(&self.headers.user)?,
            tenant: named(&self.headers.tenant)?,
            tier: named_if(&self.headers.tier)?,
            plan: named_if(&self.headers.plan)?,
            how: How::Header,
        })
    }

    fn request_id<'a>(&self, headers: &'a HeaderMap) -> Result<Option<Text<'a>>, NotAdmitted> {
        self.request_id.as_ref().map_or(Ok(None), |name| one(headers, name))
    }

    /// Loads keys that are elsewhere and takes changes into use. It does not end.
    pub async fn follow(&self) {
        let tokens = async {
            match &self.tokens {
                Some(tokens) => tokens.follow().await,
                None => std::future::pending().await,
            }
        };
        tokio::join!(tokens, self.api_keys.follow());
    }

    /// What is wrong with keys that are elsewhere, for health reports; empty if all is well.
    pub fn problems(&self) -> Vec<String> {
        let of_tokens = self.tokens.as_ref().and_then(Tokens::problem);
        of_tokens.into_iter().chain(self.api_keys.problem()).collect()
    }

    /// Whose word is taken.
    pub(crate) fn trusted(&self) -> &TrustedProxies {
        &self.trusted
    }

    /// Whether the word of a peer at `ip` is taken.
    pub fn trusts(&self, ip: IpAddr) -> bool {
        self.trusted.trusts(canonical_ip(ip))
    }

    /// Returns the headers with names of users, tenants, tiers and plans.
    pub(crate) fn headers(&self) -> &IdentityHeaders {
        &self.headers
    }

    /// The header with a request's id.
    pub(crate) fn request_id_header(&self) -> Option<&HeaderName> {
        self.request_id.as_ref()
    }

    /// The headers in which clients prove who they are.
    pub(crate) fn credential_headers(&self) -> impl Iterator<Item = &HeaderName> {
        self.tokens.iter().map(Tokens::header).chain(self.api_keys.headers())
    }
}

impl std::fmt::Debug for Identify {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Identify").field("trusted", &self.trusted).finish_non_exhaustive()
    }
}

/// The names that count: those with a user go first.
fn first(names: [Option<Names<'_>>; 4]) -> Option<Names<'_>> {
    let mut rest = None;
    for names in names.into_iter().flatten() {
        if names.user.is_some() {
            return Some(names);
        }
        if rest.is_none() && names.says_something() {
            rest = Some(names);
        }
    }
    rest
}

fn by_token(token: &jwt::Verified) -> Names<'static> {
    Names {
        user: shared(token.user.as_ref()),
        tenant: shared(token.tenant.as_ref()),
        tier: shared(token.tier.as_ref()),
        plan: shared(token.plan.as_ref()),
        how: How::Token,
    }
}

fn by_key(sent: Option<&Sent<'_>>) -> Option<Names<'static>> {
    let owner = sent?.owner.as_ref()?;
    Some(Names {
        user: shared(Some(&owner.name)),
        tenant: shared(owner.tenant.as_ref()),
        tier: shared(owner.tier.as_ref()),
        plan: shared(owner.plan.as_ref()),
        how: How::ApiKey,
    })
}

fn shared(text: Option<&Arc<str>>) -> Option<Text<'static>> {
    text.map(|text| Text::Shared(Arc::clone(text)))
}

/// What a trusted proxy says in a header.
fn one<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<Text<'a>>, NotAdmitted> {
    let found =
        text(headers, std::slice::from_ref(name)).map_err(|wrong| NotAdmitted::request(wrong.message))?;
    match found {
        Some(found) if !who::is_name(found) => {
            Err(NotAdmitted::request(format!("`{name}` is longer than 1024 bytes; have the proxy send less")))
        }
        found => Ok(found.map(Text::Borrowed)),
    }
}

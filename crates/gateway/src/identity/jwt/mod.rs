//! Tokens (JWT) that say who asks.

mod claims;
mod fetch;
mod follow;
mod keys;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use http::header::{AUTHORIZATION, HeaderName};
use http::{HeaderMap, HeaderValue};
use parking_lot::Mutex;
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use tidegate_core::Timestamp;
use tokio::sync::Notify;

pub(super) use claims::Verified;

use claims::ClaimRules;
use follow::Origin;
use keys::{Keys, NoKey};

use super::config::{JwtConfig, JwtKeys};
use super::who::NotAdmitted;

/// Longer tokens are not looked at.
const MAX_TOKEN_BYTES: usize = 8 * 1024;

/// How many tokens are remembered if they are of a usual length.
const REMEMBERED: usize = 10_000;

/// How many bytes of them are remembered at most.
const REMEMBERED_BYTES: u64 = 16 * 1024 * 1024;

/// How often keys are looked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// How often a file is looked at.
    pub(super) file: Duration,
    /// How often a URL is asked.
    pub(super) url: Duration,
    /// How soon it is asked again because a token names a key that is not there.
    pub(super) early: Duration,
    /// How soon it is asked again when it did not answer; twice as long each time,
    pub(super) retry: Duration,
    /// up to this.
    pub(super) retry_most: Duration,
    /// How long an answer may take.
    pub(super) patience: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            file: Duration::from_secs(2),
            url: Duration::from_secs(300),
            early: Duration::from_secs(10),
            retry: Duration::from_secs(1),
            retry_most: Duration::from_secs(60),
            patience: Duration::from_secs(10),
        }
    }
}

/// Tokens, what verifies them, and those that have been.
pub(super) struct Tokens {
    header: HeaderName,
    rules: ClaimRules,
    ring: ArcSwapOption<Ring>,
    /// Where other keys come from, if they do.
    origin: Option<Origin>,
    pace: Pace,
    /// Somebody has shown a token of a key that is not there.
    wanted: Notify,
    problem: Mutex<Option<String>>,
}

/// Keys, and the tokens that were verified with them. They go together: what was good with other keys is forgotten.
struct Ring {
    keys: Keys,
    verified: Cache<Box<[u8]>, Arc<Verified>, Bytes>,
}

impl Ring {
    fn new(keys: Keys) -> Arc<Self> {
        let verified = Cache::with_weighter(REMEMBERED, REMEMBERED_BYTES, Bytes);
        Arc::new(Self { keys, verified })
    }
}

/// Counts what a remembered token takes.
#[derive(Clone)]
struct Bytes;

impl Weighter<Box<[u8]>, Arc<Verified>> for Bytes {
    fn weight(&self, token: &Box<[u8]>, about: &Arc<Verified>) -> u64 {
        let names = [&about.user, &about.tenant, &about.tier, &about.plan];
        let names: usize = names.into_iter().flatten().map(|name| name.len()).sum();
        (token.len() + names + 256) as u64
    }
}

impl Tokens {
    /// Fails if what is configured cannot work; keys that are elsewhere may come later.
    pub(super) fn new(config: &JwtConfig, pace: Pace) -> Result<Self, String> {
        let (keys, origin) = match &config.keys {
            JwtKeys::Secret(secret) => (Some(Keys::secret(secret)?), None),
            JwtKeys::Pem(text) => (Some(Keys::pem(text)?), None),
            JwtKeys::SetFile(path) => (None, Some(Origin::File(path.clone()))),
            JwtKeys::SetUrl { url, authorities } => (None, Some(Origin::url(url, authorities.as_deref())?)),
        };
        let tokens = Self {
            header: config.header.clone(),
            rules: ClaimRules::new(config),
            ring: ArcSwapOption::new(keys.map(Ring::new)),
            origin,
            pace,
            wanted: Notify::new(),
            problem: Mutex::new(None),
        };
        tokens.look();
        Ok(tokens)
    }

    /// What is wrong with the keys, if anything is.
    pub(super) fn problem(&self) -> Option<String> {
        self.problem.lock().clone()
    }

    /// The header that tokens come in.
    pub(super) fn header(&self) -> &HeaderName {
        &self.header
    }

    /// Who the token in `headers` is about. `None` if there is none.
    pub(super) fn find(
        &self,
        headers: &HeaderMap,
        now: impl FnOnce() -> Timestamp,
    ) -> Result<Option<Arc<Verified>>, NotAdmitted> {
        let mut values = headers.get_all(&self.header).iter();
        let Some(value) = values.next() else { return Ok(None) };
        if values.any(|other| other != value) {
            let message = "there are several different tokens or passwords in the request; send one";
            return Err(NotAdmitted::request(message));
        }
        match self.text(value) {
            Some(token) => self.verify(token, now()).map(Some),
            None => Ok(None),
        }
    }

    /// The token in a header's value; `None` if it is something that is not for us.
    fn text<'v>(&self, value: &'v HeaderValue) -> Option<&'v [u8]> {
        let value = value.as_bytes().trim_ascii();
        let bearer = match value.split_at_checked("bearer".len()) {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case(b"bearer") => {
                rest.first().is_none_or(u8::is_ascii_whitespace).then(|| rest.trim_ascii())
            }
            _ => None,
        };
        if self.header == AUTHORIZATION {
            bearer
        } else {
            bearer.or(Some(value)).filter(|token| !token.is_empty())
        }
    }

    fn verify(&self, token: &[u8], now: Timestamp) -> Result<Arc<Verified>, NotAdmitted> {
        if token.len() > MAX_TOKEN_BYTES {
            return Err(NotAdmitted::token("the token is longer than 8 KiB; get one with fewer claims"));
        }
        let ring = self.ring.load();
        let Some(ring) = &*ring else { return Err(NotAdmitted::not_yet()) };
        if let Some(known) = ring.verified.get(token) {
            return match known.check(now) {
                Ok(()) => Ok(known),
                Err(message) => {
                    ring.verified.remove(token);
                    Err(NotAdmitted::token(message))
                }
            };
        }
        let verified = self.verify_anew(ring, token, now).map_err(NotAdmitted::token)?;
        ring.verified.insert(token.into(), Arc::clone(&verified));
        Ok(verified)
    }

    fn verify_anew(&self, ring: &Ring, token: &[u8], now: Timestamp) -> Result<Arc<Verified>, &'static str> {
        let header = jsonwebtoken::decode_header(token)
            .map_err(|_| "this is no token, or signed in a way that is not accepted; get a new one")?;
        if header.crit.is_some() {
            return Err("the token needs something to be understood that is not known here; get another");
        }
        let key = ring.keys.find(&header).map_err(|none| self.no_key(none))?;
        let verified = self.rules.read(&key.verify(token)?)?;
        verified.check(now)?;
        Ok(Arc::new(verified))
    }

    fn no_key(&self, why: NoKey) -> &'static str {
        match why {
            NoKey::Unknown => {
                self.wanted.notify_one();
                "the token is signed with a key that is not known; get a new one"
            }
            NoKey::Algorithm => "the token is signed in a way that its key is not for; get a new one",
            NoKey::Ambiguous => "the token does not say which key it is signed with; get one that does",
        }
    }
}

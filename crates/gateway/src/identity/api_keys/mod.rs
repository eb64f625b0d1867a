//! API keys that clients send.

mod known;
mod line;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use http::HeaderMap;
use http::header::HeaderName;
use http::request::Parts;
use parking_lot::Mutex;
use tidegate_server::forwarded;
use tokio::time::sleep;

use known::{KnownKeys, MAX_BYTES};
pub(super) use line::Owner;

use super::config::ApiKeyConfig;
use super::file::Watch;
use super::who::NotAdmitted;

/// The longest key, in bytes.
const MAX_KEY_BYTES: usize = 1_024;

/// How often the file is looked at: a key that was taken away should not be good for much longer.
const TICK: Duration = Duration::from_secs(2);

/// Where keys come in a request, and those that are known.
pub(super) struct ApiKeys {
    headers: Vec<HeaderName>,
    query: Option<String>,
    known: Option<Watched>,
    tick: Duration,
}

struct Watched {
    path: PathBuf,
    keys: ArcSwap<KnownKeys>,
    problem: Mutex<Option<String>>,
}

/// A key that was sent, and whose it is if that is known.
pub(super) struct Sent<'a> {
    pub(super) key: Cow<'a, str>,
    pub(super) owner: Option<Arc<Owner>>,
}

impl ApiKeys {
    /// Fails if the known keys cannot be read.
    pub(super) fn new(config: &ApiKeyConfig) -> Result<Self, String> {
        let watched = |path: &PathBuf| -> Result<Watched, String> {
            let keys = ArcSwap::from_pointee(KnownKeys::read(path)?);
            Ok(Watched { path: path.clone(), keys, problem: Mutex::new(None) })
        };
        let known = config.known.as_ref().map(watched).transpose()?;
        Ok(Self { headers: config.headers.clone(), query: config.query.clone(), known, tick: TICK })
    }

    /// The headers that keys come in.
    pub(super) fn headers(&self) -> &[HeaderName] {
        &self.headers
    }

    /// Whether there may be a key in the query.
    pub(super) fn in_query(&self, head: &Parts) -> bool {
        self.query.is_some() && head.uri.query().is_some()
    }

    /// The key in a request. `None` if there is none; if there is, and it should be known, it is.
    pub(super) fn find<'a>(&self, head: &'a Parts) -> Result<Option<Sent<'a>>, NotAdmitted> {
        let Some(key) = self.sent(head)? else { return Ok(None) };
        if key.len() > MAX_KEY_BYTES {
            return Err(NotAdmitted::request("the API key is longer than 1024 bytes; send one that is not"));
        }
        let owner = match &self.known {
            None => None,
            Some(known) => Some(known.keys.load().owner(&key).cloned().ok_or_else(NotAdmitted::api_key)?),
        };
        Ok(Some(Sent { key, owner }))
    }

    fn sent<'a>(&self, head: &'a Parts) -> Result<Option<Cow<'a, str>>, NotAdmitted> {
        let in_headers = self.in_headers(&head.headers)?.map(Cow::Borrowed);
        let in_query = match (&self.query, head.uri.query()) {
            (Some(name), Some(query)) => in_query(name, query)?,
            _ => None,
        };
        match (in_headers, in_query) {
            (Some(one), Some(other)) if one != other => Err(several()),
            (one, other) => Ok(one.or(other)),
        }
    }

    fn in_headers<'a>(&self, headers: &'a HeaderMap) -> Result<Option<&'a str>, NotAdmitted> {
        let wrong = |_| {
            NotAdmitted::request(
                "there are several API keys in the request, or one that is no text; send one",
            )
        };
        forwarded::text(headers, &self.headers).map_err(wrong)
    }

    /// What is wrong with the file of known keys, if anything is.
    pub(super) fn problem(&self) -> Option<String> {
        self.known.as_ref().and_then(|known| known.problem.lock().clone())
    }

    /// Takes other keys into use as they come, for as long as this runs; a file that cannot be used changes nothing.
    pub(super) async fn follow(&self) {
        let Some(known) = &self.known else { return std::future::pending().await };
        let mut watch = Watch::new(&known.path, MAX_BYTES);
        loop {
            if let Some(read) = watch.changed().await {
                known.take(&known.path, read);
            }
            sleep(self.tick).await;
        }
    }
}

impl Watched {
    fn take(&self, path: &Path, read: Result<Vec<u8>, String>) {
        let wrong = match KnownKeys::parse_bytes(path, read) {
            Ok(keys) => {
                if keys != **self.keys.load() {
                    tracing::info!(keys = keys.len(), "API keys in use");
                    self.keys.store(Arc::new(keys));
                }
                None
            }
            Err(wrong) => Some(format!("API keys not loaded, the last good ones stay in use: {wrong}")),
        };
        let mut problem = self.problem.lock();
        if *problem != wrong {
            if let Some(wrong) = &wrong {
                tracing::warn!("{wrong}");
            }
            *problem = wrong;
        }
    }
}

fn several() -> NotAdmitted {
    NotAdmitted::request("there are several API keys in the request; send one")
}

/// The one value of the parameter `name`; empty means absent.
fn in_query<'q>(name: &str, query: &'q str) -> Result<Option<Cow<'q, str>>, NotAdmitted> {
    let mut found = None;
    for pair in query.split('&') {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        // A name that is no text cannot be the one that is looked for.
        if decoded(key).is_none_or(|key| key != name) || value.is_empty() {
            continue;
        }
        let unreadable = || NotAdmitted::request("the API key in the query is no text; encode it as UTF-8");
        let value =
            decoded(value).filter(|value| !value.contains(char::is_control)).ok_or_else(unreadable)?;
        match &found {
            None => found = Some(value),
            Some(earlier) if *earlier == value => {}
            Some(_) => return Err(several()),
        }
    }
    Ok(found)
}

/// A part of a query as back ends read it; `None` if it is not UTF-8. A `%` that encodes nothing stands for itself.
fn decoded(text: &str) -> Option<Cow<'_, str>> {
    if !text.contains(['%', '+']) {
        return Some(Cow::Borrowed(text));
    }
    let digit = |byte: Option<&u8>| byte.and_then(|byte| char::from(*byte).to_digit(16));
    let bytes = text.as_bytes();
    let mut plain = Vec::with_capacity(bytes.len());
    let mut index = 0;
    while let Some(byte) = bytes.get(index) {
        let coded =
            (*byte == b'%').then(|| Some((digit(bytes.get(index + 1))?, digit(bytes.get(index + 2))?)));
        match coded.flatten() {
            Some((high, low)) => {
                plain.push(u8::try_from(high * 16 + low).ok()?);
                index += 3;
            }
            None => {
                plain.push(if *byte == b'+' { b' ' } else { *byte });
                index += 1;
            }
        }
    }
    String::from_utf8(plain).ok().map(Cow::Owned)
}

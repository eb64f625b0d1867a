//! One route.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use tidegate_core::pattern::Pattern;

use super::HostPattern;
use super::path;
use crate::upstream::Group;

/// What `Host` a back end sees. Over HTTP/2 it is always its own: connections are shared by it, and an authority that
/// differs from `Host` is malformed there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostHeader {
    /// What the client sent.
    #[default]
    Keep,
    /// The back end's own address.
    Upstream,
}

/// How the path changes on its way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prefix {
    /// What is taken off its start; empty or `/…` without a final slash.
    pub strip: Box<str>,
    /// What is put there instead; likewise.
    pub add: Box<str>,
}

/// Requests that go to one group.
#[derive(Clone, Debug)]
pub struct Route {
    pub(super) number: usize,
    pub(super) host: HostPattern,
    pub(super) path: Pattern,
    /// Empty: all.
    pub(super) methods: Vec<Method>,
    pub(super) group: Arc<Group>,
    pub(super) response_timeout: Duration,
    pub(super) retries: u32,
    pub(super) host_header: HostHeader,
    pub(super) prefix: Option<Prefix>,
}

impl Route {
    /// Its place in the documents, from 1.
    pub fn number(&self) -> usize {
        self.number
    }

    /// Which hosts it is for.
    pub fn host(&self) -> &HostPattern {
        &self.host
    }

    /// Which paths it is for.
    pub fn path(&self) -> &Pattern {
        &self.path
    }

    /// Which methods it is for; all if there are none.
    pub fn methods(&self) -> &[Method] {
        &self.methods
    }

    /// Where its requests go.
    pub fn group(&self) -> &Arc<Group> {
        &self.group
    }

    /// How long the head of an answer may take: its own, or the group's.
    pub fn response_timeout(&self) -> Duration {
        self.response_timeout
    }

    /// How often a request may be tried at another server.
    pub fn retries(&self) -> u32 {
        self.retries
    }

    /// What `Host` the back end sees.
    pub fn host_header(&self) -> HostHeader {
        self.host_header
    }

    /// The path that the back end sees, without query, for one in normal form. Allocates only if it changes.
    pub fn rewrite<'a>(&self, path: &'a str) -> Cow<'a, str> {
        let Some(Prefix { strip, add }) = &self.prefix else { return Cow::Borrowed(path) };
        let rest = match path.strip_prefix(&**strip) {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => rest,
            _ => path,
        };
        let rest = if rest == "/" { "" } else { rest };
        match (&**add, rest) {
            ("", "") => Cow::Borrowed("/"),
            ("", rest) => Cow::Borrowed(rest),
            (add, rest) => Cow::Owned(format!("{add}{rest}")),
        }
    }

    pub(super) fn accepts(&self, method: &Method, path: &str) -> bool {
        (self.methods.is_empty() || self.methods.contains(method))
            && (self.path.is_everything() || path::matches(self.path.segments(), path))
    }

    /// Narrower paths first, then those for some methods, then as written.
    pub(super) fn by_width(&self, other: &Self) -> Ordering {
        path::by_width(&self.path, &other.path)
            .then(self.methods.is_empty().cmp(&other.methods.is_empty()))
            .then(self.number.cmp(&other.number))
    }

    pub(super) fn with_group(&self, group: Arc<Group>) -> Self {
        Self { group, ..self.clone() }
    }
}

/// `host path`, for people to find it by.
impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.host, self.path)
    }
}

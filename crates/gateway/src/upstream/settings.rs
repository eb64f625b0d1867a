//! What a document says about a group of servers, checked.

use std::fmt;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use tidegate_overload::{Headroom, LimitBounds};

use super::Origin;

/// Everything about a group but its name and its servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Who gets the next request.
    pub balance: Balance,
    /// What is spoken to the servers.
    pub protocol: Protocol,
    /// How servers are asked how they are; not at all if there is nothing.
    pub health: Option<HealthCheck>,
    /// When servers are put aside because requests to them fail; never if there is nothing.
    pub passive: Option<PassiveCheck>,
    /// How `https` servers are told from others.
    pub tls: TlsFiles,
    /// How long a connection may take to come about, TLS included.
    pub connect_timeout: Duration,
    /// How long a server may take until the head of its answer.
    pub response_timeout: Duration,
    /// How long nothing may come within a body, and how long a connection is kept for the next request.
    pub idle_timeout: Duration,
    /// How many connections are kept for later, per server.
    pub max_idle: usize,
    /// Limit on requests in flight at all its servers together, if there is one.
    pub concurrency: Option<Concurrency>,
}

/// Limit on requests in flight, and which tiers may fill how much of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Concurrency {
    /// The limit.
    pub limit: ConcurrencyLimit,
    /// Shares of it by tier.
    pub headroom: Headroom,
}

/// Greatest number of requests in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConcurrencyLimit {
    /// Always the same.
    Fixed(NonZeroU32),
    /// As many as the servers can serve, learned from response times.
    Adaptive(LimitBounds),
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            balance: Balance::RoundRobin,
            protocol: Protocol::Http1,
            health: None,
            passive: Some(PassiveCheck::default()),
            tls: TlsFiles::default(),
            connect_timeout: Duration::from_secs(1),
            response_timeout: Duration::from_secs(60),
            idle_timeout: Duration::from_secs(60),
            max_idle: 64,
            concurrency: None,
        }
    }
}

/// One server of a group, and how much of the group's work is its.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Where it is.
    pub origin: Origin,
    /// Its share, compared with the others'.
    pub weight: NonZeroU32,
}

impl Member {
    /// A server with the usual share.
    pub fn new(origin: Origin) -> Self {
        Self { origin, weight: NonZeroU32::MIN }
    }
}

/// Who gets the next request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Balance {
    /// One after the other, evenly by weight.
    #[default]
    RoundRobin,
    /// Whoever has the fewest under way, by weight.
    LeastRequests,
}

/// What is spoken to servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    /// HTTP/1.1.
    #[default]
    Http1,
    /// HTTP/2, without asking first where there is no TLS to ask in.
    Http2,
    /// Whichever a server chooses when TLS begins.
    Auto,
}

impl Protocol {
    /// Whether it is certain that a server speaks HTTP/1.1; `https` if connections to it begin with TLS.
    pub(crate) fn is_http1(self, https: bool) -> bool {
        match self {
            Self::Http1 => true,
            Self::Http2 => false,
            Self::Auto => !https,
        }
    }
}

/// How servers are asked how they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthCheck {
    /// The path, with a query if need be.
    pub path: http::uri::PathAndQuery,
    /// The time between two questions to one server.
    pub every: Duration,
    /// How long an answer may take.
    pub timeout: Duration,
    /// So many bad answers in a row and a server is down.
    pub unhealthy_after: NonZeroU32,
    /// So many good answers in a row and it is up again.
    pub healthy_after: NonZeroU32,
    /// Which answers are good.
    pub statuses: Statuses,
    /// What `Host` says; the server's own address if there is nothing.
    pub host: Option<http::HeaderValue>,
}

/// When servers are put aside because requests to them fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassiveCheck {
    /// So many failures in a row.
    pub failures: NonZeroU32,
    /// For so long.
    pub aside: Duration,
    /// Answers that are failures, too; usually none.
    pub statuses: Statuses,
}

impl Default for PassiveCheck {
    fn default() -> Self {
        let failures = NonZeroU32::MIN.saturating_add(4);
        Self { failures, aside: Duration::from_secs(10), statuses: Statuses::default() }
    }
}

/// How `https` servers are told from others. All from files, in PEM form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// Who signs for the servers; those that the system trusts if there is nothing.
    pub ca: Option<PathBuf>,
    /// The name that certificates must be for, if not the host's.
    pub name: Option<String>,
    /// What this gateway shows of itself: a certificate and its key.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// Whether certificates are not looked at, which lets anybody be the server.
    pub insecure: bool,
}

/// From one status to another, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusRange {
    first: u16,
    last: u16,
}

/// Some of all statuses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statuses(Vec<StatusRange>);

impl Statuses {
    /// Those in any of `ranges`.
    pub fn new(ranges: Vec<StatusRange>) -> Self {
        Self(ranges)
    }

    /// Whether `status` is one of them.
    pub fn contains(&self, status: u16) -> bool {
        self.0.iter().any(|range| (range.first..=range.last).contains(&status))
    }
}

/// `200` or `200-399`.
impl FromStr for StatusRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let status = |text: &str| text.trim().parse::<u16>().ok().filter(|s| (100..=599).contains(s));
        match (status(first), status(last)) {
            (Some(first), Some(last)) if first <= last => Ok(Self { first, last }),
            _ => {
                let shown: String = text.chars().take(40).collect();
                Err(format!("`{shown}` is no status; write one from 100 to 599, or a range such as 200-399"))
            }
        }
    }
}

impl fmt::Display for StatusRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.first == self.last {
            true => write!(f, "{}", self.first),
            false => write!(f, "{}-{}", self.first, self.last),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_read() {
        let statuses = Statuses::new(vec!["200-299".parse().unwrap(), "304".parse().unwrap()]);
        for (status, is_in) in [(199, false), (200, true), (299, true), (300, false), (304, true)] {
            assert_eq!(statuses.contains(status), is_in, "{status}");
        }
        for text in ["", "99", "600", "300-200", "2xx", "-200", "200-", "200-300-400"] {
            assert!(text.parse::<StatusRange>().is_err(), "{text}");
        }
        assert_eq!("200-200".parse::<StatusRange>().unwrap().to_string(), "200");
    }
}

//! Where ZooKeeper is, as one line of text says it.

use std::fmt;
use std::str::FromStr;

use crate::authority::{address, decode, login_of};

/// The port that ZooKeeper listens on unless told otherwise.
const PORT: u16 = 2181;

const EXAMPLE: &str = "zookeeper://10.0.0.1:2181,10.0.0.2:2181/config/ratelimit/rules";

/// Where ZooKeeper is, who to be there, and which znodes to read.
///
/// ```
/// use tidegate_sources::ZookeeperUrl;
///
/// let url: ZookeeperUrl = "zookeeper://ann:secret@10.0.0.1,10.0.0.2:2181/rules".parse()?;
/// assert_eq!(url.to_string(), "zookeeper://10.0.0.1:2181,10.0.0.2:2181/rules");
/// # Ok::<(), tidegate_sources::ZookeeperUrlError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct ZookeeperUrl {
    /// `host:port` of each server that is known, separated by commas: what clients call a connection string.
    pub(super) servers: String,
    /// User and password.
    pub(super) login: Option<(String, String)>,
    /// With a slash at the start and none at the end.
    pub(super) path: String,
}

/// What is wrong with an URL, and what a right one looks like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZookeeperUrlError(String);

impl fmt::Display for ZookeeperUrlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; write it as {EXAMPLE}", self.0)
    }
}

impl std::error::Error for ZookeeperUrlError {}

impl FromStr for ZookeeperUrl {
    type Err = ZookeeperUrlError;

    fn from_str(text: &str) -> Result<Self, ZookeeperUrlError> {
        parse(text).map_err(ZookeeperUrlError)
    }
}

fn parse(text: &str) -> Result<ZookeeperUrl, String> {
    let rest = text.strip_prefix("zookeeper://").ok_or("it does not begin with zookeeper://")?;
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (login, hosts) = match authority.rsplit_once('@') {
        Some((login, hosts)) => (Some(login_of(login)?), hosts),
        None => (None, authority),
    };
    let servers: Vec<String> = hosts.split(',').map(|host| address(host, PORT)).collect::<Result<_, _>>()?;
    if path.contains('?') {
        return Err("it takes no parameters; a `?` in a path is written %3F".to_owned());
    }
    let path = decode(path)?;
    let path = path.trim_end_matches('/');
    if path.is_empty() {
        return Err("the path of the rules is missing".to_owned());
    }
    if path.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return Err(format!("the path `{}` has blanks in it", path.escape_debug()));
    }
    if path.split('/').any(|name| matches!(name, "" | "." | "..")) {
        return Err(format!("`/{path}` is no path of a znode"));
    }
    Ok(ZookeeperUrl { servers: servers.join(","), login, path: format!("/{path}") })
}

/// The URL without user and password.
impl fmt::Display for ZookeeperUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "zookeeper://{}{}", self.servers, self.path)
    }
}

/// The same: passwords are shown to nobody.
impl fmt::Debug for ZookeeperUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ZookeeperUrl({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part() {
        let url: ZookeeperUrl = "zookeeper://ann:p%40ss%2F:@a,[::1]:5,b:6/config/rules/".parse().unwrap();
        assert_eq!(url.servers, "a:2181,[::1]:5,b:6");
        assert_eq!(url.login, Some(("ann".to_owned(), "p@ss/:".to_owned())));
        assert_eq!(url.path, "/config/rules");
        assert_eq!(url.to_string(), "zookeeper://a:2181,[::1]:5,b:6/config/rules");
        assert!(!format!("{url:?}").contains("ss"));
    }

    #[test]
    fn a_typo_is_named_and_a_right_one_shown() {
        for (text, problem) in [
            ("zookeeper:/h/t", "does not begin with zookeeper://"),
            ("zookeeper:///t", "a host is missing"),
            ("zookeeper://h,/t", "a host is missing"),
            ("zookeeper://h:port/t", "`\u{2026}` is no port"),
            ("zookeeper://ann@h:1/t", "must be user:password"),
            ("zookeeper://::1/t", "put an IPv6 address in brackets"),
            ("zookeeper://h:1", "the path of the rules is missing"),
            ("zookeeper://h:1/", "the path of the rules is missing"),
            ("zookeeper://h:1/a//b", "is no path of a znode"),
            ("zookeeper://h:1/a/../b", "is no path of a znode"),
            ("zookeeper://h:1/a%0Ab", "has blanks in it"),
            ("zookeeper://h:1/%ff", "is not UTF-8"),
            ("zookeeper://h/t?c=a", "takes no parameters"),
        ] {
            let error = text.parse::<ZookeeperUrl>().unwrap_err().to_string();
            assert!(error.contains(problem), "{text}: {error}");
            let example = error.rsplit("write it as ").next().unwrap();
            assert!(example.parse::<ZookeeperUrl>().is_ok(), "{text}: {error}");
        }
    }
}

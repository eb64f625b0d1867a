//! Where etcd is, as one line of text says it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::authority::{address, decode, login_of};

/// The port that etcd listens on unless told otherwise.
const PORT: u16 = 2379;

const EXAMPLE: &str = "etcd://10.0.0.1:2379,10.0.0.2:2379/tidegate";

/// Where etcd is, who to be there, and which keys to read.
///
/// ```
/// use tidegate_sources::EtcdUrl;
///
/// let url: EtcdUrl = "etcd://ann:secret@10.0.0.1,10.0.0.2:2379/tidegate".parse()?;
/// assert_eq!(url.to_string(), "etcd://10.0.0.1:2379,10.0.0.2:2379/tidegate");
/// # Ok::<(), tidegate_sources::EtcdUrlError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct EtcdUrl {
    /// `host:port` of each server that is known, an IPv6 address in brackets.
    pub(super) addresses: Vec<String>,
    /// User and password.
    pub(super) login: Option<(String, String)>,
    /// What the keys begin with, without a slash at the end.
    pub(super) prefix: String,
    /// Present if TLS is spoken.
    pub(super) tls: Option<EtcdTls>,
}

/// How to speak TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EtcdTls {
    /// Who may have signed the servers' certificates (PEM); none: whoever the machine trusts.
    pub ca: Option<PathBuf>,
    /// Our own certificate (PEM).
    pub cert: Option<PathBuf>,
    /// The key to it (PEM).
    pub key: Option<PathBuf>,
}

/// What is wrong with an URL, and what a right one looks like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdUrlError(String);

impl fmt::Display for EtcdUrlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; write it as {EXAMPLE}", self.0)
    }
}

impl std::error::Error for EtcdUrlError {}

impl FromStr for EtcdUrl {
    type Err = EtcdUrlError;

    fn from_str(text: &str) -> Result<Self, EtcdUrlError> {
        parse(text).map_err(EtcdUrlError)
    }
}

fn parse(text: &str) -> Result<EtcdUrl, String> {
    let (scheme, rest) = text.split_once("://").ok_or("there is no `://` in it")?;
    let tls = match scheme {
        "etcd" => None,
        "etcds" => Some(EtcdTls::default()),
        _ => return Err(format!("there is no etcd called `{scheme}`, only etcd and, with TLS, etcds")),
    };
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (login, hosts) = match authority.rsplit_once('@') {
        Some((login, hosts)) => (Some(login_of(login)?), hosts),
        None => (None, authority),
    };
    let addresses = hosts.split(',').map(|host| address(host, PORT)).collect::<Result<_, _>>()?;
    let prefix = decode(path)?.trim_end_matches('/').to_owned();
    if prefix.is_empty() {
        return Err("the prefix of the keys is missing".to_owned());
    }
    if prefix.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return Err(format!("the prefix `{}` has blanks in it", prefix.escape_debug()));
    }
    let mut url = EtcdUrl { addresses, login, prefix, tls };
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').ok_or_else(|| format!("`{pair}` has no value"))?;
        url.set(name, decode(value)?.into())?;
    }
    match &url.tls {
        Some(tls) if tls.cert.is_some() != tls.key.is_some() => {
            Err("`cert` and `key` belong together".to_owned())
        }
        _ => Ok(url),
    }
}

impl EtcdUrl {
    /// Returns the file with the key to our own certificate, if there is one.
    pub fn key_file(&self) -> Option<&Path> {
        self.tls.as_ref()?.key.as_deref()
    }

    fn set(&mut self, name: &str, file: PathBuf) -> Result<(), String> {
        if !["ca", "cert", "key"].contains(&name) {
            return Err(format!("there is no parameter `{name}`, only ca, cert and key"));
        }
        let tls =
            self.tls.as_mut().ok_or_else(|| format!("`{name}` needs TLS, so the scheme must be `etcds`"))?;
        match name {
            "ca" => tls.ca = Some(file),
            "cert" => tls.cert = Some(file),
            _ => tls.key = Some(file),
        }
        Ok(())
    }
}

/// The URL without user and password.
impl fmt::Display for EtcdUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let s = if self.tls.is_some() { "s" } else { "" };
        write!(f, "etcd{s}://{}/{}", self.addresses.join(","), self.prefix)
    }
}

/// The same: passwords are shown to nobody.
impl fmt::Debug for EtcdUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EtcdUrl({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part() {
        let url: EtcdUrl =
            "etcds://ann:p%40ss%2F@a,[::1]:5,b:6//shop/eu/?ca=/ca.pem&cert=/c&key=/k".parse().unwrap();
        assert_eq!(url.addresses, ["a:2379", "[::1]:5", "b:6"]);
        assert_eq!(url.login, Some(("ann".to_owned(), "p@ss/".to_owned())));
        assert_eq!(url.prefix, "/shop/eu");
        let file = |path: &str| Some(PathBuf::from(path));
        assert_eq!(url.tls, Some(EtcdTls { ca: file("/ca.pem"), cert: file("/c"), key: file("/k") }));
        let url: EtcdUrl = "etcd://127.0.0.1:2379/tidegate".parse().unwrap();
        assert_eq!((url.prefix.as_str(), url.login, url.tls), ("tidegate", None, None));
    }

    #[test]
    fn a_password_is_shown_to_nobody() {
        let url: EtcdUrl = "etcds://ann:secret@h:1/t".parse().unwrap();
        assert_eq!(url.to_string(), "etcds://h:1/t");
        assert!(!format!("{url:?}").contains("secret"));
    }

    #[test]
    fn a_typo_is_named_and_a_right_one_shown() {
        for (text, problem) in [
            ("etcd:/127.0.0.1", "no `://`"),
            ("etc://h/t", "no etcd called `etc`"),
            ("etcd:///t", "a host is missing"),
            ("etcd://h,/t", "a host is missing"),
            ("etcd://h:port/t", "`\u{2026}` is no port"),
            ("etcd://h:0/t", "`0` is no port"),
            ("etcd://ann:p/ss@h:1/t", "`\u{2026}` is no port"),
            ("etcd://ann@h:1/t", "must be user:password"),
            ("etcd://::1/t", "put an IPv6 address in brackets"),
            ("etcd://[::1/t", "lacks a closing bracket"),
            ("etcd://[x]/t", "`[x]` is no host"),
            ("etcd://h:1", "the prefix of the keys is missing"),
            ("etcd://h:1//", "the prefix of the keys is missing"),
            ("etcd://h:1/a%0Ab", "has blanks in it"),
            ("etcd://h:1/%ff", "is not UTF-8"),
            ("etcd://h/t?c=a", "no parameter `c`"),
            ("etcds://h/t?ca", "`ca` has no value"),
            ("etcd://h/t?ca=/ca.pem", "must be `etcds`"),
            ("etcds://h/t?cert=/c.pem", "`cert` and `key` belong together"),
        ] {
            let error = text.parse::<EtcdUrl>().unwrap_err().to_string();
            assert!(error.contains(problem), "{text}: {error}");
            let example = error.rsplit("write it as ").next().unwrap();
            assert!(example.parse::<EtcdUrl>().is_ok(), "{text}: {error}");
        }
    }
}

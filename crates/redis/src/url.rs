//! Where the servers are, as one line of text says it.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use percent_encoding::percent_decode_str;

/// What keys begin with unless told otherwise.
pub const DEFAULT_PREFIX: &str = "ratelimit";

/// A host and a port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Address {
    /// A name or an IP address, without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

/// How the servers are arranged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Topology {
    /// One server.
    Single(Address),
    /// Sentinels, which know who is the master of this name.
    Sentinel {
        /// The sentinels, as many as are known.
        sentinels: Vec<Address>,
        /// What they call the master.
        master: String,
    },
    /// A Cluster, of which these are some nodes.
    Cluster(Vec<Address>),
}

/// Who to be.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Credentials {
    /// The user; none is the default user.
    pub user: Option<String>,
    /// The password.
    pub password: Option<String>,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let password = self.password.as_ref().map(|_| "…");
        f.debug_struct("Credentials").field("user", &self.user).field("password", &password).finish()
    }
}

/// How to speak TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tls {
    /// Who may have signed the server's certificate (PEM); none: whoever the machine trusts.
    pub ca: Option<PathBuf>,
    /// Our own certificate (PEM).
    pub cert: Option<PathBuf>,
    /// The key to it (PEM).
    pub key: Option<PathBuf>,
}

/// Where the servers are and how to talk to them.
///
/// ```
/// use tidegate_redis::RedisUrl;
///
/// let url: RedisUrl = "redis+cluster://10.0.0.1:6379,10.0.0.2:6379?prefix=shop".parse()?;
/// assert_eq!(url.prefix, "shop");
/// # Ok::<(), tidegate_redis::UrlError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedisUrl {
    /// How the servers are arranged.
    pub topology: Topology,
    /// Who to be.
    pub credentials: Credentials,
    /// Who to be to the sentinels.
    pub sentinel_credentials: Credentials,
    /// The database; always 0 in a Cluster.
    pub database: u16,
    /// What keys begin with.
    pub prefix: String,
    /// Present if TLS is spoken.
    pub tls: Option<Tls>,
}

/// What is wrong with an URL, and what a right one looks like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UrlError {
    problem: String,
    example: &'static str,
}

impl fmt::Display for UrlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; write it as {}", self.problem, self.example)
    }
}

impl std::error::Error for UrlError {}

const SINGLE: &str = "redis://127.0.0.1:6379";
const SENTINEL: &str = "redis+sentinel://10.0.0.1:26379,10.0.0.2:26379,10.0.0.3:26379/mymaster";
const CLUSTER: &str = "redis+cluster://10.0.0.1:6379,10.0.0.2:6379";

/// The arrangement a scheme stands for: its example, its usual port, and whether TLS is spoken.
fn scheme(name: &str) -> Option<(&'static str, u16, bool)> {
    let (plain, tls) = match name.strip_prefix("rediss") {
        Some(rest) => (format!("redis{rest}"), true),
        None => (name.to_owned(), false),
    };
    match plain.as_str() {
        "redis" => Some((SINGLE, 6379, tls)),
        "redis+sentinel" => Some((SENTINEL, 26379, tls)),
        "redis+cluster" => Some((CLUSTER, 6379, tls)),
        _ => None,
    }
}

impl FromStr for RedisUrl {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        let wrong = |problem: String, example| UrlError { problem, example };
        let Some((name, rest)) = text.split_once("://") else {
            return Err(wrong("there is no `://` in it".to_owned(), SINGLE));
        };
        let Some((example, port, tls)) = scheme(name) else {
            return Err(wrong(
                format!(
                    "there is no store called `{name}`, only redis, rediss, redis+sentinel and redis+cluster"
                ),
                SINGLE,
            ));
        };
        Parser { example, port }.parse(rest, tls).map_err(|problem| wrong(problem, example))
    }
}

/// Reads what comes after the scheme.
struct Parser {
    example: &'static str,
    port: u16,
}

impl Parser {
    fn parse(&self, text: &str, tls: bool) -> Result<RedisUrl, String> {
        let (text, query) = text.split_once('?').unwrap_or((text, ""));
        let (authority, path) = text.split_once('/').unwrap_or((text, ""));
        let (login, hosts) =
            authority.rsplit_once('@').map_or(("", authority), |(login, hosts)| (login, hosts));
        let addresses: Vec<Address> =
            hosts.split(',').map(|host| self.address(host)).collect::<Result<_, _>>()?;
        let (topology, database) = self.topology(addresses, path)?;
        let mut url = RedisUrl {
            topology,
            credentials: login_of(login)?,
            sentinel_credentials: Credentials::default(),
            database,
            prefix: DEFAULT_PREFIX.to_owned(),
            tls: tls.then(Tls::default),
        };
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').ok_or_else(|| format!("`{pair}` has no value"))?;
            url.set(name, decode(value)?)?;
        }
        url.check()?;
        Ok(url)
    }

    fn topology(&self, addresses: Vec<Address>, path: &str) -> Result<(Topology, u16), String> {
        match self.example {
            SENTINEL => {
                let (master, database) = path.split_once('/').unwrap_or((path, ""));
                if master.is_empty() {
                    return Err("the name of the master is missing".to_owned());
                }
                let topology = Topology::Sentinel { sentinels: addresses, master: decode(master)? };
                Ok((topology, database_of(database)?))
            }
            CLUSTER if database_of(path)? != 0 => Err("a Cluster has no databases but 0".to_owned()),
            CLUSTER => Ok((Topology::Cluster(addresses), 0)),
            _ => match <[Address; 1]>::try_from(addresses) {
                Ok([address]) => Ok((Topology::Single(address), database_of(path)?)),
                Err(several) => Err(format!(
                    "it names {} servers; several belong to redis+cluster:// or redis+sentinel://",
                    several.len()
                )),
            },
        }
    }

    fn address(&self, text: &str) -> Result<Address, String> {
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (host, rest) =
                    rest.split_once(']').ok_or_else(|| format!("`{text}` lacks a closing bracket"))?;
                (host, rest.strip_prefix(':'))
            }
            None => match text.rsplit_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            },
        };
        if host.is_empty() {
            return Err("a host is missing".to_owned());
        }
        let bad = |c: char| c.is_whitespace() || c.is_control() || matches!(c, '/' | '?' | '#' | '@');
        if host.contains(bad) || (host.contains(':') && !text.starts_with('[')) {
            return Err(format!("`{host}` is no host; put an IPv6 address in brackets"));
        }
        let port = match port {
            None => self.port,
            Some(port) => port.parse().ok().filter(|&port| port > 0).ok_or_else(|| {
                let said = if port.bytes().all(|byte| byte.is_ascii_digit()) { port } else { "\u{2026}" };
                format!(
                    "`{said}` is no port; a `/`, `?`, `#` or `@` in a password is written %2F, %3F, %23, %40"
                )
            })?,
        };
        Ok(Address { host: host.to_owned(), port })
    }
}

impl RedisUrl {
    fn set(&mut self, name: &str, value: String) -> Result<(), String> {
        let file = |tls: &mut Option<Tls>, set: fn(&mut Tls) -> &mut Option<PathBuf>| match tls {
            Some(tls) => {
                *set(tls) = Some(value.clone().into());
                Ok(())
            }
            None => Err(format!("`{name}` needs TLS, so the scheme must begin with `rediss`")),
        };
        match name {
            "prefix" => self.prefix = value,
            "ca" => file(&mut self.tls, |tls| &mut tls.ca)?,
            "cert" => file(&mut self.tls, |tls| &mut tls.cert)?,
            "key" => file(&mut self.tls, |tls| &mut tls.key)?,
            "password_file" => self.credentials.password = Some(read_password(&value)?),
            "sentinel_user" => self.sentinel_credentials.user = Some(value),
            "sentinel_password" => self.sentinel_credentials.password = Some(value),
            "sentinel_password_file" => self.sentinel_credentials.password = Some(read_password(&value)?),
            _ => {
                return Err(format!(
                    "there is no parameter `{name}`, only prefix, ca, cert, key, password_file, sentinel_user, sentinel_password and sentinel_password_file"
                ));
            }
        }
        Ok(())
    }

    fn check(&self) -> Result<(), String> {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':');
        if self.prefix.is_empty() || self.prefix.len() > 100 || !self.prefix.chars().all(plain) {
            return Err(format!(
                "the prefix `{}` is not 1 to 100 letters, digits, `_`, `-`, `.` or `:`",
                self.prefix
            ));
        }
        if let Some(Tls { cert, key, .. }) = &self.tls
            && cert.is_some() != key.is_some()
        {
            return Err("`cert` and `key` belong together".to_owned());
        }
        Ok(())
    }
}

/// The URL without its passwords.
impl fmt::Display for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let s = if self.tls.is_some() { "s" } else { "" };
        let list =
            |addresses: &[Address]| addresses.iter().map(Address::to_string).collect::<Vec<_>>().join(",");
        match &self.topology {
            Topology::Single(address) => write!(f, "redis{s}://{address}")?,
            Topology::Sentinel { sentinels, master } => {
                write!(f, "redis{s}+sentinel://{}/{master}", list(sentinels))?;
            }
            Topology::Cluster(nodes) => write!(f, "redis{s}+cluster://{}", list(nodes))?,
        }
        if self.database != 0 { write!(f, "/{}", self.database) } else { Ok(()) }
    }
}

fn login_of(text: &str) -> Result<Credentials, String> {
    if text.is_empty() {
        return Ok(Credentials::default());
    }
    let (user, password) =
        text.split_once(':').map_or((text, None), |(user, password)| (user, Some(password)));
    let user = Some(decode(user)?).filter(|user| !user.is_empty());
    Ok(Credentials { user, password: password.map(decode).transpose()? })
}

fn database_of(text: &str) -> Result<u16, String> {
    if text.is_empty() { Ok(0) } else { text.parse().map_err(|_| format!("`{text}` is no database number")) }
}

fn decode(text: &str) -> Result<String, String> {
    let text = percent_decode_str(text).decode_utf8().map_err(|_| format!("`{text}` is not UTF-8"))?;
    Ok(text.into_owned())
}

fn read_password(path: &str) -> Result<String, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("cannot read {path}: {error}"))?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(host: &str, port: u16) -> Address {
        Address { host: host.to_owned(), port }
    }

    #[test]
    fn every_arrangement() {
        let url: RedisUrl = "redis://127.0.0.1:6380/3".parse().unwrap();
        assert_eq!((url.topology, url.database), (Topology::Single(address("127.0.0.1", 6380)), 3));
        let url: RedisUrl = "rediss://ann:p%40ss%2F@[::1]?ca=/ca.pem&prefix=shop:eu".parse().unwrap();
        assert_eq!(url.topology, Topology::Single(address("::1", 6379)));
        assert_eq!(url.credentials.user.as_deref(), Some("ann"));
        assert_eq!(url.credentials.password.as_deref(), Some("p@ss/"));
        assert_eq!(url.prefix, "shop:eu");
        assert_eq!(url.tls.unwrap().ca, Some("/ca.pem".into()));
        let url: RedisUrl = "redis+sentinel://:s3@a,b:5/mymaster/2".parse().unwrap();
        let sentinels = vec![address("a", 26379), address("b", 5)];
        assert_eq!(url.topology, Topology::Sentinel { sentinels, master: "mymaster".to_owned() });
        assert_eq!((url.credentials.user, url.database), (None, 2));
        let url: RedisUrl = "rediss+cluster://a:1,b:2".parse().unwrap();
        assert_eq!(url.topology, Topology::Cluster(vec![address("a", 1), address("b", 2)]));
        assert!(url.tls.is_some());
    }

    #[test]
    fn a_password_is_shown_to_nobody() {
        let url: RedisUrl = "redis://ann:secret@h:1?sentinel_password=secret".parse().unwrap();
        assert_eq!(url.to_string(), "redis://h:1");
        assert!(!format!("{url:?}").contains("secret"));
    }

    #[test]
    fn a_typo_is_named_and_a_right_one_shown() {
        for (text, problem) in [
            ("redis:/127.0.0.1", "no `://`"),
            ("127.0.0.1:6379", "no `://`"),
            ("rediz://h", "no store called `rediz`"),
            ("redis+sentinal://h", "no store called `redis+sentinal`"),
            ("redis://", "a host is missing"),
            ("redis://h:port", "`\u{2026}` is no port"),
            ("redis://h:0", "`0` is no port"),
            ("redis://h:70000", "`70000` is no port"),
            ("redis://ann:p/ss@h:1", "`\u{2026}` is no port"),
            ("redis://h:1/x", "`x` is no database"),
            ("redis://h:1,i:2", "several belong to redis+cluster://"),
            ("redis://::1", "put an IPv6 address in brackets"),
            ("redis://[::1", "lacks a closing bracket"),
            ("redis+sentinel://h:1", "the name of the master is missing"),
            ("redis+cluster://h:1/2", "no databases but 0"),
            ("redis://h?prefx=a", "no parameter `prefx`"),
            ("redis://h?prefix=a{b}", "the prefix `a{b}` is not"),
            ("redis://h?prefix", "`prefix` has no value"),
            ("redis://h?ca=/ca.pem", "must begin with `rediss`"),
            ("rediss://h?cert=/c.pem", "`cert` and `key` belong together"),
            ("redis://h?password_file=/nowhere/at/all", "cannot read /nowhere/at/all"),
        ] {
            let error = text.parse::<RedisUrl>().unwrap_err().to_string();
            assert!(error.contains(problem), "{text}: {error}");
            let example = error.rsplit("write it as ").next().unwrap();
            assert!(example.parse::<RedisUrl>().is_ok(), "{text}: {error}");
        }
    }
}

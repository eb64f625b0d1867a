//! Where PostgreSQL is, as one line of text says it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use sqlx::postgres::PgSslMode;

use crate::authority::{address, decode};

/// The port that PostgreSQL listens on unless told otherwise.
const PORT: u16 = 5432;

const EXAMPLE: &str = "postgres://user:password@10.0.0.1:5432,10.0.0.2:5432/database";

const NO_USER: &str = "the user is missing before the host; \
                       a `/`, `?`, `#` or `@` in a password is written %2F, %3F, %23, %40";

/// PostgreSQL cuts longer names off.
const MAX_NAME: usize = 63;

/// Where PostgreSQL is, who to be there, and which database to use.
///
/// ```
/// use tidegate_sources::PostgresUrl;
///
/// let url: PostgresUrl = "postgres://ann:secret@10.0.0.1,10.0.0.2:5433/shop?schema=limits".parse()?;
/// assert_eq!(url.to_string(), "postgres://10.0.0.1:5432,10.0.0.2:5433/shop?schema=limits");
/// # Ok::<(), tidegate_sources::PostgresUrlError>(())
/// ```
#[derive(Clone)]
pub struct PostgresUrl {
    /// Host and port of each server that is known, an IPv6 address without brackets.
    pub(super) servers: Vec<(String, u16)>,
    pub(super) user: String,
    pub(super) password: Option<String>,
    pub(super) database: String,
    /// Where the tables are; none: where the server looks first.
    pub(super) schema: Option<String>,
    pub(super) ssl_mode: PgSslMode,
    /// Who may have signed the servers' certificates (PEM).
    pub(super) ssl_root_cert: Option<PathBuf>,
    /// Our own certificate and the key to it (PEM).
    pub(super) ssl_cert: Option<PathBuf>,
    pub(super) ssl_key: Option<PathBuf>,
}

/// What is wrong with an URL, and what a right one looks like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostgresUrlError(String);

impl fmt::Display for PostgresUrlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; write it as {EXAMPLE}", self.0)
    }
}

impl std::error::Error for PostgresUrlError {}

impl FromStr for PostgresUrl {
    type Err = PostgresUrlError;

    fn from_str(text: &str) -> Result<Self, PostgresUrlError> {
        parse(text).map_err(PostgresUrlError)
    }
}

fn parse(text: &str) -> Result<PostgresUrl, String> {
    let rest = text.strip_prefix("postgres://").or_else(|| text.strip_prefix("postgresql://"));
    let rest = rest.ok_or("it does not begin with postgres:// or postgresql://")?;
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (login, hosts) = authority.rsplit_once('@').ok_or(NO_USER)?;
    let (user, password) = match login.split_once(':') {
        Some((user, password)) => (user, Some(decode(password)?)),
        None => (login, None),
    };
    if user.is_empty() {
        return Err(NO_USER.to_owned());
    }
    let servers = hosts.split(',').map(server).collect::<Result<_, _>>()?;
    let database = decode(path)?;
    if database.is_empty() {
        return Err("the database is missing".to_owned());
    }
    if database.contains(|c: char| c.is_control()) {
        return Err(format!("`{}` is no name of a database", database.escape_debug()));
    }
    let mut url = PostgresUrl {
        servers,
        user: decode(user)?,
        password,
        database,
        schema: None,
        ssl_mode: PgSslMode::Prefer,
        ssl_root_cert: None,
        ssl_cert: None,
        ssl_key: None,
    };
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').ok_or_else(|| format!("`{pair}` has no value"))?;
        url.set(name, decode(value)?)?;
    }
    if url.ssl_cert.is_some() != url.ssl_key.is_some() {
        return Err("`sslcert` and `sslkey` belong together".to_owned());
    }
    if url.ssl_root_cert.is_some() && !matches!(url.ssl_mode, PgSslMode::VerifyCa | PgSslMode::VerifyFull) {
        return Err("`sslrootcert` is looked at with sslmode=verify-full or verify-ca only".to_owned());
    }
    Ok(url)
}

fn server(text: &str) -> Result<(String, u16), String> {
    let address = address(text, PORT)?;
    let (host, port) = address.rsplit_once(':').unwrap_or((&address, ""));
    Ok((host.trim_matches(['[', ']']).to_owned(), port.parse().unwrap_or(PORT)))
}

fn ssl_mode(text: &str) -> Result<PgSslMode, String> {
    match text {
        "disable" => Ok(PgSslMode::Disable),
        "prefer" => Ok(PgSslMode::Prefer),
        "require" => Ok(PgSslMode::Require),
        "verify-ca" => Ok(PgSslMode::VerifyCa),
        "verify-full" => Ok(PgSslMode::VerifyFull),
        _ => Err(format!(
            "there is no sslmode `{text}`, only disable, prefer, require, verify-ca and verify-full"
        )),
    }
}

impl PostgresUrl {
    /// Returns the file with the key to our own certificate, if there is one.
    pub fn key_file(&self) -> Option<&Path> {
        self.ssl_key.as_deref()
    }

    fn set(&mut self, name: &str, value: String) -> Result<(), String> {
        match name {
            "sslmode" => self.ssl_mode = ssl_mode(&value)?,
            "sslrootcert" => self.ssl_root_cert = Some(value.into()),
            "sslcert" => self.ssl_cert = Some(value.into()),
            "sslkey" => self.ssl_key = Some(value.into()),
            "schema" if is_name(&value) => self.schema = Some(value),
            "schema" => {
                return Err(format!(
                    "the schema `{}` is not made of letters, digits and underscores",
                    value.escape_debug()
                ));
            }
            _ => {
                return Err(format!(
                    "there is no parameter `{name}`, only sslmode, sslrootcert, sslcert, sslkey and schema"
                ));
            }
        }
        Ok(())
    }

    /// A server's name for people.
    pub(super) fn address(&self, server: usize) -> String {
        match self.servers.get(server) {
            Some((host, port)) if host.contains(':') => format!("[{host}]:{port}"),
            Some((host, port)) => format!("{host}:{port}"),
            None => String::new(),
        }
    }
}

/// Whether it can be quoted without further thought.
fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= MAX_NAME
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && !text.starts_with(|c: char| c.is_ascii_digit())
}

/// The URL without user and password.
impl fmt::Display for PostgresUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let servers: Vec<String> = (0..self.servers.len()).map(|server| self.address(server)).collect();
        write!(f, "postgres://{}/{}", servers.join(","), self.database)?;
        match &self.schema {
            Some(schema) => write!(f, "?schema={schema}"),
            None => Ok(()),
        }
    }
}

/// The same: passwords are shown to nobody.
impl fmt::Debug for PostgresUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PostgresUrl({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part() {
        let url: PostgresUrl = "postgresql://ann:p%40ss%2F:@a,[::1]:5,b:6/shop%20eu\
                                ?sslmode=verify-full&sslrootcert=/ca&sslcert=/c&sslkey=/k&schema=limits"
            .parse()
            .unwrap();
        assert_eq!(url.servers, [("a".to_owned(), 5432), ("::1".to_owned(), 5), ("b".to_owned(), 6)]);
        assert_eq!((url.user.as_str(), url.password.as_deref()), ("ann", Some("p@ss/:")));
        assert_eq!((url.database.as_str(), url.schema.as_deref()), ("shop eu", Some("limits")));
        assert!(matches!(url.ssl_mode, PgSslMode::VerifyFull));
        let files = [&url.ssl_root_cert, &url.ssl_cert, &url.ssl_key].map(|file| file.clone().unwrap());
        assert_eq!(files, ["/ca", "/c", "/k"].map(PathBuf::from));
        let url: PostgresUrl = "postgres://ann@h/d".parse().unwrap();
        assert_eq!((url.password, url.schema), (None, None));
        assert!(matches!(url.ssl_mode, PgSslMode::Prefer));
    }

    #[test]
    fn a_password_is_shown_to_nobody() {
        let url: PostgresUrl = "postgres://ann:secret@h:1,[::1]/d?schema=s".parse().unwrap();
        assert_eq!(url.to_string(), "postgres://h:1,[::1]:5432/d?schema=s");
        assert!(!format!("{url:?}").contains("secret"));
    }

    #[test]
    fn a_typo_is_named_and_a_right_one_shown() {
        for (text, problem) in [
            ("postgre://u@h/d", "does not begin with postgres://"),
            ("postgres://h/d", "the user is missing"),
            ("postgres://:p@h/d", "the user is missing"),
            ("postgres://u:p@/d", "a host is missing"),
            ("postgres://u:p@h,/d", "a host is missing"),
            ("postgres://u:p@h:port/d", "`\u{2026}` is no port"),
            ("postgres://u:p/w@h:1/d", "the user is missing"),
            ("postgres://u:p@::1/d", "put an IPv6 address in brackets"),
            ("postgres://u:p@h:1", "the database is missing"),
            ("postgres://u:p@h:1/", "the database is missing"),
            ("postgres://u:p@h:1/a%0Ab", "`a\\nb` is no name of a database"),
            ("postgres://u:%ff@h:1/d", "is not UTF-8"),
            ("postgres://u:p@h/d?host=x", "no parameter `host`"),
            ("postgres://u:p@h/d?schema", "`schema` has no value"),
            ("postgres://u:p@h/d?schema=a%22b", "not made of letters"),
            ("postgres://u:p@h/d?schema=", "not made of letters"),
            ("postgres://u:p@h/d?sslmode=allow", "there is no sslmode `allow`"),
            ("postgres://u:p@h/d?sslcert=/c", "belong together"),
            ("postgres://u:p@h/d?sslrootcert=/c", "with sslmode=verify-full"),
        ] {
            let error = text.parse::<PostgresUrl>().unwrap_err().to_string();
            assert!(error.contains(problem), "{text}: {error}");
            let example = error.rsplit("write it as ").next().unwrap();
            assert!(example.parse::<PostgresUrl>().is_ok(), "{text}: {error}");
        }
    }
}

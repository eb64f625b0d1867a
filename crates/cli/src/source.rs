//! Where rules come from, as an option says it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use tidegate_server::RulesFeed;
use tidegate_sources::{
    EtcdArchive, EtcdSource, EtcdUrl, EtcdUrlError, FileArchive, FileSource, PostgresArchive, PostgresSource,
    PostgresUrl, PostgresUrlError, RuleBook, RuleSource, ZookeeperArchive, ZookeeperSource, ZookeeperUrl,
    ZookeeperUrlError,
};

/// A source of rules this build has.
#[derive(Clone, Debug)]
pub(crate) enum RulesSource {
    /// A file, read again whenever it changes.
    File(PathBuf),
    /// Keys in etcd, watched.
    Etcd(Box<EtcdUrl>),
    /// Znodes in ZooKeeper, watched.
    Zookeeper(Box<ZookeeperUrl>),
    /// Rows in PostgreSQL, which tells when they change.
    Postgres(Box<PostgresUrl>),
}

/// Where rules are changed, if that is not where they are read.
#[derive(Clone, Debug)]
pub(crate) struct Primary(PostgresUrl);

impl Primary {
    /// Returns the file with the key that we show to it, if there is one.
    pub(crate) fn key_file(&self) -> Option<&Path> {
        self.0.key_file()
    }
}

impl FromStr for Primary {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.parse().map(Self).map_err(|error: PostgresUrlError| error.to_string())
    }
}

impl RulesSource {
    /// The rules, as they are and as they change. Changes of our own go to the primary, if one is given.
    pub(crate) fn feed(&self, primary: Option<&Primary>) -> RulesFeed {
        RulesFeed::watch(self.source()).with_book(self.book(primary))
    }

    /// Returns the file with the key that we show to the source, if there is one.
    pub(crate) fn key_file(&self) -> Option<&Path> {
        match self {
            Self::File(_) | Self::Zookeeper(_) => None,
            Self::Etcd(url) => url.key_file(),
            Self::Postgres(url) => url.key_file(),
        }
    }

    /// The documents, as they are and as they change.
    pub(crate) fn source(&self) -> Box<dyn RuleSource> {
        match self {
            Self::File(path) => Box::new(FileSource::new(path)),
            Self::Etcd(url) => Box::new(EtcdSource::new((**url).clone())),
            Self::Zookeeper(url) => Box::new(ZookeeperSource::new((**url).clone())),
            Self::Postgres(url) => Box::new(PostgresSource::new((**url).clone())),
        }
    }

    /// The rules, to be looked at and changed.
    pub(crate) fn book(&self, primary: Option<&Primary>) -> RuleBook {
        RuleBook::new(match self {
            Self::File(path) => Arc::new(FileArchive::new(path)),
            Self::Etcd(url) => Arc::new(EtcdArchive::new((**url).clone())),
            Self::Zookeeper(url) => Arc::new(ZookeeperArchive::new((**url).clone())),
            Self::Postgres(url) => Arc::new(tables(url, primary)),
        })
    }

    /// The tables that hold the rules, if they are in tables.
    pub(crate) fn tables(&self, primary: Option<&Primary>) -> Option<PostgresArchive> {
        match self {
            Self::Postgres(url) => Some(tables(url, primary)),
            _ => None,
        }
    }
}

fn tables(url: &PostgresUrl, primary: Option<&Primary>) -> PostgresArchive {
    PostgresArchive::new(primary.map_or(url, |Primary(url)| url).clone())
}

/// What to give instead.
const KNOWN: &str = "give the path of a rule file, etcd://HOST:PORT/PREFIX, zookeeper://HOST:PORT/PATH or \
                     postgres://USER@HOST:PORT/DATABASE";

impl FromStr for RulesSource {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some((scheme, rest)) = text.split_once("://") else {
            return match text {
                "" => Err(KNOWN.to_owned()),
                path => Ok(Self::File(path.into())),
            };
        };
        match scheme {
            "file" => Ok(Self::File(rest.into())),
            "etcd" | "etcds" => {
                let url = text.parse().map_err(|error: EtcdUrlError| error.to_string())?;
                Ok(Self::Etcd(Box::new(url)))
            }
            "zookeeper" => {
                let url = text.parse().map_err(|error: ZookeeperUrlError| error.to_string())?;
                Ok(Self::Zookeeper(Box::new(url)))
            }
            "postgres" | "postgresql" => {
                let url = text.parse().map_err(|error: PostgresUrlError| error.to_string())?;
                Ok(Self::Postgres(Box::new(url)))
            }
            _ => Err(format!("there is no source of rules called {scheme}; {KNOWN}")),
        }
    }
}

/// As messages show it: without its password.
impl fmt::Display for RulesSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::Etcd(url) => url.fmt(f),
            Self::Zookeeper(url) => url.fmt(f),
            Self::Postgres(url) => url.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_said() {
        for path in ["rules.yaml", "/etc/tidegate/rules.yaml", "file:///etc/rules.yaml", "c:rules"] {
            assert!(path.parse::<RulesSource>().is_ok(), "{path}");
        }
        let told = |url: &str| url.parse::<RulesSource>().unwrap_err();
        assert!(told("etcd://127.0.0.1:2379").contains("prefix of the keys is missing"));
        assert!(told("zookeeper://127.0.0.1:2181").contains("path of the rules is missing"));
        assert!(told("postgres://localhost/rules").contains("user"));
        assert!(told("consul://x").contains("no source of rules called consul"));
        assert!(told("").contains("path of a rule file"));
    }

    #[test]
    fn a_password_is_shown_to_nobody() {
        for (url, shown) in [
            ("etcds://ann:secret@127.0.0.1/tidegate", "etcds://127.0.0.1:2379/tidegate"),
            ("zookeeper://ann:secret@127.0.0.1/tidegate", "zookeeper://127.0.0.1:2181/tidegate"),
            ("postgres://ann:secret@127.0.0.1/tidegate", "postgres://127.0.0.1:5432/tidegate"),
        ] {
            let source: RulesSource = url.parse().unwrap();
            assert_eq!(source.to_string(), shown);
            assert!(!format!("{source:?}").contains("secret"));
        }
    }
}

//! Where rules come from, as an option says it.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use tidegate_server::RulesFeed;
use tidegate_sources::{
    EtcdArchive, EtcdSource, EtcdUrl, EtcdUrlError, FileArchive, FileSource, RuleBook, ZookeeperArchive,
    ZookeeperSource, ZookeeperUrl, ZookeeperUrlError,
};

/// A source of rules this build has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RulesSource {
    /// A file, read again whenever it changes.
    File(PathBuf),
    /// Keys in etcd, watched.
    Etcd(Box<EtcdUrl>),
    /// Znodes in ZooKeeper, watched.
    Zookeeper(Box<ZookeeperUrl>),
}

impl RulesSource {
    /// The rules, as they are and as they change.
    pub(crate) fn feed(&self) -> RulesFeed {
        let feed = match self {
            Self::File(path) => RulesFeed::watch(FileSource::new(path)),
            Self::Etcd(url) => RulesFeed::watch(EtcdSource::new((**url).clone())),
            Self::Zookeeper(url) => RulesFeed::watch(ZookeeperSource::new((**url).clone())),
        };
        feed.with_book(self.book())
    }

    /// The rules, to be looked at and changed.
    pub(crate) fn book(&self) -> RuleBook {
        RuleBook::new(match self {
            Self::File(path) => Arc::new(FileArchive::new(path)),
            Self::Etcd(url) => Arc::new(EtcdArchive::new((**url).clone())),
            Self::Zookeeper(url) => Arc::new(ZookeeperArchive::new((**url).clone())),
        })
    }
}

/// Sources that are known, but not to this build.
const NOT_YET: [(&str, &str); 2] = [("postgres", "PostgreSQL"), ("postgresql", "PostgreSQL")];

/// What to give instead.
const KNOWN: &str = "give the path of a rule file, etcd://HOST:PORT/PREFIX or zookeeper://HOST:PORT/PATH";

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
            "file" => return Ok(Self::File(rest.into())),
            "etcd" | "etcds" => {
                let url = text.parse().map_err(|error: EtcdUrlError| error.to_string())?;
                return Ok(Self::Etcd(Box::new(url)));
            }
            "zookeeper" => {
                let url = text.parse().map_err(|error: ZookeeperUrlError| error.to_string())?;
                return Ok(Self::Zookeeper(Box::new(url)));
            }
            _ => {}
        }
        match NOT_YET.iter().find(|(known, _)| *known == scheme) {
            Some((_, name)) => Err(format!("this build cannot read rules from {name} yet; {KNOWN}")),
            None => Err(format!("there is no source of rules called {scheme}; {KNOWN}")),
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
        assert!(told("postgres://localhost/rules").contains("from PostgreSQL yet"));
        assert!(told("consul://x").contains("no source of rules called consul"));
        assert!(told("").contains("path of a rule file"));
    }

    #[test]
    fn a_password_is_shown_to_nobody() {
        for (url, shown) in [
            ("etcds://ann:secret@127.0.0.1/tidegate", "etcds://127.0.0.1:2379/tidegate"),
            ("zookeeper://ann:secret@127.0.0.1/tidegate", "zookeeper://127.0.0.1:2181/tidegate"),
        ] {
            let source: RulesSource = url.parse().unwrap();
            assert_eq!(source.to_string(), shown);
            assert!(!format!("{source:?}").contains("secret"));
        }
    }
}

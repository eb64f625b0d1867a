//! Where counters are kept, as an URL says it.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use tidegate::redis::{RedisUrl, UrlError};

/// Where counters are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Store {
    /// In this process.
    Memory,
    /// In Redis, shared with other nodes.
    Redis(Box<RedisUrl>),
}

impl Store {
    /// Returns the file with the key that we show to the store, if there is one.
    pub(crate) fn key_file(&self) -> Option<&Path> {
        match self {
            Self::Memory => None,
            Self::Redis(url) => url.tls.as_ref()?.key.as_deref(),
        }
    }
}

impl FromStr for Store {
    type Err = String;

    fn from_str(url: &str) -> Result<Self, String> {
        match url.split_once(':') {
            Some(("memory", "")) => Ok(Self::Memory),
            Some((scheme, _)) if scheme.starts_with("redi") => {
                url.parse().map(|url| Self::Redis(Box::new(url))).map_err(|error: UrlError| error.to_string())
            }
            _ => Err("this is no store; use memory:, redis://127.0.0.1:6379, redis+sentinel://… or redis+cluster://…"
                .to_owned()),
        }
    }
}

/// As messages show it: without its passwords.
impl fmt::Display for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory => f.write_str("memory"),
            Self::Redis(url) => url.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typo_is_named_and_a_right_one_shown() {
        assert_eq!("memory:".parse(), Ok(Store::Memory));
        let store: Store = "redis://ann:secret@127.0.0.1:6379/2".parse().unwrap();
        assert_eq!(store.to_string(), "redis://127.0.0.1:6379/2");
        let told = |url: &str| url.parse::<Store>().unwrap_err();
        assert!(told("redis:/127.0.0.1").contains("write it as redis://127.0.0.1:6379"));
        assert!(told("redi://127.0.0.1").contains("no store called `redi`"));
        assert!(told("redis+sentinel://h:1").contains("name of the master is missing"));
        assert!(["", "memory", "memory:x", "disk:"].iter().all(|url| told(url).contains("is no store")));
    }
}

//! Where counters are kept, as an URL says it.

use std::str::FromStr;

/// A store this build has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Store {
    /// In this process.
    Memory,
}

/// Stores that are known, but not to this build.
const NOT_YET: [&str; 4] = ["redis", "rediss", "redis+sentinel", "redis+cluster"];

impl FromStr for Store {
    type Err = String;

    fn from_str(url: &str) -> Result<Self, String> {
        match url.split_once(':') {
            Some(("memory", "")) => Ok(Self::Memory),
            Some((scheme, _)) if NOT_YET.contains(&scheme) => {
                Err(format!("this build has no {scheme} store yet; use memory:"))
            }
            _ => Err("this is no store; use memory:".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_said() {
        assert_eq!("memory:".parse(), Ok(Store::Memory));
        let told = |url: &str| url.parse::<Store>().unwrap_err();
        assert_eq!(told("redis://127.0.0.1:6379"), "this build has no redis store yet; use memory:");
        assert!(told("redis+cluster://a:1,b:2").contains("no redis+cluster store yet"));
        assert!(["", "memory", "memory:x", "disk:"].iter().all(|url| told(url).contains("is no store")));
    }
}

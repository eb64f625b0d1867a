//! Where rules come from, as an option says it.

use std::path::PathBuf;
use std::str::FromStr;

/// A source of rules this build has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RulesSource {
    /// A file, read again whenever it changes.
    File(PathBuf),
}

/// Sources that are known, but not to this build.
const NOT_YET: [(&str, &str); 4] =
    [("etcd", "etcd"), ("zookeeper", "ZooKeeper"), ("postgres", "PostgreSQL"), ("postgresql", "PostgreSQL")];

impl FromStr for RulesSource {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some((scheme, rest)) = text.split_once("://") else {
            return match text {
                "" => Err("give the path of a rule file".to_owned()),
                path => Ok(Self::File(path.into())),
            };
        };
        if scheme == "file" {
            return Ok(Self::File(rest.into()));
        }
        match NOT_YET.iter().find(|(known, _)| *known == scheme) {
            Some((_, name)) => {
                Err(format!("this build cannot read rules from {name} yet; give the path of a rule file"))
            }
            None => Err(format!("there is no source of rules called {scheme}; give the path of a rule file")),
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
        assert!(told("etcd://127.0.0.1:2379/rules").contains("from etcd yet"));
        assert!(told("zookeeper://127.0.0.1:2181/rules").contains("from ZooKeeper yet"));
        assert!(told("postgres://localhost/rules").contains("from PostgreSQL yet"));
        assert!(told("consul://x").contains("no source of rules called consul"));
        assert!(told("").contains("path of a rule file"));
    }
}

//! The ids of rules that their author gave none.

use std::collections::HashMap;

use tidegate_core::descriptor::EntryPattern;
use tidegate_core::{Rule, Secret};

use crate::document::Named;
use crate::rule::{MAX_ID_CHARS, is_id_char};

use super::Found;

/// What tells the parts of a path apart.
const DOMAIN: u8 = 0;
const KEY: u8 = 1;
const VALUE: u8 = 2;

/// The path to a descriptor as the id of a rule.
pub(super) struct PathId {
    /// Only of characters that an id may have.
    text: String,
    /// Whether the text is the path, all of it and nothing else.
    exact: bool,
    digest: u32,
}

impl PathId {
    pub(super) fn new(domain: &str, path: &[EntryPattern]) -> Self {
        let mut encoding = Secret::new([0; 16]).encode();
        encoding.part(DOMAIN, domain.as_bytes());
        let mut written = domain.to_owned();
        for entry in path {
            encoding.part(KEY, entry.key.as_bytes());
            written.extend([".", &entry.key]);
            if let Some(value) = entry.value.text() {
                encoding.part(VALUE, value.as_bytes());
                written.extend(["_", value]);
            }
        }
        let text: String = written.chars().map(|c| if is_id_char(c) { c } else { '-' }).collect();
        let [bits, _] = encoding.tag().bits();
        let digest = u32::try_from(bits >> 32).unwrap_or_default();
        Self { exact: text == written && text.len() <= MAX_ID_CHARS, text, digest }
    }

    /// The id; `alone` says whether no other path reads the same.
    fn finish(mut self, alone: bool) -> Box<str> {
        if !self.exact || !alone {
            let digest = format!("-{:08x}", self.digest);
            self.text.truncate(MAX_ID_CHARS - digest.len());
            self.text.push_str(&digest);
        }
        self.text.into()
    }
}

/// Gives the rules of a domain their ids. Keys and values may contain what joins them, so that two paths can read the
/// same; neither of them then goes by that alone.
pub(super) fn named(found: Vec<Found>) -> impl Iterator<Item = Named<Rule>> {
    let mut times: HashMap<String, usize> = HashMap::with_capacity(found.len());
    for Found { id, .. } in &found {
        *times.entry(id.text.clone()).or_default() += 1;
    }
    found.into_iter().map(move |Found { at, id, rule }| {
        let alone = times.get(&id.text).is_none_or(|&times| times == 1);
        let name = id.finish(alone);
        let value = rule.map(|rule| Rule { id: name.clone(), ..rule });
        Named { at, name, value }
    })
}

#[cfg(test)]
mod tests {
    use tidegate_core::descriptor::ValuePattern;

    use super::*;

    fn id(domain: &str, path: &[(&str, &str)], alone: bool) -> String {
        let entry = |&(key, value): &(&str, &str)| EntryPattern {
            key: key.into(),
            value: ValuePattern::new(value),
            shared: false,
            in_metric: false,
        };
        PathId::new(domain, &path.iter().map(entry).collect::<Vec<_>>()).finish(alone).into()
    }

    #[test]
    fn a_plain_path_is_its_own_id() {
        assert_eq!(id("messaging", &[("to_number", "")], true), "messaging.to_number");
        let path = [("message_type", "marketing"), ("to_number", "112")];
        assert_eq!(id("messaging", &path, true), "messaging.message_type_marketing.to_number_112");
    }

    /// Ids are part of keys: what these are must not change from one version to the next.
    #[test]
    fn any_other_path_has_a_digest() {
        assert_eq!(id("d", &[("path", "/a/*")], true), "d.path_-a---f3f49b07");
        assert_eq!(id("d", &[("path", "/a/?")], true), "d.path_-a---7e8ab0cf");
        assert_eq!(id("d", &[("a", "b")], false), "d.a_b-c89ec13c");
        assert_eq!(id("d", &[("a_b", "")], false), "d.a_b-2d1c9586");
        let long = id("d", &[("k", &"x".repeat(500))], true);
        assert_eq!((long.len(), &long[..6], &long[118..]), (128, "d.k_xx", "x-f2104a44"));
        assert_eq!(id("grüße", &[("k", "")], true), "gr--e.k-1497ea2b");
    }
}

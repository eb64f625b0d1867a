//! Documents that stand each by itself: a bad one harms no other, and its last good version stays in force.

use std::collections::HashMap;

use tidegate_rules::{Problems, read};

use crate::{GoodText, StoredText};

/// Documents that can be used as far as each of them is concerned.
#[derive(Debug)]
pub struct Mended {
    /// The documents; in the place of a bad one is its last good version, or nothing.
    pub documents: Vec<StoredText>,
    /// The bad ones.
    pub aside: Vec<Aside>,
}

/// A document that is not used.
#[derive(Debug)]
pub struct Aside {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: u64,
    /// All that is wrong with it.
    pub problems: Problems,
    /// Whether its last good version is used instead.
    pub replaced: bool,
}

impl Aside {
    /// What is wrong, in one line.
    pub fn reason(&self) -> String {
        let Self { name, problems, replaced, .. } = self;
        let first = problems.list().first().map(ToString::to_string).unwrap_or_default();
        let instead =
            if *replaced { "its last good version stays in force" } else { "nothing is known instead" };
        format!("{name} is not in force, {instead}: {first}")
    }
}

/// What documents were when they were last good, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LastGood(HashMap<String, GoodText>);

impl LastGood {
    /// Documents that are good as they are.
    pub fn of(documents: &[StoredText]) -> Self {
        let mut good = Self::default();
        for StoredText { name, text, version } in documents {
            if let Ok(text) = text {
                good.add(name.clone(), GoodText { version: *version, text: text.clone() });
            }
        }
        good
    }

    /// Takes in what was good, unless something newer is known.
    pub fn add(&mut self, name: String, good: GoodText) {
        match self.0.get(&name) {
            Some(known) if known.version >= good.version => {}
            _ => drop(self.0.insert(name, good)),
        }
    }

    /// What is known of a document.
    pub fn get(&self, name: &str) -> Option<&GoodText> {
        self.0.get(name)
    }
}

/// Puts bad documents aside. In their places come their last good versions, as far as they are known.
pub fn mend(documents: &[StoredText], known: &LastGood) -> Mended {
    let mut mended = Mended { documents: Vec::with_capacity(documents.len()), aside: Vec::new() };
    for document in documents {
        let Err(problems) = check(document) else {
            mended.documents.push(document.clone());
            continue;
        };
        let StoredText { name, version, .. } = document;
        let good = known.get(name).map(|good| StoredText::new(name, good.version, &good.text));
        // What was good to an older release may not be so any more.
        let good = good.filter(|good| check(good).is_ok());
        let replaced = good.is_some();
        mended.aside.push(Aside { name: name.clone(), version: *version, problems, replaced });
        mended.documents.extend(good);
    }
    mended
}

fn check(document: &StoredText) -> Result<(), Problems> {
    read(&document.as_source()?).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(limit: &str) -> String {
        format!("{{rule_id: r, identifier_type: global, limit: {limit}, window: 1s}}")
    }

    #[test]
    fn a_bad_document_is_put_aside_and_no_other() {
        let pushed = [
            StoredText::new("a", 5, rule("x")),
            StoredText::new("b", 6, rule("3")),
            StoredText::new("c", 7, "?"),
            StoredText { text: Err("not UTF-8".to_owned()), ..StoredText::new("d", 8, "") },
        ];
        let known = LastGood::of(&[StoredText::new("a", 2, rule("1")), StoredText::new("c", 3, "once good")]);
        let mended = mend(&pushed, &known);
        assert_eq!(
            mended.documents,
            [StoredText::new("a", 2, rule("1")), StoredText::new("b", 6, rule("3"))]
        );
        let told: Vec<_> = mended.aside.iter().map(|aside| (aside.replaced, aside.reason())).collect();
        assert!(
            told[0].0 && told[0].1.starts_with("a is not in force, its last good version stays"),
            "{told:?}"
        );
        assert!(!told[1].0 && told[1].1.contains("nothing is known instead"), "{told:?}");
        assert!(!told[2].0 && told[2].1.ends_with("not UTF-8"), "{told:?}");
    }

    #[test]
    fn the_newest_good_version_counts_whoever_remembers_it() {
        let mut known = LastGood::of(&[StoredText::new("a", 4, "four")]);
        for (version, text) in [(3, "three"), (5, "five"), (4, "four")] {
            known.add("a".to_owned(), GoodText { version, text: text.to_owned() });
        }
        assert_eq!(known.get("a").unwrap().text, "five");
    }
}

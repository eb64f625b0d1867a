//! Documents that stand each by itself: a bad one harms no other, and its last good version stays in force.

use std::collections::HashMap;

use tidegate_rules::{Problems, Source, read};
use tidegate_sources::{NamedText, Snapshot};

/// The documents of the rules in force, by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct LastGood(HashMap<String, String>);

/// A document that is not in force.
#[derive(Debug)]
pub(crate) struct Aside {
    name: String,
    problems: Problems,
    /// Whether its last good version is in force instead.
    pub(crate) replaced: bool,
}

impl Aside {
    /// What is wrong, in one line.
    pub(crate) fn reason(&self) -> String {
        let Self { name, problems, replaced } = self;
        let first = problems.list().first().map(ToString::to_string).unwrap_or_default();
        let instead =
            if *replaced { "its last good version stays in force" } else { "nothing is known instead" };
        format!("{name} is not in force, {instead}: {first}")
    }

    /// All of it.
    pub(crate) fn details(&self) -> String {
        self.problems.to_string()
    }
}

impl LastGood {
    pub(crate) fn of(snapshot: &Snapshot) -> Self {
        let documents = snapshot.documents.iter();
        Self(documents.map(|NamedText { name, text }| (name.clone(), text.clone())).collect())
    }

    /// `snapshot` with its bad documents put aside: in their places are their last good versions, or nothing.
    pub(crate) fn mend(&self, snapshot: &Snapshot) -> (Snapshot, Vec<Aside>) {
        let (mut documents, mut aside) = (Vec::with_capacity(snapshot.documents.len()), Vec::new());
        for NamedText { name, text } in &snapshot.documents {
            let Err(problems) = read(&Source { name, text }) else {
                documents.push(NamedText { name: name.clone(), text: text.clone() });
                continue;
            };
            let good = self.0.get(name).map(|text| NamedText { name: name.clone(), text: text.clone() });
            aside.push(Aside { name: name.clone(), problems, replaced: good.is_some() });
            documents.extend(good);
        }
        (Snapshot { documents, ..snapshot.clone() }, aside)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(name: &str, text: &str) -> NamedText {
        NamedText { name: name.to_owned(), text: text.to_owned() }
    }

    fn rule(limit: &str) -> String {
        format!("{{rule_id: r, identifier_type: global, limit: {limit}, window: 1s}}")
    }

    #[test]
    fn a_bad_document_is_put_aside_and_no_other() {
        let snapshot = |documents| Snapshot { version: 1, stamp: 1, apart: true, documents };
        let good = LastGood::of(&snapshot(vec![document("a", &rule("1")), document("b", &rule("2"))]));
        let pushed = vec![document("a", &rule("x")), document("b", &rule("3")), document("c", "?")];
        let (mended, aside) = good.mend(&snapshot(pushed));
        assert_eq!(mended.documents, [document("a", &rule("1")), document("b", &rule("3"))]);
        let told: Vec<_> = aside.iter().map(|aside| (aside.replaced, aside.reason())).collect();
        assert!(
            told[0].0 && told[0].1.starts_with("a is not in force, its last good version stays"),
            "{told:?}"
        );
        assert!(!told[1].0 && told[1].1.contains("nothing is known instead"), "{told:?}");
    }
}

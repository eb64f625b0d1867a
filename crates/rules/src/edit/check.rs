//! That a changed text says what it said before, but for the change.

use crate::document::Form;
use crate::node::Node;

/// What one document says: its rules, and all else.
pub(super) struct Said<'n, 't> {
    rest: Vec<(&'n str, &'n Node<'t>)>,
    rules: Vec<&'n Node<'t>>,
}

/// What is to be different.
#[derive(Clone, Copy)]
pub(super) enum Difference<'n, 't> {
    /// Another rule at a position of a document.
    Replaced(usize, usize, &'n Node<'t>),
    /// No rule there any more.
    Removed(usize, usize),
    /// One more rule at the end of a document.
    Added(usize, &'n Node<'t>),
    /// One more rule in a document of its own, after another one.
    Appended(usize, &'n Node<'t>),
}

/// Whether `after` says what `before` does, but for the difference.
pub(super) fn differ_by<'n, 't>(
    before: &'n [Node<'t>],
    after: &'n [Node<'t>],
    difference: Difference<'n, 't>,
) -> bool {
    let mut wanted: Vec<Said<'n, 't>> = before.iter().map(said).collect();
    let fits = match difference {
        Difference::Replaced(root, item, rule) => {
            let slot = wanted.get_mut(root).and_then(|said| said.rules.get_mut(item));
            slot.map(|slot| *slot = rule).is_some()
        }
        Difference::Removed(root, item) => {
            let said = wanted.get_mut(root).filter(|said| item < said.rules.len());
            said.map(|said| said.rules.remove(item)).is_some()
        }
        Difference::Added(root, rule) => wanted.get_mut(root).map(|said| said.rules.push(rule)).is_some(),
        Difference::Appended(root, rule) => {
            wanted.insert((root + 1).min(wanted.len()), Said { rest: Vec::new(), rules: vec![rule] });
            true
        }
    };
    let says = |said: &Said<'_, '_>| !said.rest.is_empty() || !said.rules.is_empty();
    let wanted: Vec<_> = wanted.into_iter().filter(says).collect();
    let found: Vec<_> = after.iter().map(said).filter(says).collect();
    fits && wanted.len() == found.len() && wanted.iter().zip(&found).all(|(one, two)| same(one, two))
}

/// Whether a document says which rules there are, be it none.
pub(super) fn states_rules(root: &Node<'_>) -> bool {
    match Form::of(root) {
        Form::Nothing | Form::Scalar => false,
        Form::Whole => root.get("rules").is_some(),
        Form::List | Form::RateLimits | Form::Envoy | Form::Rule => true,
    }
}

fn said<'n, 't>(root: &'n Node<'t>) -> Said<'n, 't> {
    let entries = || root.entries().iter().map(|entry| (&*entry.key.value, &entry.value));
    match Form::of(root) {
        Form::Rule => Said { rest: Vec::new(), rules: vec![root] },
        Form::List => Said { rest: Vec::new(), rules: root.items().iter().collect() },
        Form::Whole => Said {
            rest: entries().filter(|(key, _)| *key != "rules").collect(),
            rules: root.get("rules").into_iter().flat_map(Node::items).collect(),
        },
        _ => Said { rest: entries().collect(), rules: Vec::new() },
    }
}

fn same(one: &Said<'_, '_>, two: &Said<'_, '_>) -> bool {
    let rest = |said: &Said<'_, '_>| said.rest.len();
    rest(one) == rest(two)
        && one.rules.len() == two.rules.len()
        && one.rest.iter().zip(&two.rest).all(|(one, two)| one.0 == two.0 && one.1.says_the_same(two.1))
        && one.rules.iter().zip(&two.rules).all(|(one, two)| one.says_the_same(two))
}

//! Which rules apply, without asking each of them.
//!
//! Rules are laid out by path in a trie; where many share a place, they are laid out again by whichever other
//! condition tells them apart best. A request follows its own path through both and meets only rules that can
//! apply, be there ten or ten thousand.

mod check;
mod selector;
mod trie;

#[cfg(test)]
mod tests;

use smallvec::SmallVec;

use crate::path::Path;
use crate::request::Request;
use crate::rule::Condition;
use check::{Check, Methods};
use selector::Selector;
use trie::Trie;

/// Positions of rules in their rule set.
pub(crate) type Matches = SmallVec<[u32; 8]>;

/// The compiled conditions of a rule set.
#[derive(Debug)]
pub(crate) struct Matcher {
    checks: Vec<Check>,
    /// By path pattern, then by what else tells rules with that pattern apart.
    paths: Trie<Selector>,
    /// Rules that apply to every path.
    everywhere: Selector,
}

impl Matcher {
    /// Compiles the conditions of rules, in the order in which they are to be reported.
    pub(crate) fn new(conditions: &[Condition]) -> Self {
        let mut by_pattern: Trie<Vec<u32>> = Trie::default();
        let mut everywhere = Vec::new();
        for (rule, condition) in (0u32..).zip(conditions) {
            match &condition.path {
                Some(pattern) if !pattern.is_everything() => by_pattern.at(pattern.segments()).push(rule),
                _ => everywhere.push(rule),
            }
        }
        Self {
            paths: by_pattern.map(|rules| Selector::new(&rules, conditions)),
            everywhere: Selector::new(&everywhere, conditions),
            checks: conditions.iter().map(Check::new).collect(),
        }
    }

    /// The rules that apply to `request`, whose path in normal form is `path`, in order.
    pub(crate) fn find(&self, request: &Request<'_>, path: &Path<'_>) -> Matches {
        let mut found = Matches::new();
        let method = Methods::of(request.method);
        let mut consider = |selector: &Selector| {
            selector.candidates(request, &mut |rule| {
                if self.checks[rule as usize].holds(request, method) {
                    found.push(rule);
                }
            });
        };
        consider(&self.everywhere);
        self.paths.visit(path.as_str(), &mut consider);
        if let Some(decoded) = path.decoded() {
            self.paths.visit(decoded, &mut consider);
        }
        if found.len() > 1 {
            found.sort_unstable();
            found.dedup();
        }
        found
    }
}

//! The names of the headers that rules read.
//!
//! Known once rules are compiled, so that a server can look out for requests that say these headers in several ways without asking
//! each rule.

use crate::cost::Cost;
use crate::identity::Facet;
use crate::rule::Rule;

/// Names of the headers that the rules of a set read, in lower case.
#[derive(Clone, Debug, Default)]
pub struct HeaderNames {
    /// By what is left of them once [folded](fold).
    names: Box<[Box<str>]>,
    /// The folded bytes that they begin with.
    begins: u128,
}

/// What a request's header is to the rules of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderUse<'n> {
    /// No rule looks at it.
    Unread,
    /// A rule reads it.
    Read,
    /// No rule looks at it, but to programs behind CGI and its descendants it is this one, which a rule reads.
    LooksLike(&'n str),
}

impl HeaderNames {
    /// Collects the names that `rules` read, and those that say a request's tier.
    pub(crate) fn new<'r>(rules: impl Iterator<Item = &'r Rule>, tier_from: &[Facet]) -> Self {
        let mut names: Vec<Box<str>> = tier_from.iter().filter_map(of_facet).collect();
        for rule in rules {
            names.extend(rule.condition.headers.iter().map(|(name, _)| name.clone()));
            names.extend(rule.identifier.facets().iter().filter_map(of_facet));
            if let Cost::Header { name, .. } = &rule.cost {
                names.push(name.clone());
            }
        }
        names.sort_unstable_by(|a, b| folded(a).cmp(folded(b)).then_with(|| a.cmp(b)));
        names.dedup();
        let begins = names.iter().fold(0, |all, name| all | first_bit(name));
        Self { names: names.into(), begins }
    }

    /// Whether no rule reads any header.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Says what the header `name` (in lower case) is to the rules.
    pub fn look_up(&self, name: &str) -> HeaderUse<'_> {
        if self.begins & first_bit(name) == 0 {
            return HeaderUse::Unread;
        }
        let start = self.names.partition_point(|known| folded(known).lt(folded(name)));
        let mut alike = self.names[start..].iter().take_while(|known| is_like(known, name)).peekable();
        let Some(first) = alike.peek().copied() else { return HeaderUse::Unread };
        if alike.any(|known| **known == *name) { HeaderUse::Read } else { HeaderUse::LooksLike(first) }
    }
}

fn of_facet(facet: &Facet) -> Option<Box<str>> {
    match facet {
        Facet::Header(name) => Some(name.clone()),
        _ => None,
    }
}

/// Returns a byte of a header's name as the least careful back ends see it: all that is neither letter nor digit is the same to
/// them.
pub fn fold(byte: u8) -> u8 {
    if byte.is_ascii_alphanumeric() { byte.to_ascii_lowercase() } else { b'-' }
}

fn folded(name: &str) -> impl Iterator<Item = u8> + '_ {
    name.bytes().map(fold)
}

/// Whether two names are the same to such back ends.
pub fn is_like(one: &str, other: &str) -> bool {
    one.len() == other.len() && folded(one).eq(folded(other))
}

/// Returns the folded byte that a name begins with, as one bit.
pub fn first_bit(name: &str) -> u128 {
    name.bytes().next().map_or(0, |byte| 1 << fold(byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::Identifier;
    use crate::quota::Quota;
    use crate::rule::{Condition, Wanted};

    fn names() -> HeaderNames {
        let rule = |id: &str, facet| Rule::new(id, Identifier::from(facet), Quota::BLOCKED);
        let matching = Rule {
            condition: Condition {
                headers: vec![("x-blocked".into(), Wanted::Present)],
                ..Condition::default()
            },
            ..rule("matching", Facet::Global)
        };
        let counting = rule("counting", Facet::Header("x_device".into()));
        let cost = Cost::Header { name: "x-cost".into(), otherwise: 1, most: 9 };
        let costing = Rule { cost, ..rule("costing", Facet::Attribute("x-attribute".into())) };
        HeaderNames::new([matching, counting, costing].iter(), &[Facet::Header("x-plan".into())])
    }

    #[test]
    fn all_that_rules_read_is_known() {
        let names = names();
        for read in ["x-blocked", "x_device", "x-cost", "x-plan"] {
            assert_eq!(names.look_up(read), HeaderUse::Read, "{read}");
        }
        for unread in ["x-attribute", "accept", "x-block", "x-blocked-too", "", "y-blocked"] {
            assert_eq!(names.look_up(unread), HeaderUse::Unread, "{unread}");
        }
        assert_eq!(names.look_up("x_blocked"), HeaderUse::LooksLike("x-blocked"));
        assert_eq!(names.look_up("x.plan"), HeaderUse::LooksLike("x-plan"));
        assert_eq!(names.look_up("x-device"), HeaderUse::LooksLike("x_device"));
    }

    #[test]
    fn two_spellings_that_rules_read_are_both_known() {
        let facets = ["x-a", "x_a", "x.a", "x-a"].map(|name| Facet::Header(name.into()));
        let names = HeaderNames::new(std::iter::empty(), &facets);
        for read in ["x-a", "x_a", "x.a"] {
            assert_eq!(names.look_up(read), HeaderUse::Read, "{read}");
        }
        assert!(matches!(names.look_up("x!a"), HeaderUse::LooksLike(_)));
        assert!(HeaderNames::default().is_empty() && !names.is_empty());
    }
}

//! Who was refused most, on one node or on several.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

use super::heavy_hitters::{Counted, Fingerprint, Summary, merge};
use super::rings::Name;

/// Somebody who was refused, or something that refuses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) name: Name,
    /// No less than how often.
    pub(crate) count: u64,
    /// How much less it may have been.
    pub(crate) error: u64,
}

/// Some of them, most first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ranking {
    pub(crate) refused: Vec<Refused>,
    /// How often anybody else was, at most.
    pub(crate) least: u64,
}

impl Ranking {
    /// So many of those counted in several spans of time.
    pub(crate) fn of(spans: Vec<Summary<Option<Name>>>, many: usize) -> Self {
        let Summary { counted, least } = merge(spans).first(many);
        let named = |Counted { value, count, error, .. }: Counted<Option<Name>>| {
            Some(Refused { name: value?, count, error })
        };
        Self { refused: counted.into_iter().filter_map(named).collect(), least }
    }

    /// Several nodes as one. They know each other's users by what these are called: names that look alike are one. What nodes
    /// say may be anything.
    pub(crate) fn together(nodes: impl IntoIterator<Item = Self>, many: usize) -> Self {
        let (first, second) = (RandomState::new(), RandomState::new());
        let named = |Refused { name, count, error }: Refused| Counted {
            key: Fingerprint([first.hash_one(&name), second.hash_one(&name)]),
            count,
            error: error.min(count),
            value: Some(name),
        };
        let summary = |Self { refused, least }: Self| Summary {
            counted: refused.into_iter().map(named).collect(),
            least,
        };
        Self::of(nodes.into_iter().map(summary).collect(), many)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranking(refused: &[(&str, u64, u64)], least: u64) -> Ranking {
        let refused =
            refused.iter().map(|&(name, count, error)| Refused { name: name.into(), count, error }).collect();
        Ranking { refused, least }
    }

    #[test]
    fn nodes_are_added_up_and_what_they_do_not_tell_is_an_error() {
        let nodes = [
            ranking(&[("mallory", 50, 0), ("eve", 9, 1)], 4),
            ranking(&[("mallory", 70, 2)], 0),
            ranking(&[("trent", 30, 0)], 3),
        ];
        let all = [("mallory", 123, 5), ("trent", 34, 4), ("eve", 12, 4)];
        assert_eq!(Ranking::together(nodes.clone(), 10), ranking(&all, 7));
        assert_eq!(Ranking::together(nodes, 1), ranking(&all[..1], 34), "the next may have been so many");
        assert_eq!(Ranking::together([], 10), Ranking::default());
    }

    #[test]
    fn what_is_absurd_is_borne() {
        let absurd = ranking(&[("a", u64::MAX, u64::MAX), ("b", 1, 7), ("b", 1, 0)], 5);
        let all = Ranking::together([absurd.clone(), absurd], 10);
        assert_eq!(all, ranking(&[("a", u64::MAX, u64::MAX), ("b", 4, 2)], 10));
    }
}

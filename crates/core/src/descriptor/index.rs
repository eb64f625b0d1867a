//! From a descriptor to the rule that is about it.

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use super::value::is_like;
use super::{DescriptorMatch, DomainTerms, Entry, ValuePattern};

/// Filled from the rules alone: what clients send is only looked up.
type Map<V> = HashMap<Box<str>, V, FixedState>;

/// All domains.
#[derive(Debug, Default)]
pub(crate) struct Domains(Map<Domain>);

/// The rules of one domain, level by level.
#[derive(Debug, Default)]
pub(crate) struct Domain {
    levels: Vec<Level>,
    /// The rule that counts by limits which descriptors bring along.
    pub(super) brought: u32,
    pub(super) charge_refused: bool,
}

/// What a further entry can be, by its key. The first level of a domain is its root.
#[derive(Debug, Default)]
struct Level(Map<Choices>);

/// What the value of a key leads to.
#[derive(Debug, Default)]
struct Choices {
    exact: Map<Branch>,
    /// In the order of the rules.
    like: Vec<(Box<str>, Branch)>,
    /// Where in that order a pattern is.
    like_at: Map<usize>,
    any: Option<Branch>,
}

/// Where an entry leads.
#[derive(Clone, Copy, Debug, Default)]
struct Branch {
    /// The rule about descriptors that end here.
    rule: Option<u32>,
    /// The level at which others go on.
    next: Option<usize>,
}

impl Domains {
    /// Adds a domain, if it is not there yet, whose descriptors may bring limits along: those are counted by the
    /// rule at `brought`.
    pub(crate) fn add(&mut self, terms: &DomainTerms, brought: u32) {
        let DomainTerms { name, charge_refused } = terms;
        let domain = self.0.entry(name.clone()).or_insert_with(|| Domain {
            levels: vec![Level::default()],
            brought,
            charge_refused: false,
        });
        domain.charge_refused |= charge_refused;
    }

    /// Adds the rule at `rule`, whose domain is there; `false` if another rule is about the very same descriptors.
    pub(crate) fn insert(&mut self, about: &DescriptorMatch, rule: u32) -> bool {
        let Some((last, before)) = about.entries.split_last() else { return true };
        let Some(domain) = self.0.get_mut(&about.domain) else { return true };
        let mut level = 0;
        for entry in before {
            let end = domain.levels.len();
            let branch = domain.levels[level].branch(&entry.key, &entry.value);
            level = *branch.next.get_or_insert(end);
            if level == end {
                domain.levels.push(Level::default());
            }
        }
        domain.levels[level].branch(&last.key, &last.value).rule.replace(rule).is_none()
    }

    pub(crate) fn get(&self, domain: &str) -> Option<&Domain> {
        self.0.get(domain)
    }

    /// The names of all domains.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(|name| &**name)
    }
}

impl Domain {
    /// The rule about descriptors with these entries.
    pub(super) fn find(&self, entries: &[Entry<'_>]) -> Option<u32> {
        let (last, before) = entries.split_last()?;
        let mut level = self.levels.first()?;
        for entry in before {
            level = &self.levels[level.follow(entry)?.next?];
        }
        level.follow(last)?.rule
    }
}

impl Level {
    fn branch(&mut self, key: &str, value: &ValuePattern) -> &mut Branch {
        let choices = self.0.entry(key.into()).or_default();
        match value {
            ValuePattern::Any => choices.any.get_or_insert_default(),
            ValuePattern::Is(text) => choices.exact.entry(text.clone()).or_default(),
            ValuePattern::Like(text) => {
                let Choices { like, like_at, .. } = choices;
                let index = *like_at.entry(text.clone()).or_insert_with(|| {
                    like.push((text.clone(), Branch::default()));
                    like.len() - 1
                });
                &mut like[index].1
            }
        }
    }

    /// The most specific branch for an entry: its very value, then the first value it is like, then any.
    fn follow(&self, entry: &Entry<'_>) -> Option<&Branch> {
        let Choices { exact, like, any, .. } = self.0.get(entry.key)?;
        exact
            .get(entry.value)
            .or_else(|| like.iter().find(|(text, _)| is_like(text, entry.value)).map(|(_, branch)| branch))
            .or(any.as_ref())
    }
}

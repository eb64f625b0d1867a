//! Descriptors: what a proxy says about a request instead of showing it.
//!
//! A descriptor is a list of keys with values, such as `remote_address=203.0.113.7, path=/login`, and belongs to a
//! domain. Rules about descriptors form a tree per domain, level by level; a descriptor follows the most specific
//! branch at each level and meets the one rule at its own depth, or none. This is how Envoy's rate limit service is
//! asked; see `docs/envoy.md`.

mod decision;
mod demand;
mod index;
mod value;

#[cfg(test)]
mod tests;

use smallvec::SmallVec;

use crate::quota::Quota;

pub use decision::{DescriptorDecision, Said};
pub use demand::{Asked, DescriptorDemand};
pub(crate) use index::Domains;
pub use value::ValuePattern;

/// One key and value of a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// What it is.
    pub key: &'a str,
    /// Which one.
    pub value: &'a str,
}

/// What a proxy says about a request, from one point of view.
#[derive(Clone, Debug)]
pub struct Descriptor<'a> {
    /// Its entries; their order counts.
    pub entries: SmallVec<[Entry<'a>; 4]>,
    /// A limit the proxy brings along, which counts instead of any rule's.
    pub limit: Option<Quota>,
    /// What it does to the counter.
    pub hits: Hits,
}

/// What a descriptor does to its counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hits {
    /// Takes this much; 0 only looks, and is refused if nothing is left.
    Take(u64),
    /// Gives this much back of what was taken last.
    GiveBack(u64),
}

/// The descriptors a rule is about, and what is peculiar to such rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescriptorMatch {
    /// The domain.
    pub domain: Box<str>,
    /// What the entries must be, one by one; at least one, and as many as the descriptor has.
    pub entries: Vec<EntryPattern>,
    /// What others call it that replace it, and what answers call its limit.
    pub name: Option<Box<str>>,
    /// Names of rules that do not count for a request to which this one applies.
    pub replaces: Vec<Box<str>>,
    /// Is charged by itself, whatever becomes of the rest of the request, and as far as its limit goes if that is not far
    /// enough: for what has been used already when it is told.
    pub charge_refused: bool,
    /// Reports that it is exceeded, but does not make the request as a whole refused.
    pub quota_mode: bool,
    /// Metrics tell all values of its descriptors apart.
    pub detailed_metric: bool,
}

/// What one entry of a descriptor must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryPattern {
    /// The key.
    pub key: Box<str>,
    /// The value.
    pub value: ValuePattern,
    /// Whether all values that fit share one counter; otherwise each has its own.
    pub shared: bool,
    /// Whether metrics tell its values apart.
    pub in_metric: bool,
}

impl EntryPattern {
    /// Whether descriptors are counted apart by this entry's value.
    fn tells_apart(&self) -> bool {
        !self.shared && !matches!(self.value, ValuePattern::Is(_))
    }
}

/// How a domain is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DomainTerms {
    /// Its name.
    pub name: Box<str>,
    /// Whether all its rules [charge for what is refused](DescriptorMatch::charge_refused).
    pub charge_refused: bool,
}

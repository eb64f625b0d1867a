//! Which counter, in a form that travels.

use hashbrown::HashMap;
use serde::{Deserialize, Serialize};
use tidegate_core::{Key, Tag};

/// One counter: a rule (with its algorithm) for one identity, and the part of the store that it lives in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CounterKey {
    /// Part of the store, as all who share it number its parts.
    pub part: u8,
    /// Keyed hash of the identity; decides who owns the counter.
    pub tag: Tag,
    /// Fingerprint of the rule and its algorithm.
    pub rule: [u64; 2],
}

impl CounterKey {
    /// Counter of `key`, which lives in `part` of the store.
    pub const fn new(part: u8, key: &Key<'_>) -> Self {
        Self { part, tag: key.tag, rule: key.rule_fingerprint() }
    }
}

/// Map by counter. Keys are keyed hashes, so a fixed seed opens no door, and iteration is the same in every run.
pub(crate) type KeyMap<V> = HashMap<CounterKey, V, foldhash::fast::FixedState>;

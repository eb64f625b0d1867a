//! Shares of rules and addresses in the places of all lines together.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

/// The least that a rule or an address may have, however few places there are.
const LEAST: usize = 16;

/// A rule, by what all its counters share.
pub(super) type RuleKey = [u64; 2];

/// Requests that were refused because no place was left for them, by whose share was used up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TurnedAway {
    /// All places were taken.
    pub all: u64,
    /// The places for one counter were taken.
    pub line: u64,
    /// The places for one rule, half of all, were taken.
    pub rule: u64,
    /// The places for one address, a hundredth of all, were taken.
    pub address: u64,
}

/// Places taken by rules and addresses.
///
/// There are at most as many entries of each as there are requests that wait.
#[derive(Debug)]
pub(super) struct Shares {
    per_rule: usize,
    per_address: usize,
    taken: Mutex<Taken>,
    turned_away: [AtomicU64; 4],
}

#[derive(Debug, Default)]
struct Taken {
    rules: HashMap<RuleKey, usize>,
    addresses: HashMap<IpAddr, usize>,
}

/// Share that is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Share {
    All,
    Line,
    Rule,
    Address,
}

impl Shares {
    /// Divides `places`. Half is enough for any one rule where several let requests wait; a hundredth for an address is
    /// what a busy office behind one of them may use.
    pub(super) fn of(places: usize) -> Self {
        Self {
            per_rule: (places / 2).max(LEAST),
            per_address: (places / 100).max(LEAST),
            taken: Mutex::default(),
            turned_away: Default::default(),
        }
    }

    /// Takes a place of a rule and of an address, if one is known, or says whose share is used up and takes none.
    pub(super) fn take(&self, rule: RuleKey, address: Option<IpAddr>) -> Result<(), Share> {
        let mut taken = self.taken.lock();
        if count(&taken.rules, &rule) >= self.per_rule {
            return Err(Share::Rule);
        }
        if address.is_some_and(|address| count(&taken.addresses, &address) >= self.per_address) {
            return Err(Share::Address);
        }
        *taken.rules.entry(rule).or_default() += 1;
        if let Some(address) = address {
            *taken.addresses.entry(address).or_default() += 1;
        }
        Ok(())
    }

    /// Gives back what was taken.
    pub(super) fn give_back(&self, rule: RuleKey, address: Option<IpAddr>) {
        let mut taken = self.taken.lock();
        decrease(&mut taken.rules, &rule);
        if let Some(address) = address {
            decrease(&mut taken.addresses, &address);
        }
    }

    /// Takes note that a request was refused because `share` is used up.
    pub(super) fn turn_away(&self, share: Share) {
        self.turned_away[share as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn turned_away(&self) -> TurnedAway {
        let [all, line, rule, address] =
            self.turned_away.each_ref().map(|count| count.load(Ordering::Relaxed));
        TurnedAway { all, line, rule, address }
    }

    #[cfg(test)]
    pub(super) fn holds_nothing(&self) -> bool {
        let taken = self.taken.lock();
        taken.rules.is_empty() && taken.addresses.is_empty()
    }
}

fn count<K: Hash + Eq>(counts: &HashMap<K, usize>, key: &K) -> usize {
    counts.get(key).copied().unwrap_or_default()
}

fn decrease<K: Hash + Eq>(counts: &mut HashMap<K, usize>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}

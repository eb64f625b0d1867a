//! Addresses at which others may be found, and who answered there.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;

use super::roster::Roster;

/// How many addresses are tried. Names may resolve to any number.
const MOST: usize = 1024;

/// Where others may be found, with the name of whoever answered last.
#[derive(Debug, Default)]
pub(super) struct Seeds(BTreeMap<SocketAddr, Option<Arc<str>>>);

impl Seeds {
    /// Tries these and no others. What is known of those that stay is kept.
    pub(super) fn set(&mut self, addresses: impl IntoIterator<Item = SocketAddr>) {
        let known = std::mem::take(&mut self.0);
        let all = BTreeSet::from_iter(addresses).into_iter().take(MOST);
        self.0 = all.map(|at| (at, known.get(&at).cloned().flatten())).collect();
    }

    /// Somebody answered.
    pub(super) fn answered(&mut self, at: SocketAddr, name: &Arc<str>) {
        if let Some(seed) = self.0.get_mut(&at) {
            *seed = Some(Arc::clone(name));
        }
    }

    /// Whether anybody ever answered there.
    pub(super) fn has_answered(&self, at: SocketAddr) -> bool {
        self.0.get(&at).is_some_and(Option::is_some)
    }

    /// Where to say hello: wherever nobody has answered who is there now, and to whoever is lost.
    pub(super) fn to_greet(&self, me: &str, roster: &Roster) -> BTreeSet<SocketAddr> {
        let found = |name: &Arc<str>| **name == *me || roster.is_live(name);
        let seeds = self.0.iter().filter(|(_, name)| !name.as_ref().is_some_and(found));
        seeds.map(|(at, _)| *at).chain(roster.lost_addresses().take(MOST)).collect()
    }
}

//! The processes that take part, as a set that only grows.
//!
//! For each name only the latest start matters: it ends every earlier one. So the roster holds one entry per name, the later
//! start winning, and *gone* winning over *alive* for the same start. Merging is a maximum, hence commutative, associative
//! and idempotent, and two nodes that have heard the same agree whatever the order.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::pid::{Incarnation, NodeName, Pid, mix};

/// Most names a roster keeps; strangers beyond it are ignored.
pub const MAX_MEMBERS: usize = 1_024;

/// Latest start known of one name. The order of the fields is the order of knowledge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Member {
    start: Incarnation,
    gone: bool,
}

/// Members known and members gone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Roster {
    members: BTreeMap<NodeName, Member>,
}

impl Roster {
    /// Roster of one process.
    pub fn of(pid: Pid) -> Self {
        let mut roster = Self::default();
        roster.add(pid);
        roster
    }

    /// Adds a process, which ends every earlier one of its name. Returns true if that is news.
    pub fn add(&mut self, pid: Pid) -> bool {
        self.learn(pid.name, Member { start: pid.start, gone: false })
    }

    /// Marks a process as gone for good. Returns true if that is news.
    pub fn remove(&mut self, pid: Pid) -> bool {
        self.learn(pid.name, Member { start: pid.start, gone: true })
    }

    /// Adds everything that another roster knows. Returns true if anything of it is news.
    pub fn merge(&mut self, other: &Self) -> bool {
        let mut changed = false;
        for (&name, &member) in &other.members {
            changed |= self.learn(name, member);
        }
        changed
    }

    fn learn(&mut self, name: NodeName, member: Member) -> bool {
        if self.members.len() >= MAX_MEMBERS && !self.members.contains_key(&name) {
            return false;
        }
        let entry = self.members.entry(name).or_insert(Member { start: Incarnation::default(), gone: false });
        let news = member > *entry;
        if news {
            *entry = member;
        }
        news
    }

    /// Returns true if this very process takes part.
    pub fn is_alive(&self, pid: Pid) -> bool {
        self.members.get(&pid.name) == Some(&Member { start: pid.start, gone: false })
    }

    /// Returns the processes that take part, in order of their names.
    pub fn alive(&self) -> impl Iterator<Item = Pid> + '_ {
        let alive = self.members.iter().filter(|(_, member)| !member.gone);
        alive.map(|(&name, member)| Pid { name, start: member.start })
    }

    /// Returns the latest start known of a name.
    pub fn latest(&self, name: NodeName) -> Option<Incarnation> {
        self.members.get(&name).map(|member| member.start)
    }

    /// Returns a number that differs between different rosters.
    pub fn fingerprint(&self) -> u64 {
        self.members.iter().fold(0, |sum, (name, member)| {
            let start = mix(member.start.order ^ mix(member.start.nonce));
            mix(sum ^ mix(name.0 ^ start)) ^ u64::from(member.gone)
        })
    }
}

/// Returns true if `part` is more than half of `whole`, or half of it with its lowest process.
pub(crate) fn is_majority(part: &[Pid], whole: &[Pid]) -> bool {
    let count = whole.iter().filter(|pid| part.contains(pid)).count() * 2;
    count > whole.len() || count == whole.len() && whole.first().is_some_and(|lowest| part.contains(lowest))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pid(name: u64, order: u64) -> Pid {
        Pid::new(NodeName(name), order, 7)
    }

    fn roster(events: &[(u64, u64, bool)]) -> Roster {
        let mut roster = Roster::default();
        for &(name, order, gone) in events {
            if gone {
                roster.remove(pid(name, order))
            } else {
                roster.add(pid(name, order))
            };
        }
        roster
    }

    #[test]
    fn a_restart_ends_the_earlier_process() {
        let mut roster = roster(&[(1, 1, false), (2, 1, false), (1, 2, false)]);
        assert_eq!(roster.alive().collect::<Vec<_>>(), [pid(1, 2), pid(2, 1)]);
        assert!(!roster.add(pid(1, 1)) && !roster.is_alive(pid(1, 1)));
        assert!(roster.remove(pid(1, 2)) && !roster.add(pid(1, 2)));
        assert_eq!(roster.alive().collect::<Vec<_>>(), [pid(2, 1)]);
    }

    #[test]
    fn half_is_a_majority_only_with_the_lowest() {
        let all = [pid(1, 1), pid(2, 1)];
        assert!(is_majority(&all[..1], &all) && !is_majority(&all[1..], &all));
    }

    proptest! {
        /// Rosters that heard the same are the same, whatever the order and however often.
        #[test]
        fn merging_is_a_maximum(events in prop::collection::vec((0u64..4, 1u64..4, any::<bool>()), 0..9), cut in 0usize..9) {
            let (one, other) = events.split_at(cut.min(events.len()));
            let (mut left, mut right) = (roster(one), roster(other));
            let whole = roster(&events);
            let before = left.clone();
            left.merge(&right);
            right.merge(&before);
            prop_assert_eq!(&left, &right);
            prop_assert_eq!(&left, &whole);
            prop_assert_eq!(left.fingerprint(), right.fingerprint());
            prop_assert!(!left.merge(&right));
        }
    }
}

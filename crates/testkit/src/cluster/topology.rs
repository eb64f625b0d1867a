//! What a node says about its cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

/// A node as another one sees it: a line of `CLUSTER NODES`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) id: String,
    pub(super) port: u16,
    pub(super) flags: Vec<String>,
    /// Whom it is a replica of.
    pub(super) master: Option<String>,
    /// Decides whose claim to a slot counts.
    pub(super) epoch: u64,
    pub(super) slots: Vec<RangeInclusive<u16>>,
}

impl Member {
    /// Reads `id address flags master ping pong epoch link slot…`.
    fn parse(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [id, address, flags, master, _ping, _pong, epoch, _link, slots @ ..] = words.as_slice() else {
            return None;
        };
        let port = address.split('@').next()?.rsplit(':').next()?.parse().ok()?;
        let flags = flags.split(',').map(str::to_owned).collect();
        let master = (*master != "-").then(|| (*master).to_owned());
        // Slots on the move follow in brackets; they belong to their source until the end.
        let slots =
            slots.iter().filter(|slot| !slot.starts_with('[')).filter_map(|slot| range(slot)).collect();
        Some(Self { id: (*id).to_owned(), port, flags, master, epoch: epoch.parse().ok()?, slots })
    }

    pub(super) fn has(&self, slot: u16) -> bool {
        self.slots.iter().any(|range| range.contains(&slot))
    }

    pub(super) fn is(&self, flag: &str) -> bool {
        self.flags.iter().any(|own| own == flag)
    }
}

fn range(text: &str) -> Option<RangeInclusive<u16>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    Some(first.parse().ok()?..=last.parse().ok()?)
}

/// All nodes as one of them sees them, by port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct View(BTreeMap<u16, Member>);

impl View {
    pub(super) fn parse(nodes: &str) -> Self {
        Self(nodes.lines().filter_map(Member::parse).map(|member| (member.port, member)).collect())
    }

    pub(super) fn members(&self) -> impl Iterator<Item = &Member> {
        self.0.values()
    }

    pub(super) fn at(&self, port: u16) -> Option<&Member> {
        self.0.get(&port)
    }

    pub(super) fn owner(&self, slot: u16) -> Option<&Member> {
        self.members().find(|member| member.has(slot))
    }

    /// Returns the roles that all nodes have to agree on: which slots each has, with which epoch, and which master it follows.
    pub(super) fn roles(&self) -> Vec<Role<'_>> {
        let alive = self.members().filter(|member| !member.is("fail") && !member.is("fail?"));
        alive.map(Role::of).collect()
    }

    /// Returns whether no two masters have the same epoch. One of two that have will take another, and with it whatever it still
    /// claims: a slot that has just been moved away would come back without its keys.
    pub(super) fn epochs_differ(&self) -> bool {
        let masters = || self.members().filter(|member| member.master.is_none());
        let epochs: BTreeSet<u64> = masters().map(|member| member.epoch).collect();
        epochs.len() == masters().count()
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Role<'a> {
    port: u16,
    master: Option<&'a str>,
    epoch: u64,
    slots: &'a [RangeInclusive<u16>],
}

impl<'a> Role<'a> {
    fn of(member: &'a Member) -> Self {
        let Member { port, master, epoch, slots, .. } = member;
        Self { port: *port, master: master.as_deref(), epoch: *epoch, slots }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_members() {
        let view = View::parse(
            "a1 127.0.0.1:10001@20001,host myself,master - 0 0 1 connected 0-5460 7000 [93->-b2]\n\
             b2 127.0.0.1:10002@20002 slave,fail? a1 0 0 1 connected\n\
             c3 :10003@20003 handshake - 0 0\n",
        );
        let a = view.at(10_001).unwrap();
        assert!(a.is("myself") && a.has(0) && a.has(5460) && a.has(7000) && !a.has(5461));
        assert_eq!(view.owner(93).unwrap().id, "a1");
        assert_eq!(view.at(10_002).unwrap().master.as_deref(), Some("a1"));
        assert_eq!(view.members().count(), 2);
        assert_eq!(view.roles().len(), 1);
    }

    #[test]
    fn masters_with_one_epoch_have_not_settled() {
        let view = |epoch| {
            View::parse(&format!(
                "a1 127.0.0.1:10001@20001 myself,master - 0 0 7 connected 0-5460\n\
                 b2 127.0.0.1:10002@20002 slave a1 0 0 7 connected\n\
                 c3 127.0.0.1:10003@20003 master - 0 0 {epoch} connected 5461\n",
            ))
        };
        assert!(view(8).epochs_differ() && !view(7).epochs_differ());
        assert_ne!(view(8).roles(), view(9).roles());
    }
}

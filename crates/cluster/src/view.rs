//! Who is there, as one node sees it at one moment, and who therefore counts what.

use std::net::SocketAddr;
use std::sync::Arc;

use tidegate_core::Tag;
use tidegate_store::peers::{NodeId, Owner, Part, Standing};

use crate::member::Member;
use crate::rendezvous::{name_hash, score};

/// Who is there. Nodes with the same view say the same of every key.
#[derive(Clone, Debug)]
pub struct View {
    me: Ranked,
    live: Vec<(Ranked, Standing)>,
    lost: Vec<Ranked>,
}

/// A node with its name's hash, worked out once for all keys.
#[derive(Clone, Debug)]
struct Ranked {
    member: Member,
    hash: u64,
}

impl Ranked {
    fn new(member: Member) -> Self {
        let hash = name_hash(&member.name);
        Self { member, hash }
    }

    /// What the one with the most of wins a key. Names are different, so no two are alike.
    fn rank(&self, tag: Tag) -> (u64, &Arc<str>) {
        (score(tag, self.hash), &self.member.name)
    }
}

impl View {
    /// This node, those that answer with what they said of themselves, and those that were given up but may be counting
    /// on the other side of a cut. No two have the same name.
    pub fn new(
        me: Member,
        live: impl IntoIterator<Item = (Member, Standing)>,
        lost: impl IntoIterator<Item = Member>,
    ) -> Self {
        let live = live.into_iter().map(|(member, standing)| (Ranked::new(member), standing));
        Self { me: Ranked::new(me), live: live.collect(), lost: lost.into_iter().map(Ranked::new).collect() }
    }

    /// Only this node.
    pub fn alone(me: Member) -> Self {
        Self::new(me, [], [])
    }

    /// Who counts what has this tag, and how much of each limit it may hand out.
    pub fn owner(&self, tag: Tag) -> Owner {
        let mut best = (self.me.rank(tag), None);
        for (other, _) in &self.live {
            let rank = other.rank(tag);
            if rank > best.0 {
                best = (rank, Some(other.member.node));
            }
        }
        let (rank, node) = best;
        let lost = self.lost.iter().any(|lost| lost.rank(tag) > rank);
        let part = if lost { Part { of_us: self.live_count(), of_all: self.count() } } else { Part::WHOLE };
        Owner { node, part }
    }

    /// Whether the same nodes are there, and the same ones lost, as in another view of this node.
    pub fn is_same_fleet(&self, other: &Self) -> bool {
        let live = |view: &Self| sorted(view.live.iter().map(|(other, _)| other.member.node));
        let lost = |view: &Self| sorted(view.lost.iter().map(|lost| lost.member.node));
        live(self) == live(other) && lost(self) == lost(other)
    }

    /// Whether the same nodes have the store as in another view.
    pub fn has_same_stores(&self, other: &Self) -> bool {
        let having = |view: &Self| {
            sorted(view.others().filter(|(_, standing)| standing.has_store).map(|(other, _)| other.node))
        };
        having(self) == having(other)
    }

    /// How many nodes there are, with this one and with those that are lost but may be back.
    pub fn count(&self) -> u32 {
        self.live_count().saturating_add(u32::try_from(self.lost.len()).unwrap_or(u32::MAX))
    }

    fn live_count(&self) -> u32 {
        u32::try_from(self.live.len()).unwrap_or(u32::MAX).saturating_add(1)
    }

    /// This node.
    pub const fn me(&self) -> &Member {
        &self.me.member
    }

    /// All others that are not lost, with what they last said of themselves.
    pub fn others(&self) -> impl Iterator<Item = (&Member, Standing)> {
        self.live.iter().map(|(other, standing)| (&other.member, *standing))
    }

    /// Those that were given up without having said that they leave.
    pub fn lost(&self) -> impl Iterator<Item = &Member> {
        self.lost.iter().map(|lost| &lost.member)
    }

    /// Where another node is reached, unless it is lost.
    pub fn address(&self, node: NodeId) -> Option<SocketAddr> {
        self.others().find(|(other, _)| other.node == node).map(|(other, _)| other.address)
    }
}

fn sorted(nodes: impl Iterator<Item = NodeId>) -> Vec<NodeId> {
    let mut nodes: Vec<NodeId> = nodes.collect();
    nodes.sort_unstable();
    nodes
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tidegate_core::Secret;

    use super::*;
    use crate::member::UNHEARD;

    fn member(n: u64) -> Member {
        let name = format!("node-{n}").into();
        Member { name, address: ([127, 0, 0, 1], 7000).into(), node: NodeId(n), incarnation: 1 }
    }

    fn view(me: u64, live: &[u64], lost: &[u64]) -> View {
        let others = live.iter().filter(|&&n| n != me);
        View::new(member(me), others.map(|&n| (member(n), UNHEARD)), lost.iter().map(|&n| member(n)))
    }

    fn tag(n: u64) -> Tag {
        Secret::new([7; 16]).encode().part(1, &n.to_le_bytes()).tag()
    }

    /// Who it is, whoever looks.
    fn owner(me: u64, live: &[u64], lost: &[u64], key: u64) -> (u64, Part) {
        let owner = view(me, live, lost).owner(tag(key));
        (owner.node.map_or(me, |node| node.0), owner.part)
    }

    #[test]
    fn it_is_told_whether_the_same_nodes_have_the_store() {
        let having = |stores: &[u64]| {
            let standing = |n: u64| Standing { has_store: stores.contains(&n), owes: 0 };
            View::new(member(1), [2, 3].map(|n| (member(n), standing(n))), [])
        };
        assert!(having(&[2]).has_same_stores(&having(&[2])));
        for other in [&[][..], &[3], &[2, 3]] {
            assert!(!having(&[2]).has_same_stores(&having(other)), "{other:?}");
            assert!(having(&[2]).is_same_fleet(&having(other)));
        }
    }

    proptest! {
        #[test]
        fn all_who_see_the_same_say_the_same(
            nodes in prop::collection::btree_set(0_u64..1000, 1..12),
            lost in prop::collection::btree_set(1000_u64..2000, 0..4),
            key: u64,
        ) {
            let (mut nodes, lost) = (Vec::from_iter(nodes), Vec::from_iter(lost));
            let expected = owner(nodes[0], &nodes, &lost, key);
            nodes.reverse();
            for &me in &nodes {
                prop_assert_eq!(owner(me, &nodes, &lost, key), expected);
            }
        }

        #[test]
        fn when_a_node_goes_only_its_keys_move(
            nodes in prop::collection::btree_set(0_u64..1000, 2..12),
            key: u64,
        ) {
            let nodes = Vec::from_iter(nodes);
            let (gone, left) = nodes.split_last().unwrap();
            let (before, whole) = owner(left[0], &nodes, &[], key);
            prop_assert_eq!(whole, Part::WHOLE);
            let (after, part) = owner(left[0], left, &[*gone], key);
            if before == *gone {
                // It may be counting still: those who are left hand out no more than their part.
                let of_us = u32::try_from(left.len()).unwrap();
                prop_assert_eq!(part, Part { of_us, of_all: of_us + 1 });
            } else {
                prop_assert_eq!((after, part), (before, Part::WHOLE));
            }
            // Once it is known to be gone for good, the rest is theirs, at the same nodes.
            prop_assert_eq!(owner(left[0], left, &[], key), (after, Part::WHOLE));
        }
    }

    #[test]
    fn ten_nodes_count_about_as_much_each() {
        let nodes: Vec<u64> = (0..10).collect();
        let view = view(0, &nodes, &[]);
        let mut counts = [0_u32; 10];
        for key in 0..20_000 {
            let owner = view.owner(tag(key)).node.map_or(0, |node| node.0);
            counts[usize::try_from(owner).unwrap()] += 1;
        }
        assert!(counts.iter().all(|count| (1_800..2_200).contains(count)), "{counts:?}");
    }

    #[test]
    fn alone_everything_is_ours() {
        let view = View::alone(member(1));
        assert_eq!(view.owner(tag(1)), Owner { node: None, part: Part::WHOLE });
        assert_eq!((view.count(), view.others().count(), view.address(NodeId(1))), (1, 0, None));
    }
}

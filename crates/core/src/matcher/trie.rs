//! Values filed under path patterns; a path finds the values of every pattern it matches.

use std::hash::{BuildHasher, Hasher};

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use smallvec::SmallVec;

use crate::pattern::Segment;

/// A trie over the segments of path patterns.
#[derive(Debug)]
pub(super) struct Trie<T> {
    nodes: Vec<Node<T>>,
}

type NodeId = u32;
type Active = SmallVec<[NodeId; 8]>;

#[derive(Debug)]
struct Node<T> {
    literals: HashTable<(Box<str>, NodeId)>,
    /// Under `*` or `{name}`.
    one: Option<NodeId>,
    /// Under `**`: stays active whatever comes.
    any: Option<NodeId>,
    /// Whether this node was reached through `**`.
    repeats: bool,
    /// Of patterns that end here.
    value: Option<T>,
    /// Of patterns that end here with `/*`.
    below: Option<T>,
}

impl<T> Node<T> {
    fn new(repeats: bool) -> Self {
        Self { literals: HashTable::new(), one: None, any: None, repeats, value: None, below: None }
    }

    fn literal(&self, hash: u64, segment: &str) -> Option<NodeId> {
        self.literals.find(hash, |(text, _)| **text == *segment).map(|(_, id)| *id)
    }
}

/// Hashed once per segment, however many nodes are asked for it.
fn hash(segment: &str) -> u64 {
    let mut hasher = FixedState::default().build_hasher();
    hasher.write(segment.as_bytes());
    hasher.finish()
}

const ROOT: NodeId = 0;

impl<T> Default for Trie<T> {
    fn default() -> Self {
        Self { nodes: vec![Node::new(false)] }
    }
}

impl<T: Default> Trie<T> {
    /// The value under a pattern, made if there is none.
    pub(super) fn at(&mut self, segments: &[Segment]) -> &mut T {
        let mut node = ROOT;
        for segment in segments {
            node = match segment {
                Segment::Below => return self.nodes[node as usize].below.get_or_insert_default(),
                Segment::Literal(text) => self.literal_or_new(node, text),
                Segment::One => {
                    let known = self.nodes[node as usize].one;
                    let next = known.unwrap_or_else(|| self.add(false));
                    *self.nodes[node as usize].one.insert(next)
                }
                Segment::Any => {
                    let known = self.nodes[node as usize].any;
                    let next = known.unwrap_or_else(|| self.add(true));
                    *self.nodes[node as usize].any.insert(next)
                }
            };
        }
        self.nodes[node as usize].value.get_or_insert_default()
    }

    fn literal_or_new(&mut self, node: NodeId, text: &str) -> NodeId {
        if let Some(known) = self.nodes[node as usize].literal(hash(text), text) {
            return known;
        }
        let next = self.add(false);
        let literals = &mut self.nodes[node as usize].literals;
        literals.insert_unique(hash(text), (text.into(), next), |(text, _)| hash(text));
        next
    }
}

impl<T> Trie<T> {
    fn add(&mut self, repeats: bool) -> NodeId {
        self.nodes.push(Node::new(repeats));
        NodeId::try_from(self.nodes.len() - 1).unwrap_or(NodeId::MAX)
    }

    /// Turns every value into another.
    pub(super) fn map<U>(self, mut turn: impl FnMut(T) -> U) -> Trie<U> {
        let nodes = self.nodes.into_iter().map(|node| Node {
            value: node.value.map(&mut turn),
            below: node.below.map(&mut turn),
            literals: node.literals,
            one: node.one,
            any: node.any,
            repeats: node.repeats,
        });
        Trie { nodes: nodes.collect() }
    }

    /// Shows the values of all patterns that match `path` (in normal form) to `found`.
    ///
    /// Goes straight on as long as there is but one way to go, which is all the way for most paths.
    pub(super) fn visit(&self, path: &str, found: &mut impl FnMut(&T)) {
        let mut rest = path.strip_prefix('/').unwrap_or(path);
        let mut id = ROOT;
        loop {
            let node = &self.nodes[id as usize];
            if node.any.is_some() || node.repeats {
                return self.visit_all(&[id], rest, found);
            }
            if rest.is_empty() {
                return node.value.iter().for_each(found);
            }
            // Everything below matches from its first segment on, whatever follows.
            node.below.iter().for_each(&mut *found);
            let (segment, after) = split_segment(rest);
            id = match (node.literal(hash(segment), segment), node.one) {
                (Some(literal), Some(one)) => return self.visit_all(&[literal, one], after, found),
                (Some(only), None) | (None, Some(only)) => only,
                (None, None) => return,
            };
            rest = after;
        }
    }

    /// The same from several nodes at once, each at most once at a time, however many ways lead to it.
    fn visit_all(&self, from: &[NodeId], mut rest: &str, found: &mut impl FnMut(&T)) {
        let (mut active, mut next) = (Active::new(), Active::new());
        from.iter().for_each(|&id| self.activate(id, &mut active));
        while !rest.is_empty() && !active.is_empty() {
            let segment;
            (segment, rest) = split_segment(rest);
            let hash = hash(segment);
            for &id in &active {
                let node = &self.nodes[id as usize];
                if node.repeats {
                    self.activate(id, &mut next);
                }
                node.below.iter().for_each(&mut *found);
                for id in [node.literal(hash, segment), node.one].into_iter().flatten() {
                    self.activate(id, &mut next);
                }
            }
            std::mem::swap(&mut active, &mut next);
            next.clear();
        }
        active.iter().filter_map(|&id| self.nodes[id as usize].value.as_ref()).for_each(found);
    }

    /// Adds a node, and what `**` reaches from it with no segment at all, once each.
    fn activate(&self, id: NodeId, active: &mut Active) {
        let mut next = Some(id);
        while let Some(id) = next.filter(|id| !active.contains(id)) {
            active.push(id);
            next = self.nodes[id as usize].any;
        }
    }
}

/// The first segment and what follows its slash.
fn split_segment(path: &str) -> (&str, &str) {
    match path.bytes().position(|byte| byte == b'/') {
        Some(slash) => (&path[..slash], &path[slash + 1..]),
        None => (path, ""),
    }
}

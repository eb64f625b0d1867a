//! Values filed under path patterns; a path finds the values of every pattern it matches.

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use smallvec::SmallVec;

use crate::pattern::Segment;

/// A trie over the segments of path patterns.
#[derive(Debug)]
pub(super) struct Trie<T> {
    nodes: Vec<Node<T>>,
}

type NodeId = u32;
type Active = SmallVec<[NodeId; 16]>;

#[derive(Debug)]
struct Node<T> {
    literals: HashMap<Box<str>, NodeId, FixedState>,
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
        Self { literals: HashMap::default(), one: None, any: None, repeats, value: None, below: None }
    }
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
                Segment::Literal(text) => match self.nodes[node as usize].literals.get(text) {
                    Some(&next) => next,
                    None => {
                        let next = self.add(false);
                        self.nodes[node as usize].literals.insert(text.clone(), next);
                        next
                    }
                },
                Segment::One => match self.nodes[node as usize].one {
                    Some(next) => next,
                    None => {
                        let next = self.add(false);
                        *self.nodes[node as usize].one.insert(next)
                    }
                },
                Segment::Any => match self.nodes[node as usize].any {
                    Some(next) => next,
                    None => {
                        let next = self.add(true);
                        *self.nodes[node as usize].any.insert(next)
                    }
                },
            };
        }
        self.nodes[node as usize].value.get_or_insert_default()
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
    pub(super) fn visit(&self, path: &str, found: &mut impl FnMut(&T)) {
        let mut active = Active::new();
        self.activate(ROOT, &mut active);
        for segment in path.split('/').filter(|segment| !segment.is_empty()) {
            let mut next = Active::new();
            for &id in &active {
                let node = &self.nodes[id as usize];
                if node.repeats {
                    self.activate(id, &mut next);
                }
                // Everything below matches from its first segment on, whatever follows.
                node.below.iter().for_each(&mut *found);
                if let Some(&literal) = node.literals.get(segment) {
                    self.activate(literal, &mut next);
                }
                if let Some(one) = node.one {
                    self.activate(one, &mut next);
                }
            }
            if next.is_empty() {
                return;
            }
            active = next;
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

//! What nodes say of themselves, passed on from node to node.

use std::collections::HashMap;
use std::sync::Arc;

use foca::{BroadcastHandler, Invalidates};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tidegate_store::peers::{NodeId, Standing};

use super::identity::Identity;

/// Of how many nodes words are kept. Far more than a fleet has: words may come before the node that they are of.
const MOST: usize = 4096;

/// What a node says of itself. The newest counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Word {
    pub(super) node: u64,
    pub(super) version: u64,
    pub(super) has_store: bool,
    pub(super) owes: u64,
    /// It has said goodbye, which nothing takes back.
    pub(super) left: bool,
}

impl Word {
    pub(super) const fn standing(&self) -> Standing {
        Standing { has_store: self.has_store, owes: self.owes }
    }
}

/// The newest word of each node. Shared, since foca keeps one of them and shows it to nobody.
#[derive(Clone, Debug, Default)]
pub(super) struct Words(Arc<Mutex<HashMap<u64, Word>>>);

impl Words {
    /// What a node last said of itself.
    pub(super) fn of(&self, node: NodeId) -> Option<Word> {
        self.0.lock().get(&node.0).copied()
    }

    /// Takes a word, if it is news.
    pub(super) fn hear(&self, word: Word) -> bool {
        let mut words = self.0.lock();
        let known = words.get(&word.node);
        let news = known.is_none_or(|known| !known.left && (word.left || word.version > known.version));
        let room = known.is_some() || words.len() < MOST;
        if news && room {
            words.insert(word.node, word);
        }
        news && room
    }

    /// Forgets all nodes but these.
    pub(super) fn keep(&self, known: impl Fn(NodeId) -> bool) {
        self.0.lock().retain(|&node, _| known(NodeId(node)));
    }

    pub(super) fn len(&self) -> usize {
        self.0.lock().len()
    }
}

/// Whose word, and how new.
#[derive(Clone, Copy, Debug)]
pub(super) struct Newer(Word);

impl Invalidates for Newer {
    fn invalidates(&self, other: &Self) -> bool {
        self.0.node == other.0.node
    }
}

impl BroadcastHandler<Identity> for Words {
    type Key = Newer;
    type Error = postcard::Error;

    fn receive_item(&mut self, data: &[u8], _: Option<&Identity>) -> Result<Option<Newer>, postcard::Error> {
        let word: Word = postcard::from_bytes(data)?;
        Ok(self.hear(word).then_some(Newer(word)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORD: Word = Word { node: 1, version: 5, has_store: true, owes: 0, left: false };

    #[test]
    fn the_newest_counts_and_goodbye_is_last() {
        let words = Words::default();
        assert!(words.hear(WORD));
        assert!(!words.hear(WORD));
        assert!(!words.hear(Word { version: 4, owes: 1, ..WORD }));
        assert!(words.hear(Word { version: 6, owes: 1, ..WORD }));
        assert_eq!(words.of(NodeId(1)).unwrap().standing(), Standing { has_store: true, owes: 1 });
        assert!(words.hear(Word { version: 2, left: true, ..WORD }));
        assert!(!words.hear(Word { version: 9, ..WORD }));
        assert!(words.of(NodeId(1)).unwrap().left);
    }

    #[test]
    fn only_so_many_are_kept() {
        let words = Words::default();
        for node in 0..10_000 {
            words.hear(Word { node, ..WORD });
        }
        assert_eq!(words.len(), MOST);
        words.keep(|node| node.0 < 10);
        assert_eq!(words.len(), 10);
    }
}

//! Names of nodes, and of the processes that run under them.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Stable name of a node, hashed; survives restarts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NodeName(pub u64);

/// Start of a process, ordered within its name: a later start ends every earlier one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Incarnation {
    /// Order of the start, for instance the wall clock at that moment.
    pub order: u64,
    /// Random number that tells apart processes that started at the same moment.
    pub nonce: u64,
}

/// One process: a name and a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Pid {
    /// Name of the node.
    pub name: NodeName,
    /// Start of the process.
    pub start: Incarnation,
}

impl Pid {
    /// Process of node `name` that started as number `order`, told apart by `nonce`.
    pub const fn new(name: NodeName, order: u64, nonce: u64) -> Self {
        Self { name, start: Incarnation { order, nonce } }
    }
}

impl fmt::Display for Pid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}.{}", self.name.0, self.start.order)
    }
}

/// Spreads the bits of `value` (SplitMix64).
pub(crate) const fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

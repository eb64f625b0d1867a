//! Outcomes of operations, as they come back across the store seam.

use std::fmt;

use smallvec::SmallVec;
use tidegate_core::Verdict;

/// What became of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was decided.
    Verdict(Verdict),
    /// It was decided without the store, by what is known here.
    Local(Verdict),
    /// It could not be decided, and certainly nothing was changed.
    Unavailable(Failure),
    /// It is not known whether it was decided.
    Unknown(Failure),
    /// Nobody was asked, because another operation of its group is known to be refused.
    Unasked,
}

impl Outcome {
    /// The verdict, if there is one.
    pub fn verdict(&self) -> Option<&Verdict> {
        match self {
            Self::Verdict(verdict) | Self::Local(verdict) => Some(verdict),
            Self::Unavailable(_) | Self::Unknown(_) | Self::Unasked => None,
        }
    }
}

/// The outcomes of one group, in the order of its operations. Most groups on their way through a network have one, and
/// are moved about more often than they are read.
pub type Outcomes = SmallVec<[Outcome; 1]>;

/// Why an operation could not be decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Its time was over.
    Deadline,
    /// The store has no room for another hold.
    Full,
    /// The store cannot be reached, or the connection was lost.
    Connection,
    /// The store does not accept our name and password.
    Credentials,
    /// The store does not let us do what is needed.
    Permission,
    /// What answers is no store.
    NotAStore,
    /// What answers is a copy that cannot be written to.
    Replica,
    /// The store cannot run scripts.
    NoScripts,
    /// The store has no memory left.
    OutOfMemory,
    /// The store does not accept writes for now: it is loading its data, busy, or has too few replicas.
    NotReady,
    /// The part of the store that has the key is not served by anybody.
    ClusterDown,
    /// The key holds something that is not ours.
    Foreign,
    /// It has failed too often of late to be asked.
    LeftAlone,
    /// It answers, but too slowly of late to be asked.
    Slow,
    /// Anything else.
    Other,
}

impl Failure {
    /// All of them.
    pub const ALL: [Self; 15] = [
        Self::Deadline,
        Self::Full,
        Self::Connection,
        Self::Credentials,
        Self::Permission,
        Self::NotAStore,
        Self::Replica,
        Self::NoScripts,
        Self::OutOfMemory,
        Self::NotReady,
        Self::ClusterDown,
        Self::Foreign,
        Self::LeftAlone,
        Self::Slow,
        Self::Other,
    ];

    /// The name used in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Deadline => "timeout",
            Self::Full => "full",
            Self::Connection => "connection",
            Self::Credentials => "credentials",
            Self::Permission => "permission",
            Self::NotAStore => "not_a_store",
            Self::Replica => "replica",
            Self::NoScripts => "no_scripts",
            Self::OutOfMemory => "out_of_memory",
            Self::NotReady => "not_ready",
            Self::ClusterDown => "cluster_down",
            Self::Foreign => "foreign_key",
            Self::LeftAlone => "breaker_open",
            Self::Slow => "slow",
            Self::Other => "other",
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Deadline => "the store did not answer in time",
            Self::Full => "the store has no room for another hold",
            Self::Connection => "the store cannot be reached",
            Self::Credentials => "the store does not accept the user or password",
            Self::Permission => "the store's user may not run what is needed",
            Self::NotAStore => "what answers is not a store",
            Self::Replica => "the store is a replica, which cannot be written to",
            Self::NoScripts => "the store cannot run scripts",
            Self::OutOfMemory => "the store has no memory left",
            Self::NotReady => "the store does not accept writes for now",
            Self::ClusterDown => "nobody serves this part of the store",
            Self::Foreign => "the key holds something that is not a counter",
            Self::LeftAlone => "the store has failed too often of late, and is left alone for a moment",
            Self::Slow => "the store is slow, and is left alone for a moment",
            Self::Other => "the store failed",
        })
    }
}

//! Mistakes that the simulator plants to prove that it finds them.
//!
//! Without feature `mistakes` the switch is a constant `false` and all of it compiles to nothing.

/// A rule of the protocol that is broken on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(not(feature = "mistakes"), allow(dead_code, reason = "only planted by the simulator"))]
pub enum Mistake {
    /// Owners count as soon as a majority agrees.
    MajorityOpens,
    /// An owner starts from its own note without recalling the others'.
    NoRecall,
    /// A node is ready for the store before its debts are settled.
    ReturnBeforeSettling,
    /// A late grant of a closed epoch is spent.
    LateGrantSpent,
    /// A node returns to the store without waiting for the others to be ready.
    OthersNotReady,
    /// A reserve is both kept and refunded.
    ReserveKeptAndRefunded,
    /// A restarted node acts without joining.
    NoJoining,
    /// Debts of dead members are not settled by those who know of them.
    NoDebtsOfTheDead,
    /// A request that timed out is admitted and counted nowhere (M1).
    Bridge,
    /// Epochs do not include the roster.
    RosterIgnored,
    /// A reply is used whatever epoch it belongs to.
    EpochUnchecked,
    /// A repeated charge is added again.
    UnnamedCharges,
    /// A leaving node does not hand over.
    NoHandover,
    /// A late grant with a request id goes to the pool although a retry may replay it (M5).
    LateIdPooled,
    /// A cancelled id is credited although it was replayed.
    CancelReplayed,
    /// A repeated cancellation takes back what a retry was debited.
    UnnamedCancels,
    /// A settlement that finds no book open is dropped, and the hold is given back (M6).
    LostSettle,
}

impl Mistake {
    /// All of them.
    pub const ALL: [Self; 17] = [
        Self::MajorityOpens,
        Self::NoRecall,
        Self::ReturnBeforeSettling,
        Self::LateGrantSpent,
        Self::OthersNotReady,
        Self::ReserveKeptAndRefunded,
        Self::NoJoining,
        Self::NoDebtsOfTheDead,
        Self::Bridge,
        Self::RosterIgnored,
        Self::EpochUnchecked,
        Self::UnnamedCharges,
        Self::NoHandover,
        Self::LateIdPooled,
        Self::CancelReplayed,
        Self::UnnamedCancels,
        Self::LostSettle,
    ];
}

#[cfg(feature = "mistakes")]
mod planted {
    use super::Mistake;
    use std::cell::Cell;

    thread_local! {
        static PLANTED: Cell<Option<Mistake>> = const { Cell::new(None) };
    }

    /// Plants a mistake in every machine that this thread runs from now on.
    pub fn plant(mistake: Option<Mistake>) {
        PLANTED.set(mistake);
    }

    pub(crate) fn is(mistake: Mistake) -> bool {
        PLANTED.get() == Some(mistake)
    }
}

#[cfg(feature = "mistakes")]
pub(crate) use planted::is;
#[cfg(feature = "mistakes")]
pub use planted::plant;

/// Returns true if this mistake is planted.
#[cfg(not(feature = "mistakes"))]
pub(crate) const fn is(_mistake: Mistake) -> bool {
    false
}

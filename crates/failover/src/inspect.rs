//! Read-only views for metrics, the admin listener, and checkers.

use std::time::Duration;

use crate::key::CounterKey;
use crate::ledger::Charge;
use crate::machine::Machine;
use crate::note::Note;
use crate::phase::Phase;
use crate::pid::Pid;
use crate::roster::Roster;

impl Machine {
    /// Returns the present process.
    pub const fn pid(&self) -> Pid {
        self.me
    }

    /// Returns the roster.
    pub const fn roster(&self) -> &Roster {
        &self.roster
    }

    /// Returns the phase of a part.
    pub fn phase(&self, part: u8) -> Phase {
        self.part(part).map_or_else(Phase::default, |part| part.phase)
    }

    /// Returns true if this node takes part in a running fleet.
    pub const fn is_joined(&self) -> bool {
        self.joined
    }

    /// Returns true if this node may use the store's counters of a part.
    pub fn is_using_store(&self, part: u8) -> bool {
        self.joined && self.part(part).is_some_and(|part| part.store_open)
    }

    /// Returns this node's note about a key.
    pub fn note(&self, key: CounterKey) -> Option<Note> {
        self.notes.get(key, self.now)
    }

    /// Returns all ledger entries that the store has not acknowledged, of whatever process.
    pub fn unsettled(&self) -> Vec<Charge> {
        self.ledger.all_unsettled(self.now)
    }

    /// Returns the slot and units of a key in this node's pool.
    pub fn pooled(&self, key: CounterKey) -> Option<(u64, u64)> {
        self.pool.get(key)
    }

    /// Returns for how long this node has had no book to ask in a part.
    pub fn shut_for(&self, part: u8) -> Option<Duration> {
        self.part(part)?.shut_since.map(|since| self.now.saturating_sub(since))
    }
}

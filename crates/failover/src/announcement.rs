//! Announcements: what every member says of itself, and what was last heard of the others.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidegate_core::Timestamp;

use crate::key::CounterKey;
use crate::ledger::Charge;
use crate::note::Note;
use crate::phase::Phase;
use crate::pid::{NodeName, Pid};
use crate::roster::Roster;
use crate::timing::Moment;

/// One part of the store as a member sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartReport {
    /// Phase of the member.
    pub phase: Phase,
    /// True if nothing of the earlier phase is left to do: always while owners count, otherwise once all is settled.
    pub ready: bool,
    /// True if the member uses the book of this phase.
    pub open: bool,
    /// True if the store answered the member within the last half second.
    pub store_ok: bool,
    /// The store's time, if the member knows it.
    pub time: Option<Timestamp>,
}

/// State of a member at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Announcement {
    /// The member.
    pub pid: Pid,
    /// Grows with every announcement of this process.
    pub seq: u64,
    /// Fingerprint of its roster.
    pub roster: u64,
    /// True if it takes part in a running fleet.
    pub joined: bool,
    /// True if it has taken part in an agreement, or has formed a fleet.
    pub based: bool,
    /// The parts of the store.
    pub parts: Vec<PartReport>,
}

/// An announcement and what travels with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gossip {
    /// The sender's own state.
    pub announcement: Announcement,
    /// The sender's roster, unless the recipient is known to have the same.
    pub roster: Option<Roster>,
    /// Announcements of others that the sender heard recently, with their age in milliseconds.
    pub vouched: Vec<(Announcement, u32)>,
    /// In trouble: notes that the recipient owns, or will own after the sender.
    pub notes: Vec<(CounterKey, Note)>,
    /// In trouble: ledger entries, likewise.
    pub charges: Vec<Charge>,
}

/// Last announcement of a member.
#[derive(Clone, Debug)]
pub(crate) struct Heard {
    pub(crate) announcement: Announcement,
    pub(crate) at: Moment,
}

/// Last announcements of all members.
#[derive(Clone, Debug, Default)]
pub(crate) struct Peers {
    heard: BTreeMap<Pid, Heard>,
}

impl Peers {
    /// Keeps an announcement that was made at `at`, unless a later one is known.
    pub(crate) fn hear(&mut self, announcement: Announcement, at: Moment) {
        match self.heard.get_mut(&announcement.pid) {
            Some(known) if known.announcement.seq > announcement.seq => {}
            Some(known) if known.announcement.seq == announcement.seq => known.at = known.at.max(at),
            _ => {
                self.heard.insert(announcement.pid, Heard { announcement, at });
            }
        }
    }

    pub(crate) fn get(&self, pid: Pid) -> Option<&Heard> {
        self.heard.get(&pid)
    }

    /// Returns the members heard within `age` before `now`.
    pub(crate) fn within(&self, age: Duration, now: Moment) -> impl Iterator<Item = &Heard> {
        self.heard.values().filter(move |heard| now.saturating_sub(heard.at) <= age)
    }

    /// Returns true if the process of that name was last heard with this roster.
    pub(crate) fn has_roster(&self, name: NodeName, roster: u64) -> bool {
        let latest = self.heard.values().rfind(|heard| heard.announcement.pid.name == name);
        latest.is_some_and(|heard| heard.announcement.roster == roster)
    }

    /// Forgets members that `alive` does not select.
    pub(crate) fn retain(&mut self, alive: impl Fn(Pid) -> bool) {
        self.heard.retain(|pid, _| alive(*pid));
    }
}

//! One part of the store: its phase, its health, and the book that this node keeps while owners count.

use std::collections::BTreeSet;

use tidegate_core::{Algorithm, Quota, Timestamp};

use crate::book::{Book, Draw};
use crate::health::{StoreClock, StoreHealth};
use crate::key::KeyMap;
use crate::note::Note;
use crate::phase::{Epoch, Phase};
use crate::pid::Pid;
use crate::timing::Moment;

/// A key that is about to be counted here: its notes are being recalled, and takes wait.
#[derive(Clone, Debug)]
pub(crate) struct Opening {
    pub(crate) waiting: BTreeSet<Pid>,
    pub(crate) best: Option<Note>,
    pub(crate) queue: Vec<(Pid, u64, Draw)>,
    pub(crate) asked: Moment,
}

/// State of one part.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) phase: Phase,
    pub(crate) ready: bool,
    /// True once the store may be used in this phase.
    pub(crate) store_open: bool,
    /// True while every member is known to be in this phase with the same roster.
    pub(crate) agreed: bool,
    /// Since when this node has had no book to ask.
    pub(crate) shut_since: Option<Moment>,
    pub(crate) health: StoreHealth,
    pub(crate) book: Book,
    book_epoch: Epoch,
    /// The store's clock when the book was opened.
    book_clock: StoreClock,
    pub(crate) openings: KeyMap<Opening>,
}

impl Part {
    pub(crate) fn new(health: StoreHealth, max_keys: usize, now: Moment) -> Self {
        Self {
            phase: Phase::default(),
            ready: true,
            store_open: false,
            agreed: false,
            shut_since: Some(now),
            health,
            book: Book::new(max_keys),
            book_epoch: Epoch::default(),
            book_clock: health.clock(),
            openings: KeyMap::default(),
        }
    }

    /// Enters a phase. Nothing of the last one is used any more.
    pub(crate) fn enter(&mut self, phase: Phase) {
        self.phase = phase;
        self.shut();
    }

    /// Drops all permissions and the book.
    pub(crate) fn shut(&mut self) {
        self.store_open = false;
        self.agreed = false;
        self.book.clear();
        self.openings.clear();
    }

    /// Drops the book if it is that of another epoch.
    pub(crate) fn keep_book_of(&mut self, epoch: Epoch) {
        if self.book_epoch != epoch {
            self.book.clear();
            self.openings.clear();
            self.book_epoch = epoch;
            self.book_clock = self.health.clock();
        }
    }

    /// Returns the time that this node's book goes by. Windows follow the store's clock as it becomes better known; buckets and
    /// logs go by durations, so their clock takes no steps.
    pub(crate) fn book_time(&self, quota: &Quota, now: Moment) -> Timestamp {
        match quota.algorithm() {
            Algorithm::FixedWindow | Algorithm::SlidingWindow => self.health.time(now),
            Algorithm::TokenBucket | Algorithm::SlidingLog | Algorithm::InFlight => self.book_clock.time(now),
        }
    }

    /// Returns true if the book of the present phase may be used.
    pub(crate) const fn is_open(&self) -> bool {
        if self.phase.is_owned() { self.agreed } else { self.store_open }
    }
}

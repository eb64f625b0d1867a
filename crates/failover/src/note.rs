//! Notes: the last that any book told this node about a key.
//!
//! When a key changes hands, its next owner asks every member for its note and starts from the one that outranks the others.

use hashbrown::HashMap;
use serde::{Deserialize, Serialize};
use tidegate_core::algorithm::Balance;
use tidegate_core::{Quota, Span, Timestamp};

use crate::book::Statement;
use crate::key::{CounterKey, KeyMap};
use crate::phase::Phase;
use crate::timing::Moment;

/// Stripes that keys without room of their own share, per rule.
const STRIPES: u64 = 64;

/// A book's statement about a key, and the phase of that book.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// Phase in which the book was open.
    pub phase: Phase,
    /// Time of the book.
    pub at: Timestamp,
    /// Quota that the balance is about.
    pub quota: Quota,
    /// Consumption.
    pub balance: Balance,
}

impl Note {
    /// Note of a statement that a book made in `phase`.
    pub const fn new(phase: Phase, statement: &Statement) -> Self {
        let Statement { at, balance, verdict, .. } = *statement;
        Self { phase, at, quota: verdict.quota, balance }
    }

    /// Returns the note after `elapsed`.
    #[must_use]
    pub fn elapse(self, elapsed: Span) -> Self {
        Self { balance: self.balance.elapse(&self.quota, elapsed), ..self }
    }

    /// Returns true if this note knows more than `other`: a later window, then a later phase, then the higher count. For a
    /// bucket, the larger debt. For a log, the later phase and book time.
    pub fn outranks(&self, other: &Self) -> bool {
        use Balance::{Debt, Windows};
        match (self.balance, other.balance) {
            (Windows { index, current, .. }, Windows { index: index_other, current: current_other, .. })
                if self.quota.window() == other.quota.window() =>
            {
                (index, self.phase, current) > (index_other, other.phase, current_other)
            }
            (Debt { .. }, Debt { .. }) => self.fraction() > other.fraction(),
            (one, two) => {
                let (used, used_other) = (one.used(&self.quota), two.used(&other.quota));
                (self.phase, self.at, used) > (other.phase, other.at, used_other)
            }
        }
    }

    /// Consumption as a fraction of the capacity, in millionths, so that buckets of different sizes compare.
    fn fraction(&self) -> u128 {
        let Balance::Debt { units } = self.balance else { return 0 };
        let full = u128::from(self.quota.capacity()) * u128::from(self.quota.window().as_millis());
        u128::from(units) * 1_000_000 / full.max(1)
    }
}

/// Converts a duration of the local clock, rounding down: less time, less forgiven.
pub(crate) fn whole_millis(elapsed: std::time::Duration) -> Span {
    Span::from_millis(u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX))
}

#[derive(Clone, Copy, Debug)]
struct KeptNote {
    note: Note,
    received: Moment,
    changed: bool,
}

impl KeptNote {
    fn at(&self, now: Moment) -> Note {
        self.note.elapse(whole_millis(now.saturating_sub(self.received)))
    }
}

/// Notes of many keys. Those beyond the ceiling share one note per rule and stripe, which errs towards refusing.
#[derive(Clone, Debug)]
pub(crate) struct Notes {
    own: KeyMap<KeptNote>,
    shared: HashMap<([u64; 2], u64), KeptNote, foldhash::fast::FixedState>,
    max_keys: usize,
}

impl Notes {
    pub(crate) fn new(max_keys: usize) -> Self {
        Self { own: KeyMap::default(), shared: HashMap::default(), max_keys }
    }

    /// Keeps a note unless a better one is known.
    pub(crate) fn learn(&mut self, key: CounterKey, note: Note, now: Moment) {
        let kept = KeptNote { note, received: now, changed: true };
        let own = self.own.len() < self.max_keys || self.own.contains_key(&key);
        let old = match own {
            true => self.own.entry(key).or_insert(kept),
            false => self.shared.entry(stripe(key)).or_insert(kept),
        };
        if note.outranks(&old.at(now)) {
            *old = kept;
        }
    }

    /// Returns the note about a key as it stands at `now`.
    pub(crate) fn get(&self, key: CounterKey, now: Moment) -> Option<Note> {
        self.own.get(&key).or_else(|| self.shared.get(&stripe(key))).map(|kept| kept.at(now))
    }

    /// Returns up to `most` notes of a part that changed since they were last returned.
    pub(crate) fn take_changed(&mut self, part: u8, most: usize, now: Moment) -> Vec<(CounterKey, Note)> {
        let changed = self.own.iter_mut().filter(|(key, kept)| kept.changed && key.part == part);
        changed
            .take(most)
            .map(|(key, kept)| {
                kept.changed = false;
                (*key, kept.at(now))
            })
            .collect()
    }

    /// Returns all notes as they stand at `now`.
    pub(crate) fn all(&self, now: Moment) -> Vec<(CounterKey, Note)> {
        self.own.iter().map(|(key, kept)| (*key, kept.at(now))).collect()
    }

    /// Forgets notes of which nothing counts any more at the time of their part.
    pub(crate) fn sweep(&mut self, now: Moment, clock: impl Fn(u8) -> Option<Timestamp>) {
        self.own.retain(|key, kept| !clock(key.part).is_some_and(|time| is_over(&kept.at(now), time)));
    }
}

/// Margin for clocks that disagree before a window's note is forgotten.
const MARGIN: Span = Span::from_secs(60);

fn is_over(note: &Note, time: Timestamp) -> bool {
    match note.balance {
        Balance::Debt { units } => units == 0,
        Balance::Log { used, .. } | Balance::InFlight { used } => used == 0,
        Balance::Windows { index, .. } => {
            let end = index.saturating_add(2).saturating_mul(note.quota.window().as_millis());
            Timestamp::from_millis(end) + MARGIN <= time
        }
    }
}

fn stripe(key: CounterKey) -> ([u64; 2], u64) {
    (key.rule, key.tag.bits()[0] % STRIPES)
}

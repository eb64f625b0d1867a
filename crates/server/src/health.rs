//! How a node is doing, and why.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tidegate_core::{Mode, Timestamp};

use crate::modes::{Modes, Peers, Seen, Thresholds};

/// How many changes of the mode are remembered.
const MAX_CHANGES: usize = 100;

/// How many reasons of each.
const MAX_CHANGE_REASONS: usize = 5;

/// The present mode with its reasons.
#[derive(Debug)]
pub(crate) struct Health {
    condition: ArcSwap<Condition>,
    known: Mutex<Known>,
}

/// A mode, why, and since when.
#[derive(Clone, Debug)]
pub(crate) struct Condition {
    pub(crate) mode: Mode,
    /// What is wrong, which need not have changed the mode yet.
    pub(crate) reasons: Vec<String>,
    pub(crate) since: Timestamp,
    /// Since when the store is not to be relied on, if it is not.
    pub(crate) store_unwell_since: Option<Timestamp>,
}

/// What a node depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Concern {
    Rules,
    Store,
    Tokens,
    Tiers,
    /// Other nodes. Without them it is well as long as the store is.
    Cluster,
    /// Where a gateway's requests go, and whom they are from.
    Gateway,
    /// Threads that serve requests.
    Threads,
    /// Room for counters.
    Keys,
}

/// A change of the mode.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) at: Timestamp,
    pub(crate) from: Mode,
    pub(crate) to: Mode,
    /// The first few of those at that time.
    pub(crate) reasons: Vec<String>,
}

/// A moment by both clocks: one for how long things last, which never jumps, and one to show.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) instant: Instant,
    pub(crate) time: Timestamp,
}

#[derive(Debug)]
struct Known {
    /// What each concern has to say.
    reasons: [Vec<String>; 8],
    peers: Peers,
    modes: Modes,
    /// The last ones, oldest first.
    changes: VecDeque<Change>,
}

impl Health {
    /// All well since `now`.
    pub(crate) fn new(thresholds: Thresholds, now: Moment) -> Self {
        let condition =
            Condition { mode: Mode::Normal, reasons: Vec::new(), since: now.time, store_unwell_since: None };
        let modes = Modes::new(thresholds, now.instant);
        let known =
            Known { reasons: Default::default(), peers: Peers::None, modes, changes: VecDeque::new() };
        Self { condition: ArcSwap::from_pointee(condition), known: Mutex::new(known) }
    }

    pub(crate) fn mode(&self) -> Mode {
        self.condition.load().mode
    }

    pub(crate) fn condition(&self) -> Arc<Condition> {
        self.condition.load_full()
    }

    /// The last changes of the mode, up to so many, newest first.
    pub(crate) fn changes(&self, most: usize) -> Vec<Change> {
        self.known.lock().changes.iter().rev().take(most).cloned().collect()
    }

    /// Goes by `reasons` from now on as far as `concern` goes. Tells of a change of the mode, of one after the other, in
    /// their order.
    pub(crate) fn set(
        &self,
        concern: Concern,
        reasons: Vec<String>,
        now: Moment,
        tell: impl FnOnce(&Change),
    ) {
        let mut known = self.known.lock();
        known.reasons[concern as usize] = reasons;
        self.look(&mut known, now, tell);
    }

    /// The same for the store, together with what is known of peers.
    pub(crate) fn look_at_store(
        &self,
        problems: Vec<String>,
        peers: Peers,
        now: Moment,
        tell: impl FnOnce(&Change),
    ) {
        let mut known = self.known.lock();
        known.reasons[Concern::Store as usize] = problems;
        known.peers = peers;
        self.look(&mut known, now, tell);
    }

    fn look(&self, known: &mut Known, now: Moment, tell: impl FnOnce(&Change)) {
        let unwell = |index: usize| known.reasons.get(index).is_some_and(|reasons| !reasons.is_empty());
        let store = Concern::Store as usize;
        let seen = Seen {
            store_unwell: unwell(store),
            others_unwell: (0..known.reasons.len())
                .any(|index| index != store && index != Concern::Cluster as usize && unwell(index)),
            peers: known.peers,
        };
        let mode = known.modes.look(seen, now.instant);
        let reasons = known.all_reasons();
        let before = self.condition();
        let since = if before.mode == mode { before.since } else { now.time };
        let spell = known.modes.has_spell();
        let store_unwell_since = spell.then(|| before.store_unwell_since.unwrap_or(now.time));
        let condition = Arc::new(Condition { mode, reasons, since, store_unwell_since });
        self.condition.store(Arc::clone(&condition));
        if before.mode != mode {
            let kept = condition.reasons.iter().take(MAX_CHANGE_REASONS).cloned().collect();
            let change = Change { at: now.time, from: before.mode, to: mode, reasons: kept };
            tell(&change);
            known.changes.push_back(change);
            if known.changes.len() > MAX_CHANGES {
                known.changes.pop_front();
            }
        }
    }
}

impl Known {
    /// What all concerns have to say, and what makes the mode besides.
    fn all_reasons(&self) -> Vec<String> {
        let mut reasons = self.reasons.concat();
        let Thresholds { normal_after, alone_after, .. } = self.modes.thresholds();
        if self.modes.is_convalescent() {
            reasons.push(format!("store: well again, but not for {normal_after:?} yet"));
        }
        if self.modes.mode() == Mode::Emergency {
            reasons.push(format!("peers: none has been heard for more than {alone_after:?}"));
        }
        reasons
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    struct Bench {
        health: Health,
        start: Instant,
        told: Vec<(Mode, Mode)>,
    }

    impl Bench {
        fn new() -> Self {
            let start = Instant::now();
            let now = Moment { instant: start, time: Timestamp::from_millis(0) };
            Self { health: Health::new(Thresholds::default(), now), start, told: Vec::new() }
        }

        fn at(&self, seconds: u64) -> Moment {
            let instant = self.start + Duration::from_secs(seconds);
            Moment { instant, time: Timestamp::from_millis(seconds) }
        }

        fn set(&mut self, concern: Concern, reason: &str, seconds: u64) {
            let reasons = reason.split_whitespace().map(str::to_owned).collect();
            let (now, told) = (self.at(seconds), &mut self.told);
            self.health.set(concern, reasons, now, |change| told.push((change.from, change.to)));
        }

        fn shown(&self) -> (Mode, String, u64) {
            let Condition { mode, reasons, since, .. } = (*self.health.condition()).clone();
            (mode, reasons.join(" "), since.as_millis())
        }

        fn unwell_since(&self) -> Option<u64> {
            self.health.condition().store_unwell_since.map(Timestamp::as_millis)
        }
    }

    #[test]
    fn each_concern_speaks_for_itself() {
        let mut bench = Bench::new();
        bench.set(Concern::Tokens, "tokens", 2);
        assert_eq!(bench.shown(), (Mode::Degraded, "tokens".to_owned(), 2));
        bench.set(Concern::Rules, "rules", 3);
        assert_eq!(bench.shown(), (Mode::Degraded, "rules tokens".to_owned(), 2));
        bench.set(Concern::Tokens, "", 4);
        assert_eq!(bench.shown(), (Mode::Degraded, "rules".to_owned(), 2));
        bench.set(Concern::Rules, "", 5);
        assert_eq!(bench.shown(), (Mode::Normal, String::new(), 5));
        assert_eq!(bench.told, [(Mode::Normal, Mode::Degraded), (Mode::Degraded, Mode::Normal)]);
    }

    #[test]
    fn what_is_wrong_with_the_store_is_shown_before_it_counts_and_after_it_is_over() {
        let mut bench = Bench::new();
        bench.set(Concern::Store, "store", 1);
        assert_eq!((bench.shown(), bench.unwell_since()), ((Mode::Normal, "store".to_owned(), 0), Some(1)));
        bench.set(Concern::Store, "shard", 7);
        assert_eq!((bench.shown(), bench.unwell_since()), ((Mode::Degraded, "shard".to_owned(), 7), Some(1)));
        bench.set(Concern::Store, "", 8);
        let (mode, reasons, since) = bench.shown();
        assert_eq!((mode, since, bench.unwell_since()), (Mode::Degraded, 7, Some(1)));
        assert_eq!(reasons, "store: well again, but not for 3s yet");
        bench.set(Concern::Store, "", 11);
        assert_eq!((bench.shown(), bench.unwell_since()), ((Mode::Normal, String::new(), 11), None));
    }

    #[test]
    fn an_emergency_says_that_nobody_is_heard() {
        let mut bench = Bench::new();
        bench.set(Concern::Store, "store", 1);
        let problems = vec!["store".to_owned()];
        let (now, told) = (bench.at(11), &mut bench.told);
        let tell = |change: &Change| told.push((change.from, change.to));
        bench.health.look_at_store(problems, Peers::Heard(None), now, tell);
        let (mode, reasons, _) = bench.shown();
        assert_eq!(
            (mode, reasons.as_str()),
            (Mode::Emergency, "store peers: none has been heard for more than 10s")
        );
        assert_eq!(bench.told, [(Mode::Normal, Mode::Emergency)]);
    }

    #[test]
    fn changes_are_remembered_within_bounds() {
        let mut bench = Bench::new();
        for second in 0..1_000 {
            let reasons = if second % 2 == 0 { "a b c d e f g h" } else { "" };
            bench.set(Concern::Rules, reasons, second);
        }
        assert_eq!(bench.told.len(), 1_000);
        let changes = bench.health.changes(usize::MAX);
        assert_eq!(changes.len(), MAX_CHANGES);
        let [newest, before, ..] = &changes[..] else { panic!("{changes:?}") };
        assert_eq!((newest.at.as_millis(), newest.to, newest.reasons.len()), (999, Mode::Normal, 0));
        assert_eq!((before.from, before.to), (Mode::Normal, Mode::Degraded));
        assert_eq!(before.reasons.len(), MAX_CHANGE_REASONS);
        assert_eq!(bench.health.changes(10).len(), 10);
    }
}

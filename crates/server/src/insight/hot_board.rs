//! Which keys are hot: a state machine that is shown, window by window, how often each was asked for.

use std::cmp::Reverse;
use std::sync::Arc;

use tidegate_core::{Span, Timestamp};

use super::heavy_hitters::{ByFingerprint, Fingerprint};

/// How long requests are counted before keys are looked at. Whoever is hot for two of them, and the moment it takes until somebody
/// looks, has been so for a whole one: that is within a second.
pub(crate) const WINDOW: Span = Span::from_millis(400);

/// A hot key cools when it has been below this share of the threshold, in percent, …
const COOL_PERCENT: u64 = 80;

/// … for so many windows in a row: two seconds.
const COOL_WINDOWS: u8 = 5;

/// How many keys are shown.
const SHOWN: usize = 10;

/// More than these are not kept: whoever has so many hot keys has set the threshold too low.
const MAX_HOT: usize = 1_000;

/// Whom a rule counts, as people call them.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) rule: Box<str>,
    pub(crate) identity: Box<str>,
}

/// That a key is asked for so often that one place can hardly keep up with it, or is so no more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HotKeyEvent {
    /// It has become hot.
    Hot(HotKey),
    /// It has cooled down.
    Cooled(HotKey),
}

/// One rule's counter for one identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HotKey {
    /// The rule's id.
    pub rule: Box<str>,
    /// Whom it counts, for people to read: cut short if need be, API keys not shown.
    pub identity: Box<str>,
    /// How many requests a second there were of late.
    pub rate: u64,
    /// Since when it has been hot; `None` if it is not.
    pub since: Option<Timestamp>,
}

/// A key and how often it was asked for in a window.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) key: Fingerprint,
    pub(crate) requests: u64,
    pub(crate) named: Arc<Named>,
}

#[derive(Debug)]
struct Hot {
    named: Arc<Named>,
    rate: u64,
    since: Timestamp,
    /// For how many windows it has been cool.
    cool: u8,
}

/// Who is hot, and who comes next.
#[derive(Debug)]
pub(crate) struct HotBoard {
    /// Requests a second.
    threshold: u64,
    window_start: Timestamp,
    hot: ByFingerprint<Hot>,
    top: Vec<HotKey>,
}

impl HotBoard {
    pub(crate) fn new(threshold: u64, now: Timestamp) -> Self {
        Self { threshold, window_start: now, hot: ByFingerprint::default(), top: Vec::new() }
    }

    /// How long the window has lasted, if it is over. One that a clock has turned back from is over, too, and tells nothing.
    pub(crate) fn is_over(&self, now: Timestamp) -> Option<Span> {
        let lasted = now.since(self.window_start);
        (lasted >= WINDOW || now < self.window_start).then_some(lasted)
    }

    /// Ends the window, in which `seen` were, and says what changes by it.
    pub(crate) fn turn(&mut self, now: Timestamp, seen: &[Seen]) -> Vec<HotKeyEvent> {
        let start = std::mem::replace(&mut self.window_start, now);
        let lasted = now.since(start).as_millis();
        if lasted == 0 {
            return Vec::new();
        }
        let rate = |seen: &Seen| seen.requests.saturating_mul(1000) / lasted;
        let mut events = Vec::new();
        self.hot.values_mut().for_each(|hot| hot.rate = 0);
        for seen in seen {
            let rate = rate(seen);
            if let Some(hot) = self.hot.get_mut(&seen.key) {
                hot.rate = rate;
            } else if rate >= self.threshold && self.hot.len() < MAX_HOT {
                let hot = Hot { named: Arc::clone(&seen.named), rate, since: start, cool: 0 };
                events.push(HotKeyEvent::Hot(hot.shown()));
                self.hot.insert(seen.key, hot);
            }
        }
        let cool_below = self.threshold.saturating_mul(COOL_PERCENT).div_ceil(100);
        self.hot.retain(|_, hot| {
            hot.cool = if hot.rate < cool_below { hot.cool + 1 } else { 0 };
            let stays = hot.cool < COOL_WINDOWS;
            if !stays {
                events.push(HotKeyEvent::Cooled(HotKey { since: None, ..hot.shown() }));
            }
            stays
        });
        self.top = self.rank(seen.iter().map(|seen| (seen, rate(seen))));
        events
    }

    /// The keys with most requests; hot ones are among them even if they were not seen of late.
    fn rank<'s>(&self, seen: impl Iterator<Item = (&'s Seen, u64)>) -> Vec<HotKey> {
        let others = seen.filter(|(seen, _)| !self.hot.contains_key(&seen.key));
        let mut others: Vec<_> = others.collect();
        others.sort_by_key(|(_, rate)| Reverse(*rate));
        let others = others.into_iter().take(SHOWN).map(|(seen, rate)| seen.named.with(rate, None));
        let mut top: Vec<HotKey> = self.hot.values().map(Hot::shown).chain(others).collect();
        top.sort_by(|a, b| {
            b.rate.cmp(&a.rate).then_with(|| (&a.rule, &a.identity).cmp(&(&b.rule, &b.identity)))
        });
        top.truncate(SHOWN);
        top
    }

    /// The keys with most requests in the last window that is over, most first.
    pub(crate) fn top(&self) -> &[HotKey] {
        &self.top
    }

    /// How many are hot.
    pub(crate) fn hot(&self) -> usize {
        self.hot.len()
    }
}

impl Named {
    fn with(&self, rate: u64, since: Option<Timestamp>) -> HotKey {
        HotKey { rule: self.rule.clone(), identity: self.identity.clone(), rate, since }
    }
}

impl Hot {
    fn shown(&self) -> HotKey {
        self.named.with(self.rate, Some(self.since))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn seen(number: u64, requests: u64) -> Seen {
        let named = Arc::new(Named { rule: "r".into(), identity: number.to_string().into() });
        Seen { key: Fingerprint([number, number]), requests, named }
    }

    /// What a board with a threshold of 1,000 says to windows of 400 ms with so many requests of one key each.
    fn changes(windows: &[u64]) -> Vec<(usize, bool)> {
        let mut board = HotBoard::new(1_000, Timestamp::EPOCH);
        let mut changes = Vec::new();
        for (index, requests) in windows.iter().enumerate() {
            let now = Timestamp::from_millis(400 * (index as u64 + 1));
            assert_eq!(board.is_over(now), Some(WINDOW));
            for event in board.turn(now, &[seen(1, *requests)]) {
                changes.push((index, matches!(event, HotKeyEvent::Hot(_))));
            }
            assert_eq!(board.hot() == 1, changes.last().is_some_and(|(_, hot)| *hot));
        }
        changes
    }

    #[test]
    fn a_key_becomes_hot_at_once_and_cools_slowly() {
        assert_eq!(changes(&[399, 399]), []);
        assert_eq!(changes(&[0, 400]), [(1, true)]);
        assert_eq!(changes(&[400, 320, 320, 320, 320, 320, 320, 320]), [(0, true)], "not cool enough");
        assert_eq!(changes(&[400, 319, 319, 319, 319, 319]), [(0, true), (5, false)]);
        assert_eq!(changes(&[400, 0, 0, 0, 0, 330, 0, 0, 0, 0]), [(0, true)], "not for long enough");
        assert_eq!(changes(&[400, 0, 0, 0, 0, 0, 0, 400]), [(0, true), (5, false), (7, true)]);
    }

    #[test]
    fn the_top_ten_by_rate() {
        let mut board = HotBoard::new(1_000, Timestamp::EPOCH);
        let now = Timestamp::from_millis(400);
        let all: Vec<Seen> = (1..=30).map(|number| seen(number, number * 20)).collect();
        assert_eq!(board.turn(now, &all).len(), 11, "from the twentieth on");
        let rates: Vec<u64> = board.top().iter().map(|key| key.rate).collect();
        assert_eq!(rates, (21..=30).rev().map(|number| number * 50).collect::<Vec<_>>());
        assert_eq!(board.top()[0].since, Some(Timestamp::EPOCH));
        board.turn(Timestamp::from_millis(800), &all[..3]);
        assert_eq!(board.top()[0].rate, 150, "whoever is asked for comes before whoever was");
        assert_eq!(board.top()[0].since, None);
    }

    #[test]
    fn a_clock_that_is_turned_back_makes_nothing_hot() {
        let mut board = HotBoard::new(1, Timestamp::from_millis(5_000));
        let before = Timestamp::from_millis(1_000);
        assert!(board.is_over(before).is_some());
        assert_eq!(board.turn(before, &[seen(1, 1_000_000)]), []);
        assert_eq!(board.is_over(Timestamp::from_millis(1_399)), None);
        assert!(board.is_over(Timestamp::from_millis(1_400)).is_some());
    }

    proptest! {
        /// Changes alternate, and there are never more hot keys than there is room for.
        #[test]
        fn hot_and_cooled_alternate(
            windows in prop::collection::vec(prop::collection::vec((0u64..4, 0u64..900), 0..4), 0..60),
        ) {
            let mut board = HotBoard::new(1_000, Timestamp::EPOCH);
            let mut hot = std::collections::HashSet::new();
            for (index, window) in windows.iter().enumerate() {
                let mut all: Vec<Seen> = window.iter().map(|(number, requests)| seen(*number, *requests)).collect();
                all.sort_by_key(|seen| seen.key.0);
                all.dedup_by_key(|seen| seen.key.0);
                for event in board.turn(Timestamp::from_millis(400 * (index as u64 + 1)), &all) {
                    match event {
                        HotKeyEvent::Hot(key) => prop_assert!(hot.insert(key.identity)),
                        HotKeyEvent::Cooled(key) => prop_assert!(hot.remove(&key.identity)),
                    }
                }
                prop_assert_eq!(board.hot(), hot.len());
                prop_assert!(board.top().is_sorted_by_key(|key| Reverse(key.rate)));
                prop_assert!(board.top().len() <= SHOWN);
            }
        }
    }
}

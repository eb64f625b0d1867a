//! One request on its way through the lines.

use std::sync::atomic::Ordering;
use std::time::Duration;

use smallvec::SmallVec;
use tidegate_core::Span;
use tokio::sync::futures::Notified;
use tokio::time::{Instant, timeout};

use super::goal::{Counter, Goal};
use super::lines::{Lines, Place};
use super::{Waited, duration};
use crate::checked::Checked;

/// Nobody asks twice within this time.
const SHORTEST: Duration = Duration::from_millis(1);

/// The head of a line asks at least this often, because quota may be given back before it would come back by itself.
const NAP: Duration = Duration::from_millis(250);

/// A request that may wait. Dropped before its [end](Self::end), it has gone away.
pub(super) struct Visit<'l> {
    lines: &'l Lines,
    patience: Duration,
    since: Instant,
    place: Option<Place<'l>>,
    /// The lines it has been at the head of: there it was nobody's turn before its own.
    passed: SmallVec<[Counter; 4]>,
    has_waited: bool,
}

impl<'l> Visit<'l> {
    pub(super) fn new(lines: &'l Lines, patience: Duration) -> Self {
        let (passed, since) = (SmallVec::new(), Instant::now());
        Self { lines, patience, since, place: None, passed, has_waited: false }
    }

    /// The counter that others wait for and that this request, which may wait for `goals`, must therefore not ask for yet.
    /// It goes to the end of their line, if it is not there yet and there is room.
    pub(super) fn behind(&mut self, goals: &[Goal]) -> Option<Counter> {
        if let Some(place) = &self.place {
            let counter = place.counter;
            if !goals.iter().any(|goal| goal.counter == counter) {
                self.place = None;
            } else if !place.is_head() {
                return Some(counter);
            } else if !self.passed.contains(&counter) {
                self.passed.push(counter);
            }
        }
        let others = |goal: &&Goal| !self.passed.contains(&goal.counter) && self.lines.has(goal.counter);
        let goal = *goals.iter().find(others)?;
        self.stand_in_line(&goal);
        Some(goal.counter)
    }

    /// Goes to the end of the line of `goal`, out of any other, unless it is there already.
    pub(super) fn stand_in_line(&mut self, goal: &Goal) {
        if self.place.as_ref().is_none_or(|place| place.counter != goal.counter) {
            self.place = None;
            self.place = self.lines.join(goal);
        }
    }

    /// What others are to have of `goal` before it.
    pub(super) fn ahead(&self, goal: &Goal) -> u128 {
        self.place.as_ref().map_or_else(|| self.lines.wanted(goal.counter), Place::ahead)
    }

    /// How long it may go on waiting by rules that let it wait for `longest` in all; `None` if it may not. In whole
    /// milliseconds, as counters have it: who may wait for a second makes it to a turn in a second.
    pub(super) fn left(&self, longest: Span) -> Option<Duration> {
        self.place.as_ref()?;
        let passed = u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX);
        duration(longest).min(self.patience).checked_sub(Duration::from_millis(passed))
    }

    /// Waits for its turn, for `left` at most; as the head of its line until it may ask again, which is after `turn`, or
    /// as soon as there are other rules.
    pub(super) async fn wait(&mut self, turn: Duration, left: Duration, rules_changed: Notified<'_>) {
        let Some(place) = &self.place else { return };
        if !place.is_head() {
            self.has_waited = true;
            // A little more, so that of those whose turns come together at the last moment none misses it.
            drop(timeout(left.saturating_add(SHORTEST), place.called()).await);
        } else if !turn.is_zero() {
            self.has_waited = true;
            drop(timeout(turn.min(NAP), rules_changed).await);
        }
    }

    /// The end of it.
    pub(super) fn end(mut self, checked: Checked) -> Waited {
        if !std::mem::take(&mut self.has_waited) {
            return Waited::not_at_all(checked);
        }
        let outcome = if checked.allowed { &self.lines.allowed } else { &self.lines.refused };
        outcome.fetch_add(1, Ordering::Relaxed);
        Waited { checked, waited: self.since.elapsed() }
    }
}

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        if self.has_waited {
            self.lines.gone.fetch_add(1, Ordering::Relaxed);
        }
    }
}

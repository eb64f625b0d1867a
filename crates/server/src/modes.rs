//! Which mode a node is in: a state machine without a clock.
//!
//! ```text
//!          the store is unwell for long,         …and no peer is heard for long
//!          or something else is unwell
//! normal ──────────────────────────────→ degraded ─────────────────────────────→ emergency
//!    ↑                                     │  ↑                                     │
//!    └── all is well, the store for long ──┘  └── a peer is heard, the store well ──┘
//! ```
//!
//! A store that comes and goes is unwell since it first went, until it has stayed for a while: so it changes the mode once,
//! not each time.

use std::time::{Duration, Instant};

use tidegate_core::Mode;

/// How long things have to be so before the mode changes for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// Degraded once the store has been unwell for longer than this.
    pub degraded_after: Duration,
    /// The store is well again once it has been so for this long without a break.
    pub normal_after: Duration,
    /// On its own, if the store is unwell, once no peer has been heard for longer than this.
    pub alone_after: Duration,
}

impl Default for Thresholds {
    fn default() -> Self {
        Self {
            degraded_after: Duration::from_secs(5),
            normal_after: Duration::from_secs(3),
            alone_after: Duration::from_secs(10),
        }
    }
}

/// What is known of other nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Peers {
    /// There are none.
    #[default]
    None,
    /// There are some, of which one was last heard then, if ever.
    Heard(Option<Instant>),
}

/// How things are at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    /// Whether any part of the store has a problem.
    pub(crate) store_unwell: bool,
    /// Whether anything else has.
    pub(crate) others_unwell: bool,
    pub(crate) peers: Peers,
}

/// The mode, and what it depends on that is not to be seen in one moment.
#[derive(Debug)]
pub(crate) struct Modes {
    thresholds: Thresholds,
    started: Instant,
    spell: Option<Spell>,
    mode: Mode,
}

/// A time in which the store is not to be relied on.
#[derive(Debug)]
struct Spell {
    since: Instant,
    run: Run,
    /// Whether it has become long enough to count.
    counts: bool,
}

/// How the store is, without a break since then.
#[derive(Clone, Copy, Debug)]
enum Run {
    Unwell(Instant),
    Well(Instant),
}

impl Modes {
    /// All is well at `now`.
    pub(crate) fn new(thresholds: Thresholds, now: Instant) -> Self {
        Self { thresholds, started: now, spell: None, mode: Mode::Normal }
    }

    pub(crate) fn mode(&self) -> Mode {
        self.mode
    }

    pub(crate) fn thresholds(&self) -> &Thresholds {
        &self.thresholds
    }

    /// Whether the store is unwell, or has not been well for long enough.
    pub(crate) fn has_spell(&self) -> bool {
        self.spell.is_some()
    }

    /// Whether it is only for the store to stay well.
    pub(crate) fn is_convalescent(&self) -> bool {
        self.spell.as_ref().is_some_and(|spell| spell.counts && matches!(spell.run, Run::Well(_)))
    }

    /// Takes note of how things are at `now`, and says which mode that makes.
    pub(crate) fn look(&mut self, seen: Seen, now: Instant) -> Mode {
        self.look_at_store(seen.store_unwell, now);
        let degraded = self.spell.as_ref().is_some_and(|spell| spell.counts);
        self.mode = if degraded && self.is_store_away(now) && self.is_alone(seen.peers, now) {
            Mode::Emergency
        } else if degraded || seen.others_unwell {
            Mode::Degraded
        } else {
            Mode::Normal
        };
        self.mode
    }

    fn look_at_store(&mut self, unwell: bool, now: Instant) {
        let Some(spell) = &mut self.spell else {
            self.spell = unwell.then_some(Spell { since: now, run: Run::Unwell(now), counts: false });
            return;
        };
        match (spell.run, unwell) {
            (Run::Unwell(_), false) => spell.run = Run::Well(now),
            (Run::Well(_), true) => spell.run = Run::Unwell(now),
            _ => {}
        }
        match spell.run {
            // Only while it is unwell: one that is about to be forgotten is no reason to begin.
            Run::Unwell(_) => spell.counts |= passed(spell.since, now) > self.thresholds.degraded_after,
            Run::Well(since) if passed(since, now) >= self.thresholds.normal_after => self.spell = None,
            Run::Well(_) => {}
        }
    }

    /// Whether the store has been unwell for long without a break: one that comes and goes still decides something.
    fn is_store_away(&self, now: Instant) -> bool {
        match self.spell.as_ref().map(|spell| spell.run) {
            Some(Run::Unwell(since)) => passed(since, now) > self.thresholds.degraded_after,
            Some(Run::Well(_)) | None => false,
        }
    }

    /// Whether there are peers and none of them has been heard for long.
    fn is_alone(&self, peers: Peers, now: Instant) -> bool {
        match peers {
            Peers::None => false,
            Peers::Heard(last) => {
                passed(last.unwrap_or(self.started).max(self.started), now) > self.thresholds.alone_after
            }
        }
    }
}

/// Looks of several tasks may come in another order than they were begun in.
fn passed(since: Instant, now: Instant) -> Duration {
    now.saturating_duration_since(since)
}

#[cfg(test)]
mod tests;

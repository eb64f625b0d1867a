//! How a node is doing, and why.

use std::sync::Arc;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tidegate_core::{Mode, Timestamp};

/// The present mode with its reasons.
#[derive(Debug)]
pub(crate) struct Health {
    condition: ArcSwap<Condition>,
    /// What each concern has to say.
    reasons: Mutex<[Vec<String>; 4]>,
}

/// A mode, why, and since when.
#[derive(Clone, Debug)]
pub(crate) struct Condition {
    pub(crate) mode: Mode,
    pub(crate) reasons: Vec<String>,
    pub(crate) since: Timestamp,
}

/// What a node depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Concern {
    Rules,
    Store,
    Tokens,
    Tiers,
}

impl Health {
    /// All well since `now`.
    pub(crate) fn new(now: Timestamp) -> Self {
        let condition = Condition { mode: Mode::Normal, reasons: Vec::new(), since: now };
        Self { condition: ArcSwap::from_pointee(condition), reasons: Mutex::default() }
    }

    pub(crate) fn mode(&self) -> Mode {
        self.condition.load().mode
    }

    pub(crate) fn condition(&self) -> Arc<Condition> {
        self.condition.load_full()
    }

    /// Goes by `reasons` from now on as far as `concern` goes: none at all, of any, means normal. The time stands still
    /// as long as the mode does.
    pub(crate) fn set(&self, concern: Concern, reasons: Vec<String>, now: Timestamp) {
        let mut all = self.reasons.lock();
        all[concern as usize] = reasons;
        let reasons = all.concat();
        let mode = if reasons.is_empty() { Mode::Normal } else { Mode::Degraded };
        let known = self.condition();
        let since = if known.mode == mode { known.since } else { now };
        self.condition.store(Arc::new(Condition { mode, reasons, since }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_concern_speaks_for_itself() {
        let at = Timestamp::from_millis;
        let health = Health::new(at(1));
        let shown = || {
            let Condition { mode, reasons, since } = (*health.condition()).clone();
            (mode, reasons.join(" "), since.as_millis())
        };
        health.set(Concern::Store, vec!["store".to_owned()], at(2));
        assert_eq!(shown(), (Mode::Degraded, "store".to_owned(), 2));
        health.set(Concern::Rules, vec!["rules".to_owned()], at(3));
        assert_eq!(shown(), (Mode::Degraded, "rules store".to_owned(), 2));
        health.set(Concern::Store, Vec::new(), at(4));
        assert_eq!(shown(), (Mode::Degraded, "rules".to_owned(), 2));
        health.set(Concern::Rules, Vec::new(), at(5));
        assert_eq!(shown(), (Mode::Normal, String::new(), 5));
    }
}

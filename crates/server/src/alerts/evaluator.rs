//! From figures to alerts: a state machine without a clock.
//!
//! ```text
//!        its condition holds       …for long enough
//! quiet ─────────────────→ pending ───────────────→ firing ──→ quiet
//!    ↑                        │                      once it has not held for long enough
//!    └── it does not hold ────┘
//! ```

use std::collections::{BTreeSet, VecDeque};
use std::time::Instant;

use tidegate_core::Timestamp;

use super::condition::Seen;
use super::figures::Figures;
use super::kind::{Alert, EventKind};
use super::rates::Looks;
use super::settings::AlertSettings;
use crate::health::Moment;

/// How many alerts that are over, and how many events, are remembered.
const REMEMBERED: usize = 100;

/// The longest text about one.
const MAX_SUMMARY: usize = 300;

/// An alert that fires, or did.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Fired {
    pub(crate) alert: Alert,
    /// What was wrong when last looked.
    pub(crate) summary: String,
    /// Since when its condition held.
    pub(crate) since: Timestamp,
    /// When it was over.
    pub(crate) resolved: Option<Timestamp>,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Event {
    pub(crate) kind: EventKind,
    pub(crate) at: Timestamp,
    pub(crate) summary: String,
}

/// What a look has brought.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum News {
    /// It fires from now on.
    Fired(Fired),
    /// It is over.
    Resolved(Fired),
    /// This happened.
    Event(Event),
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Quiet,
    Pending {
        since: Moment,
    },
    Firing {
        fired: Fired,
        /// Since when the condition does not hold any more.
        quiet: Option<Instant>,
    },
}

/// What is known of all alerts.
#[derive(Debug)]
pub(crate) struct Evaluator {
    settings: AlertSettings,
    looks: Looks,
    states: [State; Alert::ALL.len()],
    /// Oldest first.
    resolved: VecDeque<Fired>,
    /// Oldest first.
    events: VecDeque<Event>,
    /// What events are told from.
    last: Option<(u64, BTreeSet<String>)>,
}

impl Evaluator {
    pub(crate) fn new(settings: AlertSettings) -> Self {
        Self {
            settings,
            looks: Looks::default(),
            states: Default::default(),
            resolved: VecDeque::new(),
            events: VecDeque::new(),
            last: None,
        }
    }

    /// Takes note of how things are at `now`, and says what is new.
    pub(crate) fn look(&mut self, figures: &Figures, now: Moment) -> Vec<News> {
        let AlertSettings { window, baseline, .. } = self.settings;
        self.looks.add(figures, now.instant, window.saturating_add(baseline));
        let (recent, before) = (self.looks.recent(window), self.looks.before(window, baseline));
        let seen = Seen { figures, recent: &recent, before: before.as_ref(), settings: &self.settings };
        let mut news = Vec::new();
        for (alert, state) in Alert::ALL.into_iter().zip(&mut self.states) {
            let wrong = seen.wrong(alert).map(|text| text.chars().take(MAX_SUMMARY).collect());
            news.extend(step(state, alert, wrong, now, &self.settings));
        }
        news.extend(self.happened(figures, now.time).into_iter().map(News::Event));
        for each in &news {
            match each {
                News::Fired(_) => {}
                News::Resolved(fired) => remember(&mut self.resolved, fired.clone()),
                News::Event(event) => remember(&mut self.events, event.clone()),
            }
        }
        news
    }

    /// What is different from the last look without being wrong.
    fn happened(&mut self, figures: &Figures, at: Timestamp) -> Vec<Event> {
        let shards = figures.store.iter().flat_map(|store| &store.shards).map(|shard| shard.name.clone());
        let shards: BTreeSet<String> = shards.collect();
        let now = (figures.rules_version, shards);
        let Some((version, before)) = self.last.replace(now.clone()) else { return Vec::new() };
        let mut events = Vec::new();
        let mut add = |kind, summary: String| {
            events.push(Event { kind, at, summary: summary.chars().take(MAX_SUMMARY).collect() });
        };
        if version != now.0 {
            add(EventKind::RulesChanged, format!("rules version {} in force, {version} before", now.0));
        }
        // A store that was just set up finds its parts; that is no news.
        if before.is_empty() {
            return events;
        }
        let gone: Vec<_> = before.difference(&now.1).collect();
        let come: Vec<_> = now.1.difference(&before).collect();
        let replaced = gone.len().min(come.len());
        for (gone, come) in gone.iter().zip(&come) {
            add(EventKind::Failover, format!("{come} has taken the place of {gone}"));
        }
        for come in come.iter().skip(replaced).take(REMEMBERED) {
            add(EventKind::ShardAdded, format!("{come} is part of the store"));
        }
        for gone in gone.iter().skip(replaced).take(REMEMBERED) {
            add(EventKind::ShardRemoved, format!("{gone} is no part of the store any more"));
        }
        events
    }

    /// Those that fire, the worst first.
    pub(crate) fn active(&self) -> Vec<Fired> {
        let firing = self.states.iter().filter_map(|state| match state {
            State::Firing { fired, .. } => Some(fired.clone()),
            State::Quiet | State::Pending { .. } => None,
        });
        let mut firing: Vec<Fired> = firing.collect();
        firing.sort_by_key(|fired| std::cmp::Reverse(fired.alert.severity()));
        firing
    }

    /// Whether it fires.
    pub(crate) fn is_active(&self, alert: Alert) -> bool {
        matches!(self.states.get(alert as usize), Some(State::Firing { .. }))
    }

    /// Those that are over, newest first.
    pub(crate) fn resolved(&self) -> Vec<Fired> {
        self.resolved.iter().rev().cloned().collect()
    }

    /// What happened, newest first.
    pub(crate) fn events(&self) -> Vec<Event> {
        self.events.iter().rev().cloned().collect()
    }

    pub(crate) fn settings(&self) -> &AlertSettings {
        &self.settings
    }
}

fn step(
    state: &mut State,
    alert: Alert,
    wrong: Option<String>,
    now: Moment,
    settings: &AlertSettings,
) -> Option<News> {
    if matches!(state, State::Quiet) && wrong.is_some() {
        *state = State::Pending { since: now };
    }
    match (&mut *state, wrong) {
        (State::Quiet, _) => None,
        (State::Pending { .. }, None) => {
            *state = State::Quiet;
            None
        }
        (State::Pending { since }, Some(summary)) => {
            let long = now.instant.saturating_duration_since(since.instant) >= settings.fires_after(alert);
            let fired = Fired { alert, summary, since: since.time, resolved: None };
            long.then(|| {
                *state = State::Firing { fired: fired.clone(), quiet: None };
                News::Fired(fired)
            })
        }
        (State::Firing { fired, quiet }, Some(summary)) => {
            (fired.summary, *quiet) = (summary, None);
            None
        }
        (State::Firing { fired, quiet }, None) => {
            let since = *quiet.get_or_insert(now.instant);
            if now.instant.saturating_duration_since(since) < settings.resolves_after {
                return None;
            }
            let over = Fired { resolved: Some(now.time), ..fired.clone() };
            *state = State::Quiet;
            Some(News::Resolved(over))
        }
    }
}

fn remember<T>(list: &mut VecDeque<T>, item: T) {
    if list.len() >= REMEMBERED {
        list.pop_front();
    }
    list.push_back(item);
}

#[cfg(test)]
mod tests;

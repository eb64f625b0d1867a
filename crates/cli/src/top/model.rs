//! All that is known of a node at a time: messages in, something to draw out. Bounded, whatever the server sends.

use std::collections::VecDeque;
use std::time::Duration;

use super::sse::Message;
use super::text::Text;
use super::wire::{Brief, Decisions, Fleet, History, Insight, Journal, Latency, Tick};

/// How many seconds are kept: five minutes.
const MAX_POINTS: usize = 300;

/// How things are with the server.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum Link {
    /// Nobody has answered yet.
    #[default]
    Connecting,
    /// It tells what happens.
    Live,
    /// It does not, for this reason; it is asked again after that time.
    Lost(Text, Duration),
}

/// What is known.
#[derive(Clone, Debug, Default)]
pub(super) struct Model {
    pub(super) link: Link,
    /// What came last; nothing before the first one.
    pub(super) tick: Option<Tick>,
    /// The last minutes, oldest first.
    pub(super) points: VecDeque<Brief>,
    pub(super) insight: Option<Insight>,
    pub(super) journal: Option<Journal>,
    /// All nodes, or why they are not known.
    pub(super) fleet: Option<Result<Fleet, Text>>,
    /// How many messages could not be read.
    pub(super) unread: u64,
}

impl Model {
    /// Takes what the server said; what cannot be read changes nothing.
    pub(super) fn take(&mut self, message: &Message) {
        let data = message.data.as_str();
        let taken = match message.event.as_str() {
            "history" => serde_json::from_str(data).map(|history| self.take_history(history)),
            "tick" => serde_json::from_str(data).map(|tick| self.take_tick(tick)),
            "insight" => serde_json::from_str(data).map(|insight| self.insight = Some(insight)),
            "journal" => serde_json::from_str(data).map(|journal| self.journal = Some(journal)),
            // Newer servers may tell more.
            _ => Ok(()),
        };
        self.unread += u64::from(taken.is_err());
    }

    /// Whether everything has come that a server tells at once.
    pub(super) fn is_complete(&self) -> bool {
        self.tick.is_some() && self.insight.is_some() && self.journal.is_some()
    }

    /// Decisions in each second, oldest first.
    pub(super) fn line(&self, of: impl Fn(&Brief) -> f64) -> Vec<f64> {
        self.points.iter().map(of).collect()
    }

    /// The latest second's decisions.
    pub(super) fn decisions(&self) -> Decisions {
        self.tick.as_ref().map(|tick| tick.point.decisions.clone()).unwrap_or_default()
    }

    /// How long decisions took in the latest second in which there were any.
    pub(super) fn latency(&self) -> Latency {
        self.points.iter().rev().find_map(|point| point.latency.clone()).unwrap_or_default()
    }

    /// After a new connection this is all there is: the server has what came between.
    fn take_history(&mut self, history: History) {
        self.points = history.points.into();
    }

    fn take_tick(&mut self, tick: Tick) {
        let point = &tick.point;
        // The first one after the history may be the last of it.
        let known = self.points.back().is_some_and(|last| last.at > 0.0 && last.at >= point.at);
        if !known {
            if self.points.len() >= MAX_POINTS {
                self.points.pop_front();
            }
            let (decisions, latency) = (point.decisions.clone(), point.latency.clone());
            self.points.push_back(Brief { at: point.at, decisions, latency });
        }
        self.tick = Some(tick);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(model: &mut Model, event: &str, data: &str) {
        model.take(&Message { event: event.to_owned(), data: data.to_owned() });
    }

    #[test]
    fn missing_and_unknown_fields_do_no_harm() {
        let mut model = Model::default();
        take(&mut model, "tick", "{}");
        take(&mut model, "insight", r#"{"refusals": {"5m": {}, "7d": 1}, "new": []}"#);
        take(&mut model, "journal", r#"{"entries": null}"#);
        take(&mut model, "weather", "sunny");
        assert!(model.is_complete() && model.unread == 0);
        take(
            &mut model,
            "tick",
            r#"{"point": {"latency": {"p50": null}}, "state": {"name": null, "cluster": null}}"#,
        );
        assert_eq!((model.unread, model.points.len()), (0, 2));
    }

    #[test]
    fn what_cannot_be_read_changes_nothing() {
        let mut model = Model::default();
        take(&mut model, "tick", r#"{"state": {"mode": "normal"}}"#);
        for bad in
            ["", "[", r#"{"state": 7}"#, r#"{"state": {"mode": 7}}"#, r#"{"point": {"fallback": 1e999}}"#]
        {
            take(&mut model, "tick", bad);
        }
        assert_eq!((model.unread, model.points.len()), (5, 1));
        assert_eq!(model.tick.unwrap().state.mode.as_str(), "normal");
    }

    #[test]
    fn a_second_is_there_once() {
        let mut model = Model::default();
        take(&mut model, "history", r#"{"points": [{"at": 1000}, {"at": 2000}]}"#);
        take(&mut model, "tick", r#"{"point": {"at": 2000}}"#);
        assert_eq!(model.points.len(), 2);
        take(&mut model, "tick", r#"{"point": {"at": 3000}}"#);
        assert_eq!(model.points.len(), 3);
    }

    #[test]
    fn no_more_is_kept_than_can_be_shown() {
        let mut model = Model::default();
        let points = vec![r#"{"decisions": {"allowed": 1}}"#; 1_000].join(",");
        take(&mut model, "history", &format!(r#"{{"points": [{points}]}}"#));
        take(&mut model, "tick", r#"{"point": {"decisions": {"allowed": 5}}}"#);
        assert_eq!(model.points.len(), MAX_POINTS);
        assert_eq!(model.line(|point| point.decisions.all()).last(), Some(&5.0));
        let entries = vec!["{}"; 5_000].join(",");
        take(&mut model, "journal", &format!(r#"{{"entries": [{entries}]}}"#));
        assert_eq!(model.journal.unwrap().entries.len(), 100);
    }
}

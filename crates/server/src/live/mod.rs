//! A node as those see it who look at it live: what happened each second, how it is now, and what was noted down.
//!
//! Each second a [`Point`] is made of what its counters have risen by, whether anybody looks or not; the last ones are kept.
//! All else is made when somebody looks, once for all who do: a [`Tick`] as bytes is good for a second.

mod breakers;
mod counters;
mod frame;
mod journal;
mod members;
mod percentile;
mod point;
mod rules;
mod state;
pub(crate) mod sum;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, broadcast, watch};
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use crate::admin::{InsightBody, Told};
use crate::alerts::Severity;
use crate::insight::HotKeyEvent;
use crate::node::Node;
use crate::reply::to_json;
use counters::Counters;
use frame::Kept;
use members::Members;
use percentile::Bounds;
use rules::RuleLooks;

pub(crate) use breakers::Breakers;
pub(crate) use frame::Event;
pub(crate) use journal::{Entry, Journal, JournalBody, Kind};
pub(crate) use point::Point;
pub(crate) use state::{ModeName, NodeState, Totals};
pub use state::{ShedState, UpstreamState};

/// How often a point is made.
const SECOND: Duration = Duration::from_secs(1);

/// How many points are kept.
const POINTS: usize = 300;

/// How many seconds what insight tells is good for.
const INSIGHT: u64 = 5;

/// How many may watch at once.
const WATCHERS: usize = 200;

/// What happened in the last second, and how the node is now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Tick {
    /// What happened.
    pub(crate) point: Point,
    /// How it is.
    pub(crate) state: NodeState,
}

/// What a node tells another that asks.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Look {
    /// What happened, and how it is.
    pub(crate) tick: Tick,
    /// Whom it refuses.
    pub(crate) told: Told,
}

/// The points that are kept.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct History<'a> {
    /// The upper bounds of the buckets, in seconds; the last bucket has none.
    bounds: &'a Bounds,
    /// Oldest first.
    points: &'a VecDeque<Point>,
}

/// What is known for those who look.
#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) journal: Journal,
    bounds: Bounds,
    past: Mutex<Past>,
    /// How many points there have been.
    second: watch::Sender<u64>,
    history: Kept<Event>,
    tick: Kept<Event>,
    insight: Kept<Event>,
    told: Kept<Bytes>,
    watchers: Arc<Semaphore>,
    ending: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct Past {
    points: VecDeque<Point>,
    rules: RuleLooks,
    last: Option<Counters>,
}

impl Past {
    fn add(&mut self, mut now: Counters, bounds: &Bounds) {
        self.rules.add(now.at.instant, std::mem::take(&mut now.decisions.rules));
        if let Some(last) = &self.last {
            if self.points.len() >= POINTS {
                self.points.pop_front();
            }
            self.points.push_back(now.since(last, bounds));
        }
        self.last = Some(now);
    }
}

impl Default for Live {
    fn default() -> Self {
        Self {
            journal: Journal::default(),
            bounds: counters::bounds(),
            past: Mutex::default(),
            second: watch::Sender::new(0),
            history: Kept::default(),
            tick: Kept::default(),
            insight: Kept::default(),
            told: Kept::default(),
            watchers: Arc::new(Semaphore::new(WATCHERS)),
            ending: watch::Sender::new(false),
        }
    }
}

impl Live {
    /// Lets somebody watch until what is returned is dropped; nothing if too many do.
    pub(crate) fn enter(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.watchers).try_acquire_owned().ok()
    }

    /// Tells of each second.
    pub(crate) fn seconds(&self) -> watch::Receiver<u64> {
        self.second.subscribe()
    }

    /// Tells whether those who watch are to be let go.
    pub(crate) fn ending(&self) -> watch::Receiver<bool> {
        self.ending.subscribe()
    }

    /// Lets all go who watch, so that nobody has to wait for them.
    pub(crate) fn end(&self) {
        self.ending.send_replace(true);
    }

    /// The upper bounds of buckets.
    pub(crate) fn bounds(&self) -> &Bounds {
        &self.bounds
    }

    /// The points that are kept, as an event.
    pub(crate) fn history(&self) -> Event {
        let second = *self.second.borrow();
        self.history.get(second, || {
            let past = self.past.lock();
            Event::new("history", &History { bounds: &self.bounds, points: &past.points })
        })
    }

    /// The last second, as an event.
    pub(crate) fn tick(&self, node: &Node) -> Event {
        self.tick_of(*self.second.borrow(), node)
    }

    fn tick_of(&self, second: u64, node: &Node) -> Event {
        self.tick.get(second, || Event::new("tick", &self.now(node)))
    }

    /// The last second, and how `node` is now.
    pub(crate) fn now(&self, node: &Node) -> Tick {
        let (point, by_rule) = {
            let past = self.past.lock();
            (past.points.back().cloned(), past.rules.rates())
        };
        let point = point.unwrap_or_else(|| Counters::beginning(node.now()));
        Tick { point, state: NodeState::of(node, by_rule) }
    }

    /// What other nodes are told: a [`Look`] as JSON.
    pub(crate) fn look(&self, node: &Node) -> Vec<u8> {
        let second = *self.second.borrow();
        let tick = self.tick_of(second, node);
        let told = self.told.get(second / INSIGHT, || to_json(&Told::of(node)).into());
        [b"{\"tick\":", tick.data(), b",\"told\":", &told, b"}"].concat()
    }

    /// What insight has to tell, as an event; another one every few seconds.
    pub(crate) fn insight(&self, node: &Node) -> Event {
        self.insight_of(*self.second.borrow(), node)
    }

    fn insight_of(&self, second: u64, node: &Node) -> Event {
        self.insight.get(second / INSIGHT, || Event::new("insight", &InsightBody::of(node)))
    }

    /// Takes note of a second. What watchers are told is ready before they are.
    fn turn(&self, node: &Node) {
        let now = Counters::of(node);
        self.past.lock().add(now, &self.bounds);
        let second = self.second.borrow().wrapping_add(1);
        if self.watchers.available_permits() < WATCHERS {
            self.tick_of(second, node);
            self.insight_of(second, node);
        }
        self.second.send_replace(second);
    }
}

/// Makes a point each second, and notes down what nobody else does, for as long as this runs.
pub(crate) async fn watch(node: Arc<Node>) {
    let mut hot_keys = node.hot_key_events();
    let mut members = Members::default();
    node.live.past.lock().add(Counters::none(node.moment()), &node.live.bounds);
    let mut ticks = interval_at(Instant::now() + SECOND, SECOND);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = ticks.tick() => {
                node.live.turn(&node);
                if let Some(membership) = &node.cluster {
                    let there = membership.fleet().cluster().members();
                    members.look(&there, node.now()).into_iter().for_each(|entry| node.live.journal.note(entry));
                }
            }
            event = hot_keys.recv() => match event {
                Ok(event) => node.live.journal.note(hot_key(&event, &node)),
                Err(broadcast::error::RecvError::Lagged(_)) => {}
                // The node is here, so that there is always somebody to tell.
                Err(broadcast::error::RecvError::Closed) => return,
            },
        }
    }
}

fn hot_key(event: &HotKeyEvent, node: &Node) -> Entry {
    let (severity, title, key) = match event {
        HotKeyEvent::Hot(key) => (Severity::Warning, "hot key", key),
        HotKeyEvent::Cooled(key) => (Severity::Info, "key cooled down", key),
    };
    let detail = format!("{} of rule {}: {} requests a second", key.identity, key.rule, key.rate);
    Entry::new(node.now(), Kind::HotKey, severity, title).detail(detail)
}

#[cfg(test)]
mod tests {
    use tidegate_core::Timestamp;

    use super::*;
    use crate::health::Moment;

    #[test]
    fn the_last_points_are_kept() {
        let (live, start) = (Live::default(), std::time::Instant::now());
        for second in 0..=400 {
            let instant = start + Duration::from_secs(second);
            let at = Moment { instant, time: Timestamp::from_millis(second) };
            live.past.lock().add(Counters::none(at), &live.bounds);
        }
        let past = live.past.lock();
        let ends = past.points.front().zip(past.points.back()).map(|(first, last)| (first.at, last.at));
        assert_eq!((past.points.len(), ends), (POINTS, Some((101, 400))));
    }

    /// Whoever opens the page gets all of it first.
    #[test]
    fn five_minutes_are_told_in_few_bytes() {
        let (live, start) = (Live::default(), std::time::Instant::now());
        let mut counters = Counters::none(Moment { instant: start, time: Timestamp::from_millis(0) });
        for second in 0..=300_u64 {
            // No two seconds are alike.
            let more = 1_000 + second * 7_919 % 613;
            counters.at = Moment {
                instant: start + Duration::from_micros(1_000_123 * second),
                time: Timestamp::from_millis(1_763_337_600_000 + 1_000 * second),
            };
            counters.decisions.totals.iter_mut().for_each(|count| *count += more);
            counters.seconds.iter_mut().zip(1..).for_each(|(count, bucket)| *count += more / bucket);
            for tier in ["free", "basic", "premium"] {
                counters.decisions.tiers.entry(tier.into()).or_default()[0] += more / 3;
            }
            for shard in 1..=3 {
                let shard = counters.shards.entry(format!("10.0.0.{shard}:6379")).or_default();
                (shard.calls, shard.operations) = (shard.calls + more / 9, shard.operations + more);
                shard.seconds.iter_mut().for_each(|count| *count += more / 17);
            }
            live.past.lock().add(counters.clone(), &live.bounds);
        }
        let history = live.history();
        let (plain, packed) = (history.plain().len(), history.packed().len());
        println!("{plain} bytes, {packed} packed");
        assert!(plain > 150_000 && packed < 60_000, "{plain} bytes, {packed} packed");
    }

    #[test]
    fn there_is_room_for_so_many_watchers() {
        let live = Live::default();
        let mut watchers: Vec<_> = std::iter::from_fn(|| live.enter()).collect();
        assert_eq!(watchers.len(), WATCHERS);
        watchers.pop();
        assert!(live.enter().is_some());
    }
}

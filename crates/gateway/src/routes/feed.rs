//! How routes arrive and change.

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::{ArcSwap, Guard};
use tidegate_sources::{Event, RULE_WORK, RuleSource, Snapshot};
use tokio::task::{AbortHandle, spawn_blocking};
use tokio::time::{MissedTickBehavior, interval};

use super::{Problem, Problems, Routes};
use crate::upstream::{Checks, Group};

/// How often the files that TLS needs are looked at: certificates are replaced without a word.
const LOOK: Duration = Duration::from_secs(10);

/// Where routes come from.
pub struct RoutesFeed {
    kind: Kind,
    look: Duration,
}

enum Kind {
    Fixed(Routes),
    Watched(Box<dyn RuleSource>),
}

/// What became of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RoutesNews {
    /// Other routes are in force.
    InForce {
        /// The version of the source that they are.
        version: u64,
    },
    /// They could not be used, and what was in force still is.
    Unchanged {
        /// Why, one line each.
        problems: Vec<String>,
    },
}

impl RoutesFeed {
    /// Routes that stay as they are, with the certificates they came with.
    pub fn fixed(routes: Routes) -> Self {
        Self { kind: Kind::Fixed(routes), look: LOOK }
    }

    /// Routes that change whenever `source` says so, or when certificates are replaced. What cannot be used changes
    /// nothing.
    pub fn watch(source: Box<dyn RuleSource>) -> Self {
        Self { kind: Kind::Watched(source), look: LOOK }
    }

    /// Puts the first routes in force, without which there is no start, and from then on every change that can be; `told`
    /// hears of each change. Health checks run for as long as what this returns is there.
    ///
    /// Needs a Tokio runtime.
    pub async fn start(self, told: impl Fn(RoutesNews) + Send + 'static) -> Result<LiveRoutes, Problems> {
        let (routes, watched) = match self.kind {
            Kind::Fixed(routes) => (routes, None),
            Kind::Watched(mut source) => {
                let snapshot = Arc::new(snapshot(source.next().await)?);
                (load(Arc::clone(&snapshot), None).await?, Some((source, snapshot)))
            }
        };
        let mut running = Running::default();
        running.follow(&routes);
        let current = Arc::new(ArcSwap::from_pointee(routes));
        let kept = Arc::clone(&current);
        let task = match watched {
            None => tokio::spawn(async move {
                let _checks = running;
                std::future::pending::<()>().await;
            }),
            Some((source, snapshot)) => {
                let follower = Follower { current: kept, source, snapshot, running, told };
                tokio::spawn(follower.run(self.look))
            }
        };
        Ok(LiveRoutes { current, task: task.abort_handle() })
    }
}

impl fmt::Debug for RoutesFeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            Kind::Fixed(_) => "RoutesFeed::fixed",
            Kind::Watched(_) => "RoutesFeed::watch",
        })
    }
}

/// The routes that are in force. Following and health checks end when this is dropped.
#[derive(Debug)]
pub struct LiveRoutes {
    current: Arc<ArcSwap<Routes>>,
    task: AbortHandle,
}

impl LiveRoutes {
    /// The routes of this moment, for a look; not to be held for long.
    pub fn load(&self) -> Guard<Arc<Routes>> {
        self.current.load()
    }

    /// The routes of this moment, to be held.
    pub fn load_full(&self) -> Arc<Routes> {
        self.current.load_full()
    }
}

impl Drop for LiveRoutes {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Takes in one change after another.
struct Follower<F> {
    current: Arc<ArcSwap<Routes>>,
    source: Box<dyn RuleSource>,
    /// The documents in force.
    snapshot: Arc<Snapshot>,
    running: Running,
    told: F,
}

impl<F: Fn(RoutesNews) + Send + 'static> Follower<F> {
    async fn run(mut self, look: Duration) {
        let mut looks = interval(look);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                event = self.source.next() => match snapshot(event) {
                    Ok(snapshot) => self.change(Arc::new(snapshot)).await,
                    Err(problems) => (self.told)(RoutesNews::Unchanged { problems: problems.lines() }),
                },
                _ = looks.tick() => {
                    if has_other_files(self.current.load_full()).await {
                        self.change(Arc::clone(&self.snapshot)).await;
                    }
                }
            }
        }
    }

    async fn change(&mut self, snapshot: Arc<Snapshot>) {
        match load(Arc::clone(&snapshot), Some(self.current.load_full())).await {
            Ok(routes) => {
                self.running.follow(&routes);
                self.current.store(Arc::new(routes));
                (self.told)(RoutesNews::InForce { version: snapshot.version });
                self.snapshot = snapshot;
            }
            Err(problems) => (self.told)(RoutesNews::Unchanged { problems: problems.lines() }),
        }
    }
}

/// Whether certificates were replaced by others that can be used.
async fn has_other_files(routes: Arc<Routes>) -> bool {
    let looked = spawn_blocking(move || {
        let mut found = false;
        for group in routes.groups() {
            match group.has_other_files() {
                Ok(other) => found |= other,
                Err(error) => {
                    tracing::warn!(group = group.name(), "the certificates in use stay: {error}");
                    return false;
                }
            }
        }
        found
    });
    looked.await.unwrap_or(false)
}

fn whole(message: String) -> Problems {
    let mut problems = Problems::default();
    problems.add(Problem::new("routes", None, message));
    problems
}

fn snapshot(event: Event) -> Result<Snapshot, Problems> {
    match event {
        Event::Loaded(snapshot) => Ok(snapshot),
        Event::Failed(why) => Err(whole(why)),
    }
}

/// The routes of these documents, with what the `old` ones knew.
async fn load(snapshot: Arc<Snapshot>, old: Option<Arc<Routes>>) -> Result<Routes, Problems> {
    let read = move || {
        let routes = read(&snapshot)?;
        Ok(match old {
            Some(old) => routes.carry_over(&old),
            None => routes,
        })
    };
    RULE_WORK.run(read).await.map_err(|error| whole(error.to_string()))?
}

fn read(snapshot: &Snapshot) -> Result<Routes, Problems> {
    let mut problems = Problems::default();
    let mut texts = Vec::with_capacity(snapshot.documents.len());
    for document in &snapshot.documents {
        match &document.text {
            Ok(text) => texts.push((document.name.as_str(), text.as_str())),
            Err(why) => problems.add(Problem::new(&document.name, None, why.clone())),
        }
    }
    match problems.is_empty() {
        true => Routes::join(&texts),
        false => Err(problems),
    }
}

/// The health checks of all groups that are in force.
#[derive(Default)]
struct Running {
    checks: HashMap<Box<str>, (Arc<Group>, Checks)>,
    /// So that gateways that start at once do not ask at once.
    phases: RandomState,
}

impl Running {
    /// Ends the checks of groups that are gone, and starts those of others. What stays the same goes on.
    fn follow(&mut self, routes: &Routes) {
        self.checks
            .retain(|name, (group, _)| routes.group(name).is_some_and(|other| Arc::ptr_eq(group, other)));
        for group in routes.groups().iter().filter(|group| group.settings().health.is_some()) {
            let phase = self.phases.hash_one(group.name()) & u64::from(u16::MAX);
            self.checks.entry(group.name().into()).or_insert_with(|| {
                (Arc::clone(group), Checks::start(group, u16::try_from(phase).unwrap_or_default()))
            });
        }
    }
}

#[cfg(test)]
mod tests;

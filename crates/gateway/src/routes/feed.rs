//! How routes arrive and change.

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use tidegate_sources::{Event, RuleSource, Snapshot};
use tokio::task::{AbortHandle, spawn_blocking};

use super::{Problem, Problems, Routes};
use crate::upstream::{Checks, Group};

/// Where routes come from.
pub struct RoutesFeed {
    kind: Kind,
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
    /// Routes that stay as they are.
    pub fn fixed(routes: Routes) -> Self {
        Self { kind: Kind::Fixed(routes) }
    }

    /// Routes that change whenever `source` says so. What cannot be used changes nothing.
    pub fn watch(source: Box<dyn RuleSource>) -> Self {
        Self { kind: Kind::Watched(source) }
    }

    /// Puts the first routes in force, without which there is no start, and from then on every change that can be; `told`
    /// hears of each change. Health checks run for as long as what this returns is there.
    ///
    /// Needs a Tokio runtime.
    pub async fn start(self, told: impl Fn(RoutesNews) + Send + 'static) -> Result<LiveRoutes, Problems> {
        let (routes, source) = match self.kind {
            Kind::Fixed(routes) => (routes, None),
            Kind::Watched(mut source) => (load(source.next().await, None).await?.0, Some(source)),
        };
        let mut running = Running::default();
        running.follow(&routes);
        let current = Arc::new(ArcSwap::from_pointee(routes));
        let follower = Follower { current: Arc::clone(&current), source, running, told };
        let task = tokio::spawn(follower.run()).abort_handle();
        Ok(LiveRoutes { current, task })
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
    source: Option<Box<dyn RuleSource>>,
    running: Running,
    told: F,
}

impl<F: Fn(RoutesNews) + Send + 'static> Follower<F> {
    async fn run(mut self) {
        loop {
            let Some(source) = &mut self.source else { return std::future::pending().await };
            let event = source.next().await;
            match load(event, Some(self.current.load_full())).await {
                Ok((routes, version)) => {
                    self.running.follow(&routes);
                    self.current.store(Arc::new(routes));
                    (self.told)(RoutesNews::InForce { version });
                }
                Err(problems) => (self.told)(RoutesNews::Unchanged { problems: problems.lines() }),
            }
        }
    }
}

/// What a source tells, as routes that know what the `old` ones knew.
async fn load(event: Event, old: Option<Arc<Routes>>) -> Result<(Routes, u64), Problems> {
    let whole = |message: String| {
        let mut problems = Problems::default();
        problems.add(Problem::new("routes", None, message));
        problems
    };
    let snapshot = match event {
        Event::Loaded(snapshot) => snapshot,
        Event::Failed(why) => return Err(whole(why)),
    };
    let version = snapshot.version;
    // Files are read for it, and requests want to be answered meanwhile.
    let read = spawn_blocking(move || {
        let routes = read(&snapshot)?;
        Ok(match old {
            Some(old) => routes.carry_over(&old),
            None => routes,
        })
    });
    let routes = read.await.map_err(|error| whole(format!("they could not be read: {error}")))?;
    Ok((routes?, version))
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

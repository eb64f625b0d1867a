//! What is known of one master, whichever event loop asks it.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use tidegate_store::{Failure, ShardStats};

use crate::breaker::Guarded;
use crate::connect::Connector;
use crate::problem::Problem;
use crate::redirect::Redirect;
use crate::store::Clockwork;

/// How long a refusal says something about a server that is not asked any more.
const REMEMBERED: Duration = Duration::from_secs(3);

/// State of one master that all of its [lanes](crate::lane::Lane) share.
pub(crate) struct Master {
    pub(crate) name: String,
    pub(crate) stats: Arc<ShardStats>,
    /// Whether it is asked.
    pub(crate) breaker: Guarded,
    pub(crate) connector: Arc<Connector>,
    pub(crate) clock: Arc<Clockwork>,
    pub(crate) redirect: Weak<dyn Redirect>,
    /// Whether a call may only name keys of one slot.
    pub(crate) clustered: bool,
    /// Why it refused what it was asked last, if it did, and when that was.
    refusal: ArcSwapOption<(Problem, Instant)>,
}

impl Master {
    pub(crate) fn new(
        name: String,
        connector: Arc<Connector>,
        clock: Arc<Clockwork>,
        redirect: Weak<dyn Redirect>,
        clustered: bool,
    ) -> Arc<Self> {
        let breaker = Guarded::new(name.clone(), clock.breaker());
        let (stats, refusal) = (Arc::default(), ArcSwapOption::empty());
        Arc::new(Self { name, stats, breaker, connector, clock, redirect, clustered, refusal })
    }

    /// Returns why it is not of use although it can be reached, as far as is known.
    pub(crate) fn problem(&self) -> Option<Problem> {
        let refusal = || {
            let (problem, at) = self.refusal.load().as_deref().cloned()?;
            (at.elapsed() < REMEMBERED).then_some(problem)
        };
        let left_alone = || {
            let (failure, state) = self.breaker.reason()?;
            let why = match failure {
                Failure::Slow => {
                    "it answers, but slowly; it is asked again when it is faster than --store-timeout"
                }
                _ => "it fails, or does not answer in time",
            };
            Some(Problem::new(failure, format!("{}: its breaker is {state}: {why}", self.name)))
        };
        refusal().or_else(left_alone)
    }

    /// Takes note of a refusal, and logs the first one.
    pub(crate) fn refuses(&self, problem: Problem) {
        if self.refusal.load().is_none() {
            tracing::warn!(server = self.name, %problem, "store refuses");
        }
        self.refusal.store(Some(Arc::new((problem, Instant::now()))));
    }

    /// Takes note that it does what it is asked.
    pub(crate) fn obeys(&self) {
        if self.refusal.load().is_some() {
            self.refusal.store(None);
        }
    }

    /// Has those who know find out whether this is still the master.
    pub(crate) fn doubt(&self) {
        self.redirect.upgrade().into_iter().for_each(|redirect| redirect.doubt());
    }
}

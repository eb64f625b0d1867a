//! One server of a group, and what is known about how it is doing.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::{
    Admission, Checkup, Failure, HealthCheck, Member, Origin, Passive, PassiveCheck, Pool, Settings, Turn,
};
use crate::body::Outgoing;

/// Which server of its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ServerId(pub(super) u16);

/// One server of a group.
#[derive(Debug)]
pub struct Server {
    id: ServerId,
    member: Member,
    passive: Option<PassiveCheck>,
    has_checks: bool,
    state: Arc<State>,
    pool: Option<Arc<Pool<Outgoing>>>,
}

/// What is known of a server. Outlives the documents that name it.
#[derive(Debug)]
pub(super) struct State {
    /// What the milliseconds of `passive` count from.
    epoch: Instant,
    in_flight: AtomicUsize,
    passive: AtomicU64,
    /// A copy of what `checkup` says, to be read without a lock.
    up: AtomicBool,
    /// With the time of its last turn.
    checkup: Mutex<(Checkup, Option<Instant>)>,
    requests: AtomicU64,
    failures: AtomicU64,
    last_problem: Mutex<Option<LastProblem>>,
}

/// The last thing that went wrong with a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastProblem {
    /// When.
    pub at: Instant,
    /// What, for people to read.
    pub what: Cow<'static, str>,
}

/// How a server is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerStatus {
    /// Where it is.
    pub url: String,
    /// Its share.
    pub weight: u32,
    /// Whether active checks hold it to be up; without any, it is.
    pub healthy: bool,
    /// When they last changed their mind.
    pub turned_at: Option<Instant>,
    /// Until when it is put aside because requests failed.
    pub aside_until: Option<Instant>,
    /// Requests under way.
    pub in_flight: usize,
    /// Requests so far.
    pub requests: u64,
    /// Those of them that failed.
    pub failures: u64,
    /// The last thing that went wrong, with a request or a check.
    pub last_problem: Option<LastProblem>,
}

/// By which door a request went in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// Like any other.
    Usual,
    /// The one request that finds out.
    Trial,
    /// Because there was nowhere else to go.
    InSpite,
}

impl State {
    fn new() -> Self {
        Self {
            epoch: Instant::now(),
            in_flight: AtomicUsize::new(0),
            passive: AtomicU64::new(Passive::NEW.pack()),
            up: AtomicBool::new(Checkup::NEW.is_up()),
            checkup: Mutex::new((Checkup::NEW, None)),
            requests: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            last_problem: Mutex::new(None),
        }
    }

    fn millis(&self, now: Instant) -> u64 {
        u64::try_from(now.saturating_duration_since(self.epoch).as_millis()).unwrap_or(u64::MAX)
    }

    fn passive(&self) -> Passive {
        Passive::unpack(self.passive.load(Ordering::Acquire))
    }

    /// Changes the passive state, unless `step` has nothing to change. Says from what to what.
    fn step(&self, step: impl Fn(Passive) -> Option<Passive>) -> Option<(Passive, Passive)> {
        let mut before = self.passive.load(Ordering::Acquire);
        loop {
            let from = Passive::unpack(before);
            let to = step(from)?;
            if to == from {
                return Some((from, to));
            }
            match self.passive.compare_exchange_weak(before, to.pack(), Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Some((from, to)),
                Err(now) => before = now,
            }
        }
    }
}

impl Server {
    /// A server as its group has it; `known` is what is known of it already.
    pub(super) fn new(
        id: ServerId,
        member: Member,
        settings: &Settings,
        known: Option<&Self>,
        pool: Option<Arc<Pool<Outgoing>>>,
    ) -> Self {
        let state = known.map_or_else(|| Arc::new(State::new()), |known| Arc::clone(&known.state));
        let has_checks = settings.health.is_some();
        Self { id, member, passive: settings.passive.clone(), has_checks, state, pool }
    }

    /// Which of its group it is.
    pub fn id(&self) -> ServerId {
        self.id
    }

    /// Where it is.
    pub fn origin(&self) -> &Origin {
        &self.member.origin
    }

    /// Connections to it, if it certainly speaks HTTP/1.1.
    pub(super) fn pool(&self) -> Option<&Arc<Pool<Outgoing>>> {
        self.pool.as_ref()
    }

    /// Its share.
    pub fn weight(&self) -> u32 {
        self.member.weight.get()
    }

    /// How many requests are under way.
    pub fn in_flight(&self) -> usize {
        self.state.in_flight.load(Ordering::Relaxed)
    }

    /// Whether active checks hold it to be up.
    pub fn is_up(&self) -> bool {
        !self.has_checks || self.state.up.load(Ordering::Relaxed)
    }

    /// Whether a request may go there.
    pub(super) fn admits(&self, now: Instant) -> bool {
        self.is_up()
            && (self.passive.is_none()
                || self.state.passive().admits(self.state.millis(now)) != Admission::No)
    }

    /// Lets a request in; `None` if another was faster at the one trial there was.
    pub(super) fn enter(&self, now: Instant) -> Option<Entry> {
        let Some(check) = &self.passive else { return Some(Entry::Usual) };
        let now = self.state.millis(now);
        match self.state.passive().admits(now) {
            Admission::Free => Some(Entry::Usual),
            Admission::No => None,
            Admission::Trial => {
                self.state.step(|passive| passive.try_out(now, check.aside)).map(|_| Entry::Trial)
            }
        }
    }

    pub(super) fn begin(&self) {
        self.state.in_flight.fetch_add(1, Ordering::Relaxed);
        self.state.requests.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn end(&self) {
        self.state.in_flight.fetch_sub(1, Ordering::Relaxed);
    }

    pub(super) fn succeeded(&self, entry: Entry) {
        if self.passive.is_some() && self.state.passive() != Passive::NEW {
            let step = self.state.step(|passive| Some(passive.succeeded(entry != Entry::Usual)));
            if matches!(step, Some((Passive::Aside { .. } | Passive::Trial { .. }, Passive::InUse { .. }))) {
                tracing::info!(server = %self.origin(), "server answers again");
            }
        }
    }

    pub(super) fn failed(&self, entry: Entry, failure: Failure, now: Instant) {
        if let Failure::Status(status) = failure
            && !self.passive.as_ref().is_some_and(|check| check.statuses.contains(status))
        {
            return self.succeeded(entry);
        }
        self.state.failures.fetch_add(1, Ordering::Relaxed);
        self.note(failure.text(), now);
        let Some(check) = &self.passive else { return };
        let millis = self.state.millis(now);
        let step = self.state.step(|passive| Some(passive.failed(millis, check.failures, check.aside)));
        if matches!(step, Some((Passive::InUse { .. }, Passive::Aside { .. }))) {
            tracing::warn!(server = %self.origin(), %failure, "server put aside");
        }
    }

    pub(super) fn given_up(&self) {
        self.state.step(|passive| Some(passive.given_up()));
    }

    /// Takes in what a check has found; says whether that changes anything.
    pub(super) fn checked(
        &self,
        check: &HealthCheck,
        outcome: Result<(), Cow<'static, str>>,
        now: Instant,
    ) -> Option<Turn> {
        let mut checkup = self.state.checkup.lock();
        let (next, turn) = checkup.0.observe(outcome.is_ok(), check.unhealthy_after, check.healthy_after);
        *checkup = (next, turn.map(|_| now).or(checkup.1));
        self.state.up.store(next.is_up(), Ordering::Relaxed);
        drop(checkup);
        if let Err(what) = outcome {
            self.note(what, now);
        }
        turn
    }

    fn note(&self, what: Cow<'static, str>, at: Instant) {
        *self.state.last_problem.lock() = Some(LastProblem { at, what });
    }

    /// How it is doing at `now`.
    pub fn status(&self, now: Instant) -> ServerStatus {
        let aside_until = match self.state.passive() {
            _ if self.passive.is_none() => None,
            Passive::InUse { .. } => None,
            Passive::Aside { until } | Passive::Trial { until } => {
                self.state.epoch.checked_add(Duration::from_millis(until)).filter(|until| *until > now)
            }
        };
        ServerStatus {
            url: self.origin().to_string(),
            weight: self.weight(),
            healthy: self.is_up(),
            turned_at: self.state.checkup.lock().1,
            aside_until,
            in_flight: self.in_flight(),
            requests: self.state.requests.load(Ordering::Relaxed),
            failures: self.state.failures.load(Ordering::Relaxed),
            last_problem: self.state.last_problem.lock().clone(),
        }
    }
}

//! Tiers remembered, and asked for once however many wait.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tidegate_core::{Request, RuleSet, Secret};
use tidegate_store::deadline::{Late, until};
use tokio::runtime::Handle;
use tokio::sync::watch::{self, Receiver};
use tokio::time::Instant;

use super::answers::{Answers, Entry, Key};
use super::landing::{Landed, Landing};
use super::lookups::Lookups;
use super::pause::{PAUSE, Pause};
use super::stats::{Outcome, TierStats};
use super::{Found, Subject, Tier, TierLookup, TierOptions};

/// Nobody waits longer, and nothing is remembered longer, whatever was configured: no point in time is beyond what can
/// be told.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(3_600);
const LONGEST_TTL: Duration = Duration::from_secs(366 * 86_400);

/// Nobody of a longer name is looked up. No database has an index of names that long.
const LONGEST_NAME: usize = 1_024;

/// How many look-ups may be on their way at once.
const MOST: usize = 4_096;

/// Users' tiers and tenants' plans that are kept elsewhere, and what is remembered of them here.
///
/// It remembers who has no tier, too. While the other side fails, a user is asked for once a second at most, and after
/// five failures in a row everybody together is.
pub struct TierCache {
    lookup: Arc<dyn TierLookup>,
    options: TierOptions,
    secret: Secret,
    stats: TierStats,
    state: Mutex<State>,
}

struct State {
    answers: Answers,
    /// Look-ups on their way whose answers are wanted.
    flights: BTreeMap<Key, Flight>,
    /// How many are on their way, those included that nobody wants any more.
    flying: usize,
    /// That of the last look-up. Each has a larger one than those before.
    number: u64,
    /// What look-ups up to this one have found may have changed since.
    doubted: u64,
    /// Number of the latest look-up that was answered.
    answered: u64,
    pause: Pause,
    problem: Option<String>,
}

struct Flight {
    number: u64,
    started: Instant,
    landed: Receiver<Landed>,
}

/// Outcome of asking for one tier or plan.
pub(super) enum Asked {
    /// All that can be said: the tier, if one is known.
    Told(Tier),
    /// It is being looked up.
    Waiting(Waiting),
}

/// A look-up to wait for.
pub(super) struct Waiting {
    cache: Arc<TierCache>,
    started: Instant,
    landed: Receiver<Landed>,
    /// What to go by if it comes to nothing.
    before: Tier,
}

impl TierCache {
    pub(crate) fn new(lookup: Arc<dyn TierLookup>, options: TierOptions, secret: Secret) -> Self {
        let TierOptions { capacity, ttl, timeout } = options;
        let options =
            TierOptions { capacity, ttl: ttl.min(LONGEST_TTL), timeout: timeout.min(LONGEST_TIMEOUT) };
        let state = State {
            answers: Answers::new(capacity),
            flights: BTreeMap::new(),
            flying: 0,
            number: 0,
            doubted: 0,
            answered: 0,
            pause: Pause::default(),
            problem: None,
        };
        Self { lookup, options, secret, stats: TierStats::default(), state: Mutex::new(state) }
    }

    /// Forgets the tier of a user, in one tenant or, without it, in all of them. A look-up on its way is not remembered
    /// either: it may have been answered before the tier was changed.
    pub fn forget(&self, tenant: Option<&str>, user: &str) {
        let tenant = tenant.filter(|name| !name.is_empty());
        let key = Key::new(&self.secret, Subject::User { tenant, user });
        if tenant.is_some() {
            return self.forget_one(key);
        }
        let mut state = self.state.lock();
        state.answers.remove_anywhere(key);
        let flights: Vec<Key> = state.flights.range(key.anywhere()).map(|(key, _)| *key).collect();
        for key in flights {
            state.flights.remove(&key);
        }
    }

    /// Forgets the plan of a tenant, as [`forget`](Self::forget) does the tier of a user.
    pub fn forget_plan(&self, tenant: &str) {
        self.forget_one(Key::new(&self.secret, Subject::Tenant(tenant)));
    }

    fn forget_one(&self, key: Key) {
        let mut state = self.state.lock();
        state.answers.remove(key);
        state.flights.remove(&key);
    }

    /// Takes note that anybody's tier may have changed: everybody is looked up again before what is known of them is
    /// used. If that comes to nothing, what was known is used for as long as it would have been anyway.
    ///
    /// Whoever can tell this can be asked, so a pause is over.
    pub fn doubt_all(&self) {
        let mut state = self.state.lock();
        state.doubted = state.number;
        state.flights.clear();
        state.pause.end();
        state.problem = None;
    }

    /// Returns how many users and tenants are remembered, those without a tier and those whose look-up failed included.
    pub fn entries(&self) -> usize {
        self.state.lock().answers.len()
    }

    /// What came of asking so far.
    pub fn stats(&self) -> &TierStats {
        &self.stats
    }

    /// Why the last look-up failed, unless one has succeeded since.
    pub fn problem(&self) -> Option<String> {
        self.state.lock().problem.clone()
    }

    pub(super) fn lookup(&self) -> &dyn TierLookup {
        &*self.lookup
    }

    /// How long `requests` that came together wait: whoever has time for one usually answers a hundred.
    pub(crate) fn patience(&self, requests: usize) -> Duration {
        let hundreds = u32::try_from(requests.div_ceil(100)).unwrap_or(u32::MAX);
        self.options.timeout.saturating_mul(hundreds).min(LONGEST_TIMEOUT)
    }

    /// Returns the tier and the plan of a request if both are known here, or need not be looked up.
    pub(crate) fn recall(&self, rules: &RuleSet, request: &Request<'_>) -> Option<Found> {
        let recall = |subject: Option<Subject<'_>>| {
            let Some(subject) = subject else { return Some(None) };
            let known = self.state.lock().recall(Key::new(&self.secret, subject), Instant::now());
            known.ok().map(|(tier, outcome)| self.told(tier, outcome))
        };
        let tier = recall(self.wanted_user(rules, request))?;
        Some(Found { tier, plan: recall(self.wanted_tenant(rules, request))? })
    }

    /// Asks for the tier of a request's user and the plan of its tenant, as far as they are wanted; they are looked up if need be.
    pub(crate) fn ask(self: &Arc<Self>, rules: &RuleSet, request: &Request<'_>) -> Lookups {
        let ask = |subject: Option<Subject<'_>>| subject.map_or(Asked::Told(None), |it| self.ask_one(it));
        Lookups { tier: ask(self.wanted_user(rules, request)), plan: ask(self.wanted_tenant(rules, request)) }
    }

    fn ask_one(self: &Arc<Self>, subject: Subject<'_>) -> Asked {
        let (key, now) = (Key::new(&self.secret, subject), Instant::now());
        let mut state = self.state.lock();
        let before = match state.recall(key, now) {
            Ok((tier, outcome)) => return Asked::Told(self.told(tier, outcome)),
            Err(before) => before,
        };
        // To wait takes one, too.
        let Ok(runtime) = Handle::try_current() else {
            return Asked::Told(self.told(before, Outcome::Paused));
        };
        if let Some(Flight { started, landed, .. }) = state.flights.get(&key) {
            let (started, landed) = (*started, landed.clone());
            return Asked::Waiting(Waiting { cache: Arc::clone(self), started, landed, before });
        }
        if state.flying >= MOST || !state.pause.admits(now) {
            return Asked::Told(self.told(before, Outcome::Paused));
        }
        let (sender, landed) = watch::channel(None);
        let number = state.take_off(key, now, &landed);
        // A runtime about to end drops what it is given at once, which is a landing and needs the lock.
        drop(state);
        let landing = Landing::new(Arc::clone(self), key, number, now, sender);
        match subject {
            Subject::User { tenant, user } => {
                runtime.spawn(landing.look_up_tier(tenant.map(str::to_owned), user.to_owned()))
            }
            Subject::Tenant(tenant) => runtime.spawn(landing.look_up_plan(tenant.to_owned())),
        };
        Asked::Waiting(Waiting { cache: Arc::clone(self), started: now, landed, before })
    }

    /// Returns the user to look up, if its tier is wanted.
    fn wanted_user<'a>(&self, rules: &RuleSet, request: &Request<'a>) -> Option<Subject<'a>> {
        let user = request.user.filter(|_| rules.wants_tier(request))?;
        let tenant = request.tenant.filter(|name| !name.is_empty());
        self.of_fair_length([tenant.unwrap_or_default(), user])?;
        Some(Subject::User { tenant, user })
    }

    /// Returns the tenant to look up, if its plan is wanted.
    fn wanted_tenant<'a>(&self, rules: &RuleSet, request: &Request<'a>) -> Option<Subject<'a>> {
        let tenant = request.tenant.filter(|_| rules.wants_plan(request))?;
        self.of_fair_length([tenant])?;
        Some(Subject::Tenant(tenant))
    }

    /// Counts a subject whose name is too long to be looked up as one that has no tier.
    fn of_fair_length<const N: usize>(&self, names: [&str; N]) -> Option<()> {
        if names.iter().any(|name| name.len() > LONGEST_NAME) {
            self.stats.count(Outcome::Absent);
            return None;
        }
        Some(())
    }

    fn told(&self, tier: Tier, outcome: Outcome) -> Tier {
        self.stats.count(outcome);
        tier
    }

    /// Takes note of what a look-up came to.
    pub(super) fn land(&self, key: Key, number: u64, started: Instant, result: &Result<Tier, String>) {
        let now = Instant::now();
        self.stats.seconds.observe(now.saturating_duration_since(started));
        let mut state = self.state.lock();
        state.flying = state.flying.saturating_sub(1);
        match result {
            Ok(_) => {
                state.answered = state.answered.max(number);
                state.pause.end();
                state.problem = None;
            }
            Err(problem) if number > state.answered.max(state.doubted) => {
                state.pause.failed(now);
                state.problem = Some(problem.clone());
            }
            // The other side has answered or sent news since it was asked, and therefore is back.
            Err(_) => {}
        }
        if state.flights.get(&key).is_none_or(|flight| flight.number != number) {
            // The user has been forgotten meanwhile.
            return;
        }
        state.flights.remove(&key);
        let entry = match result {
            // It may have been answered as soon as it was asked.
            Ok(tier) => {
                Entry { tier: tier.clone(), until: started + self.options.ttl, quiet_until: now, number }
            }
            Err(_) => {
                let before = state.answers.get(key).cloned();
                let before = before.unwrap_or(Entry { tier: None, until: now, quiet_until: now, number });
                Entry { quiet_until: now + PAUSE, ..before }
            }
        };
        state.answers.insert(key, entry);
    }
}

impl State {
    /// What can be said about a user at once; or else what to go by if asking comes to nothing.
    fn recall(&mut self, key: Key, now: Instant) -> Result<(Tier, Outcome), Tier> {
        let doubted = self.doubted;
        let Some(entry) = self.answers.get(key) else { return Err(None) };
        let known = now < entry.until;
        let tier = || entry.tier.clone().filter(|_| known);
        if known && entry.number > doubted {
            Ok((tier(), Outcome::Hit))
        } else if now < entry.quiet_until {
            Ok((tier(), Outcome::Failed))
        } else {
            Err(tier())
        }
    }

    /// Takes note of a look-up, and gives it a number.
    fn take_off(&mut self, key: Key, started: Instant, landed: &Receiver<Landed>) -> u64 {
        self.number += 1;
        self.flying += 1;
        let number = self.number;
        self.flights.insert(key, Flight { number, started, landed: landed.clone() });
        number
    }
}

impl Waiting {
    /// Waits until `patience` is over for whoever arrived at `arrived`. A look-up that has taken as long already is not
    /// waited for at all: it has had its time.
    pub(super) async fn tier(self, arrived: std::time::Instant, patience: Duration) -> Tier {
        let Self { cache, started, mut landed, before } = self;
        let deadline = started.min(Instant::from_std(arrived)) + patience;
        let landing = async { landed.wait_for(Option::is_some).await.ok().and_then(|landed| landed.clone()) };
        match until(deadline, landing).await {
            Ok(Some(Ok(tier))) => {
                let outcome = if tier.is_some() { Outcome::Miss } else { Outcome::Absent };
                cache.told(tier, outcome)
            }
            Ok(Some(Err(())) | None) => cache.told(before, Outcome::Failed),
            Err(Late) => cache.told(before, Outcome::Late),
        }
    }
}

impl fmt::Debug for TierCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TierCache").field("options", &self.options).finish_non_exhaustive()
    }
}

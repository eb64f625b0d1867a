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
use super::pause::{PAUSE, Pause};
use super::stats::{Outcome, TierStats};
use super::{Tier, TierLookup, TierOptions};

/// Nobody waits longer, and nothing is remembered longer, whatever was configured: no point in time is beyond what can
/// be told.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(3_600);
const LONGEST_TTL: Duration = Duration::from_secs(366 * 86_400);

/// Nobody of a longer name is looked up. No database has an index of names that long.
const LONGEST_NAME: usize = 1_024;

/// How many look-ups may be on their way at once.
const MOST: usize = 4_096;

/// Users' tiers that are kept elsewhere, and what is remembered of them here.
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

/// What there is to say about a request's tier.
pub(crate) enum Asked {
    /// All that can be said: the tier, if one is known.
    Told(Tier),
    /// It is being looked up.
    Waiting(Waiting),
}

/// A look-up to wait for.
pub(crate) struct Waiting {
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
        let key = Key::new(&self.secret, tenant, user);
        let mut state = self.state.lock();
        if tenant.is_some() {
            state.answers.remove(key);
            state.flights.remove(&key);
            return;
        }
        state.answers.remove_anywhere(key);
        let flights: Vec<Key> = state.flights.range(key.anywhere()).map(|(key, _)| *key).collect();
        for key in flights {
            state.flights.remove(&key);
        }
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

    /// How many users' tiers are remembered, those without a tier and those whose look-up failed included.
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

    /// What can be said at once about the tier of a request, if anything.
    pub(crate) fn recall(&self, rules: &RuleSet, request: &Request<'_>) -> Option<Tier> {
        let Some((tenant, user)) = self.wanted(rules, request) else { return Some(None) };
        let key = Key::new(&self.secret, tenant, user);
        self.state.lock().recall(key, Instant::now()).ok().map(|(tier, outcome)| self.told(tier, outcome))
    }

    /// What can be said about the tier of a request; it is looked up if need be.
    pub(crate) fn ask(self: &Arc<Self>, rules: &RuleSet, request: &Request<'_>) -> Asked {
        let Some((tenant, user)) = self.wanted(rules, request) else { return Asked::Told(None) };
        let (key, now) = (Key::new(&self.secret, tenant, user), Instant::now());
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
        runtime.spawn(landing.look_up(tenant.map(str::to_owned), user.to_owned()));
        Asked::Waiting(Waiting { cache: Arc::clone(self), started: now, landed, before })
    }

    /// Whom to look up, if anybody.
    fn wanted<'a>(&self, rules: &RuleSet, request: &Request<'a>) -> Option<(Option<&'a str>, &'a str)> {
        let user = request.user.filter(|_| rules.wants_tier(request))?;
        let tenant = request.tenant.filter(|name| !name.is_empty());
        if user.len() > LONGEST_NAME || tenant.is_some_and(|tenant| tenant.len() > LONGEST_NAME) {
            self.stats.count(Outcome::Absent);
            return None;
        }
        Some((tenant, user))
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
    pub(crate) async fn tier(self, arrived: std::time::Instant, patience: Duration) -> Tier {
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

//! The limiter itself.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use arc_swap::{ArcSwap, Guard};
use tidegate_core::{Decision, Demand, Identity, Path, Request, RuleSet, RuleVerdict, Secret, Timestamp};
use tidegate_store::memory::Sweeper;
use tidegate_store::peers::{Answers as _, Call, Reply};
use tidegate_store::{Action, Clock, Deadline, Fallback, MemoryStore, Operation, Outcome, Store};

use crate::builder::Builder;
use crate::checked::{Checked, RequestError, UnsupportedRules};
use crate::held::{self, Holding};
use crate::shared::{Shared, Terms};
use crate::spans;
use crate::tiers::{Found, Lookups, TierCache};
use crate::waiting::Lines;

/// Decides requests by rules that may change at any time.
///
/// Cheap to share behind an [`Arc`]; all methods take `&self`. With counters in memory none of them waits for another
/// caller for longer than it takes to update a counter; with a [shared store](Builder::store), none waits longer than
/// [told](Builder::store_timeout), and so it is where [users' tiers](Builder::tiers) are looked up. Only whoever
/// [asks for it](Self::check_or_wait) waits for its turn.
pub struct Limiter {
    pub(crate) rules: ArcSwap<RuleSet>,
    /// Those that were in force before, kept until there are others: by then nobody uses them any more.
    pub(crate) retired: Mutex<Option<Arc<RuleSet>>>,
    pub(crate) backend: Backend,
    /// What is known of users' tiers, if they are kept elsewhere.
    pub(crate) tiers: Option<Arc<TierCache>>,
    /// Requests that wait for their turn.
    pub(crate) lines: Lines,
    pub(crate) clock: Arc<dyn Clock>,
}

/// Where the counters are.
pub(crate) enum Backend {
    Memory(Memory),
    Shared(Box<Shared>),
}

/// Counters in this process.
pub(crate) struct Memory {
    pub(crate) store: Arc<MemoryStore>,
    pub(crate) secret: Secret,
    pub(crate) _sweeper: Option<Sweeper>,
}

impl Memory {
    /// Applies what is demanded, and adds what becomes of it to `decision`. Not once for each crate that decides: one way through
    /// the store stays in the processor's caches, whoever asks.
    #[inline(never)]
    fn apply(&self, demand: &Demand<'_>, now: Timestamp, decision: &mut Decision) {
        let mut asked = demand.rules.iter().zip(&demand.group);
        self.store.apply_each(&demand.group, now, |outcome| {
            if let (Some((&rule, op)), Outcome::Verdict(verdict)) = (asked.next(), outcome) {
                decision.add_costing(RuleVerdict { rule, shadow: op.take.shadow, verdict }, op.take.cost);
            }
        });
    }
}

impl Limiter {
    /// Starts building a limiter that applies `rules`.
    pub fn builder(rules: RuleSet) -> Builder {
        Builder::new(rules)
    }

    /// A limiter that applies `rules`, with all defaults.
    pub fn new(rules: RuleSet) -> std::io::Result<Self> {
        Self::builder(rules).build()
    }

    /// Decides `request`. If it is allowed, it has been counted; or, if the [status](Decision::status) says so, it
    /// could not be.
    pub async fn check(&self, request: &Request<'_>) -> Result<Checked, RequestError> {
        match (&self.backend, &self.tiers) {
            (Backend::Memory(memory), None) => self.decide(memory, request, take, |_, _| {}),
            _ => self.find_and_decide(request, Instant::now(), take).await,
        }
    }

    /// The same for a request that arrived at `arrived`, from where on the time to wait for a shared store, and for the
    /// tier of its user, counts.
    pub async fn check_since(
        &self,
        request: &Request<'_>,
        arrived: Instant,
    ) -> Result<Checked, RequestError> {
        match (&self.backend, &self.tiers) {
            (Backend::Memory(memory), None) => self.decide(memory, request, take, |_, _| {}),
            _ => self.find_and_decide(request, arrived, take).await,
        }
    }

    /// Decides several requests in their order, each by itself. A shared store is asked about all of them at once, and
    /// for every hundred of them it is waited for as long as for one; so are users' tiers that are looked up.
    pub async fn check_all(&self, requests: &[Request<'_>]) -> Vec<Result<Checked, RequestError>> {
        match (&self.tiers, &self.backend) {
            (Some(tiers), _) => Box::pin(self.find_and_decide_all(tiers, requests)).await,
            (None, Backend::Memory(memory)) => self.decide_all(memory, requests),
            (None, Backend::Shared(shared)) => Box::pin(self.ask_all(shared, requests, Instant::now())).await,
        }
    }

    /// Decides `request` at once, without a runtime: counters in memory need none. A shared store cannot be asked so,
    /// nor can a user's tier be looked up: that it is not known here yet is an error.
    pub fn try_check(&self, request: &Request<'_>) -> Result<Checked, RequestError> {
        self.try_check_noting(request, |_, _| {})
    }

    /// The same, for whoever takes note of every decision: `note` sees it, and the rules it was taken by, before it is handed out.
    /// To look at what [`try_check`](Self::try_check) returns and pass it on would copy it.
    pub fn try_check_noting(
        &self,
        request: &Request<'_>,
        note: impl FnOnce(&Decision, &RuleSet),
    ) -> Result<Checked, RequestError> {
        let memory = self.at_once("check")?;
        match &self.tiers {
            None => self.decide(memory, request, take, note),
            Some(tiers) => {
                let found = self.recall_tiers(tiers, request, "check")?;
                self.decide(memory, &found.add_to(request), take, note)
            }
        }
    }

    /// Says what would be decided about `request`, and counts nothing.
    pub async fn explain(&self, request: &Request<'_>) -> Result<Checked, RequestError> {
        self.find_and_decide(request, Instant::now(), look).await
    }

    /// The same at once, which a shared store cannot do, nor a look-up of the user's tier.
    pub fn try_explain(&self, request: &Request<'_>) -> Result<Checked, RequestError> {
        let memory = self.at_once("explain")?;
        let found = match &self.tiers {
            None => Found::default(),
            Some(tiers) => self.recall_tiers(tiers, request, "explain")?,
        };
        self.decide(memory, &found.add_to(request), look, |_, _| {})
    }

    /// Whether decisions may have to be waited for: because the counters are elsewhere, or users' tiers are.
    pub fn may_wait(&self) -> bool {
        self.tiers.is_some() || matches!(self.backend, Backend::Shared(_))
    }

    pub(crate) fn at_once(&self, instead: &str) -> Result<&Memory, RequestError> {
        match &self.backend {
            Backend::Memory(memory) => Ok(memory),
            Backend::Shared(_) => {
                let message = format!("a shared store cannot be asked without waiting; use {instead}");
                Err(RequestError { field: "store", message })
            }
        }
    }

    #[inline]
    fn decide(
        &self,
        memory: &Memory,
        request: &Request<'_>,
        adjust: impl FnOnce(&mut [Operation<'_>]),
        note: impl FnOnce(&Decision, &RuleSet),
    ) -> Result<Checked, RequestError> {
        let path = parse_path(request)?;
        let now = self.clock.now();
        let rules = self.rules.load();
        let mut decision = Decision::new(None, request.cost, now);
        let mut holding = None;
        {
            let matching = spans::matching();
            let mut demand = rules.demand(request, &path, &memory.secret, now);
            spans::matched(matching, demand.rules.len(), rules.version());
            let hold = if rules.limits_in_flight() {
                let id = request.hold.unwrap_or_else(|| self.hold_id());
                held::hold_in_flight(&mut demand.group, id);
                Some(id)
            } else {
                request.hold
            };
            adjust(&mut demand.group);
            decision.tier = demand.tier;
            let counting = spans::memory(demand.group.len());
            memory.apply(&demand, now, &mut decision);
            spans::counted(counting, &decision);
            if hold.is_some() {
                // The memory store answers every take with a verdict: only holds can find it full.
                if decision.verdicts.is_empty() {
                    held::take_at_once(&mut demand.group);
                    memory.apply(&demand, now, &mut decision);
                }
                let said = decision.verdicts.iter().map(|said| Outcome::Verdict(said.verdict));
                holding = Holding::of(hold, decision.allowed, (&demand.rules, &demand.group), said);
            }
        }
        note(&decision, &rules);
        Ok(Checked { decision, rules, holding })
    }

    fn decide_all(&self, memory: &Memory, requests: &[Request<'_>]) -> Vec<Result<Checked, RequestError>> {
        requests.iter().map(|request| self.decide(memory, request, take, |_, _| {})).collect()
    }

    /// Finds out the tier of the request's user and the plan of its tenant if need be, and decides.
    async fn find_and_decide(
        &self,
        request: &Request<'_>,
        arrived: Instant,
        adjust: fn(&mut [Operation<'_>]),
    ) -> Result<Checked, RequestError> {
        let found = self.find_tiers(request, arrived).await;
        self.decide_told(&found.add_to(request), arrived, adjust).await
    }

    /// Decides a request whose tier and plan have been looked up if need be.
    pub(crate) async fn decide_told(
        &self,
        request: &Request<'_>,
        arrived: Instant,
        adjust: fn(&mut [Operation<'_>]),
    ) -> Result<Checked, RequestError> {
        match &self.backend {
            Backend::Memory(memory) => self.decide(memory, request, adjust, |_, _| {}),
            Backend::Shared(shared) => match self.try_ask(shared, request, adjust) {
                Some(checked) => checked,
                None => Box::pin(self.ask(shared, request, arrived, adjust)).await,
            },
        }
    }

    async fn find_and_decide_all(
        &self,
        tiers: &Arc<TierCache>,
        requests: &[Request<'_>],
    ) -> Vec<Result<Checked, RequestError>> {
        let arrived = Instant::now();
        // All look-ups are on their way before the first is waited for.
        let asked: Vec<Lookups> = {
            let rules = self.rules.load();
            requests.iter().map(|request| tiers.ask(&rules, request)).collect()
        };
        let missing = asked.iter().filter(|asked| asked.is_waiting()).count();
        let patience = tiers.patience(missing);
        let mut found = Vec::with_capacity(asked.len());
        for asked in asked {
            found.push(asked.found(arrived, patience).await);
        }
        let told = requests.iter().zip(&found).map(|(request, found)| found.add_to(request));
        let told: Vec<Request<'_>> = told.collect();
        match &self.backend {
            Backend::Memory(memory) => self.decide_all(memory, &told),
            Backend::Shared(shared) => self.ask_all(shared, &told, arrived).await,
        }
    }

    /// Looks up the tier of a request's user and the plan of its tenant, if they are what decides, and can be found out in time.
    pub(crate) async fn find_tiers(&self, request: &Request<'_>, arrived: Instant) -> Found {
        let Some(tiers) = &self.tiers else { return Found::default() };
        let asked = tiers.ask(&self.rules.load(), request);
        match asked.at_once() {
            Ok(found) => found,
            // Boxed to keep the future small for requests that need not wait.
            Err(waiting) => Box::pin(waiting.found(arrived, tiers.patience(1))).await,
        }
    }

    /// Calls `read` with the name of the tier or plan that `request` has: that of its user, or else of its tenant, or else the default.
    /// Looks it up first if need be, as a decision would.
    pub async fn tier_of<T>(
        &self,
        request: &Request<'_>,
        arrived: Instant,
        read: impl FnOnce(Option<&str>) -> T,
    ) -> T {
        let found = self.find_tiers(request, arrived).await;
        read(self.rules.load().tier_of(&found.add_to(request)))
    }

    /// Returns what [`find_tiers`](Self::find_tiers) would, if it is known here.
    fn recall_tiers(
        &self,
        tiers: &TierCache,
        request: &Request<'_>,
        instead: &str,
    ) -> Result<Found, RequestError> {
        tiers.recall(&self.rules.load(), request).ok_or_else(|| {
            let message = format!("the user's tier cannot be looked up without waiting; use {instead}");
            RequestError { field: "tier", message }
        })
    }

    /// Decides without a shared store that is away, if it is this node that counts in its place. Then nobody need be waited for.
    fn try_ask(
        &self,
        shared: &Shared,
        request: &Request<'_>,
        adjust: fn(&mut [Operation<'_>]),
    ) -> Option<Result<Checked, RequestError>> {
        if !shared.is_troubled() {
            return None;
        }
        let rules = self.rules.load();
        let decision = shared.try_decide(Terms { rules: &rules, now: self.clock.now(), adjust }, request)?;
        Some(decision.map(|(decision, holding)| Checked { decision, rules, holding }))
    }

    /// Asks a shared store. To be put in a box, so that those who have none need not carry around what it takes.
    async fn ask(
        &self,
        shared: &Shared,
        request: &Request<'_>,
        arrived: Instant,
        adjust: fn(&mut [Operation<'_>]),
    ) -> Result<Checked, RequestError> {
        let rules = self.rules.load_full();
        let terms = Terms { rules: &rules, now: self.clock.now(), adjust };
        let (decision, holding) = shared.decide(terms, request, arrived).await?;
        Ok(Checked { decision, rules: Guard::from_inner(rules), holding })
    }

    async fn ask_all(
        &self,
        shared: &Shared,
        requests: &[Request<'_>],
        arrived: Instant,
    ) -> Vec<Result<Checked, RequestError>> {
        let rules = self.rules.load_full();
        let terms = Terms { rules: &rules, now: self.clock.now(), adjust: take };
        let decisions = shared.decide_all(terms, requests, arrived).await;
        let checked = |(decision, holding)| {
            let rules = Guard::from_inner(Arc::clone(&rules));
            Checked { decision, rules, holding }
        };
        decisions.into_iter().map(|decision| decision.map(checked)).collect()
    }

    /// Who `request` is to each rule in `checked`, for people to read.
    pub fn identities(
        &self,
        checked: &Checked,
        request: &Request<'_>,
    ) -> Result<Vec<Option<String>>, RequestError> {
        let path = parse_path(request)?;
        let rules = checked.verdicts.iter().map(|said| said.rule);
        Ok(rules
            .map(|rule| checked.rules.identity(rule, request, &path).map(|id: Identity<'_>| id.to_string()))
            .collect())
    }

    /// The rules in force.
    pub fn rules(&self) -> Arc<RuleSet> {
        self.rules.load_full()
    }

    /// Returns the rules in force, for a short look: cheaper than [`rules`](Self::rules), whose answer can be kept.
    pub fn in_force(&self) -> impl Deref<Target = Arc<RuleSet>> + use<> {
        self.rules.load()
    }

    /// Returns an error if `rules` ask for something that this limiter cannot do: with a shared store, to limit how many requests are
    /// [in flight](tidegate_core::Algorithm::InFlight).
    pub fn supports(&self, rules: &RuleSet) -> Result<(), UnsupportedRules> {
        let unsupported = rules.limits_in_flight() && matches!(self.backend, Backend::Shared(_));
        if unsupported { Err(UnsupportedRules) } else { Ok(()) }
    }

    /// Puts other rules in force, at once for every request that comes after. If this limiter does not
    /// [support](Self::supports) them, the present ones stay in force.
    pub fn set_rules(&self, rules: RuleSet) -> Result<(), UnsupportedRules> {
        self.supports(&rules)?;
        let old = self.rules.swap(Arc::new(rules));
        // Freeing many rules takes longer than deciding by them: not to be done by whoever happens to use them last.
        drop(self.retired.lock().map(|mut retired| retired.replace(old)));
        if let Backend::Shared(shared) = &self.backend {
            shared.rules_changed();
        }
        self.lines.ask_again();
        Ok(())
    }

    /// The counters, if they are in this process.
    pub fn memory(&self) -> Option<&MemoryStore> {
        match &self.backend {
            Backend::Memory(memory) => Some(&memory.store),
            Backend::Shared(_) => None,
        }
    }

    /// The store that has the counters, if they are elsewhere.
    pub fn shared(&self) -> Option<&dyn Store> {
        match &self.backend {
            Backend::Memory(_) => None,
            Backend::Shared(shared) => Some(shared.store()),
        }
    }

    /// What is known of users' tiers, if they are [looked up](Builder::tiers).
    pub fn tiers(&self) -> Option<&TierCache> {
        self.tiers.as_deref()
    }

    /// What stands in for the shared store where rules say so, if there is one.
    pub fn fallback(&self) -> Option<&Fallback<impl Store + use<>>> {
        match &self.backend {
            Backend::Memory(_) => None,
            Backend::Shared(shared) => Some(shared.fallback()),
        }
    }

    /// Answers another node, by the deadline, if there is a shared store for which nodes stand in.
    pub async fn answer(&self, call: &Call, deadline: Deadline) -> Option<Reply> {
        match &self.backend {
            Backend::Memory(_) => None,
            Backend::Shared(shared) => Some(shared.fallback().answer(call, deadline).await),
        }
    }

    /// Does what has to be done however few requests there are: to be called some ten times a second if there is a shared store,
    /// from one task.
    ///
    /// Keys that were counted without the store are settled with it and handed back to it at a pace that it hardly feels, and
    /// [other nodes](Builder::peers) are told how this one is doing.
    pub async fn tend(&self) {
        if let Backend::Shared(shared) = &self.backend {
            Box::pin(shared.tend()).await;
        }
    }

    /// How many requests were refused without asking the shared store, because it had just refused the same.
    pub fn denied_from_cache(&self) -> u64 {
        match &self.backend {
            Backend::Memory(_) => 0,
            Backend::Shared(shared) => shared.denied_from_cache(),
        }
    }
}

impl fmt::Debug for Limiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limiter").field("rules_version", &self.rules.load().version()).finish_non_exhaustive()
    }
}

/// Counts what is allowed.
pub(crate) fn take(_: &mut [Operation<'_>]) {}

/// Counts nothing.
pub(crate) fn look(group: &mut [Operation<'_>]) {
    group.iter_mut().for_each(|op| op.action = Action::Peek);
}

pub(crate) fn parse_path<'a>(request: &Request<'a>) -> Result<Path<'a>, RequestError> {
    Path::parse(request.path).map_err(|error| RequestError { field: "resource", message: error.to_string() })
}

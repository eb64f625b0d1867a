//! The limiter itself.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use arc_swap::{ArcSwap, Guard};
use tidegate_core::{Decision, Identity, Path, Request, RuleSet, RuleVerdict, Secret};
use tidegate_store::memory::Sweeper;
use tidegate_store::{Action, Clock, MemoryStore, Operation, Outcome, Store};

use crate::builder::Builder;
use crate::checked::{Checked, RequestError};
use crate::shared::{Shared, Terms};

/// Decides requests by rules that may change at any time.
///
/// Cheap to share behind an [`Arc`]; all methods take `&self`. With counters in memory none of them waits for another
/// caller for longer than it takes to update a counter; with a [shared store](Builder::store), none waits longer than
/// [told](Builder::store_timeout).
pub struct Limiter {
    pub(crate) rules: ArcSwap<RuleSet>,
    pub(crate) backend: Backend,
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
        match &self.backend {
            Backend::Memory(memory) => self.decide(memory, request, take),
            Backend::Shared(shared) => Box::pin(self.ask(shared, request, Instant::now(), take)).await,
        }
    }

    /// The same for a request that arrived at `arrived`, from where on the time to wait for a shared store counts.
    pub async fn check_since(
        &self,
        request: &Request<'_>,
        arrived: Instant,
    ) -> Result<Checked, RequestError> {
        match &self.backend {
            Backend::Memory(memory) => self.decide(memory, request, take),
            Backend::Shared(shared) => Box::pin(self.ask(shared, request, arrived, take)).await,
        }
    }

    /// Decides several requests in their order, each by itself. A shared store is asked about all of them at once, and
    /// for every hundred of them it is waited for as long as for one.
    pub async fn check_all(&self, requests: &[Request<'_>]) -> Vec<Result<Checked, RequestError>> {
        match &self.backend {
            Backend::Memory(memory) => {
                requests.iter().map(|request| self.decide(memory, request, take)).collect()
            }
            Backend::Shared(shared) => Box::pin(self.ask_all(shared, requests)).await,
        }
    }

    /// Decides `request` at once, without a runtime: counters in memory need none. A shared store cannot be asked so.
    pub fn try_check(&self, request: &Request<'_>) -> Result<Checked, RequestError> {
        self.decide(self.at_once("check")?, request, take)
    }

    /// Says what would be decided about `request`, and counts nothing.
    pub async fn explain(&self, request: &Request<'_>) -> Result<Checked, RequestError> {
        match &self.backend {
            Backend::Memory(memory) => self.decide(memory, request, look),
            Backend::Shared(shared) => Box::pin(self.ask(shared, request, Instant::now(), look)).await,
        }
    }

    /// The same at once, which a shared store cannot do.
    pub fn try_explain(&self, request: &Request<'_>) -> Result<Checked, RequestError> {
        self.decide(self.at_once("explain")?, request, look)
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
    ) -> Result<Checked, RequestError> {
        let path = parse_path(request)?;
        let now = self.clock.now();
        let rules = self.rules.load();
        let mut decision = Decision::new(None, request.cost, now);
        {
            let mut demand = rules.demand(request, &path, &memory.secret, now);
            adjust(&mut demand.group);
            decision.tier = demand.tier;
            let mut asked = demand.rules.iter().zip(&demand.group);
            memory.store.apply_each(&demand.group, now, |outcome| {
                // The memory store answers every take with a verdict: only holds can find it full.
                if let (Some((&rule, op)), Outcome::Verdict(verdict)) = (asked.next(), outcome) {
                    decision.add(RuleVerdict { rule, shadow: op.take.shadow, verdict });
                }
            });
        }
        Ok(Checked { decision, rules })
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
        let decision = shared.decide(terms, request, arrived).await?;
        Ok(Checked { decision, rules: Guard::from_inner(rules) })
    }

    async fn ask_all(&self, shared: &Shared, requests: &[Request<'_>]) -> Vec<Result<Checked, RequestError>> {
        let arrived = Instant::now();
        let rules = self.rules.load_full();
        let terms = Terms { rules: &rules, now: self.clock.now(), adjust: take };
        let decisions = shared.decide_all(terms, requests, arrived).await;
        let checked = |decision| Checked { decision, rules: Guard::from_inner(Arc::clone(&rules)) };
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

    /// Puts other rules in force, at once for every request that comes after.
    pub fn set_rules(&self, rules: RuleSet) {
        self.rules.store(Arc::new(rules));
        if let Backend::Shared(shared) = &self.backend {
            shared.rules_changed();
        }
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
fn take(_: &mut [Operation<'_>]) {}

/// Counts nothing.
fn look(group: &mut [Operation<'_>]) {
    group.iter_mut().for_each(|op| op.action = Action::Peek);
}

pub(crate) fn parse_path<'a>(request: &Request<'a>) -> Result<Path<'a>, RequestError> {
    Path::parse(request.path).map_err(|error| RequestError { field: "resource", message: error.to_string() })
}

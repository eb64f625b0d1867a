//! The limiter itself.

use std::fmt;
use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use tidegate_core::{Decision, Identity, Path, Request, RuleSet, RuleVerdict, Secret};
use tidegate_store::memory::{DEFAULT_MAX_KEYS, Sweeper};
use tidegate_store::{Action, Clock, MemoryStore, Operation, Outcome, SystemClock};

/// Decides requests by rules that may change at any time.
///
/// Cheap to share behind an [`Arc`]; all methods take `&self` and none of them waits for another caller for longer
/// than it takes to update a counter.
pub struct Limiter {
    rules: ArcSwap<RuleSet>,
    store: Arc<MemoryStore>,
    clock: Arc<dyn Clock>,
    secret: Secret,
    _sweeper: Option<Sweeper>,
}

/// How to build a [`Limiter`].
pub struct Builder {
    rules: RuleSet,
    max_keys: usize,
    clock: Arc<dyn Clock>,
    secret: Option<Secret>,
    sweep: bool,
}

impl Builder {
    /// Keeps at most this many counters in memory (default 1,000,000).
    #[must_use]
    pub fn max_keys(mut self, max_keys: usize) -> Self {
        self.max_keys = max_keys;
        self
    }

    /// Goes by this clock instead of the machine's: for tests and simulations. Nothing happens in the background
    /// then.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self.sweep = false;
        self
    }

    /// Hashes keys with this secret instead of a fresh one.
    #[must_use]
    pub fn secret(mut self, secret: Secret) -> Self {
        self.secret = Some(secret);
        self
    }

    /// Builds the limiter. Fails if the operating system gives no randomness or no thread.
    pub fn build(self) -> std::io::Result<Limiter> {
        let secret = match self.secret {
            Some(secret) => secret,
            None => fresh_secret()?,
        };
        let store = Arc::new(MemoryStore::new(self.max_keys, Arc::clone(&self.clock)));
        let sweeper = self.sweep.then(|| Sweeper::start(&store)).transpose()?;
        Ok(Limiter {
            rules: ArcSwap::from_pointee(self.rules),
            store,
            clock: self.clock,
            secret,
            _sweeper: sweeper,
        })
    }
}

fn fresh_secret() -> std::io::Result<Secret> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(std::io::Error::other)?;
    Ok(Secret::new(bytes))
}

impl Limiter {
    /// Starts building a limiter that applies `rules`.
    pub fn builder(rules: RuleSet) -> Builder {
        Builder { rules, max_keys: DEFAULT_MAX_KEYS, clock: Arc::new(SystemClock), secret: None, sweep: true }
    }

    /// A limiter that applies `rules`, with all defaults.
    pub fn new(rules: RuleSet) -> std::io::Result<Self> {
        Self::builder(rules).build()
    }

    /// Decides `request`. If it is allowed, it has been counted.
    pub async fn check(&self, request: &Request<'_>) -> Result<Checked, RequestError> {
        self.try_check(request)
    }

    /// Decides `request` at once, without a runtime: counters in memory need none.
    pub fn try_check(&self, request: &Request<'_>) -> Result<Checked, RequestError> {
        self.decide(request, |_| ())
    }

    /// Says what would be decided about `request`, and counts nothing.
    pub fn explain(&self, request: &Request<'_>) -> Result<Checked, RequestError> {
        self.decide(request, |group| group.iter_mut().for_each(|op| op.action = Action::Peek))
    }

    fn decide(
        &self,
        request: &Request<'_>,
        adjust: impl FnOnce(&mut [Operation<'_>]),
    ) -> Result<Checked, RequestError> {
        let path = parse_path(request)?;
        let now = self.clock.now();
        let rules = self.rules.load();
        let mut decision = Decision::new(None, request.cost, now);
        {
            let mut demand = rules.demand(request, &path, &self.secret, now);
            adjust(&mut demand.group);
            decision.tier = demand.tier;
            let mut asked = demand.rules.iter().zip(&demand.group);
            self.store.apply_each(&demand.group, now, |outcome| {
                // The memory store answers every take with a verdict: only holds can find it full.
                if let (Some((&rule, op)), Outcome::Verdict(verdict)) = (asked.next(), outcome) {
                    decision.add(RuleVerdict { rule, shadow: op.take.shadow, verdict });
                }
            });
        }
        Ok(Checked { decision, rules })
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
    }

    /// Where the counters are.
    pub fn store(&self) -> &MemoryStore {
        &self.store
    }
}

impl fmt::Debug for Limiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limiter").field("rules_version", &self.rules.load().version()).finish_non_exhaustive()
    }
}

fn parse_path<'a>(request: &Request<'a>) -> Result<Path<'a>, RequestError> {
    Path::parse(request.path).map_err(|error| RequestError { field: "resource", message: error.to_string() })
}

/// A decision and the rules it was taken by.
pub struct Checked {
    decision: Decision,
    rules: Guard<Arc<RuleSet>>,
}

impl Checked {
    /// The rules the decision was taken by.
    pub fn rules(&self) -> &RuleSet {
        &self.rules
    }

    /// The binding rule's id, if a rule applied.
    pub fn rule_id(&self) -> Option<&str> {
        self.decision.binding_rule(&self.rules)
    }
}

impl std::ops::Deref for Checked {
    type Target = Decision;

    fn deref(&self) -> &Decision {
        &self.decision
    }
}

impl fmt::Debug for Checked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.decision.fmt(f)
    }
}

/// Why a request cannot be decided at all. Nothing was counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestError {
    /// What it is about, as the check API calls it.
    pub field: &'static str,
    /// What is wrong with it.
    pub message: String,
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}

impl std::error::Error for RequestError {}

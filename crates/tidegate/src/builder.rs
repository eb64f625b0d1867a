//! How a limiter is put together.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use arc_swap::ArcSwap;
use tidegate_core::{Quota, RuleSet, Secret};
use tidegate_store::memory::{DEFAULT_MAX_KEYS, Sweeper};
use tidegate_store::peers::Peers;
use tidegate_store::{Clock, FallbackSettings, MemoryStore, Store, SystemClock};

use crate::checked::UnsupportedRules;
use crate::limiter::{Backend, Limiter, Memory};
use crate::shared::{Local, Shared};
use crate::tiers::{TierCache, TierLookup, TierOptions};
use crate::waiting::{DEFAULT_MAX_WAITING, Lines};

/// How long a decision waits for a shared store unless told otherwise.
pub const DEFAULT_STORE_TIMEOUT: Duration = Duration::from_millis(5);

/// How many requests a minute a key is allowed in an emergency unless told otherwise.
pub const DEFAULT_EMERGENCY_CAP: u32 = 10;

/// How to build a [`Limiter`].
pub struct Builder {
    rules: RuleSet,
    max_keys: usize,
    clock: Arc<dyn Clock>,
    secret: Option<Secret>,
    sweep: bool,
    store: Option<Arc<dyn Store>>,
    store_timeout: Duration,
    remember_refusals: bool,
    nodes: u32,
    peers: Option<(Arc<dyn Peers>, Secret)>,
    deny_when_not_owner: bool,
    emergency_cap: u32,
    tiers: Option<(Arc<dyn TierLookup>, TierOptions)>,
    max_waiting: usize,
}

impl Builder {
    pub(crate) fn new(rules: RuleSet) -> Self {
        Self {
            rules,
            max_keys: DEFAULT_MAX_KEYS,
            clock: Arc::new(SystemClock),
            secret: None,
            sweep: true,
            store: None,
            store_timeout: DEFAULT_STORE_TIMEOUT,
            remember_refusals: true,
            nodes: 1,
            peers: None,
            deny_when_not_owner: false,
            emergency_cap: DEFAULT_EMERGENCY_CAP,
            tiers: None,
            max_waiting: DEFAULT_MAX_WAITING,
        }
    }

    /// Keeps at most this many counters in memory (default 1,000,000).
    #[must_use]
    pub fn max_keys(mut self, max_keys: usize) -> Self {
        self.max_keys = max_keys;
        self
    }

    /// Goes by this clock instead of the machine's: for tests and simulations. Nothing happens in the background
    /// then. A shared store goes by its own.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self.sweep = false;
        self
    }

    /// Hashes keys with this secret instead of a fresh one. That of a [shared store](Self::store) comes first.
    #[must_use]
    pub fn secret(mut self, secret: Secret) -> Self {
        self.secret = Some(secret);
        self
    }

    /// Keeps counters in `store`, which others may use at the same time, instead of this process's memory. What the
    /// store refuses is remembered here for up to a second, so that whoever is over the limit costs it nothing.
    ///
    /// What becomes of requests while it cannot be asked is for [each rule](tidegate_core::rule::OnStoreFailure) to
    /// say; so it is until the store knows the [secret](Store::secret) that its users share.
    #[must_use]
    pub fn store(mut self, store: Arc<dyn Store>) -> Self {
        self.store = Some(store);
        self
    }

    /// Waits at most this long for a shared store (default 5 ms).
    #[must_use]
    pub fn store_timeout(mut self, timeout: Duration) -> Self {
        self.store_timeout = timeout;
        self
    }

    /// Whether what a shared store refuses is remembered here for up to a second (default: yes). Simulations do not
    /// want it: it goes by the time that really passes.
    #[must_use]
    pub fn remember_refusals(mut self, remember: bool) -> Self {
        self.remember_refusals = remember;
        self
    }

    /// How many nodes use the shared store (default 1): when it is away, each counts by itself what rules with
    /// [`OnStoreFailure::Local`](tidegate_core::rule::OnStoreFailure::Local) allow, and has an equal share of it.
    #[must_use]
    pub fn nodes(mut self, nodes: u32) -> Self {
        self.nodes = nodes;
        self
    }

    /// Other nodes that use the shared store: when it is away, one of them counts each key, and the others ask it. Until the store
    /// is first reached, keys are hashed with `secret`, which is the same on all of them.
    #[must_use]
    pub fn peers(mut self, peers: Arc<dyn Peers>, secret: Secret) -> Self {
        self.peers = Some((peers, secret));
        self
    }

    /// Refuses what another node counts while the store is away, to be tried again after a second, instead of asking that node
    /// (default: asks).
    #[must_use]
    pub fn deny_when_not_owner(mut self, deny: bool) -> Self {
        self.deny_when_not_owner = deny;
        self
    }

    /// How many requests a minute each key is allowed on this node in an emergency (default 10), by rules that do not
    /// [refuse](tidegate_core::rule::OnStoreFailure::LocalOrDeny) then. Whether there is one is for whoever runs the node to
    /// [say](tidegate_store::Fallback::set_emergency).
    #[must_use]
    pub fn emergency_cap(mut self, per_minute: u32) -> Self {
        self.emergency_cap = per_minute;
        self
    }

    /// Looks up the tiers of users whom neither the request nor the rules give one. Decisions then need a Tokio runtime
    /// with time enabled, in which look-ups go on by themselves; without a runtime, and whenever the tier is not found in time, the rules'
    /// default counts. What was found is remembered for as long as `options` say; what changed before then is to be
    /// [forgotten](TierCache::forget).
    #[must_use]
    pub fn tiers(mut self, lookup: Arc<dyn TierLookup>, options: TierOptions) -> Self {
        self.tiers = Some((lookup, options));
        self
    }

    /// Lets at most this many requests [wait](Limiter::check_or_wait) for their turn (default 10,000), of which at most 1,000
    /// for one counter, half of all for one rule, and a hundredth from one address, but 16 of both in any case; beyond that they are
    /// refused at once.
    #[must_use]
    pub fn max_waiting(mut self, max_waiting: usize) -> Self {
        self.max_waiting = max_waiting;
        self
    }

    /// Builds the limiter. Fails if the operating system gives no randomness or no thread, or if the rules
    /// [cannot be applied](UnsupportedRules) with a shared store.
    pub fn build(self) -> std::io::Result<Limiter> {
        if self.store.is_some() && self.rules.limits_in_flight() {
            return Err(std::io::Error::new(std::io::ErrorKind::Unsupported, UnsupportedRules));
        }
        let tiers = match self.tiers {
            Some((lookup, mut options)) => {
                if self.store.is_some() {
                    // The store, too, is to have time left.
                    options.timeout = options.timeout.min(self.store_timeout / 2);
                }
                Some(Arc::new(TierCache::new(lookup, options, fresh_secret()?)))
            }
            None => None,
        };
        let backend = match self.store {
            Some(store) => {
                let (peers, secret) = match self.peers {
                    Some((peers, secret)) => (Some(peers), secret),
                    None => (None, fresh_secret()?),
                };
                let settings = FallbackSettings {
                    peers,
                    nodes: self.nodes,
                    max_keys: self.max_keys,
                    patience: self.store_timeout,
                    deny_when_not_owner: self.deny_when_not_owner,
                    emergency: Quota::per_minute(self.emergency_cap),
                    epoch: fresh_number()?,
                };
                let local = Local { settings, clock: Arc::clone(&self.clock), secret };
                let remember = self.remember_refusals;
                Backend::Shared(Box::new(Shared::new(
                    store,
                    self.store_timeout,
                    self.secret,
                    remember,
                    local,
                )))
            }
            None => {
                let secret = match self.secret {
                    Some(secret) => secret,
                    None => fresh_secret()?,
                };
                let store = Arc::new(MemoryStore::new(self.max_keys, Arc::clone(&self.clock)));
                let sweeper = self.sweep.then(|| Sweeper::start(&store)).transpose()?;
                Backend::Memory(Memory { store, secret, _sweeper: sweeper })
            }
        };
        let (rules, retired) = (ArcSwap::from_pointee(self.rules), Mutex::new(None));
        let lines = Lines::new(self.max_waiting);
        Ok(Limiter { rules, retired, backend, tiers, lines, clock: self.clock })
    }
}

fn fresh_secret() -> std::io::Result<Secret> {
    random().map(Secret::new)
}

fn fresh_number() -> std::io::Result<u64> {
    random().map(u64::from_le_bytes)
}

fn random<const N: usize>() -> std::io::Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(std::io::Error::other)?;
    Ok(bytes)
}

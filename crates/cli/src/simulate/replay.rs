//! The engine under a clock that says what the log says.

use std::sync::Arc;
use std::time::Duration;

use tidegate::redis::{RedisStore, RedisUrl};
use tidegate::{Checked, Limiter, ManualClock, Status};
use tidegate_core::{Request, RuleSet, Secret, Span, Timestamp};
use tidegate_wire::CheckBody;
use tokio::runtime::Runtime;

use super::combined_log::{self, Logged};
use super::input::{Line, MAX_LINE_BYTES};
use super::json_line;
use crate::failure::Failure;
use crate::store::Store;

/// The same input gives the same output, to the byte: nothing may depend on chance.
const SECRET: [u8; 16] = *b"tidegate replays";

/// How long to wait for a shared store: this is not about speed.
const STORE_TIMEOUT: Duration = Duration::from_secs(10);

/// How long to try to reach it.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// How long keys live that nobody comes to delete. No replay takes that long.
const STORE_TTL: Span = Span::from_secs(86_400);

/// A limiter in virtual time.
pub(crate) struct Replay {
    limiter: Limiter,
    clock: Arc<ManualClock>,
    format: Option<Format>,
    shared: Option<SharedReplay>,
}

/// A replay in a shared store.
struct SharedReplay {
    runtime: Runtime,
    store: Arc<RedisStore>,
}

/// How requests are written down; the first line tells.
#[derive(Clone, Copy)]
enum Format {
    Json,
    CombinedLog,
}

/// A recorded request.
pub(crate) enum Recorded<'a> {
    Check(CheckBody<'a>),
    Logged(Logged<'a>),
}

impl Recorded<'_> {
    /// The request to decide.
    pub(crate) fn request(&self) -> Request<'_> {
        match self {
            Self::Check(body) => body.request(),
            Self::Logged(logged) => logged.request(),
        }
    }
}

impl Replay {
    /// Nothing counted yet.
    pub(crate) fn new(rules: RuleSet, store: &Store, max_keys: usize) -> Result<Self, Failure> {
        let clock = Arc::new(ManualClock::default());
        let secret = Secret::new(SECRET);
        let mut limiter =
            Limiter::builder(rules).max_keys(max_keys).clock(Arc::clone(&clock) as _).secret(secret);
        let shared = match store {
            Store::Memory => None,
            Store::Redis(url) => Some(SharedReplay::start(url, &clock)?),
        };
        if let Some(shared) = &shared {
            // Refusals are remembered by the clock on the wall, which this is not about.
            limiter = limiter
                .store(Arc::clone(&shared.store) as _)
                .store_timeout(STORE_TIMEOUT)
                .remember_refusals(false);
        }
        let limiter = limiter
            .build()
            .map_err(|error| Failure::Failed(format!("cannot set up the limiter: {error}")))?;
        Ok(Self { limiter, clock, format: None, shared })
    }

    /// What a line of the input says: when, and what was asked for.
    pub(crate) fn read<'l>(&mut self, line: Line<'l>) -> Result<(Timestamp, Recorded<'l>), String> {
        let text = line.text.ok_or_else(|| format!("it is longer than {MAX_LINE_BYTES} bytes"))?;
        let format = *self.format.get_or_insert_with(|| match text.trim_ascii_start().first() {
            Some(b'{') => Format::Json,
            _ => Format::CombinedLog,
        });
        match format {
            Format::Json => json_line::parse(text).map(|(at, body)| (at, Recorded::Check(body))),
            Format::CombinedLog => {
                combined_log::parse(text).map(|(at, logged)| (at, Recorded::Logged(logged)))
            }
        }
    }

    /// Decides a request as if it were `at` now.
    pub(crate) fn decide(&self, at: Timestamp, request: &Request<'_>) -> Result<Checked, String> {
        self.clock.set(at);
        let Some(SharedReplay { runtime, store }) = &self.shared else {
            return self.limiter.try_check(request).map_err(|error| error.to_string());
        };
        let checked = runtime.block_on(self.limiter.check(request)).map_err(|error| error.to_string())?;
        match checked.status {
            Status::Enforced => Ok(checked),
            Status::Local | Status::Disabled | Status::Unavailable => {
                let why =
                    store.problem().map_or_else(|| "it did not answer".to_owned(), |problem| problem.text);
                Err(format!("the store failed: {why}"))
            }
        }
    }

    /// Leaves nothing behind.
    pub(crate) fn end(&self) {
        if let Some(SharedReplay { runtime, store }) = &self.shared
            && let Err(problem) = runtime.block_on(store.delete_all())
        {
            anstream::eprintln!("keys beginning with {} are left to expire: {problem}", store.url().prefix);
        }
    }

    /// The rules in force.
    pub(crate) fn rules(&self) -> Arc<RuleSet> {
        self.limiter.rules()
    }

    /// Returns how often there was no room for a counter, so that another one had to go or was shared.
    pub(crate) fn short_of_room(&self) -> u64 {
        self.limiter.memory().map_or(0, |memory| memory.evicted().saturating_add(memory.overflowed()))
    }
}

impl SharedReplay {
    /// Connects, under a prefix that nobody else has.
    fn start(url: &RedisUrl, clock: &Arc<ManualClock>) -> Result<Self, Failure> {
        let failed = |why: &dyn std::fmt::Display| Failure::Failed(format!("cannot use the store: {why}"));
        let runtime = Runtime::new().map_err(|error| failed(&error))?;
        let mut url = url.clone();
        url.prefix = format!("{}:simulate:{}", url.prefix, std::process::id());
        let store = runtime.block_on(async {
            let builder = RedisStore::builder(url).timeout(STORE_TIMEOUT).secret(SECRET);
            let store = builder
                .clock(Arc::clone(clock) as _, STORE_TTL)
                .start()
                .map_err(|problem| failed(&problem))?;
            match tokio::time::timeout(CONNECT_TIMEOUT, store.ready()).await {
                Ok(()) => Ok(store),
                Err(_) => Err(match store.problem() {
                    Some(problem) => failed(&problem),
                    None => failed(&"it does not answer"),
                }),
            }
        })?;
        // What an earlier replay of the same name may have left.
        let store = Arc::new(store);
        runtime.block_on(store.delete_all()).map_err(|problem| failed(&problem))?;
        Ok(Self { runtime, store })
    }
}

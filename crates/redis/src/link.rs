//! The connection to one server, kept up.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use redis::aio::MultiplexedConnection;
use tidegate_store::deadline::{Late, until};
use tidegate_store::{BreakerState, Failure};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::sleep;

use crate::connect::{CONNECT_LIMIT, check_role};
use crate::master::Master;
use crate::problem::Problem;
use crate::url::Address;

/// How long to wait before connecting again, at first and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// How often an idle connection is tried out.
const PROBE: Duration = Duration::from_secs(1);

/// How often one is whose breaker is not closed: it says itself when a call may try.
const PROBE_SOON: Duration = Duration::from_millis(50);

/// A connection that comes back by itself, to a server that may be replaced by another.
pub(crate) struct Link {
    state: ArcSwap<State>,
    /// Told when there is something new for the task that keeps the connection.
    changed: Notify,
    /// Told when the connection is up, for those who have to do something first then.
    up: Arc<Notify>,
    /// Told when a server has been tried, for those who wait for the first attempt.
    tried: Notify,
    master: Arc<Master>,
    /// Whether this is the first of the connections to this master; what happens to it is logged for all.
    first: bool,
    /// Whether a ping has not been answered for longer than it may take. The connection may still be good.
    silent: AtomicBool,
    ping_limit: Duration,
}

/// What is known about the server.
struct State {
    /// None until somebody finds out who it is.
    address: Option<Address>,
    /// Tells this state from those before it.
    generation: u64,
    connection: Result<MultiplexedConnection, Problem>,
    /// Whether the first attempt to connect to this server is still under way.
    untried: bool,
}

/// A connection that is up.
pub(crate) struct Connected {
    pub(crate) connection: MultiplexedConnection,
    pub(crate) generation: u64,
}

impl Link {
    /// Begins to connect to the server at `address`, or to one that is yet to be [found](Self::retarget), from the event loop with this
    /// number.
    pub(crate) fn start(
        master: Arc<Master>,
        address: Option<Address>,
        up: Arc<Notify>,
        (number, event_loop): (usize, &Handle),
    ) -> Arc<Self> {
        let problem = Problem::new(Failure::Connection, "not connected yet");
        let untried = address.is_some();
        let state = State { address, generation: 0, connection: Err(problem), untried };
        let (changed, tried) = (Notify::new(), Notify::new());
        let (state, silent) = (ArcSwap::from_pointee(state), AtomicBool::new(false));
        let ping_limit = master.clock.ping_limit();
        let link =
            Arc::new(Self { state, changed, up, tried, master, first: number == 0, silent, ping_limit });
        event_loop.spawn(keep(Arc::downgrade(&link)));
        link
    }

    /// The connection, or why there is none.
    pub(crate) fn get(&self) -> Result<Connected, Problem> {
        let state = self.state.load();
        let connection = state.connection.clone()?;
        Ok(Connected { connection, generation: state.generation })
    }

    /// Why there is no connection, if there is none.
    pub(crate) fn problem(&self) -> Option<Problem> {
        self.state.load().connection.as_ref().err().cloned()
    }

    /// What is wrong with a server to which there is a connection that is silent, if it is.
    pub(crate) fn silence(&self) -> Option<Problem> {
        if !self.silent.load(Ordering::Relaxed) {
            return None;
        }
        let text =
            format!("{}: no answer to a ping within {} ms", self.address()?, self.ping_limit.as_millis());
        Some(Problem::new(Failure::Connection, text))
    }

    /// The server has answered something, or is not the same any more.
    pub(crate) fn heard(&self) {
        if self.silent.load(Ordering::Relaxed) {
            self.silent.store(false, Ordering::Relaxed);
        }
    }

    /// Whether the server is connected to, or about to be, and not left alone.
    pub(crate) fn reach(&self) -> Result<(), Failure> {
        match &**self.state.load() {
            State { connection: Err(problem), untried: false, .. } => Err(problem.failure),
            _ => self.master.breaker.is_closed(),
        }
    }

    /// Resolves when it is known whether the server can be reached: what is sent to one that has just taken
    /// over need not fail because nobody has connected to it yet.
    pub(crate) async fn known(&self) {
        loop {
            let tried = self.tried.notified();
            if !self.state.load().untried {
                return;
            }
            tried.await;
        }
    }

    pub(crate) fn address(&self) -> Option<Address> {
        self.state.load().address.clone()
    }

    /// Goes over to another server at once; what is on its way to the old one is lost.
    pub(crate) fn retarget(&self, address: &Address) {
        if self.state.load().address.as_ref() == Some(address) {
            return;
        }
        let problem = Problem::new(Failure::Connection, format!("{address}: not connected yet"));
        self.change(|state| {
            Some(State {
                address: Some(address.clone()),
                generation: state.generation + 1,
                connection: Err(problem.clone()),
                untried: true,
            })
        });
    }

    /// Gives up the connection of `generation`, which is of no use any more.
    pub(crate) fn broke(&self, generation: u64, problem: &Problem) {
        self.change(|state| {
            (state.generation == generation).then(|| State {
                address: state.address.clone(),
                generation: generation + 1,
                connection: Err(problem.clone()),
                untried: false,
            })
        });
    }

    /// Takes over what `next` makes of the present state, unless it makes nothing.
    fn change(&self, next: impl Fn(&State) -> Option<State>) {
        let mut state = self.state.load();
        while let Some(changed) = next(&state) {
            let before = self.state.compare_and_swap(&*state, Arc::new(changed));
            if Arc::ptr_eq(&state, &before) {
                self.heard();
                self.tried.notify_waiters();
                return self.changed.notify_one();
            }
            state = before;
        }
    }

    /// Tries to connect, once; true if it worked.
    async fn connect(&self) -> bool {
        let (address, generation) = {
            let state = self.state.load();
            (state.address.clone(), state.generation)
        };
        let Some(address) = address else { return false };
        let permit = self.master.breaker.begin().ok().flatten();
        let (opened, unanswered) =
            self.master.breaker.watch(permit, Box::pin(self.master.connector.open_master(&address))).await;
        // Whoever says that it is a replica, or that it does not know us, answers, too.
        let answered = opened.as_ref().err().is_none_or(|problem| problem.failure != Failure::Connection);
        self.master.breaker.end(permit, answered.then_some(unanswered));
        let (up, failed) = (opened.is_ok(), opened.as_ref().err().map(|problem| problem.failure));
        self.change(|state| {
            (state.generation == generation).then(|| State {
                address: state.address.clone(),
                generation: generation + 1,
                connection: opened.clone(),
                untried: false,
            })
        });
        if up {
            if self.first {
                tracing::info!(server = %address, "store connected");
            }
            self.up.notify_one();
        } else if let Some(failure) = failed {
            tracing::debug!(server = %address, failure = failure.name(), "store not connected");
        }
        up
    }

    /// Whether the connection still answers and still belongs to a master.
    ///
    /// When that is not known in time, it is a problem; when it is not known for long, the connection is given up.
    async fn probe(&self) {
        let Ok(Connected { mut connection, generation }) = self.get() else { return };
        let Some(address) = self.address() else { return };
        // One that is left alone is tried out when its time has come.
        let Ok(permit) = self.master.breaker.begin() else { return };
        let begun = Instant::now();
        let mut answer = pin!(check_role(&mut connection, &address));
        let ping = async {
            match until(begun + self.ping_limit, &mut answer).await {
                Ok(answered) => answered,
                // It is told at once, while the connection gets its time.
                Err(Late) => {
                    self.silent.store(true, Ordering::Relaxed);
                    let silent =
                        || Problem::new(Failure::Connection, format!("{address}: it does not answer"));
                    until(begun + CONNECT_LIMIT, answer).await.unwrap_or_else(|Late| Err(silent()))
                }
            }
        };
        let (answered, unanswered) = self.master.breaker.watch(permit, ping).await;
        self.master.breaker.end(permit, answered.is_ok().then_some(unanswered));
        let Err(problem) = answered else { return self.heard() };
        tracing::warn!(server = %address, %problem, "store lost");
        self.broke(generation, &problem);
    }
}

/// Connects whenever there is no connection, for as long as somebody has the link.
async fn keep(link: Weak<Link>) {
    let mut pause = FIRST_PAUSE;
    loop {
        let Some(link) = link.upgrade() else { return };
        if link.problem().is_some() {
            let address = link.address();
            // A server that hangs must not keep us from the one that has taken over.
            let up = tokio::select! {
                up = link.connect() => up,
                () = retargeted(&link, address.as_ref()) => {
                    pause = FIRST_PAUSE;
                    continue;
                }
            };
            if !up {
                // Not all of a fleet at once.
                let jitter = u64::from(jitter()) % 1_000;
                let wait = pause + pause.mul_f64(jitter as f64 / 1_000.0);
                pause = (pause * 2).min(LONGEST_PAUSE);
                tokio::select! {
                    () = sleep(wait) => {}
                    () = retargeted(&link, address.as_ref()) => pause = FIRST_PAUSE,
                }
                continue;
            }
        }
        pause = FIRST_PAUSE;
        let changed = link.changed.notified();
        let probe = if link.master.breaker.state() == BreakerState::Closed { PROBE } else { PROBE_SOON };
        tokio::select! {
            () = sleep(probe) => link.probe().await,
            () = changed => {}
        }
    }
}

/// Resolves when the link is to go to another server than the one at `before`.
async fn retargeted(link: &Link, before: Option<&Address>) {
    while link.address().as_ref() == before {
        link.changed.notified().await;
    }
}

fn jitter() -> u16 {
    let mut bytes = [0; 2];
    getrandom::fill(&mut bytes).ok();
    u16::from_le_bytes(bytes)
}

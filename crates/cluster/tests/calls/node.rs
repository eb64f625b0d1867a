//! Nodes to ask, with counters in memory, and what to ask them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_cluster::calls::{CallFigures, CallServer, Caller};
use tidegate_cluster::{Keyring, Opener, Sealer, SharedKeyring};
use tidegate_core::rule::OnStoreFailure;
use tidegate_core::{Action, Algorithm, Quota, Span, Tag};
use tidegate_store::peers::{Answers, Asked, Call, NodeId, Replied, Reply, Seen};
use tidegate_store::{Deadline, Failure, MemoryStore, Outcome, Store, SystemClock};
use tidegate_testkit::wait::HANG_LIMIT;
use tokio::net::TcpListener;
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;

pub(crate) const OURS: &str = "the secret of the fleet that is tested";
pub(crate) const THEIRS: &str = "the secret of somebody else altogether";

/// Longer than anything takes that works.
pub(crate) const PATIENT: Duration = HANG_LIMIT;

pub(crate) fn secret(text: &str) -> SharedKeyring {
    Keyring::parse(text).unwrap().shared()
}

pub(crate) fn caller(text: &str) -> Caller {
    let ring = secret(text);
    Caller::new(Arc::new(Sealer::new(Arc::clone(&ring)).unwrap()), Arc::new(Opener::new(ring)))
}

pub(crate) fn within(patience: Duration) -> Deadline {
    Deadline::after(Instant::now(), patience)
}

/// Runs counters in memory, and does as the rule's id says.
pub(crate) struct Desk {
    store: MemoryStore,
    /// What calls of the rule `gate` wait for.
    pub(crate) gate: Notify,
}

impl Answers for Desk {
    fn answer<'a>(&'a self, call: &'a Call, deadline: Deadline) -> Replied<'a> {
        Box::pin(async move {
            match call {
                Call::Decide(asked) | Call::Store(asked) => {
                    match asked.first().map(|asked| &*asked.rule_id) {
                        Some("panic") => panic!("as was asked"),
                        Some("hang") => std::future::pending().await,
                        Some("gate") => self.gate.notified().await,
                        _ => {}
                    }
                    let mut outcomes = self.store.apply(&[Asked::group(asked)], deadline).await;
                    Reply::Outcomes(outcomes.remove(0))
                }
                Call::Recall { asked, .. } => Reply::Known(asked.iter().map(|asked| asked.seen).collect()),
                Call::Owes => Reply::Owes(7),
                Call::Secret => Reply::Secret(Some([9; 16])),
                Call::Look => Reply::Look(b"well".to_vec()),
            }
        })
    }
}

/// A node that answers.
pub(crate) struct Node {
    pub(crate) id: NodeId,
    pub(crate) address: SocketAddr,
    pub(crate) desk: Arc<Desk>,
    pub(crate) figures: Arc<CallFigures>,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Node {
    pub(crate) async fn start() -> Self {
        Self::start_at("127.0.0.1:0".parse().unwrap()).await
    }

    pub(crate) async fn start_at(address: SocketAddr) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (id, ring) = (NodeId(42), secret(OURS));
        let store = MemoryStore::new(10_000, Arc::new(SystemClock));
        let desk = Arc::new(Desk { store, gate: Notify::new() });
        let sealer = Arc::new(Sealer::new(Arc::clone(&ring)).unwrap());
        let server = CallServer::new(id, sealer, Arc::new(Opener::new(ring)), Arc::clone(&desk) as _);
        let (figures, (stop, stopped)) = (server.figures(), oneshot::channel());
        let task = tokio::spawn(server.serve(listener, async { drop(stopped.await) }));
        Self { id, address, desk, figures, stop, task }
    }

    /// Stops it; returns once nobody listens any more.
    pub(crate) async fn stop(self) {
        self.stop.send(()).unwrap();
        self.task.await.unwrap();
    }

    /// Asks until the node is not left alone any more: on a busy machine it may seem silent.
    pub(crate) async fn ask(&self, caller: &Caller, call: Call) -> Result<Reply, Failure> {
        let deadline = within(PATIENT);
        loop {
            match caller.call(self.id, self.address, call.clone(), deadline).await {
                Err(Failure::LeftAlone) => tokio::time::sleep(Duration::from_millis(20)).await,
                answered => return answered,
            }
        }
    }

    /// What is left for a user, as the node itself sees it.
    pub(crate) async fn left(&self, of: &Asked) -> u64 {
        let peek = Asked { action: Action::Peek, rule_id: of.rule_id.clone(), ..of.clone() };
        let outcomes = self.desk.store.apply(&[Asked::group(&[peek])], within(PATIENT)).await;
        outcomes[0][0].verdict().unwrap().remaining
    }
}

/// A take of `cost` by a user, of 1,000,000 an hour, or of `limit`.
pub(crate) fn take(user: u64, cost: u64) -> Asked {
    take_of(1_000_000, user, cost)
}

pub(crate) fn take_of(limit: u64, user: u64, cost: u64) -> Asked {
    Asked {
        rule_id: "api".into(),
        tag: Tag::from_bits([user, !user]),
        quota: Quota::new(Algorithm::SlidingWindow, limit, Span::from_secs(3_600)).unwrap(),
        cost,
        request_id: None,
        shadow: false,
        on_store_failure: OnStoreFailure::Local,
        action: Action::Take,
        seen: None,
    }
}

pub(crate) fn rule(rule_id: &str) -> Asked {
    Asked { rule_id: rule_id.into(), ..take(1, 1) }
}

pub(crate) fn seen(used: u64) -> Seen {
    Seen { used, age: Span::from_millis(3), reset_after: Span::from_secs(1) }
}

/// The outcomes of a reply that has some.
pub(crate) fn outcomes(reply: Result<Reply, Failure>) -> Vec<Outcome> {
    match reply {
        Ok(Reply::Outcomes(outcomes)) => outcomes.into_vec(),
        other => panic!("no outcomes: {other:?}"),
    }
}

/// Whether what was asked was allowed, and what is left.
pub(crate) fn verdict(reply: Result<Reply, Failure>) -> (bool, u64) {
    let outcomes = outcomes(reply);
    let verdict = outcomes[0].verdict().unwrap();
    (verdict.allowed, verdict.remaining)
}

/// Waits until something is so.
pub(crate) async fn until<F: Future<Output = bool>>(mut is_so: impl FnMut() -> F) {
    let patience = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENT, patience).await.expect("it never came to be so");
}

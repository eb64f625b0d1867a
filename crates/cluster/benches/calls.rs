//! What it costs to have another node decide, on loopback.
#![allow(clippy::unwrap_used, clippy::panic, clippy::cast_precision_loss, reason = "a benchmark")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_cluster::calls::{CallFigures, CallServer, Caller};
use tidegate_cluster::{Keyring, Opener, Sealer};
use tidegate_core::{Algorithm, Key, Operation, Quota, Span, Tag, Take};
use tidegate_store::peers::{Answers, Asked, Call, NodeId, Replied, Reply};
use tidegate_store::{Deadline, MemoryStore, Store, SystemClock};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

const SECRET: &str = "a secret that is long enough for a benchmark";
const NODE: NodeId = NodeId(1);
const CALLS: usize = 50_000;

/// Nothing here is about deadlines.
const PATIENT: Duration = Duration::from_secs(10);

/// A node whose counters are in memory.
struct Desk(MemoryStore);

impl Answers for Desk {
    fn answer<'a>(&'a self, call: &'a Call, deadline: Deadline) -> Replied<'a> {
        Box::pin(async move {
            match call {
                Call::Decide(asked) | Call::Store(asked) => {
                    Reply::Outcomes(self.0.apply(&[Asked::group(asked)], deadline).await.remove(0))
                }
                Call::Recall { asked, .. } => Reply::Known(vec![None; asked.len()]),
                Call::Owes => Reply::Owes(0),
                Call::Secret => Reply::Secret(None),
                Call::Look => Reply::Look(Vec::new()),
            }
        })
    }
}

fn seals() -> (Arc<Sealer>, Arc<Opener>) {
    let ring = Keyring::parse(SECRET).unwrap().shared();
    (Arc::new(Sealer::new(Arc::clone(&ring)).unwrap()), Arc::new(Opener::new(ring)))
}

/// A node in a runtime of its own.
fn node(runtime: &Runtime) -> (SocketAddr, Arc<CallFigures>) {
    let desk = Desk(MemoryStore::new(1_000_000, Arc::new(SystemClock)));
    let (sealer, opener) = seals();
    let server = CallServer::new(NODE, sealer, opener, Arc::new(desk));
    let (figures, listener) = (server.figures(), runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap());
    let address = listener.local_addr().unwrap();
    runtime.spawn(server.serve(listener, std::future::pending()));
    (address, figures)
}

/// A take of one by user number `user`.
fn take(user: u64) -> Call {
    let quota = Quota::new(Algorithm::SlidingWindow, 1_000_000, Span::from_secs(60)).unwrap();
    let key = Key::new("api_per_user", quota.algorithm(), Tag::from_bits([user, !user]));
    Call::Decide(vec![Asked::new(&Operation::from(Take::new(key, quota, 1)), None)])
}

/// So many callers, each of whom asks again as soon as it is answered; how long each call took.
async fn run(caller: &Arc<Caller>, address: SocketAddr, callers: usize) -> Vec<Duration> {
    let tasks: Vec<_> = (0..callers)
        .map(|number| {
            let caller = Arc::clone(caller);
            tokio::spawn(async move {
                let mut took = Vec::new();
                for n in 0..CALLS / callers {
                    let (call, start) = (take((number * CALLS + n) as u64 % 100_000), Instant::now());
                    let reply = caller.call(NODE, address, call, Deadline::after(start, PATIENT)).await;
                    assert!(matches!(reply, Ok(Reply::Outcomes(_))), "{reply:?}");
                    took.push(start.elapsed());
                }
                took
            })
        })
        .collect();
    let mut all = Vec::new();
    for task in tasks {
        all.extend(task.await.unwrap());
    }
    all
}

fn main() {
    let (there, here) = (Runtime::new().unwrap(), Runtime::new().unwrap());
    let (address, figures) = node(&there);
    let (sealer, opener) = seals();
    let caller = Arc::new(Caller::new(sealer, opener));
    for callers in [1, 64] {
        here.block_on(run(&caller, address, callers));
        let (before, start) = (figures.requests(), Instant::now());
        let mut took = here.block_on(run(&caller, address, callers));
        let (seconds, requests) = (start.elapsed().as_secs_f64(), figures.requests() - before);
        took.sort_unstable();
        let percentile = |percent: usize| took[(took.len() - 1) * percent / 100];
        println!(
            "{callers:>3} callers: p50 {:>9.1?}, p99 {:>9.1?}, {:>9.0} calls/s, {:.1} calls a request",
            percentile(50),
            percentile(99),
            took.len() as f64 / seconds,
            took.len() as f64 / requests as f64,
        );
    }
}

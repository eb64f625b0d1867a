//! Traffic that goes on while things happen to the servers, and the books kept about it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crc::{CRC_16_XMODEM, Crc};
use parking_lot::Mutex;
use tidegate_core::{Action, Algorithm, Group, Operation, Quota, Secret, Span, Verdict};
use tidegate_redis::RedisStore;
use tidegate_store::{Deadline, Outcome, Store};
use tidegate_testkit::{Redis, wait};
use tokio::task::JoinSet;

use crate::support::{one, quota, take};

/// Longer than any failover takes, however busy the machine is: sentinels that notice that it stood still do
/// nothing for half a minute.
pub(crate) const SOON: Duration = tidegate_testkit::wait::HANG_LIMIT;

/// More than is taken while a test runs.
pub(crate) const LIMIT: u64 = 200_000;

const RULE: &str = "load";
const WORKERS: usize = 16;

/// How long a caller waits between two requests, and after a failure.
const BETWEEN: Duration = Duration::from_millis(2);

/// By windows so long that none ends during a test.
pub(crate) fn yearly() -> Quota {
    quota(Algorithm::FixedWindow, LIMIT, Span::from_secs(366 * 86_400))
}

/// What the key of a user has in braces.
pub(crate) fn tag_of(user: &str) -> String {
    let [high, low] = Secret::new([1; 16]).encode().part(2, user.as_bytes()).tag().bits();
    format!("{high:016x}{low:016x}")
}

/// Where in a Cluster a user's keys are.
pub(crate) fn slot_of(user: &str) -> u16 {
    Crc::<u16>::new(&CRC_16_XMODEM).checksum(tag_of(user).as_bytes()) % 16_384
}

/// Applies a group that need not succeed.
pub(crate) async fn attempt(store: &dyn Store, ops: &[Operation<'_>], patience: Duration) -> Vec<Outcome> {
    let groups: [Group<'_>; 1] = [ops.iter().copied().collect()];
    store.apply(&groups, Deadline::after(Instant::now(), patience)).await.remove(0).into_iter().collect()
}

/// The verdict, once the store decides again.
pub(crate) async fn eventually(store: &RedisStore, op: Operation<'_>) -> Verdict {
    let start = Instant::now();
    loop {
        let outcome = attempt(store, &[op], SOON).await[0];
        match outcome {
            Outcome::Verdict(verdict) => return verdict,
            failed => assert!(start.elapsed() < SOON, "{failed:?}, {:?}", store.problem()),
        }
        tokio::time::sleep(BETWEEN).await;
    }
}

/// What is left to a user.
pub(crate) async fn left(store: &dyn Store, user: &str) -> u64 {
    one(store, Operation { action: Action::Peek, ..take(RULE, user, yearly(), 0) }).await.remaining
}

/// One caller, and what it has been told so far.
struct Worker {
    user: String,
    admitted: AtomicU64,
    refused: AtomicU64,
    unavailable: AtomicU64,
    unknown: AtomicU64,
}

/// Sums of what callers were told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Books {
    pub(crate) admitted: u64,
    pub(crate) refused: u64,
    pub(crate) unavailable: u64,
    pub(crate) unknown: u64,
}

impl Worker {
    fn new(user: &str) -> Self {
        let [admitted, refused, unavailable, unknown] = [(); 4].map(|()| AtomicU64::new(0));
        Self { user: user.to_owned(), admitted, refused, unavailable, unknown }
    }

    fn books(&self) -> Books {
        let read = |count: &AtomicU64| count.load(Ordering::SeqCst);
        Books {
            admitted: read(&self.admitted),
            refused: read(&self.refused),
            unavailable: read(&self.unavailable),
            unknown: read(&self.unknown),
        }
    }

    fn note(&self, outcome: &Outcome) {
        let count = match outcome {
            Outcome::Verdict(verdict) if verdict.allowed => &self.admitted,
            Outcome::Verdict(_) => &self.refused,
            Outcome::Unavailable(_) => &self.unavailable,
            Outcome::Unknown(_) => &self.unknown,
            Outcome::Unasked | Outcome::Local(_) => panic!("nobody was asked"),
        };
        count.fetch_add(1, Ordering::SeqCst);
    }
}

/// Callers who take one after the other until they are told to stop.
pub(crate) struct Load {
    store: Arc<RedisStore>,
    workers: Vec<Arc<Worker>>,
    tasks: JoinSet<()>,
    stop: Arc<AtomicBool>,
    failures: Arc<Mutex<BTreeMap<String, u64>>>,
}

impl Load {
    /// Starts callers for all of `users`, each waiting for an answer no longer than `patience`.
    pub(crate) fn start(store: &Arc<RedisStore>, users: &[String], patience: Duration) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let failures = Arc::new(Mutex::new(BTreeMap::new()));
        let mut tasks = JoinSet::new();
        let workers: Vec<_> = users
            .iter()
            .cycle()
            .take(WORKERS.max(users.len()))
            .map(|user| Arc::new(Worker::new(user)))
            .collect();
        for worker in &workers {
            let (store, worker) = (Arc::clone(store), Arc::clone(worker));
            let (stop, failures) = (Arc::clone(&stop), Arc::clone(&failures));
            tasks.spawn(async move {
                while !stop.load(Ordering::SeqCst) {
                    let op = take(RULE, &worker.user, yearly(), 1);
                    let outcome = attempt(&*store, &[op], patience).await[0];
                    worker.note(&outcome);
                    if outcome.verdict().is_none() {
                        *failures.lock().entry(format!("{outcome:?}")).or_default() += 1;
                    }
                    tokio::time::sleep(BETWEEN).await;
                }
            });
        }
        Self { store: Arc::clone(store), workers, tasks, stop, failures }
    }

    /// Returns the outcomes without a verdict so far, and how often each occurred.
    pub(crate) fn failures(&self) -> BTreeMap<String, u64> {
        self.failures.lock().clone()
    }

    /// What was said to callers of the users so far.
    pub(crate) fn books(&self, users: &[String]) -> Books {
        let workers = self.workers.iter().filter(|worker| users.contains(&worker.user));
        workers.map(|worker| worker.books()).fold(Books::default(), |sum, books| Books {
            admitted: sum.admitted + books.admitted,
            refused: sum.refused + books.refused,
            unavailable: sum.unavailable + books.unavailable,
            unknown: sum.unknown + books.unknown,
        })
    }

    /// Waits until every caller of the users has been served some more from now on.
    #[track_caller]
    pub(crate) fn wait_until_served(&self, users: &[String]) {
        self.wait_until("served", users, |books| books.admitted);
    }

    /// Waits until every caller of the users has met with a failure, counting from now on. What a server that
    /// is no more has said is then in the books.
    #[track_caller]
    pub(crate) fn wait_until_failing(&self, users: &[String]) {
        self.wait_until("failing", users, |books| books.unavailable + books.unknown);
    }

    #[track_caller]
    fn wait_until(&self, what: &str, users: &[String], count: impl Fn(Books) -> u64) {
        let workers: Vec<_> = self.workers.iter().filter(|worker| users.contains(&worker.user)).collect();
        let before: Vec<u64> = workers.iter().map(|worker| count(worker.books())).collect();
        wait::until(&format!("all callers are {what}; {:?}", self.failures.lock()), SOON, || {
            let more = workers.iter().zip(&before).all(|(worker, before)| count(worker.books()) > before + 2);
            more.then_some(())
        });
    }

    /// What was admitted to each user and is certain to be known to all `replicas`.
    pub(crate) fn replicated(&self, users: &[String], master: &Redis, replicas: &[&Redis]) -> Vec<u64> {
        let admitted = self.admitted(users);
        let offset = |node: &Redis, field: &str| node.info("replication")[field].parse::<u64>().unwrap();
        let written = offset(master, "master_repl_offset");
        wait::until("the replicas have caught up", SOON, || {
            replicas.iter().all(|node| offset(node, "slave_repl_offset") >= written).then_some(())
        });
        admitted
    }

    /// What was admitted to each user so far.
    pub(crate) fn admitted(&self, users: &[String]) -> Vec<u64> {
        users.iter().map(|user| self.books(std::slice::from_ref(user)).admitted).collect()
    }

    /// Stops the callers, then takes all that is left, so that everybody has what there was.
    pub(crate) async fn settle(mut self, users: &[String]) -> Vec<Settled> {
        self.stop.store(true, Ordering::SeqCst);
        while let Some(ended) = self.tasks.join_next().await {
            ended.unwrap();
        }
        println!("failures: {:?}", self.failures.lock());
        let mut settled = Vec::new();
        for user in users {
            let books = self.books(std::slice::from_ref(user));
            assert_eq!(books.refused, 0, "{user} was refused while there was plenty");
            let rest = drain(&*self.store, user).await;
            settled.push(Settled { user: user.clone(), admitted: books.admitted + rest, books });
        }
        settled
    }
}

/// Takes all that is left.
async fn drain(store: &dyn Store, user: &str) -> u64 {
    let rest = left(store, user).await;
    assert!(rest > 0, "{user} has used up a limit that was to be enough");
    assert!(one(store, take(RULE, user, yearly(), rest)).await.allowed);
    assert!(!one(store, take(RULE, user, yearly(), 1)).await.allowed, "{user} goes on beyond the limit");
    rest
}

/// What a user was given in all, the limit being used up.
pub(crate) struct Settled {
    pub(crate) user: String,
    pub(crate) admitted: u64,
    pub(crate) books: Books,
}

impl Settled {
    pub(crate) fn over(&self) -> u64 {
        self.admitted.saturating_sub(LIMIT)
    }

    /// Nothing was given twice, and nothing is missing but what callers were not told about.
    #[track_caller]
    pub(crate) fn assert_over_by_at_most(&self, most: u64) {
        println!("{self}, at most {most} over");
        assert!(self.over() <= most, "{self}, at most {most} over");
        assert!(self.admitted + self.books.unknown >= LIMIT, "{self}");
    }
}

impl fmt::Display for Settled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self { user, admitted, books }, over) = (self, self.over());
        let lost = LIMIT.saturating_sub(*admitted);
        let Books { unknown, unavailable, .. } = books;
        write!(f, "{user}: admitted {admitted} of {LIMIT}, over {over}, lost {lost}")?;
        write!(f, " (unknown {unknown}, unavailable {unavailable})")
    }
}

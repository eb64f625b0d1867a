//! Other nodes: this test binary again, as processes of their own.
//!
//! [`Node::start`] runs the test called `node` in another process, which does nothing unless it is told what to do by
//! its environment.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tidegate_core::{Algorithm, Group, Operation, Quota, Span};
use tidegate_redis::RedisStore;
use tidegate_store::{Deadline, Store};
use tidegate_testkit::{Launch, Process};

use crate::support::{PATIENT, connect, patient, quota, take};

const URL: &str = "TIDEGATE_TEST_NODE_URL";
const WORK: &str = "TIDEGATE_TEST_NODE_WORK";

/// How many requests a node has under way at once.
const CALLERS: u64 = 64;

/// What a node is to do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Work {
    /// This many takes of one from one key.
    Count { algorithm: Algorithm, limit: u64, window: Span, requests: u64 },
    /// Groups over three identities for as long as it lives.
    Groups,
}

impl Work {
    fn write(self) -> String {
        match self {
            Self::Count { algorithm, limit, window, requests } => {
                format!("count {algorithm} {limit} {} {requests}", window.as_millis())
            }
            Self::Groups => "groups".to_owned(),
        }
    }

    fn read(text: &str) -> Self {
        let words: Vec<&str> = text.split(' ').collect();
        match words[..] {
            ["count", algorithm, limit, window, requests] => Self::Count {
                algorithm: algorithm.parse().unwrap(),
                limit: limit.parse().unwrap(),
                window: Span::from_millis(window.parse().unwrap()),
                requests: requests.parse().unwrap(),
            },
            _ => Self::Groups,
        }
    }
}

/// Another node.
pub(crate) struct Node {
    process: Process,
    _folder: TempDir,
}

impl Node {
    /// Starts one, whose wall clock may be wrong by `offset`.
    pub(crate) fn start(url: &str, work: Work, offset: Option<&str>) -> Self {
        let folder = TempDir::new().unwrap();
        let launch = Launch::new(std::env::current_exe().unwrap(), folder.path().join("log"))
            .args(["--exact", "node::node", "--nocapture"])
            .variable(URL, url)
            .variable(WORK, work.write());
        let launch = match offset {
            Some(offset) => launch.clock_offset(offset),
            None => launch,
        };
        Self { process: launch.start(), _folder: folder }
    }

    /// What it has said under `name` last, if anything.
    pub(crate) fn said(&self, name: &str) -> Option<u64> {
        let log = self.process.log();
        let mut lines = log.lines().filter_map(|line| line.split_once(' ')).rev();
        lines.find(|(said, _)| *said == name).map(|(_, value)| value.parse().unwrap())
    }

    /// Waits for it to end by itself; what it has said under `name`.
    pub(crate) fn finish(self, name: &str) -> u64 {
        let ended = self.process.wait(Duration::from_secs(120));
        assert!(ended.is_some_and(|status| status.success()), "{}", self.process.log_tail());
        self.said(name).unwrap_or_else(|| panic!("{}", self.process.log_tail()))
    }

    /// Ends it as a crash does.
    pub(crate) fn kill(&self) {
        self.process.kill();
    }
}

/// What another process runs; a test that passes at once in this one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node() {
    let (Ok(url), Ok(work)) = (std::env::var(URL), std::env::var(WORK)) else { return };
    let store = Arc::new(connect(&url).await);
    match Work::read(&work) {
        Work::Count { algorithm, limit, window, requests } => {
            let admitted = count(store, quota(algorithm, limit, window), requests).await;
            println!("\nadmitted {admitted}");
        }
        Work::Groups => groups(&store).await,
    }
}

async fn count(store: Arc<RedisStore>, quota: Quota, requests: u64) -> u64 {
    let left = Arc::new(AtomicU64::new(requests));
    let callers: Vec<_> = (0..CALLERS)
        .map(|_| {
            let (store, left) = (Arc::clone(&store), Arc::clone(&left));
            tokio::spawn(async move {
                let mut admitted = 0;
                while left
                    .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1))
                    .is_ok()
                {
                    let groups: [Group<'_>; 1] = [[take("shared", "alice", quota, 1)].into_iter().collect()];
                    let outcome = store.apply(&groups, patient()).await[0][0];
                    let verdict = outcome.verdict().unwrap_or_else(|| panic!("{outcome:?}"));
                    admitted += u64::from(verdict.allowed);
                }
                admitted
            })
        })
        .collect();
    let mut admitted = 0;
    for caller in callers {
        admitted += caller.await.unwrap();
    }
    admitted
}

/// The identities groups are about, and what each is allowed.
pub(crate) const USERS: [&str; 3] = ["alice", "acme", "everybody"];

pub(crate) fn group_quota() -> Quota {
    quota(Algorithm::FixedWindow, 100_000, Span::from_secs(366 * 86_400))
}

/// One take from each of three identities, over and over; says after each how many were admitted.
async fn groups(store: &RedisStore) {
    let group: Vec<Operation<'_>> = USERS.iter().map(|user| take("groups", user, group_quota(), 1)).collect();
    let mut admitted = 0_u64;
    loop {
        let groups: [Group<'_>; 1] = [group.iter().copied().collect()];
        let outcomes = store.apply(&groups, Deadline::after(Instant::now(), PATIENT)).await.remove(0);
        if outcomes.iter().all(|outcome| outcome.verdict().is_some_and(|verdict| verdict.allowed)) {
            admitted += 1;
            println!("\nadmitted {admitted}");
        }
    }
}

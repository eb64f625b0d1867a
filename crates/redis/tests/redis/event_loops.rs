//! Event loops with connections of their own.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::{Arc, mpsc};
use std::thread;

use futures_util::future::join_all;
use tidegate_core::{Algorithm, Span};
use tidegate_redis::RedisStore;
use tidegate_store::{Outcome, Store};
use tidegate_testkit::{Redis, Sentinel, wait};
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::load::yearly;
use crate::support::{PATIENT, apply, quota, ready, take};

/// A thread with an event loop, until it is dropped.
struct EventLoop {
    handle: Handle,
    _end: oneshot::Sender<()>,
}

impl EventLoop {
    fn start() -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let handle = runtime.handle().clone();
        let (end, ended) = oneshot::channel::<()>();
        thread::spawn(move || {
            runtime.block_on(ended).unwrap_err();
            runtime.shutdown_background();
        });
        Self { handle, _end: end }
    }

    /// Takes one from `user`, asked on this event loop.
    async fn take(&self, store: &Arc<RedisStore>, user: &str) -> Outcome {
        let (store, user) = (Arc::clone(store), user.to_owned());
        let asked = async move { apply(&*store, &[take("loops", &user, yearly(), 1)]).await.remove(0) };
        self.handle.spawn(asked).await.unwrap()
    }

    async fn is_served(&self, store: &Arc<RedisStore>) -> bool {
        self.take(store, "alice").await.verdict().is_some()
    }
}

async fn connect(url: &str, loops: &[EventLoop]) -> Arc<RedisStore> {
    let handles = loops.iter().map(|event_loop| event_loop.handle.clone()).collect();
    let store = RedisStore::builder(url.parse().unwrap()).timeout(PATIENT).event_loops(handles).start();
    let store = Arc::new(store.unwrap());
    ready(&store).await;
    store
}

async fn all_are_served(store: &Arc<RedisStore>, loops: &[EventLoop]) -> bool {
    let here = apply(&**store, &[take("loops", "alice", yearly(), 1)]).await[0].verdict().is_some();
    here && join_all(loops.iter().map(|event_loop| event_loop.is_served(store)))
        .await
        .into_iter()
        .all(|it| it)
}

/// Returns the numbers of connections to a server, but for that which asks.
fn connections(redis: &Redis) -> Vec<String> {
    let list: String = redis.query(&["CLIENT", "LIST"]);
    let others = list.lines().filter(|line| !line.contains("cmd=client"));
    others.filter_map(|line| Some(line.split_once(' ')?.0.to_owned())).collect()
}

/// Says which connection each call comes over.
struct Monitor(BufReader<TcpStream>);

impl Monitor {
    fn start(redis: &Redis) -> Self {
        let mut stream = TcpStream::connect(redis.address()).unwrap();
        stream.set_read_timeout(Some(PATIENT)).unwrap();
        stream.write_all(b"MONITOR\r\n").unwrap();
        let mut monitor = Self(BufReader::new(stream));
        assert_eq!(monitor.line(), "+OK");
        monitor
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Returns the address that the next call of a script comes from.
    fn next_caller(&mut self) -> String {
        loop {
            // `+1704067200.000000 [0 127.0.0.1:50000] "EVALSHA" …`
            let line = self.line();
            let (Some(begin), Some(end)) = (line.find("[0 "), line.find(']')) else { continue };
            if line.contains("] \"EVALSHA\"") {
                return line[begin..end].to_owned();
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_event_loop_asks_over_its_own_connection() {
    let redis = Redis::start();
    let loops = [EventLoop::start(), EventLoop::start()];
    let store = connect(&redis.url(), &loops).await;
    let mut monitor = Monitor::start(&redis);
    let mut callers = Vec::new();
    for _ in 0..3 {
        assert!(all_are_served(&store, &[]).await);
        callers.push(monitor.next_caller());
        for event_loop in &loops {
            assert!(event_loop.is_served(&store).await);
            callers.push(monitor.next_caller());
        }
    }
    let (first, others) = callers.split_at(3);
    assert_eq!(first.iter().collect::<BTreeSet<_>>().len(), 3, "{callers:?}");
    assert!(others.chunks(3).all(|later| later == first), "{callers:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stuck_event_loop_holds_up_no_other() {
    let redis = Redis::start();
    let loops = [EventLoop::start(), EventLoop::start()];
    let store = connect(&redis.url(), &loops).await;
    assert!(all_are_served(&store, &loops).await);

    let (stuck, is_stuck) = oneshot::channel();
    let (release, released) = mpsc::channel::<()>();
    let sticks = loops[0].handle.spawn(async move {
        stuck.send(()).unwrap();
        released.recv().unwrap();
    });
    is_stuck.await.unwrap();
    let mut waits = Box::pin(loops[0].take(&store, "alice"));
    assert!(futures_util::poll!(&mut waits).is_pending());
    for _ in 0..100 {
        assert!(loops[1].is_served(&store).await);
        assert!(all_are_served(&store, &loops[1..]).await);
    }
    assert!(futures_util::poll!(&mut waits).is_pending(), "it is stuck");

    release.send(()).unwrap();
    sticks.await.unwrap();
    assert!(waits.await.verdict().is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_connections_come_back_on_all_event_loops() {
    let redis = Redis::start();
    let loops = [EventLoop::start(), EventLoop::start()];
    let store = connect(&redis.url(), &loops).await;
    let before = connections(&redis);
    assert_eq!(before.len(), 3, "one for each event loop, and one for all other callers: {before:?}");
    redis.query::<u64>(&["CLIENT", "KILL", "TYPE", "normal"]);
    wait::until("all are connected again", PATIENT, || {
        let now = connections(&redis);
        (now.len() == 3 && now.iter().all(|number| !before.contains(number))).then_some(())
    });
    ready(&store).await;
    assert!(all_are_served(&store, &loops).await);
    assert_eq!(Store::problem(&*store), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_event_loops_follow_a_new_master() {
    let group = Sentinel::start();
    let loops = [EventLoop::start(), EventLoop::start()];
    let store = connect(&group.url(), &loops).await;
    assert!(all_are_served(&store, &loops).await);
    let old = group.master();
    old.kill();
    group.wait_for_new_master(old);
    let served = async { while !all_are_served(&store, &loops).await {} };
    timeout(PATIENT, served).await.expect("all event loops are served by the new master");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_is_exact_whichever_event_loop_asks() {
    const LIMIT: u64 = 500;
    let redis = Redis::start();
    let loops = [EventLoop::start(), EventLoop::start(), EventLoop::start()];
    let store = connect(&redis.url(), &loops).await;
    let quota = quota(Algorithm::FixedWindow, LIMIT, Span::from_secs(366 * 86_400));
    let askers = (0..12).map(|asker| {
        let store = Arc::clone(&store);
        loops[asker % loops.len()].handle.spawn(async move {
            let mut admitted = 0;
            for _ in 0..LIMIT / 4 {
                let outcome = apply(&*store, &[take("exact", "alice", quota, 1)]).await.remove(0);
                admitted += u64::from(outcome.verdict().unwrap().allowed);
            }
            admitted
        })
    });
    let admitted: u64 = join_all(askers).await.into_iter().map(Result::unwrap).sum();
    assert_eq!(admitted, LIMIT);
}

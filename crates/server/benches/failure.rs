//! What decisions cost while the store is well, at the moment it dies, without it, and when it is back: one run, one table.
//!
//! Three nodes in this process, each with a runtime of its own, that know each other over real sockets, and a real Redis. What
//! the store is asked while debts are settled is read from its own counters.
#![allow(clippy::unwrap_used, clippy::panic, clippy::cast_precision_loss, reason = "a benchmark")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tidegate::cluster::{Cluster, Fleet, Keyring, Settings, Timing};
use tidegate::core::Facet;
use tidegate::store::Deadline;
use tidegate::store::peers::{Answers, Call, Replied};
use tidegate::{Limiter, Quota, Request, Rule, RuleSet, RuleSetParts, Span, Status};
use tidegate_redis::RedisStore;
use tidegate_testkit::Redis;
use tokio::runtime::Runtime;

const NODES: usize = 3;
const USERS: usize = 2_000;
const DECISIONS: usize = 100_000;
const SECRET: &str = "a secret that is long enough for a benchmark";

/// How many requests a second there are while the store dies and comes back.
const STEADY: u64 = 4_000;

fn rules() -> RuleSet {
    let quota = Quota::token_bucket(1_000_000, Span::from_secs(60), 1_000_000).unwrap();
    let rules = vec![Rule::new("per_user", Facet::User, quota)];
    RuleSet::new(RuleSetParts { rules, ..RuleSetParts::default() }).unwrap()
}

/// One node.
struct Node {
    limiter: Arc<Limiter>,
    fleet: Arc<Fleet>,
}

struct Counting(Arc<Limiter>);

impl Answers for Counting {
    fn answer<'a>(&'a self, call: &'a Call, deadline: Deadline) -> Replied<'a> {
        Box::pin(async move { self.0.answer(call, deadline).await.unwrap() })
    }
}

impl Node {
    /// Starts one in a runtime of its own, of which it has one thread.
    fn start(runtime: &Runtime, redis: &Redis, first: Option<&Self>) -> Self {
        runtime.block_on(async {
            let peers = first.map(|node| node.fleet.cluster().local_addr().into());
            let settings = Settings {
                listen: ([127, 0, 0, 1], 0).into(),
                advertise: None,
                name: None,
                peers: peers.into_iter().collect(),
                keyring: Keyring::parse(SECRET).unwrap(),
                timing: Timing::default(),
            };
            let fleet = Arc::new(Fleet::new(Cluster::start(settings).await.unwrap()));
            let secret = fleet.secret();
            let store =
                RedisStore::builder(redis.url().parse().unwrap()).offer_secret(secret.bytes()).start();
            let limiter = Limiter::builder(rules())
                .store(Arc::new(store.unwrap()))
                .peers(Arc::clone(&fleet) as _, secret)
                .build()
                .unwrap();
            let limiter = Arc::new(limiter);
            let answers = Arc::new(Counting(Arc::clone(&limiter)));
            tokio::spawn(fleet.serve(answers).unwrap());
            let tended = Arc::clone(&limiter);
            tokio::spawn(async move {
                loop {
                    tended.tend().await;
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            });
            Self { limiter, fleet }
        })
    }
}

/// How long decisions took, and how many were not taken.
#[derive(Default)]
struct Took {
    times: Vec<Duration>,
    failed: u64,
    refused: u64,
}

impl Took {
    fn add(&mut self, took: Duration, status: Status, allowed: bool) {
        self.times.push(took);
        self.failed += u64::from(!matches!(status, Status::Enforced | Status::Local));
        self.refused += u64::from(!allowed);
    }

    fn row(&mut self, name: &str) {
        self.times.sort_unstable();
        let at = |share: f64| {
            let last = self.times.len().saturating_sub(1);
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a place in the list")]
            let place = (last as f64 * share) as usize;
            self.times.get(place).map_or(0.0, |took| took.as_secs_f64() * 1e6)
        };
        println!(
            "| {name} | {} | {:.1} | {:.1} | {:.1} | {:.1} | {} | {} |",
            self.times.len(),
            at(0.5),
            at(0.99),
            at(0.999),
            at(1.0),
            self.refused,
            self.failed
        );
    }
}

/// One request after the other, by these users.
async fn ask(limiter: &Limiter, users: &[String], decisions: usize) -> Took {
    let mut took = Took::default();
    for number in 0..decisions {
        let request = Request { user: Some(&users[number % users.len()]), ..Request::new("/") };
        let start = Instant::now();
        let checked = limiter.check(&request).await.unwrap();
        took.add(start.elapsed(), checked.status, checked.allowed);
    }
    took
}

/// A steady load on all nodes until told to stop, or for as long as is given.
async fn load(
    nodes: &[Node],
    users: &Arc<Vec<String>>,
    stop: Arc<AtomicBool>,
) -> Vec<(Instant, Duration, Status, bool)> {
    let callers = 8;
    let pause = Duration::from_secs_f64((NODES * callers) as f64 / STEADY as f64);
    let tasks: Vec<_> = (0..NODES * callers)
        .map(|number| {
            let limiter = Arc::clone(&nodes[number % NODES].limiter);
            let (users, stop) = (Arc::clone(users), Arc::clone(&stop));
            tokio::spawn(async move {
                let (mut done, mut place) = (Vec::new(), number * 83);
                let mut ticks = tokio::time::interval(pause);
                ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
                while !stop.load(Ordering::Relaxed) {
                    ticks.tick().await;
                    place += 1;
                    let request = Request { user: Some(&users[place % users.len()]), ..Request::new("/") };
                    let start = Instant::now();
                    let checked = limiter.check(&request).await.unwrap();
                    done.push((start, start.elapsed(), checked.status, checked.allowed));
                }
                done
            })
        })
        .collect();
    let mut all = Vec::new();
    for task in tasks {
        all.extend(task.await.unwrap());
    }
    all
}

/// How many commands the store has carried out since it was started, by its own account, those within scripts included.
fn commands(redis: &Redis) -> u64 {
    redis.info("stats")["total_commands_processed"].parse().unwrap()
}

fn main() {
    let redis = Redis::start();
    let runtimes: Vec<Runtime> = (0..NODES).map(|_| Runtime::new().unwrap()).collect();
    let first = Node::start(&runtimes[0], &redis, None);
    let others: Vec<Node> =
        runtimes[1..].iter().map(|runtime| Node::start(runtime, &redis, Some(&first))).collect();
    let nodes: Vec<Node> = std::iter::once(first).chain(others).collect();
    let runtime = Runtime::new().unwrap();
    let users: Arc<Vec<String>> = Arc::new((0..USERS).map(|number| format!("user-{number}")).collect());
    wait("the nodes to know each other and the store", || {
        nodes.iter().all(|node| {
            node.fleet.cluster().view().count() == 3
                && node.limiter.shared().is_some_and(|store| store.unwell() == 0)
        })
    });

    println!("| decisions | count | p50 µs | p99 µs | p99.9 µs | longest µs | refused | failed |");
    println!("|---|---:|---:|---:|---:|---:|---:|---:|");
    let memory = Limiter::new(rules()).unwrap();
    runtime.block_on(ask(&memory, &users, DECISIONS));
    runtime.block_on(ask(&memory, &users, DECISIONS)).row("in memory, without a store");
    runtime.block_on(ask(&nodes[0].limiter, &users, DECISIONS / 5));
    runtime.block_on(ask(&nodes[0].limiter, &users, DECISIONS / 5)).row("normal: with Redis");

    let load_users = Arc::clone(&users);
    let stop = Arc::new(AtomicBool::new(false));
    let (done, killed) = std::thread::scope(|scope| {
        let running = scope.spawn(|| runtime.block_on(load(&nodes, &load_users, Arc::clone(&stop))));
        std::thread::sleep(Duration::from_secs(3));
        let killed = Instant::now();
        redis.kill();
        std::thread::sleep(Duration::from_secs(3));
        stop.store(true, Ordering::Relaxed);
        (running.join().unwrap(), killed)
    });
    let mut phases = [Took::default(), Took::default(), Took::default()];
    for (start, took, status, allowed) in done {
        let phase = match start.checked_duration_since(killed) {
            None if start + took < killed => 0,
            Some(since) if since > Duration::from_secs(1) => 2,
            _ => 1,
        };
        phases[phase].add(took, status, allowed);
    }
    for (phase, name) in phases.iter_mut().zip([
        "under load: normal",
        "under load: the second in which Redis is killed",
        "under load: the two seconds after",
    ]) {
        phase.row(name);
    }

    let owned = |mine: bool| -> Vec<String> {
        let forwards = |user: &&String| {
            let before = nodes[0].limiter.fallback().unwrap().forwarded();
            runtime.block_on(ask(&nodes[0].limiter, std::slice::from_ref(*user), 1));
            (nodes[0].limiter.fallback().unwrap().forwarded() == before) == mine
        };
        users.iter().filter(forwards).cloned().collect()
    };
    let (mine, theirs) = (owned(true), owned(false));
    runtime.block_on(ask(&nodes[0].limiter, &mine, DECISIONS));
    runtime.block_on(ask(&nodes[0].limiter, &mine, DECISIONS)).row("degraded: at the owner");
    runtime.block_on(ask(&nodes[0].limiter, &theirs, DECISIONS / 5)).row("degraded: forwarded to the owner");

    recover(&redis, &runtime, &nodes, &users);
    runtime.block_on(ask(&nodes[0].limiter, &users, DECISIONS / 5)).row("after recovery: with Redis");
    let settled: Vec<_> = nodes.iter().map(|node| node.limiter.fallback().unwrap().settled()).collect();
    let sum = |figure: fn(&tidegate::store::Settled) -> u64| settled.iter().map(figure).sum::<u64>();
    println!(
        "\n{} admitted without the store, {} settled, {} forgiven",
        sum(|settled| settled.admitted),
        sum(|settled| settled.settled),
        sum(|settled| settled.forgiven)
    );
}

/// Brings the store back under a steady load, and prints what it is asked meanwhile.
fn recover(redis: &Redis, runtime: &Runtime, nodes: &[Node], users: &Arc<Vec<String>>) {
    let unsettled = || nodes.iter().map(|node| node.limiter.fallback().unwrap().unsettled()).sum::<usize>();
    let stop = Arc::new(AtomicBool::new(false));
    let owed = unsettled();
    let samples = std::thread::scope(|scope| {
        let running = scope.spawn(|| runtime.block_on(load(nodes, users, Arc::clone(&stop))));
        redis.restart();
        let (begun, mut samples, mut settled) = (Instant::now(), Vec::new(), None);
        let mut before = commands(redis);
        while settled.is_none_or(|settled: Instant| settled.elapsed() < Duration::from_secs(5)) {
            std::thread::sleep(Duration::from_millis(500));
            let now = commands(redis);
            samples.push((begun.elapsed(), (now - before) * 2));
            before = now;
            if unsettled() == 0 {
                settled.get_or_insert_with(Instant::now);
            }
        }
        stop.store(true, Ordering::Relaxed);
        running.join().unwrap();
        let settled = settled.map(|settled| settled.duration_since(begun));
        println!(
            "\n{owed} keys owed, settled {:.1} s after the store was back",
            settled.unwrap_or_default().as_secs_f64()
        );
        samples
    });
    let steady: Vec<u64> = samples.iter().rev().take(8).map(|(_, count)| *count).collect();
    let steady = steady.iter().sum::<u64>() / steady.len().max(1) as u64;
    let most = samples.iter().map(|(_, count)| *count).max().unwrap_or_default();
    println!(
        "commands a second, as Redis counts them: {steady} steadily, {most} at most while settling ({:.2} times as many)",
        most as f64 / steady as f64
    );
    println!("{:?}\n", samples.iter().map(|(_, count)| *count).collect::<Vec<_>>());
}

fn wait(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !is_so() {
        assert!(Instant::now() < deadline, "waited too long for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

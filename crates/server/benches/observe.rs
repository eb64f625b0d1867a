//! What does it cost a decision to be counted, timed and looked at?
//!
//! `Node::decide`, which does all of that, beside the node's limiter alone, with the same requests and counters, on memory. Rounds
//! take turns, so that whatever else the machine does happens to both; the median of the ratios counts.
//!
//! One request in ten is refused, and one in ten is of one user, who is hot. The others are of 100,000 users, few of whom ask most.
//! At this rate refusals are a flood, of which one in 256 is looked at.
//!
//! `TIDEGATE_BENCH_SHORT=1` only shows that it runs.

#![allow(missing_docs, clippy::cast_precision_loss, reason = "a benchmark")]

use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use tidegate::Request;
use tidegate_server::front::{Base, Front, Node, Places};
use tidegate_server::{Config, RulesFeed};

const USERS: u32 = 100_000;
const REQUESTS: usize = 1 << 18;
const MAX_KEYS: usize = 1_000_000;

const RULES: &str = "
rules:
  - {rule_id: per_user, identifier_type: user_id, limit: 1000000000, window: 1h, match: {path_pattern: /orders/*}}
  - {rule_id: per_tenant, identifier_type: tenant_id, limit: 2000000000, window: 1h, match: {path_pattern: /orders/*}}
  - {rule_id: closed, identifier_type: user_id, limit: 1, window: 366d, algorithm: fixed_window, match: {path_pattern: /closed}}
  - {rule_id: login, identifier_type: ip_address, limit: 5, window: 1m, match: {path_pattern: /auth/login, methods: [POST]}}
  - {rule_id: search, identifier_type: user_id, limit: 30, window: 1m, match: {path_pattern: /search/**}}
";

/// How much is measured.
struct Effort {
    rounds: usize,
    per_round: usize,
}

/// Who asks for what.
struct Asked {
    user: String,
    tenant: String,
    ip: IpAddr,
    path: &'static str,
}

impl Asked {
    fn request(&self) -> Request<'_> {
        Request {
            user: Some(&self.user),
            tenant: Some(&self.tenant),
            ip: Some(self.ip),
            method: Some("GET"),
            ..Request::new(self.path)
        }
    }
}

fn main() {
    let short = std::env::var_os("TIDEGATE_BENCH_SHORT").is_some();
    let effort = if short {
        Effort { rounds: 3, per_round: 20_000 }
    } else {
        Effort { rounds: 121, per_round: 200_000 }
    };
    let asked = asked();
    let node = node();
    let by_limiter =
        |asked: &Asked| node.limiter().try_check(&asked.request()).is_ok_and(|checked| checked.allowed);
    let by_node = |asked: &Asked| node.decide(&asked.request()).is_ok_and(|checked| checked.allowed);
    // Everybody has a counter before anything is measured, and whoever is to be refused has used theirs up.
    let share = |decide: &dyn Fn(&Asked) -> bool| {
        asked.iter().for_each(|asked| _ = black_box(decide(asked)));
        asked.iter().filter(|asked| decide(asked)).count() as f64 / asked.len() as f64
    };
    let shares = [share(&by_limiter), share(&by_node)];
    assert!(shares.iter().all(|share| (0.89..0.91).contains(share)), "{shares:?} are allowed");
    println!(
        "Median of {} rounds of {} decisions per thread, {:.0} % allowed; a clock read takes {:.0} ns\n",
        effort.rounds,
        effort.per_round,
        100.0 * shares[0],
        clock()
    );
    println!("| threads | limiter alone, ns | observed, ns | dearer |");
    println!("|---|---|---|---|");
    for threads in [1, 2] {
        let mut figures = Vec::new();
        for round in 0..effort.rounds {
            let one = || measure(&asked, threads, effort.per_round, &by_limiter);
            let other = || measure(&asked, threads, effort.per_round, &by_node);
            // Neither always comes first.
            figures.push(if round % 2 == 0 {
                let first = one();
                (first, other())
            } else {
                let first = other();
                (one(), first)
            });
        }
        let (alone, observed) =
            (median(figures.iter().map(|it| it.0)), median(figures.iter().map(|it| it.1)));
        let ratio = median(figures.iter().map(|(alone, observed)| observed / alone));
        println!("| {threads} | {alone:.0} | {observed:.0} | {:.1} % |", 100.0 * (ratio - 1.0));
    }
}

/// Requests in an order that looks like chance.
fn asked() -> Vec<Asked> {
    let mut state = 7_u64;
    let mut draw = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as f64 / f64::from(1_u32 << 31)
    };
    let one = |_| {
        let (hot, refused, rank) = (draw() < 0.1, draw() < 0.1, draw());
        // The logarithm of the rank is uniform: the n-th of all comes with a frequency of 1 / n.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is below USERS")]
        let user = if hot { 0 } else { f64::from(USERS).powf(rank) as u32 };
        Asked {
            user: format!("user-{user:06}"),
            tenant: format!("tenant-{:02}", user % 50),
            ip: Ipv4Addr::from_bits(0x0a00_0000 + user).into(),
            path: if refused { "/closed" } else { "/orders/7" },
        }
    };
    (0..REQUESTS).map(one).collect()
}

/// A node that runs, with all that watches it, on a thread of its own.
fn node() -> Arc<Node> {
    let (tell, told) = std::sync::mpsc::channel();
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let config = Config {
                admin: SocketAddr::from(([127, 0, 0, 1], 0)),
                max_keys: MAX_KEYS,
                ..Config::default()
            };
            let base = Base::bind(config, RulesFeed::fixed("bench", RULES)).await.expect("a node");
            tell.send(Arc::clone(base.node())).ok();
            let front = Front::new(base.serving(), Places::default());
            base.run(front, Box::pin(std::future::pending())).await.ok();
        });
    });
    told.recv().expect("a node")
}

/// Nanoseconds per decision and thread.
fn measure(asked: &[Asked], threads: usize, count: usize, decide: &(impl Fn(&Asked) -> bool + Sync)) -> f64 {
    let barrier = Barrier::new(threads);
    let work = &|thread: usize| {
        // Each begins elsewhere, and goes round.
        let order = asked.iter().cycle().skip(thread * asked.len() / threads);
        barrier.wait();
        let start = Instant::now();
        order.take(count).for_each(|asked| _ = black_box(decide(asked)));
        start.elapsed()
    };
    let took: Vec<Duration> = thread::scope(|scope| {
        let working: Vec<_> = (0..threads).map(|thread| scope.spawn(move || work(thread))).collect();
        working.into_iter().map(|working| working.join().expect("a thread")).collect()
    });
    took.iter().map(Duration::as_secs_f64).sum::<f64>() * 1e9 / (threads * count) as f64
}

fn clock() -> f64 {
    const READS: u32 = 100_000;
    let start = Instant::now();
    (0..READS).for_each(|_| _ = black_box(Instant::now()));
    start.elapsed().as_secs_f64() * 1e9 / f64::from(READS)
}

fn median(figures: impl Iterator<Item = f64>) -> f64 {
    let mut figures: Vec<f64> = figures.collect();
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

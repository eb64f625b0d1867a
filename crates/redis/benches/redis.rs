//! What the store costs, beside what Redis itself costs, in one run on loopback.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a benchmark")]

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use redis::IntoConnectionInfo;
use redis::io::tcp::TcpSettings;
use tidegate_core::{Algorithm, Group, Key, Operation, Quota, Secret, Span, Take};
use tidegate_redis::{DEFAULT_TIMEOUT, RedisStore};
use tidegate_store::{Deadline, Store};
use tidegate_testkit::{Cluster, Proxy, Redis, Sentinel, find_program};
use tokio::runtime::Runtime;

const CALLERS: usize = 64;
const KEYS: u64 = 100_000;
const DECISIONS: u64 = 300_000;

/// Nothing here is about deadlines unless it says so.
const PATIENT: Duration = Duration::from_secs(10);

fn main() {
    let runtime = Runtime::new().unwrap();
    let redis = Redis::start();
    let store = runtime.block_on(connect(&redis.url(), PATIENT));
    sizes(&runtime, &redis, &store);
    several_rules(&runtime, &redis, &store);
    throughput(&runtime, &redis, &store);
    hot_key(&runtime, &redis, &store);
    server_time(&runtime, &redis, &store);
    latency(&runtime, &redis, &store);
    shares(&runtime);
    slow_round_trip(&runtime);
    lateness(&runtime);
    failover(&runtime);
}

async fn connect(url: &str, timeout: Duration) -> Arc<RedisStore> {
    let store = RedisStore::builder(url.parse().unwrap()).timeout(timeout).start().unwrap();
    store.ready().await;
    Arc::new(store)
}

fn quota(algorithm: Algorithm, limit: u64) -> Quota {
    Quota::new(algorithm, limit, Span::from_secs(60)).unwrap()
}

/// A take of one by user number `user`.
fn take(quota: Quota, user: u64) -> Operation<'static> {
    let tag = Secret::new([7; 16]).encode().part(1, &user.to_le_bytes()).tag();
    Take::new(Key::new("api_per_user", quota.algorithm(), tag), quota, 1).into()
}

/// What a run of many callers came to.
#[derive(Clone, Copy, Default)]
struct Run {
    seconds: f64,
    decisions: u64,
    admitted: u64,
    failed: u64,
    latest: Duration,
}

impl Run {
    fn rate(&self) -> f64 {
        self.decisions as f64 / self.seconds
    }
}

/// `decisions` takes by `callers` at once, from keys spread over `keys`, each with this much time.
fn run(
    runtime: &Runtime,
    store: &Arc<RedisStore>,
    quota: Quota,
    callers: usize,
    keys: u64,
    decisions: u64,
    patience: Duration,
) -> Run {
    let left = Arc::new(AtomicU64::new(decisions));
    let start = Instant::now();
    let tasks: Vec<_> = (0..callers as u64)
        .map(|caller| {
            let (store, left) = (Arc::clone(store), Arc::clone(&left));
            runtime.spawn(async move {
                let (mut run, mut dice) = (Run::default(), caller * 7_919 + 1);
                while left
                    .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
                    .is_ok()
                {
                    dice ^= dice << 13;
                    dice ^= dice >> 7;
                    dice ^= dice << 17;
                    let group: [Group<'_>; 1] = [[take(quota, dice % keys)].into_iter().collect()];
                    let asked = Instant::now();
                    let outcome = store.apply(&group, Deadline::after(asked, patience)).await[0][0];
                    run.latest = run.latest.max(asked.elapsed());
                    run.decisions += 1;
                    match outcome.verdict() {
                        Some(verdict) => run.admitted += u64::from(verdict.allowed),
                        None => run.failed += 1,
                    }
                }
                run
            })
        })
        .collect();
    let mut all = Run::default();
    for task in tasks {
        let one = runtime.block_on(task).unwrap();
        all.decisions += one.decisions;
        all.admitted += one.admitted;
        all.failed += one.failed;
        all.latest = all.latest.max(one.latest);
    }
    all.seconds = start.elapsed().as_secs_f64();
    all
}

/// What the server's memory grows by, for each of `count` groups.
fn growth<'r>(
    runtime: &Runtime,
    redis: &Redis,
    store: &Arc<RedisStore>,
    count: u64,
    group: impl Fn(u64) -> Operation<'r>,
) -> f64 {
    redis.query::<()>(&["FLUSHALL"]);
    let used = || redis.info("memory")["used_memory"].parse::<f64>().unwrap();
    let groups: Vec<Group<'r>> = (0..count).map(|number| [group(number)].into_iter().collect()).collect();
    let before = used();
    for groups in groups.chunks(1_000) {
        runtime.block_on(store.apply(groups, Deadline::after(Instant::now(), PATIENT)));
    }
    (used() - before) / count as f64
}

fn sizes(runtime: &Runtime, redis: &Redis, store: &Arc<RedisStore>) {
    println!("bytes of the server's memory");
    for algorithm in Algorithm::REFILLING {
        let bytes = growth(runtime, redis, store, 50_000, |user| take(quota(algorithm, 100), user));
        println!("  {:<15} {bytes:.0} per key", algorithm.name());
    }
    let log = Quota::new(Algorithm::SlidingLog, 100_000, Span::from_secs(3_600)).unwrap();
    println!(
        "  {:<15} {:.0} per request more",
        "sliding_log",
        growth(runtime, redis, store, 50_000, |_| take(log, 0))
    );
    let bytes = growth(runtime, redis, store, 1_000, |number| {
        let op = take(quota(Algorithm::TokenBucket, 100_000), 0);
        let request_id = Some(Secret::new([7; 16]).request_id(&number.to_string()));
        Operation { take: Take { request_id, ..op.take }, ..op }
    });
    println!("  {:<15} {bytes:.0} per remembered request id", "token_bucket");
}

/// The rules of one request go to the server together, by the script for everything.
fn several_rules(runtime: &Runtime, redis: &Redis, store: &Arc<RedisStore>) {
    println!("\nthree rules per request, batches of 100: time inside Redis per rule");
    for algorithm in [Algorithm::TokenBucket, Algorithm::FixedWindow, Algorithm::SlidingWindow] {
        redis.query::<()>(&["FLUSHALL"]);
        let group = |user: u64| -> Group<'static> {
            let op = take(quota(algorithm, 100), user);
            let under = |rule| Take { key: Key::new(rule, algorithm, op.take.key.tag), ..op.take };
            ["first", "second", "third"].into_iter().map(|rule| under(rule).into()).collect()
        };
        let before = redis.command_usec("evalsha");
        for round in 0..200 {
            let groups: Vec<Group<'_>> = (0..100).map(|user| group(round * 100 + user)).collect();
            runtime.block_on(store.apply(&groups, Deadline::after(Instant::now(), PATIENT)));
        }
        let each = (redis.command_usec("evalsha") - before) as f64 / 60_000.0;
        println!("  {:<15} {each:.1} µs", algorithm.name());
    }
    redis.query::<()>(&["FLUSHALL"]);
    println!();
}

/// Requests a second of `redis-benchmark -t incr`.
fn incr(redis: &Redis, pipeline: &str) -> f64 {
    let port = redis.address().port().to_string();
    let output = Command::new(find_program("redis-benchmark", "redis-tools"))
        .args(["-p", &port, "-t", "incr", "-c", &CALLERS.to_string(), "-r", &KEYS.to_string()])
        .args(["-n", "400000", "-P", pipeline, "--csv"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().find(|line| line.starts_with("\"INCR\"")).unwrap_or_else(|| panic!("{text}"));
    line.split(',').nth(1).unwrap().trim_matches('"').parse().unwrap()
}

fn throughput(runtime: &Runtime, redis: &Redis, store: &Arc<RedisStore>) {
    println!(
        "decisions through the store, {CALLERS} callers, {KEYS} keys, beside redis-benchmark -t incr -c {CALLERS}"
    );
    for algorithm in Algorithm::REFILLING {
        run(runtime, store, quota(algorithm, 100), CALLERS, KEYS, DECISIONS, PATIENT);
        let before = incr(redis, "1");
        let calls = redis.command_calls("evalsha");
        let ours = run(runtime, store, quota(algorithm, 100), CALLERS, KEYS, DECISIONS, PATIENT);
        let calls = redis.command_calls("evalsha") - calls;
        let (after, pipelined) = (incr(redis, "1"), incr(redis, "16"));
        let plain = before.max(after);
        println!(
            "  {:<15} {:.2} x INCR, {:.2} x INCR -P 16   ({:.0}/s; INCR {:.0}/s, -P 16 {:.0}/s; {:.1} decisions per call)",
            algorithm.name(),
            ours.rate() / plain,
            ours.rate() / pipelined,
            ours.rate(),
            plain,
            pipelined,
            ours.decisions as f64 / calls as f64,
        );
    }
}

fn hot_key(runtime: &Runtime, redis: &Redis, store: &Arc<RedisStore>) {
    println!("\none hot key, calls as Redis counts them");
    for callers in [64, 512] {
        let limit = 50_000;
        let quota = Quota::new(Algorithm::FixedWindow, limit, Span::from_secs(366 * 86_400)).unwrap();
        redis.query::<()>(&["FLUSHALL"]);
        runtime.block_on(store.ready());
        let calls = redis.command_calls("evalsha");
        let ours = run(runtime, store, quota, callers, 1, DECISIONS, PATIENT);
        let calls = redis.command_calls("evalsha") - calls;
        println!(
            "  {callers:>3} callers     {:.1} decisions per call, {:.0}/s, {} admitted of {limit}",
            ours.decisions as f64 / calls as f64,
            ours.rate(),
            ours.admitted,
        );
    }
}

/// Time inside the server, as it measures itself.
fn server_time(runtime: &Runtime, redis: &Redis, store: &Arc<RedisStore>) {
    println!("\ntime inside Redis per decision, {CALLERS} callers, {KEYS} keys, beside INCR + EXPIRE");
    let mut connection = redis::Client::open(redis.url()).unwrap().get_connection().unwrap();
    let usec = |redis: &Redis| redis.command_usec("incr") + redis.command_usec("expire");
    let before = usec(redis);
    for round in 0..1_000_u64 {
        let mut pipeline = redis::pipe();
        for number in 0..50 {
            let key = format!("beside:{}", (round * 50 + number) * 7_919 % KEYS);
            pipeline.cmd("INCR").arg(&key).ignore().cmd("EXPIRE").arg(&key).arg(120).ignore();
        }
        pipeline.query::<()>(&mut connection).unwrap();
    }
    let beside = (usec(redis) - before) as f64 / 50_000.0;
    for algorithm in Algorithm::REFILLING {
        run(runtime, store, quota(algorithm, 100), CALLERS, KEYS, DECISIONS, PATIENT);
        let before = redis.command_usec("evalsha");
        let ours = run(runtime, store, quota(algorithm, 100), CALLERS, KEYS, DECISIONS, PATIENT);
        let each = (redis.command_usec("evalsha") - before) as f64 / ours.decisions as f64;
        println!("  {:<15} {:.2} x   ({each:.2} µs; {beside:.2} µs)", algorithm.name(), each / beside);
    }
}

fn latency(runtime: &Runtime, redis: &Redis, store: &Arc<RedisStore>) {
    println!("\none caller: what the store adds to a bare PING round trip");
    let client = redis::Client::open(redis.url()).unwrap();
    let (mut pings, mut ours) = (Vec::new(), Vec::new());
    runtime.block_on(async {
        let mut connection = client.get_multiplexed_async_connection().await.unwrap();
        for number in 0..20_000 {
            let start = Instant::now();
            redis::cmd("PING").query_async::<()>(&mut connection).await.unwrap();
            pings.push(start.elapsed());
            let group: [Group<'_>; 1] =
                [[take(quota(Algorithm::TokenBucket, 100), number % KEYS)].into_iter().collect()];
            let start = Instant::now();
            store.apply(&group, Deadline::after(start, PATIENT)).await;
            ours.push(start.elapsed());
        }
    });
    pings.sort();
    ours.sort();
    for (name, percent) in [("p50", 50), ("p99", 99)] {
        let at = |times: &[Duration]| times[times.len() * percent / 100].as_secs_f64() * 1e6;
        println!(
            "  {name}  +{:.0} µs   ({:.0} µs; PING {:.0} µs)",
            at(&ours) - at(&pings),
            at(&ours),
            at(&pings)
        );
    }
}

fn shares(runtime: &Runtime) {
    let cluster = Cluster::start();
    let store = runtime.block_on(connect(&cluster.url(), PATIENT));
    let ours = run(runtime, &store, quota(Algorithm::TokenBucket, 100), CALLERS, KEYS, 100_000, PATIENT);
    println!("\na Cluster of three masters, {CALLERS} callers, {KEYS} keys: {:.0}/s", ours.rate());
    let count = |shard: &tidegate_store::Shard| shard.stats.operations().map(|(_, count)| count).sum::<u64>();
    let all: u64 = store.shards().iter().map(count).sum();
    for shard in store.shards() {
        println!("  {}  {:.1} % of the operations", shard.name, 100.0 * count(&shard) as f64 / all as f64);
    }
}

/// What a hot key comes to when a round trip takes most of the time there is, beside what the round trip by itself
/// comes to: the proxy and the machine have their share in who is late.
fn slow_round_trip(runtime: &Runtime) {
    let redis = Redis::start();
    let proxy = Proxy::start(redis.address());
    let url = format!("redis://{}", proxy.address());
    let store = runtime.block_on(connect(&url, DEFAULT_TIMEOUT));
    proxy.set_delay(Duration::from_millis(3));
    println!("\na hot key, 64 callers, a round trip of 3 ms, {DEFAULT_TIMEOUT:?} to decide");
    let quota = quota(Algorithm::FixedWindow, 1_000_000);
    run(runtime, &store, quota, 64, 1, 2_000, DEFAULT_TIMEOUT);
    let before = pings(runtime, &url);
    let ours = run(runtime, &store, quota, 64, 1, 20_000, DEFAULT_TIMEOUT);
    let mut trips = [before, pings(runtime, &url)].concat();
    trips.sort();
    println!(
        "  {} of {} not decided in time ({:.2} %), {:.0}/s",
        ours.failed,
        ours.decisions,
        100.0 * ours.failed as f64 / ours.decisions as f64,
        ours.rate()
    );
    let late = trips.iter().filter(|trip| **trip > DEFAULT_TIMEOUT).count();
    println!(
        "  {late} of {} bare PINGs, two at a time, took longer than that ({:.2} %); median {:.2} ms, p99 {:.2} ms",
        trips.len(),
        100.0 * late as f64 / trips.len() as f64,
        trips[trips.len() / 2].as_secs_f64() * 1e3,
        trips[trips.len() * 99 / 100].as_secs_f64() * 1e3,
    );
}

/// Round trips of PINGs over one connection, two on their way at a time.
fn pings(runtime: &Runtime, url: &str) -> Vec<Duration> {
    // As the store does: else the second would wait for the answer to the first.
    let tcp = TcpSettings::default().set_nodelay(true);
    let client = redis::Client::open(url.into_connection_info().unwrap().set_tcp_settings(tcp)).unwrap();
    let connection = runtime.block_on(client.get_multiplexed_async_connection()).unwrap();
    let tasks = [(); 2].map(|()| {
        let mut connection = connection.clone();
        runtime.spawn(async move {
            let mut trips = Vec::new();
            for _ in 0..500 {
                let start = Instant::now();
                redis::cmd("PING").query_async::<()>(&mut connection).await.unwrap();
                trips.push(start.elapsed());
            }
            trips
        })
    });
    tasks.into_iter().flat_map(|task| runtime.block_on(task).unwrap()).collect()
}

/// How late a decision ever was when the store does not answer at all.
fn lateness(runtime: &Runtime) {
    let redis = Redis::start();
    let proxy = Proxy::start(redis.address());
    let store = runtime.block_on(connect(&format!("redis://{}", proxy.address()), DEFAULT_TIMEOUT));
    proxy.stall();
    let ours = run(runtime, &store, quota(Algorithm::TokenBucket, 100), 64, KEYS, 20_000, DEFAULT_TIMEOUT);
    println!("\na store that accepts and never answers, 64 callers, {DEFAULT_TIMEOUT:?} to decide");
    println!(
        "  the latest of {} decisions came after {:.1} ms",
        ours.decisions,
        ours.latest.as_secs_f64() * 1e3
    );
}

/// How long it takes until a killed master's replica decides.
fn failover(runtime: &Runtime) {
    println!("\na master is killed: until the next decision");
    let sentinel = Sentinel::start();
    let store = runtime.block_on(connect(&sentinel.url(), PATIENT));
    sentinel.master().kill();
    println!("  Sentinel (down-after 500 ms)   {:.2} s", outage(runtime, &store, 0).as_secs_f64());
    let cluster = Cluster::options().node_timeout(Duration::from_secs(1)).start();
    let store = runtime.block_on(connect(&cluster.url(), PATIENT));
    cluster.masters()[0].kill();
    let worst = (0..30).map(|user| outage(runtime, &store, user)).max().unwrap();
    println!("  Cluster (node-timeout 1 s)     {:.2} s", worst.as_secs_f64());
}

fn outage(runtime: &Runtime, store: &Arc<RedisStore>, user: u64) -> Duration {
    let start = Instant::now();
    let group: [Group<'_>; 1] = [[take(quota(Algorithm::TokenBucket, 100), user)].into_iter().collect()];
    let decided = || {
        let deadline = Deadline::after(Instant::now(), Duration::from_millis(50));
        runtime.block_on(store.apply(&group, deadline))[0][0].verdict().is_some()
    };
    while !decided() {
        std::thread::sleep(Duration::from_millis(1));
    }
    start.elapsed()
}

//! What does a request through the gateway cost, and how much of that is the limiter?
//!
//! The gateway beside nginx as a plain reverse proxy, in one run: the same client, the same back end, each proxy a process of its
//! own with one core, of which it has one thread's worth. The client (`h2load`, HTTP/1.1), the back end (nginx) and Redis share the
//! other core. Rounds alternate, so that whatever else the machine does happens to all; medians count.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;
use tidegate_testkit::{Launch, Process, Redis, ReverseProxy, wait};

const CONNECTIONS: [&str; 2] = ["1", "64"];
const ROUNDS: usize = 5;
const ROUND: &str = "2";
const PROXY_CORE: &str = "0";
const CLIENT_CORE: &str = "1";

/// Ten rules, of which three apply to the request that is sent.
const RULES: &str = "
rules:
  - {rule_id: per_ip, identifier_type: ip_address, limit: 1000000000, window: 1h}
  - {rule_id: per_user_orders, identifier_type: user_id, limit: 100000000, window: 1m, match: {path_pattern: /orders/*, methods: [GET]}}
  - {rule_id: everything, identifier_type: global, limit: 1000000000, window: 1m, algorithm: fixed_window}
  - {rule_id: login, identifier_type: ip_address, limit: 5, window: 1m, match: {path_pattern: /auth/login, methods: [POST]}}
  - {rule_id: search, identifier_type: user_id, limit: 30, window: 1m, match: {path_pattern: /search/**}}
  - {rule_id: uploads, identifier_type: user_id, limit: 10, window: 1h, match: {path_pattern: /files/*, methods: [PUT, POST]}}
  - {rule_id: mobile, identifier_type: user_id, limit: 600, window: 1m, match: {required_headers: {X-Client-Type: mobile}}}
  - {rule_id: admin, identifier_type: user_id, limit: 60, window: 1m, match: {path_pattern: /admin/**}}
  - {rule_id: intranet, identifier_type: ip_address, limit: 600, window: 1m, match: {ip_subnet: 192.168.0.0/16}}
  - {rule_id: reports, identifier_type: tenant_id, limit: 6, window: 1m, match: {path_pattern: /reports/*/export}}
";

/// One rule that applies to nothing that is asked for.
const NO_RULES: &str = "
rules:
  - {rule_id: nobody, identifier_type: global, limit: 1, window: 1s, match: {path_pattern: /nothing}}
";

struct Subject {
    name: &'static str,
    address: SocketAddr,
    pid: u32,
    /// Where its metrics are, if it has any.
    admin: Option<SocketAddr>,
    /// By number of connections.
    rounds: [Vec<Round>; CONNECTIONS.len()],
}

#[derive(Clone, Copy)]
struct Round {
    rate: f64,
    busy: f64,
    p50: f64,
    p99: f64,
}

fn main() {
    let folder = TempDir::new().expect("a folder");
    let redis = Redis::start();
    pin(redis.pid(), CLIENT_CORE);
    let backend = ReverseProxy::nginx(|place| {
        format!(
            "worker_processes 1; pid {}/pid; events {{ worker_connections 4096; }}
             http {{ access_log off; keepalive_requests 1000000000; server {{ listen {}; return 200 'hello, world'; }} }}",
            place.folder.display(),
            place.listener
        )
    });
    pin(backend.pid(), CLIENT_CORE);
    let plain = nginx(backend.address(), "", "");
    let limited = nginx(
        backend.address(),
        "limit_req_zone $binary_remote_addr zone=one:10m rate=1000000r/s;",
        "limit_req zone=one burst=100000 nodelay;",
    );
    let rules = [("none.yaml", NO_RULES), ("ten.yaml", RULES)].map(|(name, text)| {
        let path = folder.path().join(name);
        fs::write(&path, text).expect("a file");
        path
    });
    let store = redis.url();
    let gateways = [
        gateway(folder.path(), "none", backend.address(), &rules[0], None),
        gateway(folder.path(), "memory", backend.address(), &rules[1], None),
        gateway(folder.path(), "redis", backend.address(), &rules[1], Some(&store)),
    ];
    let [none, memory, redis] = &gateways;
    let mut subjects = [
        Subject::nginx("nginx", &plain),
        Subject::nginx("nginx, limit_req", &limited),
        Subject::gateway("tidegate, no rules", none),
        Subject::gateway("tidegate, memory", memory),
        Subject::gateway("tidegate, Redis", redis),
    ];
    for round in 0..=ROUNDS {
        for subject in &mut subjects {
            for (index, connections) in CONNECTIONS.into_iter().enumerate() {
                let measured = measure(subject, connections, folder.path());
                // The first round is for warming up.
                if round > 0 {
                    subject.rounds[index].push(measured);
                }
            }
        }
    }
    report(&subjects);
}

impl Subject {
    fn nginx(name: &'static str, proxy: &ReverseProxy) -> Self {
        let rounds = std::array::from_fn(|_| Vec::new());
        Self { name, address: proxy.address(), pid: proxy.pid(), admin: None, rounds }
    }

    fn gateway(name: &'static str, (process, address, admin): &(Process, SocketAddr, SocketAddr)) -> Self {
        let rounds = std::array::from_fn(|_| Vec::new());
        Self { name, address: *address, pid: process.pid(), admin: Some(*admin), rounds }
    }
}

fn nginx(backend: SocketAddr, http: &str, location: &str) -> ReverseProxy {
    let proxy = ReverseProxy::nginx(|place| {
        format!(
            "worker_processes 1; pid {}/pid; events {{ worker_connections 4096; }}
             http {{
               access_log off; keepalive_requests 1000000000; {http}
               upstream back {{ server {backend}; keepalive 128; keepalive_requests 1000000000; }}
               server {{
                 listen {};
                 location / {{
                   {location}
                   proxy_pass http://back; proxy_http_version 1.1; proxy_set_header Connection '';
                   proxy_set_header Host $host; proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
                   proxy_set_header X-Forwarded-Proto $scheme; proxy_set_header X-Real-IP $remote_addr;
                 }}
               }}
             }}",
            place.folder.display(),
            place.listener
        )
    });
    pin(proxy.pid(), PROXY_CORE);
    proxy
}

fn gateway(
    folder: &Path,
    name: &str,
    backend: SocketAddr,
    rules: &Path,
    store: Option<&str>,
) -> (Process, SocketAddr, SocketAddr) {
    let log = folder.join(format!("{name}.log"));
    let mut args = vec!["-c".to_owned(), PROXY_CORE.to_owned(), env!("CARGO_BIN_EXE_tidegate").to_owned()];
    args.extend(
        ["gateway", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--log", "json"].map(Into::into),
    );
    args.extend(["--upstream".to_owned(), format!("http://{backend}")]);
    args.extend(["--rules".to_owned(), rules.display().to_string()]);
    if let Some(store) = store {
        // This is about speed; lateness has its own figure.
        args.extend(["--store", store, "--store-timeout", "1s"].map(Into::into));
    }
    let process = Launch::new("taskset", log).args(args).start();
    let place = |log: &str, name: &str| {
        let (_, rest) = log.split_once(&format!("\"{name}\":\""))?;
        rest.split('"').next()?.parse::<SocketAddr>().ok()
    };
    let places = wait::poll(Duration::from_secs(30), || {
        let log = process.log();
        Some((place(&log, "gateway")?, place(&log, "admin")?))
    });
    let (address, admin) = places.expect("it says where it is");
    (process, address, admin)
}

fn pin(process: u32, core: &str) {
    let done = Command::new("taskset")
        .args(["-a", "-c", "-p", core, &process.to_string()])
        .stdout(Stdio::null())
        .status();
    assert!(done.is_ok_and(|status| status.success()), "taskset is not there; apt-get install util-linux");
    // A server may have started others before it was pinned.
    for child in children(process) {
        pin(child, core);
    }
}

fn children(process: u32) -> Vec<u32> {
    let listed = fs::read_to_string(format!("/proc/{process}/task/{process}/children")).unwrap_or_default();
    listed.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

fn measure(subject: &Subject, connections: &str, folder: &Path) -> Round {
    // Writing down how long each request took slows the client down, so that is done apart.
    let before = busy(subject.pid);
    let said = load(subject, connections, None);
    let busy = busy(subject.pid) - before;
    // `requests: 61234 total, 61234 started, 61234 done, 61234 succeeded, …`
    let count: f64 = said
        .lines()
        .find_map(|line| line.strip_prefix("requests: ")?.split(", ").nth(3)?.split(' ').next()?.parse().ok())
        .expect("how many were answered");
    let refused = said.lines().find(|line| line.starts_with("status codes:")).unwrap_or_default();
    assert!(refused.contains(" 0 4xx") && refused.contains(" 0 5xx"), "{}: {refused}", subject.name);
    let log = folder.join("log");
    fs::remove_file(&log).ok();
    load(subject, connections, Some(&log));
    // Start in microseconds, HTTP status, duration in microseconds.
    let log = fs::read_to_string(&log).expect("what h2load wrote down");
    let mut took: Vec<f64> = log
        .lines()
        .filter_map(|line| {
            let mut words = line.split('\t');
            (words.nth(1)? == "200").then(|| words.next()?.parse().ok()).flatten()
        })
        .collect();
    assert!(!took.is_empty(), "{}: no answers", subject.name);
    took.sort_by(f64::total_cmp);
    let percentile = |percent: usize| took[(took.len() - 1) * percent / 100];
    let seconds: f64 = ROUND.parse().expect("a number");
    Round { rate: count / seconds, busy: busy / count, p50: percentile(50), p99: percentile(99) }
}

/// Asks for a round; answers with what h2load says of it.
fn load(subject: &Subject, connections: &str, log: Option<&Path>) -> String {
    let mut load = Command::new("taskset");
    load.args(["-c", CLIENT_CORE, "h2load", "--h1", "-t", "1", "-D", ROUND, "-c", connections]);
    load.args(["-H", "x-user-id: alice", "-H", "user-agent: bench", "-H", "accept: */*"]);
    if let Some(log) = log {
        load.arg("--log-file").arg(log);
    }
    load.arg(format!("http://{}/orders/7?page=1", subject.address));
    let done = load.output().expect("taskset");
    assert!(done.status.success(), "h2load is not there; apt-get install nghttp2-client");
    String::from_utf8_lossy(&done.stdout).into_owned()
}

/// Processor time that all threads of a process, and of those it started, have had, in microseconds.
fn busy(pid: u32) -> f64 {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let own: f64 = threads
        .filter_map(|thread| {
            let accounts = fs::read_to_string(thread.path().join("schedstat")).ok()?;
            accounts.split_whitespace().next()?.parse::<f64>().ok()
        })
        .sum();
    own / 1e3 + children(pid).into_iter().map(busy).sum::<f64>()
}

fn report(subjects: &[Subject; 5]) {
    println!(
        "Median of {ROUNDS} rounds of {ROUND} s; each proxy has one core, client and back end share the other\n"
    );
    for (index, connections) in CONNECTIONS.into_iter().enumerate() {
        let plural = if connections == "1" { "connection" } else { "connections" };
        println!(
            "{:<22} {:>9} {:>9} {:>8} {:>8} {:>11}",
            format!("{connections} {plural}"),
            "req/s",
            "of nginx",
            "p50 µs",
            "p99 µs",
            "µs CPU/req"
        );
        for subject in subjects {
            let figure = |of: fn(&Round) -> f64| median(subject.rounds[index].iter().map(of));
            let ratio = subject.rounds[index].iter().zip(&subjects[0].rounds[index]);
            let ratio = median(ratio.map(|(own, base)| own.rate / base.rate));
            println!(
                "{:<22} {:>9.0} {:>8.0}% {:>8.0} {:>8.0} {:>11.2}",
                subject.name,
                figure(|round| round.rate),
                100.0 * ratio,
                figure(|round| round.p50),
                figure(|round| round.p99),
                figure(|round| round.busy)
            );
        }
        println!();
    }
    println!("What the limiter took of that, by its own histogram over the whole run:");
    for subject in subjects {
        if let Some(admin) = subject.admin {
            let at_most = [50, 99].map(|percent| quantile(&metrics(admin), percent));
            println!("{:<22} p50 at most {}, p99 at most {}", subject.name, at_most[0], at_most[1]);
        }
    }
}

fn metrics(admin: SocketAddr) -> String {
    use std::io::{Read, Write};
    let mut stream = TcpStream::connect(admin).expect("the admin listener");
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        .expect("a request");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("metrics");
    text
}

/// The bucket that has this percentile of all decisions.
fn quantile(metrics: &str, percent: u64) -> String {
    let buckets: Vec<(&str, u64)> = metrics
        .lines()
        .filter_map(|line| {
            let (bound, count) =
                line.strip_prefix("tidegate_decision_seconds_bucket{le=\"")?.split_once("\"} ")?;
            Some((bound, count.trim().parse().ok()?))
        })
        .collect();
    let total = buckets.last().map_or(0, |(_, count)| *count);
    let found = buckets.iter().find(|(_, count)| count * 100 >= total * percent);
    found.map_or_else(
        || "unknown".to_owned(),
        |(bound, _)| match bound.parse::<f64>() {
            Ok(seconds) if seconds.is_finite() => format!("{:.1} µs", seconds * 1e6),
            _ => "more than was measured".to_owned(),
        },
    )
}

fn median(figures: impl Iterator<Item = f64>) -> f64 {
    let mut figures: Vec<f64> = figures.collect();
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

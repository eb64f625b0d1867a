//! What does a call of the rate limit service cost on one data thread, on two, and with administrators beside it?
//!
//! The binary itself, asked by connections that are kept, about 100,000 keys, in memory and on Redis. Unless stated, the server has a
//! core to itself, and clients and Redis have the other. Rounds alternate, so that whatever else the machine does happens to all;
//! medians count. Processor time is what the kernel says that the server's threads have had; system calls are counted by `strace` in
//! a round of their own.
//!
//! `cargo bench -p tidegate-cli --bench threads -- PART` measures only `costs`, `scaling` or `administration`.
//! `TIDEGATE_BASELINE` names another binary, such as that of the version before, to be measured in the same rounds.

#![allow(clippy::panic, reason = "a benchmark")]

mod administrators;
mod load;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use administrators::Administrators;
use load::Clients;
use tempfile::TempDir;
use tidegate_testkit::{Launch, Process, Redis, wait};

const ROUNDS: usize = 5;
const ROUND: Duration = Duration::from_millis(1_500);

const SERVER_CORE: &str = "0";
const CLIENT_CORE: &str = "1";
const BOTH_CORES: &str = "0,1";

/// As an Envoy with many requests asks, and with few.
const MANY: Clients = Clients { connections: 4, streams: 16 };
const ONE: Clients = Clients { connections: 1, streams: 1 };
/// So few that nobody waits for a core.
const FEW: Clients = Clients { connections: 2, streams: 1 };

/// Rules that administrators list beside the one that decides.
const LISTED_RULES: usize = 1_000;

/// Says where the administrators of this process find their listener, if it is to be nothing but administrators.
const ADMINISTRATORS_OF: &str = "TIDEGATE_ADMINISTRATORS_OF";

fn main() {
    if let Ok(admin) = std::env::var(ADMINISTRATORS_OF) {
        return administrators::ask(admin.parse().expect("an address"));
    }
    // Cargo adds an option of its own.
    let part = std::env::args().skip(1).find(|option| !option.starts_with("--"));
    let is_asked_for = |name| part.as_deref().is_none_or(|part| part == name);
    let folder = TempDir::new().expect("a folder");
    let bench = Bench::new(folder.path());
    if is_asked_for("costs") {
        bench.costs();
    }
    if is_asked_for("scaling") {
        bench.scaling();
    }
    if is_asked_for("administration") {
        bench.administration();
    }
}

/// What all parts have in common.
struct Bench {
    folder: PathBuf,
    rules: PathBuf,
    redis: Redis,
    /// The binary that is measured, and the one beside it if there is one.
    binaries: Vec<(&'static str, PathBuf)>,
    /// How many servers were started: each has a log of its own.
    servers: AtomicUsize,
}

impl Bench {
    fn new(folder: &Path) -> Self {
        let mut rules = "domain: edge\ndescriptors:\n  - {key: remote_address, rate_limit: {unit: hour, requests_per_unit: 4294967295}}\n"
            .to_owned();
        rules += "---\nrules:\n";
        for number in 0..LISTED_RULES {
            writeln!(rules, "  - {{rule_id: r{number}, identifier_type: user_id, limit: 9, window: 1h, match: {{path_pattern: /p{number}/*}}}}")
                .expect("a text");
        }
        let path = folder.join("rules.yaml");
        fs::write(&path, rules).expect("a file");
        let redis = Redis::start();
        pin(redis.pid(), CLIENT_CORE);
        pin(std::process::id(), CLIENT_CORE);
        let own = ("tidegate", PathBuf::from(env!("CARGO_BIN_EXE_tidegate")));
        let baseline = std::env::var_os("TIDEGATE_BASELINE").map(|path| ("baseline", PathBuf::from(path)));
        Self {
            folder: folder.to_owned(),
            rules: path,
            redis,
            binaries: baseline.into_iter().chain([own]).collect(),
            servers: AtomicUsize::new(0),
        }
    }

    fn serve(&self, name: &str, binary: &Path, threads: Option<usize>, shared: bool, cores: &str) -> Server {
        let mut options = vec!["--rules".to_owned(), self.rules.display().to_string()];
        if shared {
            options.extend(["--store".to_owned(), self.redis.url()]);
        }
        if let Some(threads) = threads {
            options.extend(["--threads".to_owned(), threads.to_string()]);
        }
        let number = self.servers.fetch_add(1, Ordering::Relaxed);
        let log = self.folder.join(format!("server-{number}.log"));
        Server::start(name, binary, &options, cores, log)
    }

    /// One data thread.
    fn costs(&self) {
        println!("A call, server on a core of its own (µs of processor time, system calls per call)\n");
        for (store, shared) in [("memory", false), ("Redis", true)] {
            let servers: Vec<Server> = self
                .binaries
                .iter()
                // The version before has no data threads.
                .map(|(name, binary)| {
                    self.serve(name, binary, (*name != "baseline").then_some(1), shared, SERVER_CORE)
                })
                .collect();
            for (called, clients) in [("64 at once", MANY), ("one at a time", ONE)] {
                let mut rounds: Vec<Vec<Round>> = servers.iter().map(|_| Vec::new()).collect();
                for round in 0..=ROUNDS {
                    for (server, rounds) in servers.iter().zip(&mut rounds) {
                        let measured = server.measure(clients);
                        // The first round is for warming up.
                        if round > 0 {
                            rounds.push(measured);
                        }
                    }
                }
                println!(
                    "{:<24} {:>9} {:>8} {:>8} {:>8} {:>8} {:>7} {:>7} {:>7}",
                    format!("{store}, {called}"),
                    "calls/s",
                    "µs/call",
                    "control",
                    "p50 µs",
                    "p99 µs",
                    "writes",
                    "reads",
                    "waits"
                );
                for (server, rounds) in servers.iter().zip(&rounds) {
                    let calls = server.system_calls(clients);
                    println!(
                        "  {:<22} {:>9.0} {:>8.2} {:>8.2} {:>8.0} {:>8.0} {:>7.2} {:>7.2} {:>7.2}",
                        server.name,
                        median(rounds, |round| round.rate),
                        median(rounds, |round| round.cost),
                        median(rounds, |round| round.control),
                        median(rounds, |round| round.p50),
                        median(rounds, |round| round.p99),
                        calls.writes,
                        calls.reads,
                        calls.waits,
                    );
                }
                if let [before, now] = &rounds[..] {
                    let ratios: Vec<f64> =
                        now.iter().zip(before).map(|(now, before)| now.cost / before.cost).collect();
                    println!(
                        "  tidegate / baseline: {:.2} of the processor time",
                        median(&ratios, |ratio| *ratio)
                    );
                }
                println!();
            }
        }
    }

    /// Two data threads beside one: what more is done with both cores depends on what a call costs then.
    fn scaling(&self) {
        println!(
            "Two data threads on both cores, which clients and Redis share: capacity is threads / processor time per call\n"
        );
        let Some((name, binary)) = self.binaries.last() else { return };
        for (store, shared) in [("memory", false), ("Redis", true)] {
            let servers = [1, 2].map(|threads| self.serve(name, binary, Some(threads), shared, BOTH_CORES));
            let mut rounds = [Vec::new(), Vec::new()];
            for round in 0..=ROUNDS {
                for (server, rounds) in servers.iter().zip(&mut rounds) {
                    let measured = server.measure(MANY);
                    if round > 0 {
                        rounds.push(measured);
                    }
                }
            }
            let [one, two] = rounds.map(|rounds| {
                (median(&rounds, |round| round.cost - round.control), median(&rounds, |round| round.rate))
            });
            println!(
                "  {store}: {:.2} µs/call on one thread, {:.2} on two: {:.2} times the capacity ({:.0} and {:.0} calls/s were seen)",
                one.0,
                two.0,
                2.0 * one.0 / two.0,
                one.1,
                two.1
            );
        }
        println!();
    }

    /// Decisions while administrators keep the control plane busy.
    fn administration(&self) {
        println!(
            "One data thread, which shares its core with the control plane; two connections, one call at a time on each. Administrators ask for\n\
             /metrics, {LISTED_RULES} rules and documents in a loop and have a dashboard open. Clients have the other core, administrators what\n\
             decisions leave of it.\n"
        );
        let Some((name, binary)) = self.binaries.last() else { return };
        let serve = |idle| {
            let server = self.serve(name, binary, Some(1), false, SERVER_CORE);
            if idle {
                make_idle(server.process.pid());
            }
            server
        };
        let [server, neighbour, idle_neighbour] = [false, false, true].map(serve);
        let asked = [
            ("nobody", None),
            ("itself", Some(&server)),
            ("another process", Some(&neighbour)),
            ("another process, SCHED_IDLE", Some(&idle_neighbour)),
        ];
        let mut rounds = asked.map(|_| Vec::new());
        let mut answered = asked.map(|_| 0);
        for round in 0..=ROUNDS {
            for (number, (_, asked)) in asked.iter().enumerate() {
                let administrators = asked.map(|server| Administrators::start(server.admin));
                let measured = server.measure(FEW);
                let answers = administrators.map_or(0, Administrators::end);
                if round > 0 {
                    rounds[number].push(measured);
                    answered[number] += answers;
                }
            }
        }
        println!(
            "{:<30} {:>9} {:>8} {:>8} {:>8} {:>9} {:>9}",
            "administrators ask", "answers/s", "calls/s", "p50 µs", "p99 µs", "of alone", "waits µs"
        );
        for (number, (who, _)) in asked.iter().enumerate() {
            let ratios: Vec<f64> =
                rounds[number].iter().zip(&rounds[0]).map(|(round, alone)| round.p99 / alone.p99).collect();
            println!(
                "{who:<30} {:>9.0} {:>8.0} {:>8.0} {:>8.0} {:>9.2} {:>9.2}",
                answered[number] as f64 / (ROUNDS as f64 * ROUND.as_secs_f64()),
                median(&rounds[number], |round| round.rate),
                median(&rounds[number], |round| round.p50),
                median(&rounds[number], |round| round.p99),
                median(&ratios, |ratio| *ratio),
                median(&rounds[number], |round| round.waited),
            );
        }
        println!("\n(waits: for how long the data thread had to wait for its core, per call)");
    }
}

/// What a round came to; times in microseconds.
#[derive(Clone, Copy)]
struct Round {
    rate: f64,
    /// Processor time of all of the server's threads, per call.
    cost: f64,
    /// That of threads which serve no calls.
    control: f64,
    /// Time for which threads that serve calls waited for a core, per call.
    waited: f64,
    p50: f64,
    p99: f64,
}

/// Times of a thread, in microseconds.
#[derive(Clone, Copy, Default)]
struct ThreadTimes {
    /// For which it has had a core.
    busy: f64,
    /// For which it was to run and had none.
    waited: f64,
}

struct SystemCalls {
    writes: f64,
    reads: f64,
    waits: f64,
}

struct Server {
    name: String,
    process: Process,
    grpc: SocketAddr,
    admin: SocketAddr,
}

impl Server {
    fn start(name: &str, binary: &Path, options: &[String], cores: &str, log: PathBuf) -> Self {
        let mut args = vec!["-c".to_owned(), cores.to_owned(), binary.display().to_string()];
        args.extend(
            ["serve", "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--admin", "127.0.0.1:0"]
                .map(Into::into),
        );
        // This is about speed; lateness has its own figure.
        args.extend(["--log", "json", "--store-timeout", "1s"].map(Into::into));
        args.extend_from_slice(options);
        let process = Launch::new("taskset", log).args(args).start();
        let place = |log: &str, name: &str| {
            let (_, rest) = log.split_once(&format!("\"{name}\":\""))?;
            rest.split('"').next()?.parse::<SocketAddr>().ok()
        };
        let places = wait::poll(wait::HANG_LIMIT, || {
            let log = process.log();
            Some((place(&log, "grpc")?, place(&log, "admin")?))
        });
        let (grpc, admin) = places.expect("it says where it is");
        Self { name: name.to_owned(), process, grpc, admin }
    }

    fn measure(&self, clients: Clients) -> Round {
        let before = self.thread_times();
        let (answers, ()) = load::run(self.grpc, clients, || thread::sleep(ROUND));
        let after = self.thread_times();
        let count = answers.count as f64;
        let per_call = |thread: fn(&str) -> bool, time: fn(&ThreadTimes) -> f64| {
            let of = |times: &BTreeMap<String, ThreadTimes>| -> f64 {
                times.iter().filter(|(name, _)| thread(name)).map(|(_, times)| time(times)).sum()
            };
            (of(&after) - of(&before)) / count
        };
        let micros = |percent| answers.percentile(percent).as_secs_f64() * 1e6;
        Round {
            rate: count / ROUND.as_secs_f64(),
            cost: per_call(|_| true, |times| times.busy),
            control: per_call(|name| !name.starts_with("data-"), |times| times.busy),
            waited: per_call(|name| name.starts_with("data-"), |times| times.waited),
            p50: micros(50),
            p99: micros(99),
        }
    }

    /// Returns what the kernel says of threads, by their names.
    fn thread_times(&self) -> BTreeMap<String, ThreadTimes> {
        let threads =
            fs::read_dir(format!("/proc/{}/task", self.process.pid())).into_iter().flatten().flatten();
        let mut times: BTreeMap<String, ThreadTimes> = BTreeMap::new();
        for thread in threads {
            let read = |file: &str| fs::read_to_string(thread.path().join(file)).unwrap_or_default();
            let schedstat = read("schedstat");
            let mut nanos = schedstat.split_whitespace().map(|time| time.parse().unwrap_or(0.0));
            let sum = times.entry(read("comm").trim().to_owned()).or_default();
            sum.busy += nanos.next().unwrap_or(0.0) / 1e3;
            sum.waited += nanos.next().unwrap_or(0.0) / 1e3;
        }
        times
    }

    /// Counts system calls of a round, which slows the server down.
    fn system_calls(&self, clients: Clients) -> SystemCalls {
        let mut strace = Command::new("strace");
        strace.args(["-f", "-c", "-p", &self.process.pid().to_string()]);
        let strace = strace.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
        let strace = strace.expect("strace is not there; apt-get install strace");
        thread::sleep(Duration::from_millis(500));
        let (answers, ()) = load::run(self.grpc, clients, || thread::sleep(ROUND));
        // Told to end, it writes its table.
        Command::new("kill").args(["-INT", &strace.id().to_string()]).status().ok();
        let table = strace.wait_with_output().map(|output| output.stderr).unwrap_or_default();
        let table = String::from_utf8_lossy(&table).into_owned();
        // `% time  seconds  usecs/call  calls  [errors]  syscall`
        let calls = table.lines().filter_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            Some(((*words.last()?).to_owned(), words.get(3)?.parse::<f64>().ok()?))
        });
        let calls: BTreeMap<String, f64> = calls.collect();
        let per_call = |names: &[&str]| {
            names.iter().filter_map(|name| calls.get(*name)).sum::<f64>() / answers.count as f64
        };
        SystemCalls {
            writes: per_call(&["write", "writev", "sendto", "sendmsg"]),
            reads: per_call(&["read", "readv", "recvfrom", "recvmsg"]),
            waits: per_call(&["epoll_wait", "epoll_pwait", "futex"]),
        }
    }
}

fn pin(process: u32, cores: &str) {
    let mut taskset = Command::new("taskset");
    let done = taskset.args(["-a", "-c", "-p", cores, &process.to_string()]).stdout(Stdio::null()).status();
    assert!(done.is_ok_and(|status| status.success()), "taskset is not there; apt-get install util-linux");
}

/// Has a process run only when no other process wants its core.
fn make_idle(process: u32) {
    let mut chrt = Command::new("chrt");
    let done = chrt.args(["--all-tasks", "--idle", "--pid", "0", &process.to_string()]).status();
    assert!(done.is_ok_and(|status| status.success()), "chrt is not there; apt-get install util-linux");
}

fn median<T>(rounds: &[T], figure: impl Fn(&T) -> f64) -> f64 {
    let mut figures: Vec<f64> = rounds.iter().map(figure).collect();
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(f64::NAN)
}

//! What do twenty open dashboards cost a node, and what do traces?
//!
//! The real binary, with and without twenty readers of `/v1/events`, in turns: without traffic and with 5,000 decisions a second.
//! What counts is the processor time of the process, as a share of one core; the median of the differences is what they cost. Traffic
//! itself costs now more, now less, so it is told as well within what the middle half of the differences are.
//!
//! Then one that traces nothing, one that traces a hundredth and one that traces all, in turns, with a collector that takes their spans
//! and as many decisions a second as a node may trace.
//!
//! `TIDEGATE_BENCH_SHORT=1` only shows that it runs.

#![allow(missing_docs, clippy::cast_precision_loss, reason = "a benchmark")]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use tempfile::TempDir;
use tidegate_testkit::{Launch, Process, wait};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;

const WATCHERS: usize = 20;
const RATE: u32 = 5_000;
/// A node begins a thousand traces a second at most.
const TRACED_RATE: u32 = 900;
/// Each sends its part of them, one after the other.
const CLIENTS: u32 = 4;
const PATIENCE: Duration = Duration::from_secs(30);
const BODY: &str =
    r#"{"tenant":"acme","user":"alice","resource":"/orders/7","method":"GET","ip":"203.0.113.7"}"#;

const RULES: &str = "
rules:
  - {rule_id: per_user, identifier_type: user_id, limit: 1000000000, window: 1h}
  - {rule_id: per_address, identifier_type: ip_address, limit: 1000, window: 1s}
";

fn main() {
    let short = std::env::var_os("TIDEGATE_BENCH_SHORT").is_some();
    let (rounds, span) = if short { (1, Duration::from_secs(2)) } else { (11, Duration::from_secs(5)) };
    watched(rounds, span);
    traced(rounds, span);
}

/// What readers cost.
fn watched(rounds: usize, span: Duration) {
    let folder = TempDir::new().expect("a folder");
    let (process, http, admin) = serve(&folder, &[]);
    println!("{WATCHERS} readers of /v1/events, median of {rounds} rounds of {span:?}; shares of one core\n");
    println!("| decisions/s | alone | watched | the readers cost | half of the time within |");
    println!("|---|---|---|---|---|");
    for rate in [0, RATE] {
        let load = Load::start(http, rate);
        let mut figures = Vec::new();
        for _ in 0..rounds {
            let alone = share(&process, span);
            let watchers: Vec<Watcher> = (0..WATCHERS).map(|_| Watcher::open(admin)).collect();
            // What each is sent at once is no part of what it costs to stay.
            wait::until("all are told", PATIENCE, || watchers.iter().all(|it| it.ticks() > 1).then_some(()));
            figures.push((alone, share(&process, span)));
            drop(watchers);
        }
        let reached = load.stop();
        let percent = |of: fn(&(f64, f64)) -> f64| quartiles(figures.iter().map(of)).map(|it| 100.0 * it);
        let ([_, alone, _], [_, watched, _]) = (percent(|it| it.0), percent(|it| it.1));
        let [least, cost, most] = percent(|it| it.1 - it.0);
        println!(
            "| {reached:.0} | {alone:.2} % | {watched:.2} % | {cost:.2} % | {least:.2} to {most:.2} % |"
        );
    }
}

/// What traces cost.
fn traced(rounds: usize, span: Duration) {
    let (collector, taken) = collect();
    let folders = [(); 3].map(|()| TempDir::new().expect("a folder"));
    let otlp = ["--otlp", &collector, "--trace-sample"];
    let servers =
        [("none", &[][..]), ("0.01", &[&otlp[..], &["0.01"]].concat()), ("1", &[&otlp[..], &["1"]].concat())];
    let servers: Vec<_> =
        servers.iter().zip(&folders).map(|((name, args), folder)| (name, serve(folder, args))).collect();
    let mut figures = vec![Vec::new(); servers.len()];
    for _ in 0..rounds {
        for ((_, (process, http, _)), figures) in servers.iter().zip(&mut figures) {
            let load = Load::start(*http, TRACED_RATE);
            let share = share(process, span);
            figures.push(1e6 * share / load.stop());
        }
    }
    println!(
        "\n{TRACED_RATE} decisions a second over HTTP; {} spans were taken\n",
        taken.load(Ordering::Relaxed)
    );
    println!("| --trace-sample | processor time of a request | dearer | half of the time within |");
    println!("|---|---|---|---|");
    for ((name, _), of_all) in servers.iter().zip(&figures) {
        let [_, each, _] = quartiles(of_all.iter().copied());
        let [least, dearer, most] = quartiles(of_all.iter().zip(&figures[0]).map(|(one, alone)| one - alone));
        println!("| {name} | {each:.1} us | {dearer:.1} us | {least:.1} to {most:.1} us |");
    }
}

/// A collector that counts the spans it takes, for as long as this runs.
fn collect() -> (String, Arc<AtomicU64>) {
    let (taken, runtime) = (Arc::new(AtomicU64::new(0)), Runtime::new().expect("a runtime"));
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("an address");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let service = TraceServiceServer::new(Collector(Arc::clone(&taken)));
    thread::spawn(move || {
        let serving = Server::builder().add_service(service).serve_with_incoming(TcpIncoming::from(listener));
        runtime.block_on(serving).expect("a collector");
    });
    (url, taken)
}

struct Collector(Arc<AtomicU64>);

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: tonic::Request<ExportTraceServiceRequest>,
    ) -> Result<tonic::Response<ExportTraceServiceResponse>, tonic::Status> {
        let scopes = request.into_inner().resource_spans.into_iter().flat_map(|it| it.scope_spans);
        let spans: usize = scopes.map(|scope| scope.spans.len()).sum();
        self.0.fetch_add(spans as u64, Ordering::Relaxed);
        Ok(tonic::Response::new(ExportTraceServiceResponse::default()))
    }
}

/// Starts the binary and waits until it says where it is.
fn serve(folder: &TempDir, args: &[&str]) -> (Process, SocketAddr, SocketAddr) {
    let rules = folder.path().join("rules.yaml");
    fs::write(&rules, RULES).expect("a file");
    let anywhere = "127.0.0.1:0";
    let process = Launch::new(env!("CARGO_BIN_EXE_tidegate"), folder.path().join("log"))
        .args(["serve", "--http", anywhere, "--grpc", anywhere, "--admin", anywhere, "--log", "json"])
        .args(["--rules".as_ref(), rules.as_os_str()])
        .args(args)
        .start();
    let place = |log: &str, name: &str| {
        let (_, rest) = log.split_once(&format!("\"{name}\":\""))?;
        rest.split('"').next()?.parse::<SocketAddr>().ok()
    };
    let (http, admin) = wait::until("it says where it is", PATIENCE, || {
        let log = process.log();
        Some((place(&log, "http")?, place(&log, "admin")?))
    });
    (process, http, admin)
}

/// How much of a core the process uses, from now on for a while.
fn share(process: &Process, span: Duration) -> f64 {
    let (start, before) = (Instant::now(), busy(process.pid()));
    thread::sleep(span);
    (busy(process.pid()) - before) / start.elapsed().as_secs_f64()
}

/// Processor time that all threads of a process have had, in seconds.
fn busy(pid: u32) -> f64 {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let nanoseconds = threads.filter_map(|thread| {
        let accounts = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        accounts.split_whitespace().next()?.parse::<f64>().ok()
    });
    nanoseconds.sum::<f64>() / 1e9
}

/// Somebody who looks on.
struct Watcher {
    stream: TcpStream,
    ticks: Arc<AtomicU64>,
    reading: Option<JoinHandle<()>>,
}

impl Watcher {
    fn open(admin: SocketAddr) -> Self {
        let mut stream = TcpStream::connect(admin).expect("the admin listener");
        let head = format!("GET /v1/events HTTP/1.1\r\nhost: {admin}\r\naccept: text/event-stream\r\n\r\n");
        stream.write_all(head.as_bytes()).expect("a request");
        let mut lines = BufReader::new(stream.try_clone().expect("a stream")).lines().map_while(Result::ok);
        let status = lines.next().unwrap_or_default();
        assert!(status.starts_with("HTTP/1.1 200"), "/v1/events cannot be read here: {status}");
        let ticks = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&ticks);
        let reading = thread::spawn(move || {
            for _ in lines.filter(|line| line == "event: tick") {
                counted.fetch_add(1, Ordering::Relaxed);
            }
        });
        Self { stream, ticks, reading: Some(reading) }
    }

    fn ticks(&self) -> u64 {
        self.ticks.load(Ordering::Relaxed)
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.stream.shutdown(Shutdown::Both).ok();
        self.reading.take().map(JoinHandle::join);
    }
}

/// Requests at a steady rate.
struct Load {
    stop: Arc<AtomicBool>,
    begun: Instant,
    clients: Vec<JoinHandle<u32>>,
}

impl Load {
    fn start(http: SocketAddr, rate: u32) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let client = |_| {
            let stop = Arc::clone(&stop);
            thread::spawn(move || send(http, rate / CLIENTS, &stop))
        };
        let clients = (0..CLIENTS).filter(|_| rate > 0).map(client).collect();
        Self { stop, begun: Instant::now(), clients }
    }

    /// Ends it, and says how many were decided a second.
    fn stop(self) -> f64 {
        self.stop.store(true, Ordering::Relaxed);
        let sent: u32 = self.clients.into_iter().map(|client| client.join().expect("a client")).sum();
        f64::from(sent) / self.begun.elapsed().as_secs_f64()
    }
}

/// Asks for decisions, each when it is due, and says how many there were.
fn send(http: SocketAddr, rate: u32, stop: &AtomicBool) -> u32 {
    let stream = TcpStream::connect(http).expect("a connection");
    stream.set_nodelay(true).expect("a socket");
    let request = format!(
        "POST /v1/check HTTP/1.1\r\nhost: {http}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{BODY}",
        BODY.len()
    );
    let (mut to, mut from) = (stream.try_clone().expect("a stream"), BufReader::new(stream));
    let (begun, mut sent) = (Instant::now(), 0);
    while !stop.load(Ordering::Relaxed) {
        let due = begun + Duration::from_secs(1) * sent / rate;
        thread::sleep(due.saturating_duration_since(Instant::now()));
        to.write_all(request.as_bytes()).expect("a request");
        skip_answer(&mut from);
        sent += 1;
    }
    sent
}

/// Reads an answer to its end.
fn skip_answer(from: &mut BufReader<TcpStream>) {
    let (mut line, mut length) = (String::new(), 0);
    while line != "\r\n" {
        line.clear();
        assert!(from.read_line(&mut line).is_ok_and(|read| read > 0), "the server hangs up");
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().expect("a length");
        }
    }
    from.read_exact(&mut vec![0; length]).expect("a body");
}

/// What a quarter is below, what half is, and what three quarters are.
fn quartiles(figures: impl Iterator<Item = f64>) -> [f64; 3] {
    let mut figures: Vec<f64> = figures.collect();
    figures.sort_by(f64::total_cmp);
    [1, 2, 3].map(|quarters| figures[(figures.len() - 1) * quarters / 4])
}

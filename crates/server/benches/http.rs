//! How much of the cost of an HTTP request is the decision?
//!
//! `POST /v1/check` beside handlers that do nothing, in one run: the same client, the same request, the same number of
//! kept-alive connections, each server on one thread of its own. Rounds alternate, so that whatever else the machine
//! does happens to all; the median counts.
//!
//! Two figures each: requests per second as seen by the client, and processor time of the server's thread per
//! request, which does not depend on how fast the client is.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use memchr::memmem;
use tidegate_server::{Config, RulesFeed, Server};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const CONNECTIONS: usize = 64;
const ROUNDS: usize = 15;
const ROUND: Duration = Duration::from_millis(500);
const WARM_UP: Duration = Duration::from_millis(300);

const RULES: &str = "
rules:
  - {rule_id: per_user, identifier_type: user_id, limit: 1000000000, window: 1h, priority: 10}
  - {rule_id: orders, identifier_type: user_id, limit: 1000000000, window: 1m, match: {path_pattern: /orders/*, methods: [GET]}}
  - {rule_id: search, identifier_type: ip_address, limit: 10, window: 1m, match: {path_pattern: /search}}
";

const BODY: &str =
    r#"{"tenant":"acme","user":"alice","resource":"/orders/7","method":"GET","ip":"203.0.113.7","cost":1}"#;

/// A server on a thread of its own.
struct Subject {
    name: &'static str,
    address: SocketAddr,
    /// Where Linux accounts for its thread; there is no such place elsewhere.
    accounts: Option<String>,
    rounds: Vec<Round>,
}

#[derive(Clone, Copy)]
struct Round {
    rate: f64,
    busy: Option<f64>,
}

fn main() {
    let mut subjects = [
        start("hyper, doing nothing", hyper_nothing),
        start("axum, doing nothing", axum_nothing),
        start("tidegate /v1/check", tidegate),
    ];
    let client = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    for round in 0..=ROUNDS {
        for subject in &mut subjects {
            let length = if round == 0 { WARM_UP } else { ROUND };
            let measured = client.block_on(measure(subject, length));
            if round > 0 {
                subject.rounds.push(measured);
            }
        }
    }
    report(&subjects);
}

fn start(name: &'static str, serve: fn(&mpsc::Sender<SocketAddr>)) -> Subject {
    let (address, bound) = mpsc::channel();
    let (thread, started) = mpsc::channel();
    thread::spawn(move || {
        let own = std::fs::read_link("/proc/thread-self").ok();
        thread.send(own.map(|own| format!("/proc/{}/schedstat", own.display()))).ok();
        serve(&address);
    });
    let accounts = started.recv().expect("a thread");
    Subject { name, address: bound.recv().expect("an address"), accounts, rounds: Vec::new() }
}

fn one_core() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

fn hyper_nothing(address: &mpsc::Sender<SocketAddr>) {
    one_core().block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        address.send(listener.local_addr().expect("an address")).ok();
        loop {
            let Ok((stream, _)) = listener.accept().await else { continue };
            stream.set_nodelay(true).ok();
            tokio::spawn(async move {
                let service = service_fn(async |_: Request<Incoming>| {
                    Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new()))
                });
                auto::Builder::new(TokioExecutor::new())
                    .serve_connection(TokioIo::new(stream), service)
                    .await
                    .ok();
            });
        }
    });
}

fn axum_nothing(address: &mpsc::Sender<SocketAddr>) {
    one_core().block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        address.send(listener.local_addr().expect("an address")).ok();
        let router = axum::Router::new().route("/v1/check", axum::routing::post(async || ()));
        axum::serve(listener, router).await.ok();
    });
}

fn tidegate(address: &mpsc::Sender<SocketAddr>) {
    one_core().block_on(async {
        let anywhere = SocketAddr::from(([127, 0, 0, 1], 0));
        let config = Config { http: anywhere, grpc: anywhere, admin: anywhere, ..Config::default() };
        let server = Server::bind(config, RulesFeed::fixed("bench", RULES)).await.expect("a server");
        address.send(server.addresses().http).ok();
        server.run(std::future::pending()).await.ok();
    });
}

async fn measure(subject: &Subject, length: Duration) -> Round {
    let busy_before = busy(subject);
    let start = Instant::now();
    let clients: Vec<_> =
        (0..CONNECTIONS).map(|_| tokio::task::spawn(client(subject.address, start + length))).collect();
    let mut requests = 0_u32;
    for client in clients {
        requests += client.await.expect("a client");
    }
    let requests = f64::from(requests);
    let rate = requests / start.elapsed().as_secs_f64();
    let busy = busy_before.zip(busy(subject)).map(|(before, after)| (after - before) / requests);
    Round { rate, busy }
}

/// Processor time the subject's thread has had, in microseconds.
fn busy(subject: &Subject) -> Option<f64> {
    let accounts = std::fs::read_to_string(subject.accounts.as_ref()?).ok()?;
    let nanos: f64 = accounts.split_whitespace().next()?.parse().ok()?;
    Some(nanos / 1e3)
}

/// Sends one request after the other and counts the answers. Written by hand so as not to be the bottleneck.
async fn client(address: SocketAddr, until: Instant) -> u32 {
    let request = format!(
        "POST /v1/check HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{BODY}",
        BODY.len()
    );
    let mut stream = TcpStream::connect(address).await.expect("a connection");
    stream.set_nodelay(true).ok();
    let mut buffer = vec![0; 4096];
    let mut count = 0;
    while Instant::now() < until {
        stream.write_all(request.as_bytes()).await.expect("a request");
        let mut filled = 0;
        while !is_whole(&buffer[..filled]) {
            let read = stream.read(&mut buffer[filled..]).await.expect("an answer");
            assert!(read > 0, "the server hung up");
            filled += read;
        }
        assert!(buffer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&buffer[..filled]));
        count += 1;
    }
    count
}

fn is_whole(answer: &[u8]) -> bool {
    let name = b"content-length: ";
    let Some(end) = memmem::find(answer, b"\r\n\r\n") else { return false };
    let digits = memmem::find(&answer[..end], name).map_or(&[][..], |start| &answer[start + name.len()..end]);
    let digits = digits.iter().take_while(|byte| byte.is_ascii_digit());
    let length = digits.fold(0, |length, digit| length * 10 + usize::from(digit - b'0'));
    answer.len() >= end + 4 + length
}

fn report(subjects: &[Subject]) {
    println!("{CONNECTIONS} connections, median of {ROUNDS} rounds of {ROUND:?}, one server thread\n");
    println!("{:<22} {:>9} {:>8} {:>11} {:>8}", "", "req/s", "of hyper", "µs CPU/req", "of hyper");
    for subject in subjects {
        let rounds = || subject.rounds.iter();
        println!(
            "{:<22} {:>9.0} {:>7.0}% {:>11.2} {:>7.0}%",
            subject.name,
            median(rounds().map(|round| round.rate)),
            100.0 * by_rate(subject, &subjects[0]),
            median(rounds().map(|round| round.busy.unwrap_or(f64::NAN))),
            100.0 * by_busy(subject, &subjects[0]),
        );
    }
    let [_, axum, check] = subjects else { return };
    println!(
        "\n/v1/check is at {:.0} % of axum doing nothing by rate, {:.0} % by processor time",
        100.0 * by_rate(check, axum),
        100.0 * by_busy(check, axum)
    );
}

/// How many times the rate of `base` a subject has; round by round, so that both saw the same machine.
fn by_rate(subject: &Subject, base: &Subject) -> f64 {
    median(subject.rounds.iter().zip(&base.rounds).map(|(own, base)| own.rate / base.rate))
}

/// The same by processor time, of which less is better.
fn by_busy(subject: &Subject, base: &Subject) -> f64 {
    let ratio =
        |(own, base): (&Round, &Round)| base.busy.zip(own.busy).map_or(f64::NAN, |(base, own)| base / own);
    median(subject.rounds.iter().zip(&base.rounds).map(ratio))
}

fn median(figures: impl Iterator<Item = f64>) -> f64 {
    let mut figures: Vec<f64> = figures.collect();
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

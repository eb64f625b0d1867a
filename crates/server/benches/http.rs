//! How much of the cost of an HTTP request is the decision?
//!
//! `POST /v1/check` beside handlers that do nothing, and beside one that reads the request's body and gives Tidegate's first answer
//! as a constant, which is HTTP's part of the cost. In one run: the same client, the same request, the same number of
//! kept-alive connections, each server on one thread of its own. Rounds alternate, so that whatever else the machine
//! does happens to all; the median counts.
//!
//! `cargo bench -p tidegate-server --bench http -- NAME ROUNDS` measures only contestants with NAME in theirs, for so many rounds.
//!
//! Two figures each: requests per second as seen by the client, and processor time of the server's thread per
//! request, which does not depend on how fast the client is.

use std::convert::Infallible;
use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::sync::{OnceLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use http_body_util::{BodyExt as _, Empty, Full};
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

/// Response of [`hyper_constant`].
static ANSWER: OnceLock<Answer> = OnceLock::new();

/// An answer to the request, as it came over the wire.
struct Answer {
    headers: HeaderMap,
    body: Bytes,
}

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
    // Cargo adds an option of its own.
    let mut options = std::env::args().skip(1).filter(|option| !option.starts_with("--"));
    let name = options.next().unwrap_or_default();
    let rounds = options.next().map_or(ROUNDS, |rounds| rounds.parse().expect("a number of rounds"));
    let check = start("tidegate /v1/check", tidegate);
    ANSWER.get_or_init(|| answer(check.address));
    let subjects = [
        start("hyper, doing nothing", hyper_nothing),
        start("hyper, a constant", hyper_constant),
        start("axum, doing nothing", axum_nothing),
        check,
    ];
    let mut subjects: Vec<_> = subjects.into_iter().filter(|subject| subject.name.contains(&name)).collect();
    let client = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    for round in 0..=rounds {
        for subject in &mut subjects {
            let length = if round == 0 { WARM_UP } else { ROUND };
            let measured = client.block_on(measure(subject, length));
            if round > 0 {
                subject.rounds.push(measured);
            }
        }
    }
    report(&subjects, rounds);
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

/// Reads what it is asked, and answers with Tidegate's first answer.
fn hyper_constant(address: &mpsc::Sender<SocketAddr>) {
    let answer = ANSWER.get().expect("an answer");
    one_core().block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        address.send(listener.local_addr().expect("an address")).ok();
        loop {
            let Ok((stream, _)) = listener.accept().await else { continue };
            stream.set_nodelay(true).ok();
            tokio::spawn(async move {
                let service = service_fn(async |request: Request<Incoming>| {
                    let (parts, mut body) = request.into_parts();
                    while let Some(piece) = body.frame().await {
                        piece?;
                    }
                    let mut response = Response::new(Full::new(answer.body.clone()));
                    // As cheap as can be: the request's map has the memory for it.
                    *response.headers_mut() = parts.headers;
                    response.headers_mut().clear();
                    for (name, value) in &answer.headers {
                        response.headers_mut().insert(name, value.clone());
                    }
                    Ok::<_, hyper::Error>(response)
                });
                let mut http = auto::Builder::new(TokioExecutor::new());
                http.http1().writev(false);
                http.serve_connection(TokioIo::new(stream), service).await.ok();
            });
        }
    });
}

/// Asks once, and returns what is answered but for the headers that hyper writes.
fn answer(address: SocketAddr) -> Answer {
    let mut stream = std::net::TcpStream::connect(address).expect("a connection");
    stream.write_all(request().as_bytes()).expect("a request");
    let (mut answer, mut buffer) = (Vec::new(), [0; 4096]);
    while !is_whole(&answer) {
        let read = stream.read(&mut buffer).expect("an answer");
        assert!(read > 0, "the server hung up");
        answer.extend_from_slice(&buffer[..read]);
    }
    let answer = String::from_utf8(answer).expect("a text");
    let (head, body) = answer.split_once("\r\n\r\n").expect("an answer");
    let headers = head.lines().skip(1).filter_map(|line| line.split_once(": "));
    let headers =
        headers.filter(|(name, _)| !["content-length", "date"].contains(name)).map(|(name, value)| {
            let name = HeaderName::from_bytes(name.as_bytes()).expect("a name");
            (name, HeaderValue::from_str(value).expect("a value"))
        });
    Answer { headers: headers.collect(), body: Bytes::copy_from_slice(body.as_bytes()) }
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

fn request() -> String {
    format!(
        "POST /v1/check HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{BODY}",
        BODY.len()
    )
}

/// Sends one request after the other and counts the answers. Written by hand so as not to be the bottleneck.
async fn client(address: SocketAddr, until: Instant) -> u32 {
    let request = request();
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

fn report(subjects: &[Subject], rounds: usize) {
    let Some(base) = subjects.first() else { return };
    println!("{CONNECTIONS} connections, median of {rounds} rounds of {ROUND:?}, one server thread\n");
    println!("{:<22} {:>9} {:>8} {:>11} {:>8}", "", "req/s", "of first", "µs CPU/req", "of first");
    for subject in subjects {
        let rounds = || subject.rounds.iter();
        println!(
            "{:<22} {:>9.0} {:>7.0}% {:>11.2} {:>7.0}%",
            subject.name,
            median(rounds().map(|round| round.rate)),
            100.0 * by_rate(subject, base),
            median(rounds().map(|round| round.busy.unwrap_or(f64::NAN))),
            100.0 * by_busy(subject, base),
        );
    }
    let [_, constant, axum, check] = subjects else { return };
    println!();
    for (other, name) in [(constant, "hyper with a constant"), (axum, "axum doing nothing")] {
        println!(
            "/v1/check is at {:.0} % of {name} by rate, {:.0} % by processor time",
            100.0 * by_rate(check, other),
            100.0 * by_busy(check, other)
        );
    }
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

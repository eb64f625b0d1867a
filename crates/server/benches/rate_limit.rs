//! How much of the cost of a gRPC call is the decision?
//!
//! `ShouldRateLimit` beside servers that answer with a constant, in one run: the same client, the same question, each
//! server on one thread of its own that has a core to itself; the client, and Redis where there is one, have the other.
//! Rounds alternate, so that whatever else the machine does happens to all; medians count.
//!
//! The client is `h2load`: one connection with so many calls at once. It writes down how long each took.

use std::convert::Infallible;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::pin::Pin;
use std::process::{Command, Stdio};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use prost::Message;
use tempfile::TempDir;
use tidegate_redis::RedisStore;
use tidegate_server::{Config, RulesFeed, Server, SharedStore};
use tidegate_testkit::Redis;
use tidegate_wire::grpc::protobuf::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use tidegate_wire::grpc::protobuf::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::Entry;
use tidegate_wire::grpc::protobuf::envoy::service::ratelimit::v3::rate_limit_response::Code;
use tidegate_wire::grpc::protobuf::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
use tokio::net::TcpListener;
use tonic::service::Routes;
use tonic_prost::ProstCodec;
use tower::ServiceExt;

const CALLS_AT_ONCE: [usize; 3] = [1, 16, 64];
const ROUNDS: usize = 5;
const ROUND: &str = "1";

const SERVER_CORE: &str = "0";
const CLIENT_CORE: &str = "1";

const CALL: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

const RULES: &str = "
domain: edge
descriptors:
  - {key: remote_address, rate_limit: {unit: hour, requests_per_unit: 4294967295}}
";

/// A server on a thread of its own.
struct Subject {
    name: &'static str,
    address: SocketAddr,
    accounts: String,
    /// By how many calls at once.
    rounds: [Vec<Round>; CALLS_AT_ONCE.len()],
}

#[derive(Clone, Copy)]
struct Round {
    rate: f64,
    busy: f64,
    p50: f64,
    p99: f64,
}

fn main() {
    on_core(SERVER_CORE);
    let redis = Redis::start();
    pin(redis.pid(), CLIENT_CORE);
    let url = redis.url();
    let folder = TempDir::new().expect("a folder");
    let question = folder.path().join("question");
    std::fs::write(&question, framed(&question_message())).expect("a file");
    let mut subjects = [
        start("hyper, a constant", constant_by_hyper),
        start("tonic, a constant", constant_by_tonic),
        start("tidegate, memory", |address| tidegate(address, None)),
        start("tidegate, Redis", move |address| tidegate(address, Some(&url))),
    ];
    for round in 0..=ROUNDS {
        for subject in &mut subjects {
            for (index, calls) in CALLS_AT_ONCE.into_iter().enumerate() {
                let measured = measure(subject, calls, &question, folder.path());
                // The first round is for warming up.
                if round > 0 {
                    subject.rounds[index].push(measured);
                }
            }
        }
    }
    report(&subjects);
}

fn question_message() -> Vec<u8> {
    let entry = Entry { key: "remote_address".to_owned(), value: "203.0.113.7".to_owned() };
    let descriptor = RateLimitDescriptor { entries: vec![entry], ..RateLimitDescriptor::default() };
    RateLimitRequest { domain: "edge".to_owned(), descriptors: vec![descriptor], hits_addend: 0 }
        .encode_to_vec()
}

fn answer_message() -> RateLimitResponse {
    RateLimitResponse { overall_code: Code::Ok.into(), ..RateLimitResponse::default() }
}

fn framed(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).expect("a short message").to_be_bytes();
    [&[0][..], &length, message].concat()
}

/// Keeps all threads of this process, and those to come, on a core.
fn on_core(core: &str) {
    taskset(&["-a", "-c", "-p", core, &std::process::id().to_string()]);
}

fn pin(process: u32, core: &str) {
    taskset(&["-a", "-c", "-p", core, &process.to_string()]);
}

fn taskset(args: &[&str]) {
    let done = Command::new("taskset").args(args).stdout(Stdio::null()).status();
    assert!(done.is_ok_and(|status| status.success()), "taskset is not there; apt-get install util-linux");
}

fn start(name: &'static str, serve: impl FnOnce(&mpsc::Sender<SocketAddr>) + Send + 'static) -> Subject {
    let (address, bound) = mpsc::channel();
    let (thread, started) = mpsc::channel();
    thread::spawn(move || {
        let own = std::fs::read_link("/proc/thread-self").expect("Linux");
        thread.send(format!("/proc/{}/schedstat", own.display())).ok();
        serve(&address);
    });
    let accounts = started.recv().expect("a thread");
    let rounds = std::array::from_fn(|_| Vec::new());
    Subject { name, address: bound.recv().expect("an address"), accounts, rounds }
}

fn one_core() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

/// A message, a status, the end.
struct Constant(Option<Bytes>, bool);

impl Body for Constant {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let Some(bytes) = self.0.take() {
            return Poll::Ready(Some(Ok(Frame::data(bytes))));
        }
        if std::mem::replace(&mut self.1, true) {
            return Poll::Ready(None);
        }
        let status = (http::HeaderName::from_static("grpc-status"), HeaderValue::from_static("0"));
        Poll::Ready(Some(Ok(Frame::trailers(HeaderMap::from_iter([status])))))
    }
}

/// What is the least a call can cost: the question is received and not read.
fn constant_by_hyper(address: &mpsc::Sender<SocketAddr>) {
    let answer = Bytes::from(framed(&answer_message().encode_to_vec()));
    serve(address, move |request: Request<Incoming>| {
        let answer = answer.clone();
        async move {
            request.into_body().collect().await.ok();
            let mut response = Response::new(Constant(Some(answer), false));
            let grpc = HeaderValue::from_static("application/grpc");
            response.headers_mut().insert(http::header::CONTENT_TYPE, grpc);
            Ok::<_, Infallible>(response)
        }
    });
}

/// The usual framework: the question is read and the answer written by it.
fn constant_by_tonic(address: &mpsc::Sender<SocketAddr>) {
    let router = Routes::new(ConstantService).prepare().into_axum_router();
    serve(address, move |request| router.clone().oneshot(request));
}

fn serve<F, B, E>(
    address: &mpsc::Sender<SocketAddr>,
    handler: impl Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
) where
    F: Future<Output = Result<Response<B>, E>> + Send + 'static,
    B: Body<Data = Bytes, Error: std::error::Error + Send + Sync> + Send + 'static,
    E: std::error::Error + Send + Sync + 'static,
{
    one_core().block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        address.send(listener.local_addr().expect("an address")).ok();
        loop {
            let Ok((stream, _)) = listener.accept().await else { continue };
            stream.set_nodelay(true).ok();
            let handler = handler.clone();
            tokio::spawn(async move {
                let mut http = auto::Builder::new(TokioExecutor::new()).http2_only();
                http.http2().auto_date_header(false);
                http.serve_connection(TokioIo::new(stream), service_fn(handler)).await.ok();
            });
        }
    });
}

#[derive(Clone)]
struct ConstantService;

impl tonic::server::NamedService for ConstantService {
    const NAME: &'static str = "envoy.service.ratelimit.v3.RateLimitService";
}

impl tonic::server::UnaryService<RateLimitRequest> for ConstantService {
    type Response = RateLimitResponse;
    type Future = std::future::Ready<Result<tonic::Response<RateLimitResponse>, tonic::Status>>;

    fn call(&mut self, _: tonic::Request<RateLimitRequest>) -> Self::Future {
        std::future::ready(Ok(tonic::Response::new(answer_message())))
    }
}

impl<B> tower::Service<Request<B>> for ConstantService
where
    B: Body<Data: Send, Error: Into<Box<dyn std::error::Error + Send + Sync>> + Send> + Send + 'static,
{
    type Response = Response<tonic::body::Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        Box::pin(async move {
            let codec: ProstCodec<RateLimitResponse, RateLimitRequest> = ProstCodec::default();
            Ok(tonic::server::Grpc::new(codec).unary(Self, request).await)
        })
    }
}

fn tidegate(address: &mpsc::Sender<SocketAddr>, redis: Option<&str>) {
    one_core().block_on(async {
        let anywhere = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut config = Config { http: anywhere, grpc: anywhere, admin: anywhere, ..Config::default() };
        if let Some(url) = redis {
            let store = Arc::new(RedisStore::builder(url.parse().expect("a URL")).start().expect("a store"));
            store.ready().await;
            config.store = Some(SharedStore::new("redis", store));
            // This is about speed; lateness has its own figure.
            config.store_timeout = Duration::from_secs(1);
        }
        let server = Server::bind(config, RulesFeed::fixed("bench", RULES)).await.expect("a server");
        address.send(server.addresses().grpc).ok();
        server.run(std::future::pending()).await.ok();
    });
}

fn measure(subject: &Subject, calls: usize, question: &Path, folder: &Path) -> Round {
    // Writing down how long each call took slows the client down, so that is done apart.
    let before = busy(subject);
    let said = load(subject, calls, question, None);
    let busy = busy(subject) - before;
    // `requests: 61234 total, 61234 started, 61234 done, 61234 succeeded, …`
    let count: f64 = said
        .lines()
        .find_map(|line| line.strip_prefix("requests: ")?.split(", ").nth(3)?.split(' ').next()?.parse().ok())
        .expect("how many were answered");
    let log = folder.join("log");
    std::fs::remove_file(&log).ok();
    load(subject, calls, question, Some(&log));
    // Start in microseconds, HTTP status, duration in microseconds.
    let log = std::fs::read_to_string(&log).expect("what h2load wrote down");
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
    Round { rate: count, busy: busy / count, p50: percentile(50), p99: percentile(99) }
}

/// Asks for a second; answers with what h2load says of it.
fn load(subject: &Subject, calls: usize, question: &Path, log: Option<&Path>) -> String {
    let mut load = Command::new("taskset");
    load.args(["-c", CLIENT_CORE, "h2load", "-c", "1", "-t", "1", "-D", ROUND, "-m", &calls.to_string()]);
    load.arg("-d").arg(question).args(["-H", "content-type: application/grpc", "-H", "te: trailers"]);
    if let Some(log) = log {
        load.arg("--log-file").arg(log);
    }
    load.arg(format!("http://{}{CALL}", subject.address));
    let done = load.output().expect("taskset");
    assert!(done.status.success(), "h2load is not there; apt-get install nghttp2-client");
    String::from_utf8_lossy(&done.stdout).into_owned()
}

/// Processor time the subject's thread has had, in microseconds.
fn busy(subject: &Subject) -> f64 {
    let accounts = std::fs::read_to_string(&subject.accounts).expect("accounts");
    let nanos: f64 =
        accounts.split_whitespace().next().and_then(|nanos| nanos.parse().ok()).expect("a number");
    nanos / 1e3
}

fn report(subjects: &[Subject; 4]) {
    println!(
        "One connection, median of {ROUNDS} rounds of {ROUND} s, one server thread on a core of its own\n"
    );
    for (index, calls) in CALLS_AT_ONCE.into_iter().enumerate() {
        let plural = if calls == 1 { "call" } else { "calls" };
        println!(
            "{:<22} {:>9} {:>8} {:>8} {:>8} {:>8} {:>11}",
            format!("{calls} {plural} at once"),
            "req/s",
            "of hyper",
            "of tonic",
            "p50 µs",
            "p99 µs",
            "µs CPU/req"
        );
        for subject in subjects {
            let figure = |of: fn(&Round) -> f64| median(subject.rounds[index].iter().map(of));
            let mut line = format!("{:<22} {:>9.0}", subject.name, figure(|round| round.rate));
            for base in &subjects[..2] {
                let ratio = subject.rounds[index].iter().zip(&base.rounds[index]);
                let ratio = median(ratio.map(|(own, base)| own.rate / base.rate));
                write!(line, " {:>7.0}%", 100.0 * ratio).ok();
            }
            let (p50, p99) = (figure(|round| round.p50), figure(|round| round.p99));
            println!("{line} {p50:>8.0} {p99:>8.0} {:>11.2}", figure(|round| round.busy));
        }
        println!();
    }
}

fn median(figures: impl Iterator<Item = f64>) -> f64 {
    let mut figures: Vec<f64> = figures.collect();
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

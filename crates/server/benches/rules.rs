//! How long until a change of rules is enforced, how long it takes to load many, and what a swap costs requests?
//!
//! Each source is a real server on this machine; nodes are in this process, and are asked over real connections.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Request, header};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use tidegate::Limiter;
use tidegate_rules::{Source, load};
use tidegate_server::{Config, RulesFeed, Server};
use tidegate_sources::{
    Author, Change, EtcdArchive, EtcdSource, Event, FileArchive, FileSource, Guard, PostgresArchive,
    PostgresSource, RuleBook, RuleSource, Subject, Wish, ZookeeperArchive, ZookeeperSource,
};
use tidegate_testkit::{Etcd, Postgres, Zookeeper};
use tokio::net::TcpStream;

const CHANGES: u64 = 100;
const FEW: u64 = 1_000;
const MANY: u64 = 10_000;
const LOAD: Duration = Duration::from_secs(3);

/// How to read and to write the rules of a source.
struct Subjected {
    name: &'static str,
    source: Box<dyn Fn() -> Box<dyn RuleSource>>,
    book: RuleBook,
    /// The one document that holds all rules, if not each has its own.
    document: Option<&'static str>,
}

/// A source behind a box is one, too.
struct Boxed(Box<dyn RuleSource>);

impl RuleSource for Boxed {
    fn next(&mut self) -> tidegate_sources::Next<'_> {
        self.0.next()
    }
}

fn main() {
    let folder = tempfile::tempdir().expect("a folder");
    let (etcd, zookeeper, postgres) = (Etcd::start(), Zookeeper::start(), Postgres::start());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let path = folder.path().join("rules.yaml");
    let etcd_url = format!("etcd://{}/bench", etcd.address());
    let zookeeper_url = format!("zookeeper://{}/bench", zookeeper.address());
    let postgres_url = postgres.url();
    runtime.block_on(async {
        let tables = PostgresArchive::new(postgres_url.parse().expect("an URL"));
        tables.init().await.expect("tables");
        let subjects = [
            Subjected {
                name: "file",
                book: RuleBook::new(Arc::new(FileArchive::new(&path))),
                document: Some("rules.yaml"),
                source: Box::new(move || Box::new(FileSource::new(&path))),
            },
            Subjected {
                name: "etcd",
                document: None,
                book: RuleBook::new(Arc::new(EtcdArchive::new(etcd_url.parse().expect("an URL")))),
                source: Box::new(move || Box::new(EtcdSource::new(etcd_url.parse().expect("an URL")))),
            },
            Subjected {
                name: "ZooKeeper",
                document: None,
                book: RuleBook::new(Arc::new(ZookeeperArchive::new(zookeeper_url.parse().expect("an URL")))),
                source: Box::new(move || {
                    Box::new(ZookeeperSource::new(zookeeper_url.parse().expect("an URL")))
                }),
            },
            Subjected {
                name: "PostgreSQL",
                document: None,
                book: RuleBook::new(Arc::new(tables)),
                source: Box::new(move || {
                    Box::new(PostgresSource::new(postgres_url.parse().expect("an URL")))
                }),
            },
        ];
        println!("{CHANGES} changes      write p50   p99    write to enforced p50      p99   (milliseconds)");
        for subject in &subjects {
            until_enforced(subject).await;
        }
        println!("\nOne file             {FEW} rules   {MANY} rules    ratio   (milliseconds)");
        by_number().await;
        println!("\n{MANY} rules      written        read    compiled   (milliseconds)");
        for subject in &subjects {
            loading(subject).await;
        }
    });
    swapping();
}

fn rule(id: &str, limit: u64) -> String {
    format!(
        "{{rule_id: {id}, identifier_type: user_id, limit: {limit}, window: 1h, match: {{path_pattern: /{id}}}}}"
    )
}

fn put(id: &str, limit: u64) -> Change {
    Change { subject: Subject::Rule(id.to_owned()), wish: Wish::Put(rule(id, limit)), guard: Guard::Any }
}

fn author() -> Author {
    Author { name: "bench".to_owned(), at_ms: 0 }
}

/// Changes a rule again and again, and asks a node until it goes by it.
async fn until_enforced(subject: &Subjected) {
    subject.book.change(vec![put("one", 1)], &author()).await.expect("a change");
    let anywhere = SocketAddr::from(([127, 0, 0, 1], 0));
    let config = Config { http: anywhere, grpc: anywhere, admin: anywhere, ..Config::default() };
    let feed = RulesFeed::watch(Boxed((subject.source)()));
    let server = Server::bind(config, feed).await.expect("a server");
    let mut client = connect(server.addresses().http).await;
    let running = tokio::spawn(server.run(std::future::pending()));
    let (mut written, mut enforced) = (Vec::new(), Vec::new());
    for limit in 2..2 + CHANGES {
        let begun = Instant::now();
        subject.book.change(vec![put("one", limit)], &author()).await.expect("a change");
        written.push(begun.elapsed());
        while !answer(&mut client).await.contains(&format!("\"limit\":{limit},")) {}
        enforced.push(begun.elapsed());
    }
    running.abort();
    let [w50, w99] = percentiles(&mut written, [500, 990]);
    let [e50, e99] = percentiles(&mut enforced, [500, 990]);
    println!("{:<12} {w50:13.1} {w99:7.1} {e50:18.1} {e99:12.1}", subject.name);
}

async fn connect(to: SocketAddr) -> SendRequest<Full<Bytes>> {
    let stream = TcpStream::connect(to).await.expect("a connection");
    let (sender, connection) = handshake(TokioIo::new(stream)).await.expect("HTTP");
    tokio::spawn(connection);
    sender
}

async fn answer(client: &mut SendRequest<Full<Bytes>>) -> String {
    let body = Full::new(Bytes::from_static(br#"{"user":"a","resource":"/one","cost":0}"#));
    let request = Request::post("/v1/check").header(header::HOST, "127.0.0.1").body(body).expect("a request");
    ask(client, request).await
}

async fn ask(client: &mut SendRequest<Full<Bytes>>, request: Request<Full<Bytes>>) -> String {
    client.ready().await.expect("a connection");
    let answer = client.send_request(request).await.expect("an answer");
    let bytes = answer.into_body().collect().await.expect("a body").to_bytes();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Does with few and with many rules in one file what administrators do: ten times the rules are to take ten times as long.
async fn by_number() {
    let (few, many) = (administer(FEW).await, administer(MANY).await);
    for ((name, few), (_, many)) in few.into_iter().zip(many) {
        println!("{name:<20} {few:10.1} {many:13.1} {:8.1}", many / few);
    }
}

async fn administer(number: u64) -> Vec<(&'static str, f64)> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("rules.yaml");
    let text: String =
        (0..number).map(|number| format!("- {}\n", rule(&format!("r{number}"), 10 + number))).collect();
    std::fs::write(&path, &text).expect("a file");
    let book = RuleBook::new(Arc::new(FileArchive::new(&path)));
    let last = Subject::Rule(format!("r{}", number - 1));
    let mut times = Vec::new();
    let begun = Instant::now();
    load(&[Source { name: "rules", text: &text }], 1).expect("rules");
    times.push(("validate", milliseconds(begun.elapsed())));
    let begun = Instant::now();
    book.documents().await.expect("documents");
    times.push(("documents", milliseconds(begun.elapsed())));
    let begun = Instant::now();
    book.list().await.expect("rules");
    times.push(("list rules", milliseconds(begun.elapsed())));
    let begun = Instant::now();
    book.get(&last).await.expect("a rule");
    times.push(("get a rule", milliseconds(begun.elapsed())));
    let begun = Instant::now();
    book.change(vec![put("r0", 1)], &author()).await.expect("a change");
    times.push(("put a rule", milliseconds(begun.elapsed())));
    times.extend(over_http(&path, book).await);
    times
}

/// Has a node list the rules of a file to an administrator.
async fn over_http(path: &Path, book: RuleBook) -> Vec<(&'static str, f64)> {
    let anywhere = SocketAddr::from(([127, 0, 0, 1], 0));
    let config = Config { http: anywhere, grpc: anywhere, admin: anywhere, ..Config::default() };
    let feed = RulesFeed::watch(FileSource::new(path)).with_book(book);
    let server = Server::bind(config, feed).await.expect("a server");
    let mut client = connect(server.addresses().admin).await;
    let running = tokio::spawn(server.run(std::future::pending()));
    let mut times = Vec::new();
    for (name, path) in [("GET /v1/documents", "/v1/documents"), ("GET /v1/rules", "/v1/rules")] {
        let mut rounds = Vec::new();
        for _ in 0..5 {
            let request = Request::get(path).header(header::HOST, "127.0.0.1");
            let begun = Instant::now();
            let answer = ask(&mut client, request.body(Full::default()).expect("a request")).await;
            rounds.push(begun.elapsed());
            assert!(answer.contains("r999"), "all rules are listed: {answer:.200}");
        }
        let [median] = percentiles(&mut rounds, [500]);
        times.push((name, median));
    }
    running.abort();
    times
}

/// Writes many rules, and reads and compiles them as a node that starts does.
async fn loading(subject: &Subjected) {
    let id = |number: u64| format!("r{number}");
    let many: Vec<Change> = match subject.document {
        None => (0..MANY).map(|number| put(&id(number), 10 + number)).collect(),
        Some(name) => {
            let rules = (0..=MANY).map(|number| format!("- {}\n", rule(&id(number), 10 + number)));
            let subject = Subject::Document(name.to_owned());
            vec![Change { subject, wish: Wish::Put(rules.collect()), guard: Guard::Any }]
        }
    };
    let begun = Instant::now();
    subject.book.change(many, &author()).await.expect("changes");
    let written = begun.elapsed();
    let begun = Instant::now();
    let mut source = (subject.source)();
    let snapshot = match source.next().await {
        Event::Loaded(snapshot) => snapshot,
        Event::Failed(why) => return println!("{:<12} {why}", subject.name),
    };
    let read = begun.elapsed();
    let begun = Instant::now();
    let texts: Vec<Source<'_>> =
        snapshot.documents.iter().map(|document| document.as_source().expect("a text")).collect();
    let rules = load(&texts, 1).expect("rules");
    assert_eq!(rules.len() as u64, MANY + 1);
    println!(
        "{:<12} {:12.0} {:11.0} {:11.0}",
        subject.name,
        milliseconds(written),
        milliseconds(read),
        milliseconds(begun.elapsed())
    );
}

/// Decides without a pause while many rules are swapped ten times a second, and while they are not.
fn swapping() {
    let texts: Vec<String> = (0..2)
        .map(|other| {
            let rules =
                (0..MANY).map(|number| format!("- {}\n", rule(&format!("r{number}"), 1_000_000_000 + other)));
            rules.collect()
        })
        .collect();
    let compile = |text: &str| load(&[Source { name: "rules", text }], 1).expect("rules");
    let limiter = Limiter::new(compile(&texts[0])).expect("a limiter");
    println!("\nOne core deciding, {MANY} rules    decisions/s   p50      p99.9   longest   (microseconds)");
    for swaps in [false, true] {
        let done = AtomicBool::new(false);
        let mut count = 0;
        let times = thread::scope(|scope| {
            let deciding = scope.spawn(|| decide(&limiter, &done));
            let begun = Instant::now();
            while begun.elapsed() < LOAD {
                if swaps {
                    count += 1;
                    limiter.set_rules(compile(&texts[count % 2])).expect("counters are in memory");
                }
                thread::sleep(Duration::from_millis(100));
            }
            done.store(true, Ordering::Relaxed);
            deciding.join().expect("decisions")
        });
        let rate = times.len() as f64 / LOAD.as_secs_f64();
        let mut times = times;
        let [p50, p999, longest] = percentiles(&mut times, [500, 999, 1000]).map(|time| time * 1000.0);
        let name = if swaps { format!("{count} swaps") } else { "no swap".to_owned() };
        println!("{name:<32} {rate:11.0} {p50:8.2} {p999:9.2} {longest:9.1}");
    }
}

fn decide(limiter: &Limiter, done: &AtomicBool) -> Vec<Duration> {
    let request = tidegate::Request { user: Some("alice"), ..tidegate::Request::new("/r77") };
    // Room for all of it: growing would take longer than what is measured.
    let mut times = Vec::with_capacity(40_000_000);
    while !done.load(Ordering::Relaxed) && times.len() < times.capacity() {
        let begun = Instant::now();
        std::hint::black_box(limiter.try_check(&request).is_ok());
        times.push(begun.elapsed());
    }
    times
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// What so many of a thousand stay below.
fn percentiles<const N: usize>(times: &mut [Duration], of_a_thousand: [usize; N]) -> [f64; N] {
    times.sort_unstable();
    of_a_thousand.map(|share| milliseconds(times[(times.len() - 1) * share / 1000]))
}

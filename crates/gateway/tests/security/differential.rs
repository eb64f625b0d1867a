//! The gateway beside nginx and Envoy: what it forwards, they forward as the same requests, or they refuse it.
//!
//! Requests are put together from pieces by a fixed seed. Each goes to all three, which have a back end each that notes what it is
//! asked. A request that two of them read differently has to be refused by the gateway: whoever is in front of it or behind it may
//! be one of the others.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tidegate_core::Path;
use tidegate_testkit::ReverseProxy;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::mutations::Numbers;
use crate::support::Setup;

const CASES: usize = 3_000;

/// How long nothing may come from a proxy that waits for more of a body. Too short a time only makes a list of requests end early.
const SILENCE: Duration = Duration::from_millis(500);

const METHODS: &[&str] = &["GET", "GET", "POST", "POST", "PUT", "OPTIONS", "DELETE", "BREW"];

/// `ID` is the case's own.
const TARGETS: &[&[u8]] = &[
    b"/ID/a",
    b"/ID/a",
    b"/ID/a",
    b"/ID/a?b=c",
    b"/ID/a?b=%zz%00",
    b"/ID/a/",
    b"/ID//a",
    b"/ID/x/../a",
    b"/ID/x/%2e%2e/a",
    b"/ID/./a",
    b"/ID/a%2fb",
    b"/ID/a%5cb",
    b"/ID/a\\b",
    b"/ID/a%252fb",
    b"/ID/a;b=c",
    b"/ID/..;/a",
    b"/ID/caf%c3%a9",
    b"/ID/caf\xc3\xa9",
    b"/ID/caf%e9",
    b"/ID/caf\xe9",
    b"/ID/%c0%af",
    b"/ID/%00",
    b"/ID/%zz",
    b"/ID/a#b",
    b"/ID/a b",
    b"/ID/a\tb",
    b"//ID/a",
    b"ID/a",
    b"http://other.example/ID/a",
    b"HTTP://Other.example:80/ID/a",
    b"https://other.example/ID/a",
    b"http://user@other.example/ID/a",
    b"http:///ID/a",
    b"ftp://other.example/ID/a",
];

const VERSIONS: &[&str] = &[
    "HTTP/1.1",
    "HTTP/1.1",
    "HTTP/1.1",
    "HTTP/1.1",
    "HTTP/1.0",
    "HTTP/1.2",
    "HTTP/2.0",
    "http/1.1",
    "HTTP/1.1 ",
];

const HOSTS: &[&str] = &[
    "host: api.example",
    "host: api.example",
    "host: api.example",
    "Host: API.example",
    "host: api.example:8080",
    "host: api.example.",
    "host: api.example\r\nhost: api.example",
    "host: api.example\r\nhost: other.example",
    "host: api.example, other.example",
    "host: user@api.example",
    "host: api.example/x",
    "host: api example",
    "host: ",
    "host:api.example",
    "host : api.example",
    "x-host: api.example",
];

const MORE: &[&str] = &[
    "x-a: b",
    "x-a: b",
    "x-a: b",
    "x-a:",
    "x-a: b\r\n c",
    " x-a: b",
    "x a: b",
    "x-a : b",
    ": b",
    "x-a",
    "x-a: b\x0bc",
    "x-a: b\0c",
    "x-a: b\rc",
    "x-a: b\nx-c: d",
    "x-a: b\ncontent-length: 5",
    "connection: content-length",
    "connection: transfer-encoding, host",
    "expect: 100-nonsense",
];

/// How a body is framed, and the body: `SMUGGLED` is a request.
const BODIES: &[(&str, &str)] = &[
    ("x-body: none", ""),
    ("x-body: none", ""),
    ("content-length: 5", "hello"),
    ("content-length: 5", "hello"),
    ("Content-Length:5", "hello"),
    ("content-length: 5 ", "hello"),
    ("content-length: 05", "hello"),
    ("content-length: +5", "hello"),
    ("content-length: 5.0", "hello"),
    ("content-length: 0x5", "hello"),
    ("content-length: 5, 5", "hello"),
    ("content-length: 5\r\ncontent-length: 5", "hello"),
    ("content-length: 5\r\ncontent-length: 05", "hello"),
    ("content-length: 5\r\ncontent-length: 0", "hello"),
    ("content-length: 0\r\ncontent-length: 5", "hello"),
    ("content-length: 9223372036854775808", "hello"),
    ("content-length: 18446744073709551621", "hello"),
    ("content-length : 5", "hello"),
    ("content_length: 5", ""),
    ("content-length: 0", "SMUGGLED"),
    ("transfer-encoding: chunked", "5\r\nhello\r\n0\r\n\r\n"),
    ("transfer-encoding: chunked", "5\r\nhello\r\n0\r\n\r\n"),
    ("Transfer-Encoding: Chunked", "05;a=b\r\nhello\r\n0\r\n\r\n"),
    ("transfer-encoding: chunked", "5\r\nhello\r\n0\r\nx-t: u\r\n\r\n"),
    ("transfer-encoding: chunked", "5\nhello\n0\n\n"),
    ("transfer-encoding: chunked", "5 \r\nhello\r\n0\r\n\r\n"),
    ("transfer-encoding: chunked", "0x5\r\nhello\r\n0\r\n\r\n"),
    ("transfer-encoding: chunked", "-5\r\nhello\r\n0\r\n\r\n"),
    ("transfer-encoding: chunked", "3\r\nhello\r\n0\r\n\r\n"),
    ("transfer-encoding: chunked", "0\r\n\r\nSMUGGLED"),
    ("transfer-encoding: chunked, chunked", "5\r\nhello\r\n0\r\n\r\n"),
    ("transfer-encoding: chunked\r\ntransfer-encoding: chunked", "5\r\nhello\r\n0\r\n\r\n"),
    ("transfer-encoding: gzip, chunked", "5\r\nhello\r\n0\r\n\r\n"),
    ("transfer-encoding: identity", "SMUGGLED"),
    ("transfer-encoding: xchunked", "SMUGGLED"),
    ("transfer-encoding: \x0bchunked", "0\r\n\r\nSMUGGLED"),
    ("transfer-encoding:\r\n chunked", "0\r\n\r\nSMUGGLED"),
    ("transfer-encoding : chunked", "0\r\n\r\nSMUGGLED"),
    ("transfer_encoding: chunked", ""),
    ("transfer-encoding: \"chunked\"", "0\r\n\r\nSMUGGLED"),
    ("transfer-encoding: chunked\r\ncontent-length: 5", "0\r\n\r\nSMUGGLED"),
    ("content-length: 5\r\ntransfer-encoding: chunked", "0\r\n\r\nSMUGGLED"),
    ("content-length: 5\r\ntransfer-encoding: identity", "helloSMUGGLED"),
];

/// A request as a back end has it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Heard {
    method: String,
    host: String,
    path: String,
    body: Vec<u8>,
}

/// What the back end of a proxy is asked, by case.
#[derive(Clone)]
struct Recorder {
    address: SocketAddr,
    heard: Arc<Mutex<BTreeMap<usize, Vec<Heard>>>>,
}

impl Recorder {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let recorder = Self { address: listener.local_addr().unwrap(), heard: Arc::default() };
        let shared = recorder.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(shared.clone().serve(stream));
            }
        });
        recorder
    }

    async fn serve(self, mut stream: TcpStream) {
        let mut got = Vec::new();
        while stream.read_buf(&mut got).await.is_ok_and(|read| read > 0) {
            if let Some((id, heard)) = understand(&got) {
                self.heard.lock().entry(id).or_default().push(heard);
                stream
                    .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
                    .await
                    .ok();
                return;
            }
        }
    }

    fn of(&self, id: usize) -> Vec<Heard> {
        self.heard.lock().get(&id).cloned().unwrap_or_default()
    }
}

/// Reads what a proxy has written, if all of it is there.
fn understand(bytes: &[u8]) -> Option<(usize, Heard)> {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let mut lines = head.lines();
    let mut first = lines.next()?.split(' ');
    let (method, target) = (first.next()?.to_owned(), first.next()?);
    let field = |wanted: &str| {
        head.lines().skip(1).filter_map(|line| line.split_once(':')).find_map(|(name, value)| {
            name.eq_ignore_ascii_case(wanted).then(|| value.trim().to_ascii_lowercase())
        })
    };
    let rest = &bytes[end + 4..];
    let body = if field("transfer-encoding").is_some() {
        unchunked(rest)?
    } else {
        let length = field("content-length").map_or(0, |length| length.parse().unwrap_or(usize::MAX));
        rest.get(..length)?.to_vec()
    };
    let host = field("host").unwrap_or_default();
    let host = host.split(':').next().unwrap_or_default().trim_end_matches('.').to_owned();
    let id = target.split_once("/case")?.1.split(['/', '?']).next()?.parse().ok()?;
    let plain = target.split(['?', '#']).next().unwrap_or_default();
    let path = Path::parse(plain).map_or_else(|_| plain.to_owned(), |path| path.as_str().to_owned());
    Some((id, Heard { method, host, path, body }))
}

fn unchunked(bytes: &[u8]) -> Option<Vec<u8>> {
    let (mut body, mut at) = (Vec::new(), 0);
    loop {
        let line = bytes.get(at..)?.windows(2).position(|two| two == b"\r\n")?;
        let size = String::from_utf8_lossy(&bytes[at..at + line]).into_owned();
        let size = usize::from_str_radix(size.split(';').next()?.trim(), 16).ok()?;
        at += line + 2;
        if size == 0 {
            bytes[at..].windows(2).position(|two| two == b"\r\n")?;
            return Some(body);
        }
        body.extend_from_slice(bytes.get(at..at + size)?);
        at += size + 2;
    }
}

/// Puts a request together, with a plain one after it that ends the connection.
fn compose(id: usize, numbers: &mut Numbers) -> Vec<u8> {
    let own = format!("case{id}");
    let mut pick =
        |usual: usize, count: usize| if numbers.below(3) == 0 { numbers.below(count) } else { usual };
    let target = TARGETS[pick(0, TARGETS.len())];
    let line_end = if pick(1, 8) == 0 { "\n" } else { "\r\n" };
    let method = METHODS[pick(2, METHODS.len())];
    let version = VERSIONS[pick(0, VERSIONS.len())];
    let host = HOSTS[pick(0, HOSTS.len())];
    let more = MORE[pick(0, MORE.len())];
    // The framing is what matters most.
    let (framing, body) = BODIES[numbers.below(BODIES.len())];
    let smuggled = format!("GET /{own}/smuggled HTTP/1.1\r\nhost: api.example\r\n\r\n");
    let headers = format!("{version}{line_end}{host}{line_end}{more}{line_end}{framing}{line_end}{line_end}");
    let after = format!("GET /{own}/after HTTP/1.1\r\nhost: api.example\r\nconnection: close\r\n\r\n");
    let mut request = format!("{method} ").into_bytes();
    let at = target.windows(2).position(|two| two == b"ID").unwrap();
    request.extend_from_slice(&[&target[..at], own.as_bytes(), &target[at + 2..], b" "].concat());
    request.extend_from_slice(headers.as_bytes());
    request.extend_from_slice(body.replace("SMUGGLED", &smuggled).as_bytes());
    request.extend_from_slice(after.as_bytes());
    request
}

/// Sends bytes and waits until the other side has no more to say.
async fn send(to: SocketAddr, bytes: &[u8]) {
    let mut stream = TcpStream::connect(to).await.unwrap();
    stream.write_all(bytes).await.ok();
    let mut piece = [0; 4096];
    while let Ok(Ok(1..)) = timeout(SILENCE, stream.read(&mut piece)).await {}
}

fn nginx(backend: SocketAddr) -> ReverseProxy {
    ReverseProxy::nginx(|place| {
        format!(
            "events {{}} pid nginx.pid; http {{ client_body_temp_path a; proxy_temp_path b; fastcgi_temp_path c; \
             uwsgi_temp_path d; scgi_temp_path e; access_log off; server {{ listen {}; location / {{ \
             proxy_pass http://{backend}; proxy_set_header Host $host; proxy_http_version 1.1; }} }} }}",
            place.listener
        )
    })
}

fn envoy(backend: SocketAddr) -> ReverseProxy {
    let address =
        |at: SocketAddr| format!("{{socket_address: {{address: {}, port_value: {}}}}}", at.ip(), at.port());
    ReverseProxy::envoy(|place| {
        format!(
            "admin: {{address: {}}}\n\
             static_resources:\n  listeners:\n  - address: {}\n    filter_chains:\n    - filters:\n      - name: hcm\n        \
             typed_config:\n          \"@type\": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager\n          \
             stat_prefix: in\n          http_protocol_options: {{allow_absolute_url: true, accept_http_10: true}}\n          \
             route_config: {{virtual_hosts: [{{name: all, domains: ['*'], routes: [{{match: {{prefix: '/'}}, route: {{cluster: back}}}}]}}]}}\n          \
             http_filters:\n          - name: router\n            typed_config: {{\"@type\": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}}\n  \
             clusters:\n  - name: back\n    load_assignment: {{cluster_name: back, endpoints: [{{lb_endpoints: [{{endpoint: {{address: {}}}}}]}}]}}\n",
            address(place.admin),
            address(place.listener),
            address(backend),
        )
    })
}

/// Whether one list of requests is the other but for those that were refused: then they ended in the same places.
fn agree(one: &[Heard], other: &[Heard]) -> bool {
    is_part(one, other) || is_part(other, one)
}

/// Whether all of `part` are in `whole`, in their order.
fn is_part(part: &[Heard], whole: &[Heard]) -> bool {
    let mut whole = whole.iter();
    part.iter().all(|wanted| whole.any(|found| found == wanted))
}

/// Whether a difference is none, for these reasons.
fn is_harmless(case: &[u8]) -> bool {
    let case = String::from_utf8_lossy(case);
    // HTTP/1.0 need not name a host, and then each proxy puts its own word there: nobody reads anything that was not sent.
    case.contains(" HTTP/1.0") && case.contains("\nx-host:")
}

#[test]
fn lists_agree_if_they_end_in_the_same_places() {
    let heard = |path: &str, body: &[u8]| Heard {
        method: "GET".to_owned(),
        host: "a".to_owned(),
        path: path.to_owned(),
        body: body.to_vec(),
    };
    let (first, after) = (heard("/a", b""), heard("/after", b""));
    let smuggled = heard("/smuggled", b"");
    let all = [first.clone(), smuggled.clone(), after.clone()];
    assert!(
        agree(&all, &[])
            && agree(&all, std::slice::from_ref(&after))
            && agree(&all, &[first.clone(), after.clone()])
    );
    assert!(!agree(&all, &[heard("/a", b"GET /smuggled"), after.clone()]), "a request in a body");
    assert!(
        !agree(&[heard("/a", b""), after.clone()], &[smuggled, after]),
        "each has one that the other has not"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_forwarded_is_read_in_one_way() {
    let recorders = [Recorder::start().await, Recorder::start().await, Recorder::start().await];
    let [ours, to_nginx, to_envoy] = recorders.clone();
    let proxies = tokio::task::spawn_blocking(move || (nginx(to_nginx.address), envoy(to_envoy.address)));
    let (nginx, envoy) = proxies.await.unwrap();
    let gateway = Setup::to(&[ours.address]).start().await;
    let doors = [gateway.at.listen, nginx.address(), envoy.address()];
    let mut numbers = Numbers(23);
    let cases: Vec<Vec<u8>> = (0..CASES).map(|id| compose(id, &mut numbers)).collect();
    let (room, mut tries) = (Arc::new(Semaphore::new(128)), JoinSet::new());
    for case in cases.clone() {
        for door in doors {
            let slot = Arc::clone(&room).acquire_owned().await.unwrap();
            let case = case.clone();
            tries.spawn(async move {
                send(door, &case).await;
                drop(slot);
            });
        }
    }
    while let Some(tried) = tries.join_next().await {
        tried.unwrap();
    }
    let (mut forwarded, mut different) = (0, Vec::new());
    for (id, case) in cases.iter().enumerate() {
        let [ours, nginx, envoy] = [0, 1, 2].map(|proxy| recorders[proxy].of(id));
        forwarded += usize::from(!ours.is_empty());
        for (name, theirs) in [("nginx", nginx), ("Envoy", envoy)] {
            if !agree(&ours, &theirs) && !is_harmless(case) {
                different.push(format!("{}\ngateway {ours:?}\n{name} {theirs:?}\n", case.escape_ascii()));
            }
        }
    }
    assert!(different.is_empty(), "{} are read differently:\n{}", different.len(), different.join("\n"));
    assert!(forwarded > CASES / 10, "{forwarded} of {CASES}: the others were refused");
}

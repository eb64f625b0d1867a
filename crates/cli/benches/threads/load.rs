//! Calls of Envoy's rate limit service, made as cheaply as can be.
//!
//! Frames of HTTP/2 are written by hand and answers are only looked at as far as is needed to count them, so that one core of clients
//! keeps one core of server busy. Each connection is a thread that reads what there is, and sends as many new calls as were answered.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use prost::Message;
use tidegate_wire::grpc::protobuf::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use tidegate_wire::grpc::protobuf::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::Entry;
use tidegate_wire::grpc::protobuf::envoy::service::ratelimit::v3::RateLimitRequest;

/// Different keys that are asked about.
const KEYS: u64 = 100_000;

const PATH: &[u8] = b"/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;

const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;

/// As large as a window may be.
const LARGEST_WINDOW: u32 = (1 << 31) - 1;
/// What it is before anybody says anything.
const FIRST_WINDOW: u32 = 65_535;

/// Who asks, and how much at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Clients {
    pub(crate) connections: usize,
    /// Calls at once on each.
    pub(crate) streams: usize,
}

/// What came of it.
#[derive(Default)]
pub(crate) struct Answers {
    pub(crate) count: u64,
    /// How long each took, in ascending order.
    pub(crate) took: Vec<Duration>,
}

impl Answers {
    pub(crate) fn percentile(&self, percent: usize) -> Duration {
        let last = self.took.len().saturating_sub(1);
        self.took.get(last * percent / 100).copied().unwrap_or_default()
    }
}

/// Asks for as long as `during` runs.
pub(crate) fn run<T>(server: SocketAddr, clients: Clients, during: impl FnOnce() -> T) -> (Answers, T) {
    let stop = Arc::new(AtomicBool::new(false));
    let connections: Vec<_> = (0..clients.connections)
        .map(|number| {
            let stop = Arc::clone(&stop);
            let mut connection = Connection::open(server, number as u64);
            thread::spawn(move || connection.run(clients.streams, &stop))
        })
        .collect();
    let done = during();
    stop.store(true, Ordering::Relaxed);
    let mut answers = Answers::default();
    for connection in connections {
        answers.took.extend(connection.join().expect("a connection that holds"));
    }
    answers.count = answers.took.len() as u64;
    answers.took.sort_unstable();
    (answers, done)
}

struct Connection {
    stream: TcpStream,
    /// A call, but for the number of its stream and its key.
    template: Vec<u8>,
    next_stream: u32,
    /// When each call that is not answered was sent, by the number of its stream.
    sent: Vec<(u32, Instant)>,
    dice: u64,
    out: Vec<u8>,
}

impl Connection {
    fn open(server: SocketAddr, number: u64) -> Self {
        let stream = TcpStream::connect(server).expect("a server");
        stream.set_nodelay(true).expect("a socket");
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a socket");
        let mut out = PREFACE.to_vec();
        // SETTINGS_HEADER_TABLE_SIZE and SETTINGS_INITIAL_WINDOW_SIZE.
        let settings = [(1_u16, 0_u32), (4, LARGEST_WINDOW)];
        let settings: Vec<u8> = settings
            .iter()
            .flat_map(|(id, value)| [&id.to_be_bytes()[..], &value.to_be_bytes()].concat())
            .collect();
        frame(&mut out, SETTINGS, 0, 0, &settings);
        frame(&mut out, WINDOW_UPDATE, 0, 0, &(LARGEST_WINDOW - FIRST_WINDOW).to_be_bytes());
        let dice = (number + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        Self { stream, template: template(server), next_stream: 1, sent: Vec::new(), dice, out }
    }

    fn run(&mut self, streams: usize, stop: &AtomicBool) -> Vec<Duration> {
        let mut took = Vec::with_capacity(1 << 20);
        (0..streams).for_each(|_| self.ask());
        let (mut buffer, mut filled) = (vec![0; 1 << 16], 0);
        while !self.sent.is_empty() {
            self.stream.write_all(&self.out).expect("a connection that holds");
            self.out.clear();
            let read = self.stream.read(&mut buffer[filled..]).expect("an answer in time");
            assert!(read > 0, "the server has hung up");
            filled += read;
            let (mut parsed, now) = (0, Instant::now());
            while let Some(length) = whole_frame(&buffer[parsed..filled]) {
                let (head, payload) = buffer[parsed..parsed + length].split_at(9);
                let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
                match (head[3], head[4]) {
                    // The overall code is the first field of the message, and 1 is OK.
                    (DATA, _) => assert_eq!(payload.get(5..7), Some(&[8, 1][..]), "it is refused"),
                    (HEADERS, flags) if flags & END_STREAM != 0 => {
                        let position = self.sent.iter().position(|(number, _)| *number == stream);
                        let (_, since) = self.sent.swap_remove(position.expect("an answer to a call"));
                        took.push(now - since);
                        if !stop.load(Ordering::Relaxed) {
                            self.ask();
                        }
                    }
                    (SETTINGS, 0) => frame(&mut self.out, SETTINGS, ACK, 0, &[]),
                    (PING, 0) => frame(&mut self.out, PING, ACK, 0, payload),
                    (RST_STREAM | GOAWAY, _) => panic!("the server gives up: {head:?} {payload:?}"),
                    _ => {}
                }
                parsed += length;
            }
            buffer.copy_within(parsed..filled, 0);
            filled -= parsed;
        }
        took
    }

    /// Writes down the next call, about any key.
    fn ask(&mut self) {
        self.dice ^= self.dice << 13;
        self.dice ^= self.dice >> 7;
        self.dice ^= self.dice << 17;
        let start = self.out.len();
        self.out.extend_from_slice(&self.template);
        let call = &mut self.out[start..];
        let headers = 9 + usize::from(u16::from_be_bytes([call[1], call[2]]));
        for at in [5, headers + 5] {
            call[at..at + 4].copy_from_slice(&self.next_stream.to_be_bytes());
        }
        let end = call.len();
        call[end - KEY.len()..].copy_from_slice(format!("{:08}", self.dice % KEYS).as_bytes());
        self.sent.push((self.next_stream, Instant::now()));
        self.next_stream += 2;
    }
}

/// A key, which ends each call.
const KEY: &[u8; 8] = b"00000000";

fn template(server: SocketAddr) -> Vec<u8> {
    // `:method: POST` and `:scheme: http` by their numbers in the static table; the others as texts.
    let mut head = vec![0x83, 0x86];
    text(&mut head, &[0x04], PATH);
    text(&mut head, &[0x01], server.to_string().as_bytes());
    text(&mut head, &[0x0f, 0x10], b"application/grpc");
    text(&mut head, &[0x00, 2, b't', b'e'], b"trailers");
    let entry = Entry { key: "remote_address".to_owned(), value: String::from_utf8_lossy(KEY).into_owned() };
    let descriptor = RateLimitDescriptor { entries: vec![entry], ..RateLimitDescriptor::default() };
    let request =
        RateLimitRequest { domain: "edge".to_owned(), descriptors: vec![descriptor], hits_addend: 0 };
    let message = request.encode_to_vec();
    assert!(message.ends_with(KEY));
    let length = u32::try_from(message.len()).expect("a short message").to_be_bytes();
    let mut call = Vec::new();
    frame(&mut call, HEADERS, END_HEADERS, 0, &head);
    frame(&mut call, DATA, END_STREAM, 0, &[&[0][..], &length, &message].concat());
    call
}

/// A header whose name is told by `name`.
fn text(head: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    head.extend_from_slice(name);
    head.push(u8::try_from(value.len()).ok().filter(|length| *length < 127).expect("a short text"));
    head.extend_from_slice(value);
}

fn frame(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    let length = u32::try_from(payload.len()).expect("a short frame").to_be_bytes();
    out.extend_from_slice(&length[1..]);
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(payload);
}

/// The length of the frame that `bytes` begins with, if all of it is there.
fn whole_frame(bytes: &[u8]) -> Option<usize> {
    let length = u32::from_be_bytes([0, *bytes.first()?, *bytes.get(1)?, *bytes.get(2)?]);
    let length = 9 + usize::try_from(length).ok()?;
    (bytes.len() >= length).then_some(length)
}

//! Requests with some bytes changed, by the thousand.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tidegate_testkit::Backend;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::frames::{DATA, END_HEADERS, END_STREAM, HEADERS, SETTINGS, block, fields, frame, request};
use crate::support::{DEADLINE, Setup};
use crate::wire::assert_serves;

static PANICS: AtomicUsize = AtomicUsize::new(0);

/// Counts panics anywhere but in tests themselves: a task that panics takes nobody else down, and would go unseen.
fn watch_for_panics() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if panic.location().is_none_or(|place| !place.file().contains("tests")) {
            PANICS.fetch_add(1, Ordering::SeqCst);
        }
        usual(panic);
    }));
}

/// The same numbers every time (SplitMix64).
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        usize::try_from((z ^ (z >> 31)) % (end.max(1) as u64)).unwrap()
    }

    fn mutate(&mut self, bytes: &mut Vec<u8>) {
        const PIECES: [&[u8]; 20] = [
            b"\r\n",
            b"\n",
            b"\r",
            b"\0",
            b" ",
            b"\t",
            b":",
            b",",
            b"0",
            b"-1",
            b"ffffffffffffffff",
            b"%",
            b"%00",
            b"..",
            b"/",
            b"\xff",
            b"\xc3\xa9",
            b"transfer-encoding: chunked\r\n",
            b"content-length: 5\r\n",
            b"connection: upgrade\r\n",
        ];
        let (at, to) = (self.below(bytes.len()), self.below(bytes.len()));
        let (from, until) = (at.min(to), at.max(to).min(at.min(to) + 40));
        match self.below(6) {
            0 if !bytes.is_empty() => bytes[at] = u8::try_from(self.below(256)).unwrap(),
            1 if !bytes.is_empty() => bytes[at] ^= 1 << self.below(8),
            2 => drop(bytes.drain(from..until)),
            3 => {
                let piece = bytes[from..until].to_vec();
                drop(bytes.splice(to..to, piece));
            }
            4 => bytes.truncate(at),
            _ => drop(bytes.splice(at..at, PIECES[self.below(PIECES.len())].iter().copied())),
        }
    }
}

fn good() -> Vec<Vec<u8>> {
    let hello =
        [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &frame(SETTINGS, 0, 0, &[0, 4, 0, 1, 0, 0])].concat();
    let post = frame(HEADERS, END_HEADERS, 3, &block(&fields("POST", "/b?c", &[("content-length", b"5")])));
    let http2 = [&hello[..], &request(1, "/a"), &post, &frame(DATA, END_STREAM, 3, b"hello")].concat();
    let texts = [
        "GET /a/b?c=d HTTP/1.1\r\nhost: api.example\r\naccept: */*\r\ncookie: a=b\r\n\r\n",
        "POST /a HTTP/1.1\r\nhost: api.example:80\r\ncontent-length: 5\r\n\r\nhello",
        "PUT /a%20b/../c HTTP/1.1\r\nhost: api.example\r\ntransfer-encoding: chunked\r\ntrailer: x-a\r\n\r\n5;x=y\r\nhello\r\n0\r\nx-a: b\r\n\r\n",
        "GET http://api.example/a HTTP/1.0\r\nconnection: keep-alive\r\nx-forwarded-for: 192.0.2.1\r\nx-api-key: k\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: [::1]\r\nconnection: upgrade, x-a\r\nupgrade: websocket\r\nx-a: b\r\nexpect: 100-continue\r\n\r\n",
    ];
    texts.iter().map(|text| text.as_bytes().to_vec()).chain([http2]).collect()
}

/// Sends bytes, says that there are no more, and waits for the end. It must come.
async fn try_one(to: SocketAddr, bytes: Vec<u8>) {
    let mut stream = TcpStream::connect(to).await.unwrap();
    stream.write_all(&bytes).await.ok();
    // What can be answered is, before the end is seen.
    let mut piece = vec![0; 4096];
    drop(tokio::time::timeout(Duration::from_millis(30), stream.read(&mut piece)).await);
    stream.shutdown().await.ok();
    let end = async { while let Ok(1..) = stream.read(&mut piece).await {} };
    let ended = tokio::time::timeout(DEADLINE, end).await;
    assert!(ended.is_ok(), "{:?} hangs", String::from_utf8_lossy(&bytes));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousands_of_mutations_harm_nobody() {
    watch_for_panics();
    let backend = Backend::start();
    let gateway = Setup::to(&[backend.address()]).start().await;
    let (mut numbers, good) = (Numbers(7), good());
    let (room, mut tries) = (Arc::new(Semaphore::new(64)), JoinSet::new());
    for turn in 0..4_000 {
        let mut bytes = good[turn % good.len()].clone();
        for _ in 0..=numbers.below(4) {
            numbers.mutate(&mut bytes);
        }
        let slot = Arc::clone(&room).acquire_owned().await.unwrap();
        let to = gateway.at.listen;
        tries.spawn(async move {
            try_one(to, bytes).await;
            drop(slot);
        });
        if turn % 500 == 0 {
            assert_serves(to).await;
        }
    }
    while let Some(tried) = tries.join_next().await {
        tried.unwrap();
    }
    assert_serves(gateway.at.listen).await;
    assert_eq!(PANICS.load(Ordering::SeqCst), 0);
    gateway.stop().await.unwrap();
}

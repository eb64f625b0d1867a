//! Clients that send requests whether or not they are answered.

use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use hyper::Request;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use parking_lot::Mutex;
use tidegate_testkit::Pieces;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

use crate::usual_rate;

/// The lowest first.
pub(crate) const TIERS: [&str; 3] = ["FREE", "STANDARD", "PREMIUM"];

/// Clients give up after this time.
const PATIENCE: Duration = Duration::from_secs(1);

const CONNECTIONS: usize = 4;

/// Requests to send.
pub(crate) struct Traffic {
    pub(crate) to: SocketAddr,
    /// In seconds since the start.
    pub(crate) spike: Range<f64>,
    /// Factor by which requests of the lowest tier are more frequent then.
    pub(crate) times: f64,
    pub(crate) length: Duration,
}

/// A request and its outcome.
#[derive(Clone, Copy)]
pub(crate) struct Sent {
    pub(crate) tier: usize,
    /// In seconds since the start.
    pub(crate) at: f64,
    pub(crate) outcome: Outcome,
}

#[derive(Clone, Copy)]
pub(crate) enum Outcome {
    /// After this time, in seconds.
    Served(f64),
    /// The proxy said no.
    Shed,
    /// There was no answer in time.
    Late,
}

impl Traffic {
    pub(crate) fn send(self) -> Vec<Sent> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        runtime.expect("a runtime").block_on(async {
            let traffic = Arc::new(self);
            let outcomes = Arc::new(Mutex::new(Vec::new()));
            let start = Instant::now();
            let mut tiers = JoinSet::new();
            for tier in 0..TIERS.len() {
                tiers.spawn(Arc::clone(&traffic).send_tier(tier, start, Arc::clone(&outcomes)));
            }
            tiers.join_all().await;
            // Those that were sent last.
            sleep_until(start + traffic.length + PATIENCE * 2).await;
            std::mem::take(&mut *outcomes.lock())
        })
    }

    fn rate(&self, tier: usize, at: f64) -> f64 {
        usual_rate(tier) * if tier == 0 && self.spike.contains(&at) { self.times } else { 1.0 }
    }

    async fn send_tier(self: Arc<Self>, tier: usize, start: Instant, outcomes: Arc<Mutex<Vec<Sent>>>) {
        let mut connections = Vec::new();
        for _ in 0..CONNECTIONS {
            connections.push(connect(self.to).await);
        }
        let mut random = Random(tier as u64);
        let mut next = 0.0;
        for number in 0.. {
            next += random.exponential(1.0 / self.rate(tier, next));
            if next >= self.length.as_secs_f64() {
                return;
            }
            sleep_until(start + Duration::from_secs_f64(next)).await;
            let mut connection = connections[number % CONNECTIONS].clone();
            let (at, outcomes) = (next, Arc::clone(&outcomes));
            tokio::spawn(async move {
                let sent = Instant::now();
                let asked = async {
                    connection.ready().await.ok()?;
                    connection.send_request(request(tier)).await.ok()
                };
                let outcome = match timeout(PATIENCE, asked).await {
                    Ok(Some(response)) if response.status() == 200 => {
                        Outcome::Served(sent.elapsed().as_secs_f64())
                    }
                    Ok(_) => Outcome::Shed,
                    Err(_) => Outcome::Late,
                };
                outcomes.lock().push(Sent { tier, at, outcome });
            });
        }
    }
}

fn request(tier: usize) -> Request<Pieces> {
    let request = Request::get("http://api.example/orders/7").header("x-tier", TIERS[tier]);
    let request = request.header("x-user-id", TIERS[tier]);
    request.body(Pieces::none()).expect("a request")
}

async fn connect(to: SocketAddr) -> http2::SendRequest<Pieces> {
    let stream = TokioIo::new(TcpStream::connect(to).await.expect("the proxy listens"));
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder.timer(TokioTimer::new()).max_concurrent_reset_streams(20_000);
    let (send, connection) = builder.handshake(stream).await.expect("HTTP/2");
    tokio::spawn(connection);
    send
}

/// SplitMix64: every contestant gets the same requests.
struct Random(u64);

impl Random {
    fn exponential(&mut self, mean: f64) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        let unit = (((z ^ (z >> 31)) >> 11) + 1) as f64 / (1u64 << 53) as f64;
        -mean * unit.ln()
    }
}

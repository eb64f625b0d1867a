//! One other node: what waits to be asked, and what is on its way.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use http::header::{CONTENT_TYPE, TE};
use http::{HeaderValue, Method, Request, Response, Uri};
use http_body_util::Full;
use hyper::body::Incoming;
use parking_lot::Mutex;
use tidegate_store::coalesce::{Added, Coalescer};
use tidegate_store::deadline::{until, watch};
use tidegate_store::peers::NodeId;
use tidegate_store::{Breaker, BreakerSettings, Failure, Jitter, Permit};
use tokio::sync::oneshot;

use super::grpc::{self, GRPC, MAX_BODY, URI};
use super::link::{Link, Requests};
use super::message::{Answered, Packed, read_answers, write_batch};
use super::response::{self, Refused};
use super::seals::{Seals, Tie};

/// How long callers usually wait: where round trips come near it, requests leave evenly spaced.
const USUAL_PATIENCE: Duration = Duration::from_millis(5);

/// How long a request may take, if nobody waits longer, before the connection is given up.
const REQUEST_LIMIT: Duration = Duration::from_secs(1);

/// When a node is left alone. A slow one never is: there is nobody else to ask, and waiting for it is better than being refused.
/// Its answers take as long as its own store, and it says in time if it has none; so only one that says nothing at all is silent.
const BREAKER: BreakerSettings =
    BreakerSettings { spike: None, slow: REQUEST_LIMIT, silence: Some(SILENCE), ..BreakerSettings::FAST };

/// How long a node may say nothing while it is asked. Whoever asks waits no longer than it has time for anyway.
const SILENCE: Duration = Duration::from_millis(250);

/// The most bytes of calls in one request. Far below what is accepted, and reached only by calls with long lists.
const MAX_REQUEST: usize = MAX_BODY / 2;

/// A call that waits to be sent, or for its answer.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) call: Packed,
    pub(super) deadline: Instant,
    pub(super) reply: oneshot::Sender<Answered>,
}

impl Waiting {
    /// Answers; whoever asked may be gone.
    fn answer(self, answered: Answered) {
        self.reply.send(answered).ok();
    }
}

/// One other node.
pub(super) struct Peer {
    node: NodeId,
    pub(super) address: SocketAddr,
    seals: Seals,
    coalescer: Coalescer<Waiting>,
    /// Held while a batch is taken and put on its way, so that batches leave in the order they were taken.
    link: tokio::sync::Mutex<Link>,
    breaker: Mutex<Breaker>,
    /// Anything random, for the breaker.
    jitter: Jitter,
}

impl Peer {
    pub(super) fn new(node: NodeId, address: SocketAddr, seals: Seals) -> Self {
        let breaker = Mutex::new(Breaker::new(BREAKER, Instant::now()));
        let (coalescer, link) = (Coalescer::new(USUAL_PATIENCE), tokio::sync::Mutex::default());
        let mut seed = [0; 4];
        getrandom::fill(&mut seed).ok();
        let jitter = Jitter::new(u32::from_le_bytes(seed));
        Self { node, address, seals, coalescer, link, breaker, jitter }
    }

    /// Sends a call with the next request.
    pub(super) fn submit(self: &Arc<Self>, waiting: Waiting) {
        if !self.lets_through() {
            return waiting.answer(Err(Failure::LeftAlone));
        }
        match self.coalescer.add(waiting, Instant::now()) {
            Added::Waits => {}
            Added::Start(pause) => {
                tokio::spawn(Arc::clone(self).send_all(pause));
            }
            Added::Full(waiting) => waiting.answer(Err(Failure::NotReady)),
        }
    }

    /// Looks whether calls are out that nobody has heard of for too long.
    pub(super) fn look(&self) {
        self.breaker.lock().look(Instant::now(), self.jitter.next());
    }

    /// Whether it is worth the while to wait for a request.
    fn lets_through(&self) -> bool {
        let (mut breaker, now) = (self.breaker.lock(), Instant::now());
        breaker.look(now, self.jitter.next());
        breaker.may_begin(now)
    }

    /// Sends batches until nothing waits.
    async fn send_all(self: Arc<Self>, mut pause: Duration) {
        loop {
            wait(pause).await;
            let Some(sent) = self.send_next().await else { return };
            let took = match sent {
                Ok(sent) => self.receive_all(sent).await,
                Err((waiting, failure)) => {
                    fail_all(waiting, failure);
                    None
                }
            };
            pause = self.coalescer.ended(took, Instant::now());
        }
    }

    /// Takes the next batch and puts it on its way.
    async fn send_next(&self) -> Option<Result<Sent, (Vec<Waiting>, Failure)>> {
        let mut link = self.link.lock().await;
        let start = Instant::now();
        let batch = in_time(self.coalescer.take(start)?, start);
        if batch.is_empty() {
            return Some(Err((batch, Failure::Deadline)));
        }
        // Connecting is part of the call: a node that does not even accept connections is silent, too.
        let Some(permit) = self.breaker.lock().begin(start, self.jitter.next()) else {
            return Some(Err((batch, Failure::LeftAlone)));
        };
        let (mut requests, generation) = match link.get(self.address).await {
            Ok(open) => open,
            Err(error) => {
                tracing::debug!(address = %self.address, %error, "node not connected");
                self.end(permit, None);
                return Some(Err((batch, Failure::Connection)));
            }
        };
        let now = Instant::now();
        let sent = split(in_time(batch, now)).into_iter().map(|calls| self.send(&mut requests, calls, now));
        Some(Ok(Sent { requests: sent.collect(), generation, start, permit }))
    }

    /// Puts one request on its way; the connection keeps the order.
    fn send(&self, requests: &mut Requests, calls: Vec<Waiting>, now: Instant) -> OnItsWay {
        let patience = |waiting: &Waiting| waiting.deadline.saturating_duration_since(now);
        let plain = write_batch(calls.iter().map(|waiting| (&waiting.call, patience(waiting))));
        let (sealed, tie) = self.seals.seal_call(self.node, &plain);
        let mut request = Request::new(Full::new(grpc::frame(sealed)));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = Uri::from_static(URI);
        request.headers_mut().insert(CONTENT_TYPE, GRPC);
        request.headers_mut().insert(TE, HeaderValue::from_static("trailers"));
        let last = calls.iter().map(|waiting| waiting.deadline).max().unwrap_or(now);
        let response = Box::pin(requests.send_request(request));
        OnItsWay { calls, tie, last: last.max(now + REQUEST_LIMIT), response }
    }

    /// Waits for requests and tells everybody; says how long they took if all were answered.
    async fn receive_all(&self, sent: Sent) -> Option<Duration> {
        let Sent { requests, generation, start, permit } = sent;
        let received = join_all(requests.into_iter().map(|request| self.receive(request)));
        let (received, unanswered) = watch(permit.begun(), &BREAKER.marks(), received).await;
        let answered = received.into_iter().all(|answered| answered);
        self.end(permit, answered.then_some(unanswered));
        if !answered {
            tracing::debug!(address = %self.address, "node connection given up");
            self.link.lock().await.give_up(generation);
        }
        answered.then(|| start.elapsed())
    }

    /// Waits for a request and tells everybody; false if nothing came that the node could have sent.
    async fn receive(&self, request: OnItsWay) -> bool {
        let OnItsWay { calls, tie, last, response } = request;
        let read = until(last, async { response::read(response.await?).await }).await;
        let body = match read.unwrap_or(Err(Refused::Lost)) {
            Ok(body) => body,
            Err(refused) => {
                tracing::debug!(address = %self.address, ?refused, "node does not reply");
                fail_all(calls, refused.failure());
                return refused.is_answer();
            }
        };
        let shapes: Vec<_> = calls.iter().map(|waiting| waiting.call.shape).collect();
        let plain = grpc::unframe(body).and_then(|sealed| self.seals.open_reply(tie, &sealed).ok());
        match plain.and_then(|plain| read_answers(&plain, &shapes).ok()) {
            Some(answers) => {
                calls.into_iter().zip(answers).for_each(|(waiting, answered)| waiting.answer(answered));
                true
            }
            None => {
                tracing::warn!(address = %self.address, "what answers is not the node that was asked");
                fail_all(calls, Failure::NotAStore);
                false
            }
        }
    }

    /// Another number each time, evenly distributed from a random one on.
    fn end(&self, permit: Permit, unanswered: Option<Duration>) {
        self.breaker.lock().end(permit, unanswered, Instant::now(), self.jitter.next());
    }
}

/// A batch that has left: one request, unless its calls are long.
struct Sent {
    requests: Vec<OnItsWay>,
    generation: u64,
    start: Instant,
    permit: Permit,
}

/// A request that has left.
struct OnItsWay {
    calls: Vec<Waiting>,
    tie: Tie,
    /// When it is given up.
    last: Instant,
    response: Pin<Box<dyn Future<Output = hyper::Result<Response<Incoming>>> + Send>>,
}

/// Those that are still waited for. Who is late is not sent.
fn in_time(batch: Vec<Waiting>, now: Instant) -> Vec<Waiting> {
    let (in_time, late) = batch.into_iter().partition(|waiting| waiting.deadline > now);
    fail_all(late, Failure::Deadline);
    in_time
}

/// Calls as requests of which none is too large.
fn split(batch: Vec<Waiting>) -> Vec<Vec<Waiting>> {
    let (mut requests, mut size): (Vec<Vec<Waiting>>, usize) = (Vec::new(), 0);
    for waiting in batch {
        let length = waiting.call.len();
        match requests.last_mut() {
            Some(request) if size + length <= MAX_REQUEST => {
                size += length;
                request.push(waiting);
            }
            _ => {
                size = length;
                requests.push(vec![waiting]);
            }
        }
    }
    requests
}

fn fail_all(calls: Vec<Waiting>, failure: Failure) {
    calls.into_iter().for_each(|waiting| waiting.answer(Err(failure)));
}

/// Waits more exactly than the runtime's timer, which counts in milliseconds.
async fn wait(pause: Duration) {
    if !pause.is_zero() {
        tokio::task::spawn_blocking(move || std::thread::sleep(pause)).await.ok();
    }
}

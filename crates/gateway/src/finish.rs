//! What is left to do when an answer has gone out, or could not.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::header::HOST;
use http::request::Parts;
use tidegate::Checked;
use tidegate_core::Timestamp;

use crate::access_log::{AccessLog, Line};
use crate::body::{Broken, Source};
use crate::holding::InFlightSlots;
use crate::identity::{Peer, Text, Who};
use crate::proxy::outcome;
use crate::routes::Route;
use crate::upstream::Ticket;

/// The status in the log of a request that nobody waited for.
const CLIENT_CLOSED: u16 = 499;

const CLIENT_GONE: &str = "client_gone";

/// The most of a path or host that goes into the log.
const MAX_LOGGED_BYTES: usize = 2_048;

fn shortened(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_LOGGED_BYTES)]
}

/// Held by the body of an answer: the server counts as busy until then and the request as in flight, and the access log hears of it.
#[derive(Debug, Default)]
pub(crate) struct Finish {
    ticket: Option<Ticket>,
    slots: Option<InFlightSlots>,
    sent: u64,
    ended: bool,
    record: Option<Box<Record>>,
}

/// What the access log will say.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) log: Arc<AccessLog>,
    pub(crate) arrived: Instant,
    pub(crate) time: Timestamp,
    pub(crate) client: IpAddr,
    pub(crate) method: http::Method,
    pub(crate) host: Box<str>,
    pub(crate) path: Box<str>,
    pub(crate) version: http::Version,
    pub(crate) user: Option<Arc<str>>,
    pub(crate) tenant: Option<Arc<str>>,
    pub(crate) request_id: Option<Arc<str>>,
    pub(crate) status: u16,
    pub(crate) decision: Option<&'static str>,
    pub(crate) rule: Option<Box<str>>,
    pub(crate) route: Option<Box<str>>,
    pub(crate) upstream: Option<Box<str>>,
    pub(crate) attempts: u32,
    pub(crate) body: Option<Arc<Source>>,
    pub(crate) limiter: Duration,
    pub(crate) waited: Duration,
    pub(crate) answered: Option<Duration>,
    sent: u64,
    pub(crate) error: Option<&'static str>,
}

impl Finish {
    pub(crate) fn new(ticket: Option<Ticket>, record: Option<Box<Record>>) -> Self {
        Self { ticket, slots: None, sent: 0, ended: false, record }
    }

    /// Keeps the slots that the request holds until it is over.
    pub(crate) fn keep(&mut self, slots: Option<InFlightSlots>) {
        self.slots = slots;
    }

    /// So many bytes more have gone out.
    pub(crate) fn passed(&mut self, bytes: u64) {
        self.sent += bytes;
    }

    /// All has gone out.
    pub(crate) fn ended(&mut self) {
        self.ended = true;
        // The client may be slow to notice; the server is free again.
        if let Some(ticket) = self.ticket.take() {
            ticket.over();
        }
        self.slots = None;
    }

    /// The back end broke off.
    pub(crate) fn broke(&mut self, how: Broken) {
        self.ended = true;
        if let Some(record) = &mut self.record {
            record.error = Some(match how {
                Broken::Late => "upstream_body_timeout",
                Broken::Gone | Broken::TooLarge => "upstream_body_broken",
            });
        }
    }

    /// The gateway says something else instead of passing the answer on.
    pub(crate) fn replaced(&mut self, status: u16, error: &'static str) {
        self.ended = true;
        if let Some(record) = &mut self.record {
            (record.status, record.error) = (status, Some(error));
        }
    }

    /// There is no client any more for the answer to go to.
    pub(crate) fn abandoned(&mut self) {
        if let Some(record) = &mut self.record {
            (record.status, record.error) = (CLIENT_CLOSED, Some(CLIENT_GONE));
        }
    }

    /// The answer is one of a few bytes, all there.
    pub(crate) fn whole(&mut self, bytes: u64) {
        (self.sent, self.ended) = (bytes, true);
    }
}

impl Drop for Finish {
    fn drop(&mut self) {
        if let Some(mut record) = self.record.take() {
            if !self.ended {
                record.error.get_or_insert(CLIENT_GONE);
            }
            record.sent = self.sent;
        }
    }
}

/// Whatever becomes of a request, there is a line about it.
impl Drop for Record {
    fn drop(&mut self) {
        if self.status == 0 {
            // Nobody was there any more to be answered.
            (self.status, self.error) = (CLIENT_CLOSED, Some(CLIENT_GONE));
        }
        self.write();
    }
}

impl Record {
    /// A request has come.
    pub(crate) fn open(
        log: &Arc<AccessLog>,
        arrived: Instant,
        time: Timestamp,
        peer: &Peer,
        head: &Parts,
    ) -> Box<Self> {
        let host = head.uri.authority().map(|host| shortened(host.as_str()).into()).or_else(|| {
            let host = head.headers.get(HOST)?;
            Some(shortened(&String::from_utf8_lossy(host.as_bytes())).into())
        });
        Box::new(Self {
            log: Arc::clone(log),
            arrived,
            time,
            client: peer.ip,
            method: head.method.clone(),
            host: host.unwrap_or_default(),
            // Queries have secrets in them.
            path: shortened(head.uri.path()).into(),
            version: head.version,
            user: None,
            tenant: None,
            request_id: None,
            status: 0,
            decision: None,
            rule: None,
            route: None,
            upstream: None,
            attempts: 0,
            body: None,
            limiter: Duration::ZERO,
            waited: Duration::ZERO,
            answered: None,
            sent: 0,
            error: None,
        })
    }

    /// It is known who asks, and where that goes.
    pub(crate) fn identify(&mut self, who: &Who<'_>, route: Option<&Arc<Route>>) {
        let shared = |text: &Option<Text<'_>>| text.clone().map(Text::into_shared);
        self.client = who.ip;
        self.user = shared(&who.user);
        self.tenant = shared(&who.tenant);
        self.request_id = shared(&who.request_id);
        self.route = route.map(|route| route.to_string().into());
    }

    /// It was decided on.
    pub(crate) fn decided(&mut self, checked: &Checked, took: Duration, waited: Duration) {
        self.decision = Some(outcome(checked));
        self.rule = checked.binding().map(|binding| checked.rules().rule(binding.rule).id.clone());
        (self.limiter, self.waited) = (took.saturating_sub(waited), waited);
    }

    fn write(&self) {
        let millis = |time: Duration| (time.as_secs_f64() * 1_000_000.0).round() / 1_000.0;
        let at = i64::try_from(self.time.as_millis()).unwrap_or(i64::MAX);
        let at = jiff::Timestamp::from_millisecond(at).unwrap_or(jiff::Timestamp::MAX);
        self.log.write(&Line {
            time: &at.to_string(),
            client: self.client,
            method: self.method.as_str(),
            host: &self.host,
            path: &self.path,
            protocol: match self.version {
                http::Version::HTTP_2 => "HTTP/2",
                http::Version::HTTP_10 => "HTTP/1.0",
                _ => "HTTP/1.1",
            },
            user: self.user.as_deref(),
            tenant: self.tenant.as_deref(),
            request_id: self.request_id.as_deref(),
            status: self.status,
            decision: self.decision,
            rule: self.rule.as_deref(),
            route: self.route.as_deref(),
            upstream: self.upstream.as_deref(),
            attempts: self.attempts,
            bytes_in: self.body.as_ref().map_or(0, |body| body.sent()),
            bytes_out: self.sent,
            total_ms: millis(self.arrived.elapsed()),
            limiter_ms: millis(self.limiter),
            waited_ms: millis(self.waited),
            upstream_ms: self.answered.map(millis),
            error: self.error,
        });
    }
}

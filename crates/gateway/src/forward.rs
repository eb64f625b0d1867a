//! Sending a request on, to another server if need be, and its answer back.

use std::error::Error as _;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use http::header::{CONNECTION, HOST, HeaderMap, HeaderName, HeaderValue, TRANSFER_ENCODING, UPGRADE};
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{Method, Request, Response, StatusCode, Version};
use hyper::body::{Body as _, Incoming};
use hyper::upgrade::OnUpgrade;
use tidegate_store::deadline::{Late, within};
use tokio::time::sleep_until;

use crate::answer::{Limits, Own, Wants};
use crate::body::{Answer, Broken, Outgoing, Source};
use crate::finish::{Finish, Record};
use crate::holding::{Holding, InFlightSlots};
use crate::hop;
use crate::identity::{Peer, Who};
use crate::proxy::{Proxy, too_large};
use crate::routes::{HostHeader, Route};
use crate::spans;
use crate::upgrade::Tunnel;
use crate::upstream::{Failure, Protocol, ServerId, Ticket, UpstreamPermit};

/// A request that was allowed, on its way to a server.
pub(crate) struct Errand {
    pub(crate) proxy: Arc<Proxy>,
    pub(crate) route: Arc<Route>,
    pub(crate) head: Parts,
    /// What to ask the server for.
    pub(crate) uri: PathAndQuery,
    /// Which host the client asked for.
    pub(crate) host: Option<HeaderValue>,
    pub(crate) source: Option<Arc<Source>>,
    /// What is held for it.
    pub(crate) holding: Option<Holding>,
    /// Its slots of rules that limit requests in flight.
    pub(crate) slots: Option<InFlightSlots>,
    /// Its room at the upstream, if that has a limit on requests in flight.
    pub(crate) permit: Option<UpstreamPermit>,
    /// What the client is to be told about limits.
    pub(crate) limits: Limits,
    pub(crate) record: Option<Box<Record>>,
}

/// Why there is nothing to pass back, with what the access log is to say.
pub(crate) struct Unanswered {
    pub(crate) own: Own<'static>,
    pub(crate) record: Option<Box<Record>>,
}

/// What becomes of a request: the response to pass back, or the gateway's own.
pub(crate) type Sent = Result<Response<Answer>, Unanswered>;

/// Takes the outcome of a request whose client has gone: all that is left to be done is the access log.
pub(crate) fn abandoned(sent: Sent) {
    if let Ok(mut response) = sent {
        response.body_mut().abandon();
    }
}

/// An answer, and who gave it.
struct Answered {
    response: Response<Incoming>,
    ticket: Ticket,
}

impl Errand {
    /// Sends the request on, and gives its answer with what the client is to be told about limits. What is held for it is settled by
    /// that. `client` is the client's end of the connection, if it asked for another protocol.
    pub(crate) async fn run(mut self, client: Option<OnUpgrade>) -> Sent {
        let span = spans::forward();
        spans::tell(&self.proxy.node, &span, &mut self.head.headers);
        let started = Instant::now();
        let holding = self.holding.take();
        let sent = match &holding {
            None => self.send(None).await,
            Some(holding) => self.send_holding(holding).await,
        };
        // It was counted, whatever became of it.
        let limits = std::mem::take(&mut self.limits);
        let Answered { response, mut ticket } = match sent {
            Ok(answered) => answered,
            Err(own) => return Err(Unanswered { own: own.with(limits), record: self.record }),
        };
        span.record("http.response.status_code", response.status().as_u16());
        drop(span);
        let took = started.elapsed();
        self.proxy.metrics.upstream.observe(took);
        let mut permit = self.permit.take();
        if let Some(permit) = &mut permit {
            permit.responded();
        }
        // A tunnel may last for days, and takes next to nothing of a server.
        ticket.keep(permit.filter(|_| response.status() != StatusCode::SWITCHING_PROTOCOLS));
        if let Some(holding) = holding {
            holding.answered(response.status().as_u16(), response.headers());
        }
        if response.status().is_server_error() {
            ticket.failed(Failure::Status(response.status().as_u16()), Instant::now());
        } else {
            ticket.succeeded();
        }
        let record = self.record.take().map(|mut record| {
            record.status = response.status().as_u16();
            record.answered = Some(took);
            record
        });
        let mut finish = Finish::new(Some(ticket), record);
        finish.keep(self.slots.take());
        Ok(self.pass_back(response, client, limits, finish))
    }

    /// Makes the head one that a server may see. Gives the client's end of the connection, if it is to be used for something
    /// else than HTTP.
    pub(crate) fn prepare(&mut self, peer: &Peer, who: &Who<'_>) -> Option<OnUpgrade> {
        let headers = &mut self.head.headers;
        let upgrade = hop::strip_request(headers);
        self.proxy.forwarding.rewrite(peer, who, self.host.as_ref(), headers);
        let can_switch = self.route.group().settings().protocol == Protocol::Http1;
        let client = self.head.extensions.remove::<OnUpgrade>();
        let may = self.head.version == Version::HTTP_11 && self.head.method == Method::GET;
        let switching = upgrade.filter(|_| can_switch && may).zip(client);
        switching.map(|(protocol, client)| {
            let headers = &mut self.head.headers;
            headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
            headers.insert(UPGRADE, protocol);
            client
        })
    }

    /// Sends a request for which quota is held. If no answer comes while it is, what may have reached a server is charged.
    async fn send_holding(&mut self, holding: &Holding) -> Result<Answered, Own<'static>> {
        let mut sending = pin!(self.send(Some(holding)));
        tokio::select! {
            biased;
            sent = &mut sending => return sent,
            () = sleep_until(holding.deadline()) => holding.unanswered(),
        }
        sending.await
    }

    /// Tries servers until one answers, as often as may be.
    async fn send(&mut self, holding: Option<&Holding>) -> Result<Answered, Own<'static>> {
        let mut reached = false;
        let mut tried: Vec<ServerId> = Vec::new();
        let mut left = self.route.retries();
        let mut last = None;
        loop {
            let Some(mut ticket) = self.pick(&tried, last) else { return Err(failed(last)) };
            if !tried.is_empty() {
                self.proxy.metrics.retries.fetch_add(1, Ordering::Relaxed);
            }
            if let Some(record) = &mut self.record {
                record.attempts += 1;
                record.upstream = Some(ticket.origin().to_string().into());
            }
            let Some(request) = self.request(&ticket, left > 0) else { return Err(failed(last)) };
            if let Some(holding) = holding {
                holding.set_forwarded(true);
            }
            let failure = match self.attempt(request, &mut ticket).await {
                Ok(response) => return Ok(Answered { response, ticket }),
                Err(Stopped::Client(broken)) => return Err(self.broken(broken)),
                Err(Stopped::Server(failure)) => failure,
            };
            reached |= failure != Failure::Connect;
            if let Some(holding) = holding {
                holding.set_forwarded(reached);
            }
            ticket.failed(failure, Instant::now());
            self.proxy.metrics.failed(failure);
            if let (Failure::Timeout, Some(permit)) = (failure, &mut self.permit) {
                permit.responded();
            }
            if left == 0 || !self.may_go_again(failure) {
                return Err(failed(Some(failure)));
            }
            left -= 1;
            tried.push(ticket.id());
            last = Some(failure);
        }
    }

    /// A server that was not tried yet; or again one whose connection was lost, which may have been an old one.
    fn pick(&self, tried: &[ServerId], last: Option<Failure>) -> Option<Ticket> {
        let (group, now) = (self.route.group(), Instant::now());
        let other = group.pick(now, tried);
        other.or_else(|| if last == Some(Failure::Reset) { group.pick(now, &[]) } else { None })
    }

    /// The request as the server of `ticket` is to see it; `None` if its body is gone.
    fn request(&mut self, ticket: &Ticket, keep: bool) -> Option<Request<Outgoing>> {
        let body = match &self.source {
            None => Outgoing::Empty,
            Some(source) => source.outgoing()?,
        };
        let mut request = Request::new(body);
        *request.method_mut() = self.head.method.clone();
        *request.uri_mut() = match ticket.pool() {
            Some(_) => self.uri.clone().into(),
            None => ticket.origin().uri(self.uri.clone()),
        };
        let headers = if keep { self.head.headers.clone() } else { std::mem::take(&mut self.head.headers) };
        *request.headers_mut() = headers;
        // HTTP/2 has its own place for it, which is filled from the URI, and servers refuse those who say it twice. Where it is
        // not known yet what will be spoken, it is left to the client to fill it in.
        if ticket.pool().is_some() {
            match (self.route.host_header(), &self.host) {
                // As a rule it is there already.
                (HostHeader::Keep, Some(host)) if request.headers().get(HOST) == Some(host) => {}
                (HostHeader::Keep, Some(host)) => drop(request.headers_mut().insert(HOST, host.clone())),
                (HostHeader::Upstream, _) | (_, None) => {
                    let own = HeaderValue::from_str(ticket.origin().authority().as_str()).ok()?;
                    request.headers_mut().insert(HOST, own);
                }
            }
            // Nobody expects bodies on these, so that those without a length would be left out unless this is said.
            let rare = [Method::GET, Method::HEAD].contains(request.method());
            if rare && request.body().size_hint().exact().is_none() {
                request.headers_mut().insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
            }
        } else {
            request.headers_mut().remove(HOST);
        }
        Some(request)
    }

    async fn attempt(
        &self,
        request: Request<Outgoing>,
        ticket: &mut Ticket,
    ) -> Result<Response<Incoming>, Stopped> {
        let mut answer = pin!(self.ask(request, ticket));
        let mut sent = 0;
        let answered = loop {
            match within(self.route.response_timeout(), &mut answer).await {
                Ok(answered) => break answered,
                // As long as the body gets on, there is no answer to be late.
                Err(Late) => match self.source.as_ref().map(|source| source.sent()) {
                    Some(now) if now > sent => sent = now,
                    _ => return Err(Stopped::Server(Failure::Timeout)),
                },
            }
        };
        answered.map_err(|failure| match failure {
            Some(failure) => Stopped::Server(failure),
            None => {
                let broken = self.source.as_ref().and_then(|source| source.broken());
                Stopped::Client(broken.unwrap_or(Broken::Gone))
            }
        })
    }

    /// Asks the server of `ticket`; what went wrong with that if anything did, or nothing if that was the request's own body.
    async fn ask(
        &self,
        request: Request<Outgoing>,
        ticket: &mut Ticket,
    ) -> Result<Response<Incoming>, Option<Failure>> {
        let Some(pool) = ticket.pool().cloned() else {
            let client = self.route.group().client::<Outgoing>();
            return client.request(request).await.map_err(|error| {
                tracing::debug!(%error, source = error.source(), "a server failed");
                Failure::of(&error)
            });
        };
        match pool.send(request).await {
            Ok((response, lease)) => {
                ticket.comes_by(lease);
                Ok(response)
            }
            Err(error) => {
                tracing::debug!(%error, "a server failed");
                Err(error.failure())
            }
        }
    }

    /// Whether the request can be sent to another server: nothing of it has been, or doing it twice is doing it once.
    fn may_go_again(&self, failure: Failure) -> bool {
        match failure {
            Failure::Connect => self.source.as_ref().is_none_or(|source| source.is_whole()),
            Failure::Reset => self.source.is_none() && is_idempotent(&self.head.method),
            Failure::Timeout | Failure::Status(_) => false,
        }
    }

    /// The client did not send all of its body.
    fn broken(&self, how: Broken) -> Own<'static> {
        match how {
            Broken::TooLarge => too_large(self.proxy.max_body_bytes.unwrap_or_default()),
            Broken::Late => {
                let message = "the next part of the body did not come in time; send it without pauses";
                Own::new(StatusCode::REQUEST_TIMEOUT, "body_timeout", message)
            }
            Broken::Gone => Own::bad_request("body_broken", "the body ended before its end"),
        }
    }

    fn pass_back(
        self,
        response: Response<Incoming>,
        client: Option<OnUpgrade>,
        limits: Limits,
        mut finish: Finish,
    ) -> Response<Answer> {
        let (mut head, body) = response.into_parts();
        let protocol = hop::strip(&mut head.headers);
        head.version = Version::default();
        tell(limits, &mut head.headers);
        let idle = self.route.group().settings().idle_timeout;
        let without_body = [StatusCode::NO_CONTENT, StatusCode::NOT_MODIFIED].contains(&head.status);
        if without_body || self.head.method == Method::HEAD {
            finish.ended();
            // Also if the server sends one.
            return Response::from_parts(head, Answer::Own(Default::default(), Some(Box::new(finish))));
        }
        if head.status != StatusCode::SWITCHING_PROTOCOLS {
            return Response::from_parts(head, Answer::passed(body, idle, finish));
        }
        let server = head.extensions.remove::<OnUpgrade>();
        let (Some(client), Some(server), Some(protocol)) = (client, server, protocol) else {
            // Nobody asked it to.
            let message = "the back end switched to another protocol without being asked";
            let own = Own::new(StatusCode::BAD_GATEWAY, "bad_gateway", message);
            finish.replaced(own.status.as_u16(), own.error);
            return own.write(&Wants::default(), self.proxy.format);
        };
        head.headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        head.headers.insert(UPGRADE, protocol);
        let (phase, open) = (self.proxy.phase.clone(), Arc::clone(&self.proxy.metrics.tunnels));
        tokio::spawn(Tunnel { client, server, idle, phase, open, finish }.carry());
        Response::from_parts(head, Answer::Own(Default::default(), None))
    }
}

/// Tells the client about limits. Whatever the back end says about its own would be a second truth.
fn tell(limits: Limits, headers: &mut HeaderMap) {
    if limits.is_empty() {
        return;
    }
    let others: Vec<HeaderName> = headers
        .keys()
        .filter(|name| name.as_str().starts_with("x-ratelimit-") || name.as_str().starts_with("ratelimit"))
        .cloned()
        .collect();
    for name in others {
        headers.remove(name);
    }
    for (name, value) in limits {
        headers.insert(name, value);
    }
}

/// Why there is no answer.
enum Stopped {
    Client(Broken),
    Server(Failure),
}

/// Whether doing it twice comes to the same as doing it once (RFC 9110, 9.2.2).
fn is_idempotent(method: &Method) -> bool {
    [Method::GET, Method::HEAD, Method::OPTIONS, Method::PUT, Method::DELETE].contains(method)
}

/// What a client is told when no server answered.
fn failed(how: Option<Failure>) -> Own<'static> {
    match how {
        Some(Failure::Timeout) => {
            Own::new(StatusCode::GATEWAY_TIMEOUT, "gateway_timeout", "the back end did not answer in time")
        }
        Some(_) => Own::new(StatusCode::BAD_GATEWAY, "bad_gateway", "the back end cannot be reached"),
        None => {
            let message = "there is no back end that could be asked";
            Own::new(StatusCode::SERVICE_UNAVAILABLE, "no_upstream", message)
        }
    }
}

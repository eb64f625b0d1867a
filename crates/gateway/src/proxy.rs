//! The way of a request through the gateway.
//!
//! ```text
//! head → target → who → route → decision → a server → answer
//! ```
//!
//! Whatever turns it back on the way never touches a back end.

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::header::{COOKIE, HOST, HeaderMap, HeaderValue, RETRY_AFTER};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use hyper::body::{Body as _, Incoming};
use tidegate::{Checked, Status, Waited};
use tidegate_core::header_names::HeaderUse;
use tidegate_core::request::{Fields, canonical_ip};
use tidegate_overload::PriorityClass;
use tidegate_server::front::{Connected, Node, Phase};
use tidegate_server::traces::check_within;
use tidegate_wire::{RefusalBody, headers};
use tokio::sync::watch;
use tracing::{Instrument as _, Span};

use crate::access_log::AccessLog;
use crate::answer::{self, Limits, Own, RefusalFormat, Wants};
use crate::body::{Answer, Source};
use crate::exchange::{Exchange, Exchanges};
use crate::finish::{Finish, Record};
use crate::forward::{Errand, abandoned};
use crate::forwarded::Forwarding;
use crate::holding::{Holding, InFlightSlots};
use crate::hop;
use crate::identity::{ClientName, Identify, Peer, Who};
use crate::metrics::Metrics;
use crate::routes::{LiveRoutes, Route};
use crate::spans;
use crate::target::{self, Target};
use crate::unauthenticated::RecentFailures;
use crate::upstream::{LoadShedder, Shed, UpstreamPermit};

/// The answer to a request, once there is one.
pub(crate) type Answering = Pin<Box<dyn Future<Output = Response<Answer>> + Send>>;

/// What a gateway goes by.
pub(crate) struct Proxy {
    pub(crate) node: Arc<Node>,
    pub(crate) routes: Arc<LiveRoutes>,
    pub(crate) identify: Arc<Identify>,
    pub(crate) forwarding: Arc<Forwarding>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) failures: RecentFailures,
    pub(crate) log: Option<Arc<AccessLog>>,
    pub(crate) format: RefusalFormat,
    /// How long each piece of a request's body may take.
    pub(crate) body_timeout: Duration,
    pub(crate) max_body_bytes: Option<u64>,
    /// Maximum number of requests at once on one connection.
    pub(crate) max_streams: u32,
    pub(crate) phase: watch::Receiver<Phase>,
}

/// A connection from a client.
struct Connection {
    peer: Peer,
    exchanges: Arc<Exchanges>,
}

impl Proxy {
    /// What answers the requests of a connection.
    pub(crate) fn connection(
        self: &Arc<Self>,
        from: Connected,
    ) -> impl Fn(Request<Incoming>) -> Answering + Send + Sync + use<> {
        let Connected { ip, tls, certificate, room } = from;
        // One that cannot be read names nobody.
        let certificate = certificate.and_then(|shown| ClientName::from_der(&shown).ok()).map(Arc::new);
        let peer = Peer { tls, certificate, ..Peer::plain(ip) };
        let connection = Connection { peer, exchanges: Exchanges::new(self.max_streams, room) };
        let (proxy, connection) = (Arc::clone(self), Arc::new(connection));
        move |request| {
            let (proxy, connection) = (Arc::clone(&proxy), Arc::clone(&connection));
            let trusted = || proxy.identify.trusted().trusts(canonical_ip(connection.peer.ip));
            match proxy.node.trace_if(trusted, request.headers(), spans::gateway) {
                None => Box::pin(async move { proxy.answer(&connection, request).await }),
                Some(span) => Box::pin(proxy.answer_traced(connection, request).instrument(span)),
            }
        }
    }

    async fn answer_traced(
        self: Arc<Self>,
        connection: Arc<Connection>,
        request: Request<Incoming>,
    ) -> Response<Answer> {
        let answer = self.answer(&connection, request).await;
        Span::current().record("http.response.status_code", answer.status().as_u16());
        answer
    }

    async fn answer(
        self: &Arc<Self>,
        connection: &Connection,
        request: Request<Incoming>,
    ) -> Response<Answer> {
        let arrived = Instant::now();
        let (head, body) = request.into_parts();
        let mut record =
            self.log.as_ref().map(|log| Record::open(log, arrived, self.node.now(), &connection.peer, &head));
        // How to say something, should there be something to say after the head has been sent on.
        let wants = Wants::of(&head.headers);
        let is_head = head.method == Method::HEAD;
        match self.pass(connection, head, body, arrived, &mut record).await {
            Ok(answer) => {
                self.metrics.count(answer.status());
                answer
            }
            Err(own) => {
                self.metrics.count(own.status);
                self.say(own, &wants, is_head, record)
            }
        }
    }

    /// Says something itself instead of passing on an answer.
    fn say(
        &self,
        own: Own<'_>,
        wants: &Wants,
        is_head: bool,
        record: Option<Box<Record>>,
    ) -> Response<Answer> {
        let (status, error) = (own.status, own.error);
        let mut answer = own.write(wants, self.format);
        if is_head {
            answer::leave_out_body(&mut answer);
        }
        if let (Some(mut record), Answer::Own(body, finish)) = (record, answer.body_mut()) {
            record.status = status.as_u16();
            if record.error.is_none() && record.decision != Some("refused") {
                record.error = Some(error);
            }
            let mut last = Finish::new(None, Some(record));
            last.whole(body.size_hint().lower());
            *finish = Some(Box::new(last));
        }
        answer
    }

    async fn pass(
        self: &Arc<Self>,
        connection: &Connection,
        mut head: Parts,
        body: Incoming,
        arrived: Instant,
        record: &mut Option<Box<Record>>,
    ) -> Result<Response<Answer>, Own<'_>> {
        let peer = &connection.peer;
        target::merge_lengths(&mut head.headers);
        self.read_once(peer, &mut head.headers)?;
        let target = Target::read(&head)?;
        let routes = self.routes.load();
        let route = routes.find(target.host(), &head.method, target.path.as_str()).cloned();
        drop(routes);
        let size = body.size_hint().exact();
        let asked = Asked { peer, head: &head, target: &target, route: route.as_ref(), size, arrived };
        self.admit(&asked, record).await?;
        let who = match self.identify.who(peer, &head) {
            Ok(who) => who,
            Err(refused) => return Err(Box::pin(self.turn_back(refused, &asked, record)).await),
        };
        if let Some(record) = record {
            record.identify(&who, route.as_ref());
        }
        if route.is_none() {
            return Err(no_route());
        }
        if let (Some(most), Some(size)) = (self.max_body_bytes, size)
            && size > most
        {
            return Err(too_large(most));
        }
        let Admitted { limits, holding, slots, permit } = self.decide(&asked, &who, record).await?;
        let route = route.ok_or_else(no_route)?;
        let uri = target.forwarded(&head, &route)?;
        let host = target.host_value();
        // The key has done its duty, and what is borrowed from the head cannot go along with it.
        let who = Who { api_key: None, ..who }.into_static();
        let source = Source::new(body, self.body_timeout, self.max_body_bytes, &self.forwarding);
        if let Some(record) = record {
            record.body.clone_from(&source);
        }
        let exchange = match holding.is_some() || slots.is_some() {
            true => Some(connection.exchanges.begin().ok_or_else(|| too_many(&limits))?),
            false => None,
        };
        let (proxy, record_sent) = (Arc::clone(self), record.take());
        let mut errand = Errand {
            proxy,
            route,
            head,
            uri,
            host,
            source,
            holding,
            slots,
            permit,
            limits,
            record: record_sent,
        };
        let client = errand.prepare(peer, &who);
        let sent = match exchange {
            None => errand.run(client).await,
            Some(permit) => {
                let running = Box::pin(errand.run(client));
                Exchange::new(running, permit, self.phase.clone(), abandoned).await
            }
        };
        sent.map_err(|unanswered| {
            *record = unanswered.record;
            unanswered.own
        })
    }

    /// Refuses a request with headers that rules would read in one way and a back end in another.
    fn read_once(&self, peer: &Peer, headers: &mut HeaderMap) -> Result<(), Own<'static>> {
        let rules = self.node.limiter().in_force();
        let names = rules.headers();
        if names.is_empty() {
            return Ok(());
        }
        if names.look_up(COOKIE.as_str()) == HeaderUse::Read {
            hop::join_cookies(headers);
        }
        let counts = |name: &str| name != HOST && self.forwarding.believes(peer, name);
        let refusal = headers::refuse_ambiguous(headers, names, counts)
            .or_else(|| headers::refuse_lookalikes(headers, names, counts));
        refusal.map_or(Ok(()), |refusal| Err(Own::bad_request("ambiguous_header", refusal.message)))
    }

    /// Finds room for a request at its upstream, or sheds it.
    async fn find_room<'s>(
        &self,
        shedder: &'s LoadShedder,
        request: &tidegate_core::Request<'_>,
        arrived: Instant,
        record: &mut Option<Box<Record>>,
    ) -> Result<Room<'s>, Own<'static>> {
        let limiter = self.node.limiter();
        let class = limiter.tier_of(request, arrived, |tier| shedder.class(tier)).await;
        let room = match limiter.may_delay() {
            true => shedder.check(class).map(|()| Room::Later(shedder, class)),
            false => shedder.admit(class).map(Room::Taken),
        };
        room.map_err(|shed| overloaded(shed, record))
    }

    /// Has the upstream's limit on requests in flight and then the limiter decide. A request that is shed counts for no rule.
    async fn decide(
        &self,
        asked: &Asked<'_>,
        who: &Who<'_>,
        record: &mut Option<Box<Record>>,
    ) -> Result<Admitted, Own<'_>> {
        let node = &self.node;
        let (host, attributes) = (asked.target.plain_host(), asked.attributes());
        let fields = Seen::of(self, asked, host.as_deref());
        let request = tidegate_core::Request {
            hold: Some(node.limiter().hold_id()),
            ..asked.describe(who, &fields, &attributes)
        };
        let wrong = |message: String| Own::bad_request("invalid_request", message);
        let room = match asked.route.and_then(|route| route.group().shedder()) {
            Some(shedder) => Some(self.find_room(shedder, &request, asked.arrived, record).await?),
            None => None,
        };
        let Waited { mut checked, waited } = if node.may_wait() || node.limiter().may_delay() {
            // As long as the rules say.
            let asked = node.ask_or_wait(&request, asked.arrived, Duration::MAX).instrument(check_within());
            asked.await.map_err(|error| wrong(error.message))?
        } else {
            let decided = check_within().in_scope(|| node.decide(&request));
            Waited { checked: decided.map_err(|error| wrong(error.message))?, waited: Duration::ZERO }
        };
        if let Some(record) = record {
            record.decided(&checked, asked.arrived.elapsed(), waited);
        }
        if !checked.allowed {
            return Err(self.refusal(&checked));
        }
        let limits = self.limits(&checked);
        let slots = checked.take_slots().map(|held| InFlightSlots::new(node, held));
        let holding = checked.take_held().map(|held| Holding::new(node, held));
        let permit = match room {
            Some(Room::Taken(permit)) => Some(permit),
            Some(Room::Later(shedder, class)) => {
                Some(shedder.admit(class).map_err(|shed| overloaded(shed, record).with(limits.clone()))?)
            }
            None => None,
        };
        Ok(Admitted { limits, holding, slots, permit })
    }

    /// Returns the headers that tell of the limits that a request was checked against.
    pub(crate) fn limits(&self, checked: &Checked) -> Limits {
        let mut limits = Limits::new();
        headers::tell(checked, checked.rules(), self.node.header_styles(), |name, value| {
            limits.push((name, value));
        });
        limits
    }

    /// Returns the response to a request that rules refuse.
    pub(crate) fn refusal(&self, checked: &Checked) -> Own<'_> {
        let status = match checked.status {
            Status::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::TOO_MANY_REQUESTS,
        };
        let body = RefusalBody::new(checked, self.node.documentation_url());
        Own::refusal(status, body, self.limits(checked))
    }
}

/// A request that may go on to a server.
struct Admitted {
    limits: Limits,
    holding: Option<Holding>,
    slots: Option<InFlightSlots>,
    permit: Option<UpstreamPermit>,
}

/// Room for a request at its upstream.
enum Room<'a> {
    Taken(UpstreamPermit),
    /// There is some now, to be taken when the request's turn has come: one that waits is not in flight.
    Later(&'a LoadShedder, PriorityClass),
}

/// A request that is to be decided.
pub(crate) struct Asked<'a> {
    pub(crate) peer: &'a Peer,
    pub(crate) head: &'a Parts,
    pub(crate) target: &'a Target<'a>,
    pub(crate) route: Option<&'a Arc<Route>>,
    size: Option<u64>,
    pub(crate) arrived: Instant,
}

impl Asked<'_> {
    /// Returns the attributes that rules may match.
    pub(crate) fn attributes(&self) -> Attributes<'_> {
        Attributes { route: self.route.map(|route| route.group().name()), authentication: None }
    }

    /// Describes the request to the limiter, as one of `who`.
    pub(crate) fn describe<'r>(
        &'r self,
        who: &'r Who<'_>,
        headers: &'r Seen<'_>,
        attributes: &'r Attributes<'_>,
    ) -> tidegate_core::Request<'r> {
        who.describe(tidegate_core::Request {
            method: Some(self.head.method.as_str()),
            headers,
            attributes,
            body_bytes: self.size,
            ..tidegate_core::Request::new(self.target.path.as_str())
        })
    }
}

/// Attributes of a request that the gateway itself knows.
pub(crate) struct Attributes<'a> {
    /// Upstream of its route.
    route: Option<&'a str>,
    /// Outcome of authentication, if that is why there is something to decide.
    authentication: Option<&'static str>,
}

impl Attributes<'_> {
    /// Returns them for a request whose credentials are not accepted.
    pub(crate) fn unauthenticated(self) -> Self {
        Self { authentication: Some("failed"), ..self }
    }

    fn pairs(&self) -> [(&'static str, Option<&str>); 2] {
        [("route", self.route), ("authentication", self.authentication)]
    }
}

impl Fields for Attributes<'_> {
    fn value(&self, name: &str) -> Option<&str> {
        self.pairs().into_iter().find(|(known, _)| known.eq_ignore_ascii_case(name))?.1
    }

    fn each(&self, visit: &mut dyn FnMut(&str, &str)) {
        self.pairs()
            .into_iter()
            .for_each(|(name, value)| value.into_iter().for_each(|value| visit(name, value)));
    }
}

/// The headers of a request as far as its sender may say what is in them: rules go by no others.
pub(crate) struct Seen<'a> {
    headers: &'a HeaderMap,
    /// The host that is asked for, wherever the request names it: there is no such header in HTTP/2.
    host: Option<&'a str>,
    hidden: &'a Forwarding,
    peer: &'a Peer,
}

impl<'a> Seen<'a> {
    pub(crate) fn of(proxy: &'a Proxy, asked: &Asked<'a>, host: Option<&'a str>) -> Self {
        Self { headers: &asked.head.headers, host, hidden: &proxy.forwarding, peer: asked.peer }
    }
}

impl Fields for Seen<'_> {
    fn value(&self, name: &str) -> Option<&str> {
        if name == HOST.as_str() {
            return self.host;
        }
        self.hidden.believes(self.peer, name).then(|| self.headers.value(name)).flatten()
    }

    fn each(&self, visit: &mut dyn FnMut(&str, &str)) {
        self.headers.each(&mut |name, value| {
            if name != HOST.as_str() && self.hidden.believes(self.peer, name) {
                visit(name, value);
            }
        });
        if let Some(host) = self.host {
            visit(HOST.as_str(), host);
        }
    }
}

/// What a decision is called in the access log.
pub(crate) fn outcome(checked: &Checked) -> &'static str {
    match (checked.status, checked.allowed) {
        (Status::Disabled, true) => "failed_open",
        (Status::Unavailable, _) => "unavailable",
        (_, true) => "allowed",
        (_, false) => "refused",
    }
}

fn no_route() -> Own<'static> {
    let message = "there is no route for this host, method and path";
    Own::new(StatusCode::NOT_FOUND, "no_route", message)
}

fn overloaded(shed: Shed, record: &mut Option<Box<Record>>) -> Own<'static> {
    if let Some(record) = record {
        record.decision = Some("shed");
    }
    let message = "the service has as many requests in flight as it can serve; retry later";
    let own = Own::new(StatusCode::SERVICE_UNAVAILABLE, "overloaded", message);
    own.retry_after(shed.retry_after)
}

fn too_many(limits: &Limits) -> Own<'static> {
    let message = "too many requests that this connection has given up are still with the back end; wait for their responses";
    let busy = Own::new(StatusCode::SERVICE_UNAVAILABLE, "too_many_abandoned", message);
    busy.with(limits.clone()).with(vec![(RETRY_AFTER, HeaderValue::from_static("1"))])
}

pub(crate) fn too_large(most: u64) -> Own<'static> {
    let message = format!("the body is larger than {most} bytes; send less");
    Own::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", message)
}

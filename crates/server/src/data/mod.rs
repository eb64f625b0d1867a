//! The data listener: decisions over HTTP.
//!
//! Four routes, so they are told apart by hand: what a router would add to each request is a good part of what a
//! decision costs.

mod authorize;
mod batch;
mod check;
mod rate_limit;

use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;

use http::request::Parts;
use http::{HeaderMap, Request, StatusCode};
use hyper::body::Incoming;
use tracing::{Instrument as _, Span};

pub(crate) use batch::{MAX_BYTES as MAX_BATCH_BYTES, MAX_ITEMS as MAX_BATCH_ITEMS};
pub(crate) use check::MAX_BYTES as MAX_CHECK_BYTES;

use crate::listen::Connected;
use crate::node::Node;
use crate::openapi;
use crate::origin::Hosts;
use crate::reply::{self, Reply, Wrong};
use crate::traces;

/// What can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Endpoint {
    Check,
    Batch,
    Authorize,
    RateLimit,
    OpenApi,
}

/// Every path with the methods it answers to.
const ROUTES: [(&str, Endpoint, &[&str]); 5] = [
    ("/v1/check", Endpoint::Check, &["POST"]),
    ("/v1/authorize", Endpoint::Authorize, &["GET", "POST"]),
    ("/v1/check/batch", Endpoint::Batch, &["POST"]),
    ("/json", Endpoint::RateLimit, &["POST"]),
    ("/openapi.json", Endpoint::OpenApi, &["GET"]),
];

/// Every path and method, for the API description to be held against.
#[cfg(test)]
pub(crate) fn routes() -> impl Iterator<Item = (&'static str, &'static str)> {
    ROUTES.iter().flat_map(|(path, _, methods)| methods.iter().map(|method| (*path, *method)))
}

/// The data listener.
#[derive(Debug)]
pub(crate) struct Data {
    node: Arc<Node>,
    hosts: Hosts,
}

impl Data {
    pub(crate) fn new(node: Arc<Node>, hosts: Hosts) -> Self {
        Self { node, hosts }
    }

    /// Answers `request` of the client `from`.
    ///
    /// All that can be done at once is done before there is anything to wait for, so that what waits stays small:
    /// it is moved about more often than it is polled.
    pub(crate) fn answer(
        self: Arc<Self>,
        from: &Connected,
        request: Request<Incoming>,
    ) -> impl Future<Output = Reply> + Send + use<> {
        let next = self.route(from, request).unwrap_or_else(|wrong| Next::Reply(wrong.into()));
        self.finish(next)
    }

    /// Does what is left to do.
    #[expect(
        clippy::manual_async_fn,
        reason = "an async fn would keep what it is given twice, and be moved about so"
    )]
    fn finish(self: Arc<Self>, next: Next) -> impl Future<Output = Reply> + Send + 'static {
        async move {
            match next {
                Next::Reply(reply) => reply,
                Next::Traced(traced) => {
                    let (span, next) = *traced;
                    let rest: Pin<Box<dyn Future<Output = Reply> + Send>> = Box::pin(self.finish(next));
                    rest.instrument(span).await
                }
                Next::Check(headers, body) => {
                    check::answer(&self.node, headers, body).await.unwrap_or_else(Reply::from)
                }
                Next::Authorize(asked) => {
                    let (peer, parts) = &*asked;
                    let answer = Box::pin(authorize::ask(&self.node, *peer, parts));
                    answer.await.unwrap_or_else(Reply::from)
                }
                Next::RateLimit(body) => {
                    Box::pin(rate_limit::answer(&self.node, body)).await.unwrap_or_else(Reply::from)
                }
                Next::Batch(body, span) => {
                    Box::pin(batch::answer(&self.node, body, span)).await.unwrap_or_else(Reply::from)
                }
            }
        }
    }

    fn route(&self, from: &Connected, request: Request<Incoming>) -> Result<Next, Wrong> {
        let (peer, path) = (from.ip, request.uri().path());
        let route = ROUTES.iter().find(|(known, ..)| *known == path);
        // Before a word on what there is.
        let admitted = self.admit(route.map(|route| route.1), peer, &request);
        admitted.inspect_err(|_| from.room.trust().refuse())?;
        from.room.trust().authenticate();
        let &(_, endpoint, methods) = route.ok_or_else(|| Wrong::not_found(path))?;
        if !methods.contains(&request.method().as_str()) {
            return Ok(Next::Reply(reply::method_not_allowed(methods)));
        }
        let (parts, body) = request.into_parts();
        let span = match endpoint {
            Endpoint::Check | Endpoint::RateLimit | Endpoint::Authorize => {
                self.node.trace(peer, &parts.headers, traces::check)
            }
            Endpoint::Batch => self.node.trace(peer, &parts.headers, traces::batch),
            Endpoint::OpenApi => None,
        };
        let next = match endpoint {
            Endpoint::Check => Next::Check(parts.headers, body),
            // Its items have no spans of their own.
            Endpoint::Batch => return Ok(Next::Batch(body, span.map(Box::new))),
            Endpoint::RateLimit => Next::RateLimit(body),
            Endpoint::Authorize if self.node.may_wait() => Next::Authorize(Box::new((peer, parts))),
            Endpoint::Authorize => {
                let _here = span.as_ref().map(Span::enter);
                return Ok(Next::Reply(authorize::answer(&self.node, peer, &parts)?));
            }
            Endpoint::OpenApi => Next::Reply(reply::json(StatusCode::OK, openapi::document())),
        };
        Ok(match span {
            None => next,
            Some(span) => Next::Traced(Box::new((span, next))),
        })
    }

    fn admit<B>(&self, endpoint: Option<Endpoint>, peer: IpAddr, request: &Request<B>) -> Result<(), Wrong> {
        self.node.access.admit(peer, request.headers())?;
        // What a proxy forwards has the headers of somebody else's browser.
        if endpoint == Some(Endpoint::Authorize) && self.node.proxies.is_forwarded(peer, request.headers()) {
            return Ok(());
        }
        self.hosts.admit_origin(request)
    }
}

/// What is left to do once a request has been routed.
enum Next {
    /// Nothing.
    Reply(Reply),
    /// The body of one request is to be read. Its headers have done their duty and will be those of the answer.
    Check(HeaderMap, Incoming),
    /// The counters are to be asked about what a proxy describes.
    Authorize(Box<(IpAddr, Parts)>),
    /// The body of a batch is to be read, perhaps within a span.
    Batch(Incoming, Option<Box<Span>>),
    /// What a proxy says about a request is to be read.
    RateLimit(Incoming),
    /// The same as ever, but somebody wants to see how. In a box, so that all others need not carry a span.
    Traced(Box<(Span, Next)>),
}

//! The gRPC listener: Envoy's rate limit service, the check API, health and reflection.
//!
//! Decisions are unary calls and are answered by [`unary`], a fraction of what a framework would cost; what nobody
//! waits for goes through `tonic`. See `docs/adr/0009-unary-calls-without-a-framework.md`.

mod health;
mod limiter;
mod rate_limit;
mod unary;

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;

use axum::Router;
use http::{Request, Response};
use hyper::body::Incoming;
use tonic::Status;
use tonic::service::Routes;
use tower::ServiceExt;
use tracing::{Instrument as _, Span};

use crate::error::StartError;
use crate::listen::Connected;
use crate::node::Node;
use crate::traces;
pub(crate) use health::Reporter;
use unary::GrpcBody;

/// A unary call that we answer ourselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    ShouldRateLimit,
    Check,
    CheckBatch,
}

const CALLS: [(&str, Call); 3] = [
    ("/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit", Call::ShouldRateLimit),
    ("/tidegate.v1.Limiter/Check", Call::Check),
    ("/tidegate.v1.Limiter/CheckBatch", Call::CheckBatch),
];

/// What is served, in the words of the health protocol: the whole process, and each service by itself.
const SERVICES: [&str; 3] = ["", "envoy.service.ratelimit.v3.RateLimitService", "tidegate.v1.Limiter"];

/// The gRPC listener.
#[derive(Debug)]
pub(crate) struct Grpc {
    node: Arc<Node>,
    others: Router,
}

impl Grpc {
    pub(crate) async fn new(node: Arc<Node>) -> Result<(Self, Reporter), StartError> {
        let (reporter, health) = Reporter::new(&SERVICES).await;
        let reflection = tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(tidegate_wire::grpc::DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
            .build_v1()
            .map_err(StartError::Reflection)?;
        let others = Routes::new(health).add_service(reflection).prepare().into_axum_router();
        Ok((Self { node, others }, reporter))
    }

    /// Answers `request` of the client `from`.
    ///
    /// All that can be done at once is done before there is anything to wait for, so that what waits stays small: it is
    /// moved about more often than it is polled.
    pub(crate) fn answer(
        self: Arc<Self>,
        from: &Connected,
        request: Request<Incoming>,
    ) -> impl Future<Output = Response<GrpcBody>> + Send + use<> {
        let next = self.route(from, request);
        self.finish(next)
    }

    /// Does what is left to do.
    #[expect(
        clippy::manual_async_fn,
        reason = "an async fn would keep what it is given twice, and be moved about so"
    )]
    fn finish(
        self: Arc<Self>,
        next: Result<Next, Box<Status>>,
    ) -> impl Future<Output = Response<GrpcBody>> + Send + 'static {
        async move {
            let answer = match next {
                Ok(Next::Call(Call::ShouldRateLimit, body)) => rate_limit::answer(&self.node, body).await,
                Ok(Next::Call(Call::Check, body)) => Box::pin(limiter::check(&self.node, body)).await,
                Ok(Next::Call(Call::CheckBatch, body)) => {
                    Box::pin(limiter::check_batch(&self.node, body, None)).await
                }
                Ok(Next::Traced(traced)) => {
                    let (span, call, body) = *traced;
                    if call == Call::CheckBatch {
                        // Its items have no spans of their own.
                        Box::pin(limiter::check_batch(&self.node, body, Some(span))).await
                    } else {
                        let rest: Pin<Box<dyn Future<Output = Response<GrpcBody>> + Send>> =
                            Box::pin(self.finish(Ok(Next::Call(call, body))));
                        return rest.instrument(span).await;
                    }
                }
                Ok(Next::Other(request)) => {
                    let answer = Box::pin(self.others.clone().oneshot(*request)).await;
                    let Ok(answer) = answer.map_err(|never: Infallible| never);
                    Ok(answer.map(GrpcBody::Other))
                }
                Err(status) => Err(*status),
            };
            answer.unwrap_or_else(unary::refuse)
        }
    }

    fn route(&self, from: &Connected, request: Request<Incoming>) -> Result<Next, Box<Status>> {
        if let Err(wrong) = self.node.access.admit(from.ip, request.headers()) {
            from.room.trust().refuse();
            return Err(Box::new(unary::status(&wrong)));
        }
        from.room.trust().authenticate();
        let path = request.uri().path();
        match CALLS.iter().find(|(known, _)| *known == path) {
            Some((_, call)) => {
                let root = if *call == Call::CheckBatch { traces::batch } else { traces::check };
                let span = self.node.trace(from.ip, request.headers(), root);
                let body = unary::open(request)?;
                Ok(match span {
                    None => Next::Call(*call, body),
                    Some(span) => Next::Traced(Box::new((span, *call, body))),
                })
            }
            None => Ok(Next::Other(Box::new(request))),
        }
    }
}

/// What is left to do once a request has been routed.
enum Next {
    /// The body of a call that we answer is to be read.
    Call(Call, Incoming),
    /// The same, but somebody wants to see how. In a box, so that all others need not carry a span.
    Traced(Box<(Span, Call, Incoming)>),
    /// Somebody else answers.
    Other(Box<Request<Incoming>>),
}

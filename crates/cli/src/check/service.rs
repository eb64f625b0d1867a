//! Envoy's rate limit service, asked over one connection.

use std::error::Error;
use std::time::Duration;

use hyper::http::uri::PathAndQuery;
use tidegate_core::Span;
use tidegate_wire::grpc::protobuf::envoy::service::ratelimit::v3::rate_limit_response::Code as Verdict;
use tidegate_wire::grpc::protobuf::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
use tonic::client::Grpc;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::Channel;
use tonic::{Code, Request, Status};
use tonic_prost::ProstCodec;

use super::place::{Place, TlsFiles};
use crate::client::Connect;
use crate::failure::Failure;

const CALL: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

/// A connection to the service; clones share it.
#[derive(Clone)]
pub(super) struct RateLimitService {
    client: Grpc<Channel>,
    authorization: Option<MetadataValue<Ascii>>,
    timeout: Span,
    patience: Duration,
}

impl RateLimitService {
    /// Connects at once, so that a wrong address is told as such and not once per request.
    pub(super) async fn connect(to: &Place, tls: &TlsFiles, how: &Connect) -> Result<Self, Failure> {
        let patience = how.patience();
        let endpoint = to.endpoint(tls)?;
        let authorization = how.token.as_deref().map(authorization).transpose()?;
        let channel = match tokio::time::timeout(patience, endpoint.connect()).await {
            Ok(connected) => connected.map_err(|error| to.cannot_ask(&root(&error).to_string()))?,
            Err(_) => return Err(to.cannot_ask(&format!("no answer within {}", how.timeout))),
        };
        Ok(Self { client: Grpc::new(channel), authorization, timeout: how.timeout, patience })
    }

    /// Asks once. What comes back says either OK or OVER_LIMIT.
    pub(super) async fn ask(&self, question: RateLimitRequest) -> Result<RateLimitResponse, Problem> {
        let mut request = Request::new(question);
        if let Some(token) = &self.authorization {
            request.metadata_mut().insert("authorization", token.clone());
        }
        let answer = tokio::time::timeout(self.patience, self.call(request)).await;
        let answer = answer.map_err(|_| Problem {
            code: Code::DeadlineExceeded,
            message: format!("no answer within {}", self.timeout),
            answered: false,
        })??;
        if answer.overall_code() == Verdict::Unknown {
            let message = "it says neither OK nor OVER_LIMIT".to_owned();
            return Err(Problem { code: Code::Unknown, message, answered: true });
        }
        Ok(answer)
    }

    async fn call(&self, request: Request<RateLimitRequest>) -> Result<RateLimitResponse, Status> {
        let mut client = self.client.clone();
        client.ready().await.map_err(|error| Status::from_error(error.into()))?;
        let path = PathAndQuery::from_static(CALL);
        let codec = ProstCodec::<RateLimitRequest, RateLimitResponse>::default();
        client.unary(request, path, codec).await.map(tonic::Response::into_inner)
    }
}

fn authorization(token: &str) -> Result<MetadataValue<Ascii>, Failure> {
    let value = format!("Bearer {token}").parse::<MetadataValue<Ascii>>();
    let mut value = value.map_err(|_| {
        Failure::Usage("the token cannot be sent; it may only have visible ASCII characters".to_owned())
    })?;
    value.set_sensitive(true);
    Ok(value)
}

/// Why there is no verdict.
#[derive(Clone, Debug)]
pub(super) struct Problem {
    pub(super) code: Code,
    pub(super) message: String,
    /// Whether it is the server that says so.
    pub(super) answered: bool,
}

impl From<Status> for Problem {
    fn from(status: Status) -> Self {
        let local = status.source().map(|source| root(source).to_string());
        Self {
            code: status.code(),
            answered: local.is_none(),
            message: local.unwrap_or_else(|| status.message().to_owned()),
        }
    }
}

impl Problem {
    /// For whoever asked `to`.
    pub(super) fn explain(&self, to: &Place) -> Failure {
        let Self { message, answered, .. } = self;
        let code = self.code_name();
        if !answered {
            return to.cannot_ask(&format!("{code}: {message}"));
        }
        let fix = match self.code {
            // So it looks to ask a listener for something else.
            Code::Unimplemented | Code::Internal => {
                "\nIs that where it listens for gRPC? If not, say where with --server HOST:PORT."
            }
            Code::Unauthenticated => "\nGive the server's token with --token TOKEN.",
            _ => "",
        };
        Failure::Failed(format!("{to} answers {code}: {message}{fix}"))
    }

    /// The code as the protocol writes it.
    pub(super) fn code_name(&self) -> &'static str {
        match self.code {
            Code::Ok => "OK",
            Code::Cancelled => "CANCELLED",
            Code::Unknown => "UNKNOWN",
            Code::InvalidArgument => "INVALID_ARGUMENT",
            Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
            Code::NotFound => "NOT_FOUND",
            Code::AlreadyExists => "ALREADY_EXISTS",
            Code::PermissionDenied => "PERMISSION_DENIED",
            Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
            Code::FailedPrecondition => "FAILED_PRECONDITION",
            Code::Aborted => "ABORTED",
            Code::OutOfRange => "OUT_OF_RANGE",
            Code::Unimplemented => "UNIMPLEMENTED",
            Code::Internal => "INTERNAL",
            Code::Unavailable => "UNAVAILABLE",
            Code::DataLoss => "DATA_LOSS",
            Code::Unauthenticated => "UNAUTHENTICATED",
        }
    }
}

/// What is behind an error: "transport error" helps nobody.
pub(super) fn root<'e>(mut error: &'e (dyn Error + 'static)) -> &'e (dyn Error + 'static) {
    while let Some(source) = error.source() {
        error = source;
    }
    error
}

//! A gRPC client, and short ways to write what it asks and hears.

use std::net::SocketAddr;

use http::uri::PathAndQuery;
use tidegate_wire::grpc::protobuf::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use tidegate_wire::grpc::protobuf::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::{
    Entry, RateLimitOverride,
};
use tidegate_wire::grpc::protobuf::envoy::service::ratelimit::v3::rate_limit_response::DescriptorStatus;
use tidegate_wire::grpc::protobuf::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
use tidegate_wire::grpc::protobuf::envoy::r#type::v3::RateLimitUnit;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};
use tonic_prost::ProstCodec;

use crate::client::DEADLINE;

/// A client of the rate limit service.
#[derive(Clone)]
pub(crate) struct Client(Channel);

impl Client {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
        Self(endpoint.connect().await.unwrap())
    }

    pub(crate) fn over(channel: Channel) -> Self {
        Self(channel)
    }

    pub(crate) async fn ask(&self, request: RateLimitRequest) -> Result<RateLimitResponse, Status> {
        self.call("/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit", request).await
    }

    pub(crate) async fn call<A, B>(&self, path: &'static str, message: A) -> Result<B, Status>
    where
        A: prost::Message + Send + Sync + 'static,
        B: prost::Message + Default + Send + Sync + 'static,
    {
        let mut grpc = tonic::client::Grpc::new(self.0.clone());
        grpc.ready().await.map_err(|error| Status::unknown(error.to_string()))?;
        let mut request = Request::new(message);
        request.set_timeout(DEADLINE);
        let codec: ProstCodec<A, B> = ProstCodec::default();
        Ok(grpc.unary(request, PathAndQuery::from_static(path), codec).await?.into_inner())
    }
}

/// A question about `descriptors`, each written like `key=value, key=value`, with ` +3` for hits of its own, ` -3` for
/// hits to give back, and ` @5/MINUTE` for a limit of its own at the end.
pub(crate) fn ask(domain: &str, hits_addend: u32, descriptors: &[&str]) -> RateLimitRequest {
    let descriptors = descriptors.iter().map(|text| descriptor(text)).collect();
    RateLimitRequest { domain: domain.to_owned(), descriptors, hits_addend }
}

fn descriptor(text: &str) -> RateLimitDescriptor {
    let mut words = text.split(' ').collect::<Vec<_>>();
    let mut descriptor = RateLimitDescriptor::default();
    while let Some(word) = words.last().copied() {
        if let Some(limit) = word.strip_prefix('@') {
            let (requests, unit) = limit.split_once('/').unwrap();
            let unit = RateLimitUnit::from_str_name(unit).unwrap();
            let requests_per_unit = requests.parse().unwrap();
            descriptor.limit = Some(RateLimitOverride { requests_per_unit, unit: unit.into() });
        } else if let Some(hits) = word.strip_prefix(['+', '-']) {
            descriptor.hits_addend = Some(hits.parse().unwrap());
            descriptor.is_negative_hits = word.starts_with('-');
        } else {
            break;
        }
        words.pop();
    }
    let text = words.join(" ");
    let entry = |entry: &str| {
        let (key, value) = entry.split_once('=').unwrap_or((entry, ""));
        Entry { key: key.to_owned(), value: value.to_owned() }
    };
    descriptor.entries = text.split(", ").map(entry).collect();
    descriptor
}

/// An answer as text: the code, then per descriptor its code and figures, such as `OK 4 of 5 per MINUTE`.
pub(crate) fn told(response: &RateLimitResponse) -> (&'static str, Vec<String>) {
    (response.overall_code().as_str_name(), response.statuses.iter().map(status).collect())
}

fn status(status: &DescriptorStatus) -> String {
    let code = status.code().as_str_name();
    match (&status.current_limit, status.limit_remaining) {
        (None, 0) => code.to_owned(),
        (None, u32::MAX) => format!("{code} unlimited"),
        (None, left) => format!("{code} {left} of nothing"),
        (Some(limit), left) => {
            let unit = limit.unit().as_str_name();
            let name = if limit.name.is_empty() { String::new() } else { format!(" ({})", limit.name) };
            format!("{code} {left} of {} per {unit}{name}", limit.requests_per_unit)
        }
    }
}

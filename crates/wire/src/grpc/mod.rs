//! Envoy's rate limit service and the check API, in protobuf.

pub mod check;
pub mod metadata;
pub mod rate_limit;
pub mod rate_limit_json;

/// The messages as they go over the wire, generated from `proto/`.
#[allow(
    missing_docs,
    unreachable_pub,
    clippy::doc_markdown,
    reason = "generated; the protobuf files have the words"
)]
pub mod protobuf {
    include!(concat!(env!("OUT_DIR"), "/protobuf.rs"));
}

/// All of `proto/` in the form in which gRPC servers describe themselves.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));

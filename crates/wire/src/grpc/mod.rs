//! Envoy's rate limit service and the check API, in protobuf.

pub mod check;
pub mod metadata;
pub mod rate_limit;
pub mod rate_limit_json;

/// Protobuf messages, generated from `proto/` by `cargo xtask bless`.
#[allow(
    missing_docs,
    unreachable_pub,
    clippy::doc_markdown,
    reason = "generated; the protobuf files have the words"
)]
pub mod protobuf {
    include!("generated/protobuf.rs");
}

/// File descriptor set of `proto/`, for gRPC reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!("generated/descriptors.bin");

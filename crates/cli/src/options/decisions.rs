//! The options of the decision service alone.

use std::net::SocketAddr;
use std::path::PathBuf;

use tidegate_core::Span;

use super::{Credits, List, RlsExtra, address};

/// What only an operator of the decision service may decide.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct DecisionOptions {
    /// Where decisions are asked for over HTTP [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDRESS", env = "TIDEGATE_HTTP", value_parser = address, help_heading = "Listeners")]
    pub(crate) http: Option<SocketAddr>,

    /// Where gRPC is served [default: 127.0.0.1:8081]
    #[arg(long, value_name = "ADDRESS", env = "TIDEGATE_GRPC", value_parser = address, help_heading = "Listeners")]
    pub(crate) grpc: Option<SocketAddr>,

    /// How long a gRPC connection is used before its client is asked to make another, give or take a tenth; 0s is for
    /// ever [default: 1d]
    #[arg(
        long,
        value_name = "DURATION",
        env = "TIDEGATE_GRPC_MAX_CONNECTION_AGE",
        help_heading = "Listeners"
    )]
    pub(crate) grpc_max_connection_age: Option<Span>,

    /// The certificate, with those that lead to a known authority, for gRPC over TLS
    #[arg(long, value_name = "FILE", env = "TIDEGATE_GRPC_TLS_CERT", help_heading = "Listeners")]
    pub(crate) grpc_tls_cert: Option<PathBuf>,

    /// Its private key
    #[arg(long, value_name = "FILE", env = "TIDEGATE_GRPC_TLS_KEY", help_heading = "Listeners")]
    pub(crate) grpc_tls_key: Option<PathBuf>,

    /// The authorities whose certificates gRPC clients must have [default: none]
    #[arg(long, value_name = "FILE", env = "TIDEGATE_GRPC_TLS_CLIENT_CA", help_heading = "Listeners")]
    pub(crate) grpc_tls_client_ca: Option<PathBuf>,

    /// What answers to Envoy carry besides verdicts: headers (see --headers), body (of refusals), metadata (ids of the
    /// rules) [default: body,metadata]
    #[arg(long, value_name = "EXTRAS", env = "TIDEGATE_RLS_EXTRAS", help_heading = "Answers")]
    pub(crate) rls_extras: Option<List<RlsExtra>>,

    /// Whether gRPC clients may give quota back with negative hits [default: refuse]
    #[arg(long, value_name = "WHETHER", env = "TIDEGATE_CREDITS", help_heading = "Access")]
    pub(crate) credits: Option<Credits>,
}

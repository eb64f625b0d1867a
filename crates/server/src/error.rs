//! Why a server does not start, or does not end well.

use std::io;
use std::net::SocketAddr;

use tidegate_rules::Problems;

/// Why a server does not start. The text says what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The rules cannot be used; all that is wrong with them.
    #[error("{0}")]
    Rules(Problems),
    /// The rules cannot be had at all; the text says why.
    #[error("{0}")]
    Source(String),
    /// A listener anybody could reach would answer anybody.
    #[error(
        "the {listener} listener would be open to everybody who can reach {address}; give {}, allow a network (such as \
         10.0.0.0/8), or listen on 127.0.0.1",
        if *listener == "admin" { "admin tokens or a token" } else { "a token" }
    )]
    Unprotected {
        /// `http`, `grpc` or `admin`.
        listener: &'static str,
        /// Where it was to listen.
        address: SocketAddr,
    },
    /// A token no client could send.
    #[error("the token is empty or has characters that no header can carry; use visible ASCII characters")]
    Token,
    /// The named tokens of the admin listener cannot be used; the text says all that is wrong with them.
    #[error("{0}")]
    AdminTokens(#[from] crate::tokens::TokensError),
    /// Nobody on this machine could use the admin listener.
    #[error(
        "callers on this machine need a token for the admin listener, and there is none they could send; give admin \
         tokens or a token, or allow local callers without one"
    )]
    AdminLocal,
    /// What the gRPC listener says about itself is unsound; only a broken build is.
    #[error("cannot describe the gRPC services: {0}")]
    Reflection(#[source] tonic_reflection::server::Error),
    /// The files that TLS needs cannot be used; the text says which and why.
    #[error("{0}")]
    Tls(#[from] crate::tls::TlsError),
    /// An address cannot be listened on.
    #[error("cannot listen on {address} for {listener}: {source}; choose another address")]
    Bind {
        /// `http`, `grpc` or `admin`.
        listener: &'static str,
        /// Where it was to listen.
        address: SocketAddr,
        /// What the operating system says.
        source: io::Error,
    },
    /// The operating system gives no randomness or no thread.
    #[error("cannot set up the limiter: {0}")]
    Limiter(#[from] io::Error),
}

/// Why a server did not end well.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Connections were still busy when the time to drain was over, and were cut.
    #[error("{0} connections were still busy when the time to drain was over; their requests are lost")]
    Unfinished(usize),
}

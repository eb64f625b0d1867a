//! The decision service: a [`tidegate::Limiter`] behind HTTP, gRPC and an administrator's door.
//!
//! Three listeners, so that each can have its own address and its own firewall:
//!
//! - **data** (HTTP): `/v1/check`, `/v1/check/batch`, `/v1/authorize`, and `/json` as Envoy's own server has it;
//! - **gRPC**: Envoy's rate limit service, `tidegate.v1.Limiter`, health and reflection;
//! - **admin** (HTTP): health, metrics, the rules in force, explanations.
//!
//! Counters are in memory, or in a [`SharedStore`] that several servers use. The server neither waits for such a store
//! when it starts nor ends when the store does: every rule says what becomes of requests meanwhile.
//!
//! [Users' tiers](UserTiers) may be in a database. It is treated likewise: while it is away, users whose tier is not known
//! here have the default one.
//!
//! A [`Server`] is bound with a [`Config`] and a [`RulesFeed`] and then runs until it is told to stop:
//!
//! ```no_run
//! use tidegate_server::{Config, RulesFeed, Server};
//!
//! # async fn serve() -> Result<(), Box<dyn std::error::Error>> {
//! let rules = RulesFeed::fixed("rules.yaml", "rules:\n  - {rule_id: all, identifier_type: global, limit: 9, window: 1s}\n");
//! let server = Server::bind(Config::default(), rules).await?;
//! println!("http://{}/v1/check", server.addresses().http);
//! server.run(async { drop(tokio::signal::ctrl_c().await) }).await?;
//! # Ok(())
//! # }
//! ```

mod access;
mod admin;
mod alerts;
mod base;
mod body;
mod caller;
mod combined;
mod config;
mod connection;
mod connection_limiter;
mod data;
mod data_plane;
mod drain;
mod error;
mod feed;
pub mod forwarded;
mod grpc;
mod gzip;
mod health;
mod insight;
mod keys_watch;
mod listen;
mod live;
mod log_level;
mod membership;
mod memory;
mod metrics;
mod modes;
mod node;
mod openapi;
mod origin;
mod reply;
mod reserve;
mod rules_cache;
mod secret_file;
mod server;
mod settlements;
mod store_watch;
mod streams;
mod tiers;
mod tls;
mod tokens;
pub mod traces;
mod transport;
mod trust;
mod wait;
mod written_down;

/// What a node serves with, for those who serve something else than decisions on it.
pub mod front {
    pub use crate::base::{Base, Front, Places};
    pub use crate::connection::{Patience, Phase};
    pub use crate::connection_limiter::ConnectionLimiter;
    pub use crate::drain::Serving;
    pub use crate::listen::{Connected, Listener, Public};
    pub use crate::live::{ShedState, UpstreamState};
    pub use crate::node::{Node, Shown};
    pub use crate::reserve::ConnectionRoom;
    pub use crate::tls::{Tls, TlsTerms};
}

pub use alerts::{
    AlertSettings, StoreReport, StoreReporter, StoreReports, Webhook, WebhookError, WebhookStyle,
};
pub use config::{AdminTokens, Config, IdentityHeaders, PeersHeard, RlsExtras, SharedStore, TlsFiles};
pub use data_plane::DataPlane;
pub use error::{RunError, StartError};
pub use feed::RulesFeed;
pub use insight::{HotKey, HotKeyEvent};
pub use log_level::{LogControl, LogHandle, LogLevel};
pub use membership::Membership;
pub use modes::Thresholds;
pub use secret_file::warn_if_exposed;
pub use server::{Addresses, Server};
pub use tiers::UserTiers;
pub use tls::TlsError;
pub use tokens::{NamedToken, Role, Tokens, TokensError};
pub use traces::{SpanFigures, TraceParent, Tracer, Traces};
pub use written_down::WrittenDown;

use std::pin::Pin;

/// A future on the heap.
///
/// The code of an `async fn` is compiled in every crate that awaits it. That of a boxed future is compiled once, where it is made,
/// so functions that are called once per process return one.
pub type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

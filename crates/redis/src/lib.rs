//! Counters in Redis or Valkey, shared by many nodes.
//!
//! A second implementation of the counters of `tidegate-core`, as a script that runs inside the server
//! (`scripts/`), held to the same behaviour by the conformance suite of `tidegate-store`. Around it:
//!
//! ```text
//! groups → (coordinator) → shard → batch → script → outcomes
//! ```
//!
//! `url` says where the servers are, one file each finds the master ([`Topology`]): `sentinel`, `cluster`. A
//! `shard` is one master: a `link` that is kept up, and what waits to be sent over it. The fleet's `secret` is agreed
//! through the servers themselves.

mod breaker;
mod cluster;
mod connect;
mod encode;
mod inspect;
mod key;
mod link;
mod problem;
mod script;
mod secret;
mod sentinel;
mod shard;
mod store;
mod sweep;
mod url;

pub use inspect::ServerReport;
pub use problem::Problem;
pub use store::{Builder, DEFAULT_TIMEOUT, RedisStore};
pub use url::{Address, Credentials, DEFAULT_PREFIX, RedisUrl, Tls, Topology, UrlError};

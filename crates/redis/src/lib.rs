//! Counters in Redis or Valkey, shared by many nodes.
//!
//! A second implementation of the counters of `tidegate-core`, as a script that runs inside the server
//! (`scripts/`), held to the same behaviour by the conformance suite of `tidegate-store`. Around it:
//!
//! ```text
//! groups → (coordinator) → shard → lane → batch → script → outcomes
//! ```
//!
//! `url` says where the servers are, one file each finds the master ([`Topology`]): `sentinel`, `cluster`. A
//! `shard` is one master, with a `lane` to it from each event loop: a `link` that is kept up, and what waits to be sent over it. What is
//! known of the `master` is shared by all lanes. The fleet's `secret` is agreed through the servers themselves.

mod breaker;
mod breaker_log;
mod cluster;
mod connect;
mod encode;
mod event_loops;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod inspect;
mod key;
mod lane;
mod link;
mod master;
mod problem;
mod redirect;
mod script;
mod secret;
mod sentinel;
mod shard;
mod store;
mod sweep;
mod url;
mod waiting;

pub use inspect::ServerReport;
pub use problem::Problem;
pub use store::{Builder, DEFAULT_TIMEOUT, RedisStore};
pub use url::{Address, Credentials, DEFAULT_PREFIX, RedisUrl, Tls, Topology, UrlError};

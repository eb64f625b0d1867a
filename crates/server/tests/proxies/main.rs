//! The recipes of `deploy/`, run by the proxies they are for.
//!
//! Real proxies, a real server, and a back end that says what reached it. The files are those that people copy; only
//! addresses in them are replaced.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod ask;
mod caddy;
mod checks;
#[allow(dead_code, reason = "it has more than is needed here")]
#[path = "../http/client.rs"]
mod client;
mod envoy;
mod haproxy;
mod made_up;
mod nginx;
mod stand;

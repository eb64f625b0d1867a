//! The store against real servers.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test")]

mod conformance;
mod differential;
mod exactness;
mod failover;
mod groups;
mod load;
mod node;
mod support;

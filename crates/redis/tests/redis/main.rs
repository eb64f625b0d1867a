//! The store against real servers.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test")]

mod agreement;
mod breaker;
mod coalescing;
mod conformance;
mod deadlines;
mod differential;
mod event_loops;
mod exactness;
mod failover;
mod groups;
mod load;
mod node;
mod problems;
mod secret;
mod startup;
mod support;
mod tls;

//! The store against real servers.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test")]

mod conformance;
mod differential;
mod exactness;
mod groups;
mod node;
mod support;

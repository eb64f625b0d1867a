//! Requests through a real gateway to real back ends.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on should say so and stop")]

#[path = "../support/mod.rs"]
mod support;

mod access_log;
mod bodies;
mod charges;
mod client;
mod costs;
mod delay;
mod failures;
mod forwarding;
mod guessing;
mod hanging_up;
mod health;
mod identity;
mod in_flight;
mod overload;
mod padding;
mod protocols;
mod refusals;
mod reload;
mod store;
mod tls;
mod trailers;
mod websocket;

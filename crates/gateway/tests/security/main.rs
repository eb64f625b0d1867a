//! What a hostile client, or a hostile back end, may try.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

#[path = "../support/mod.rs"]
mod support;

mod crowding;
mod frames;
mod hostile;
mod slow;
mod stalled;
mod tunnels;
mod wire;

//! What a hostile client, or a hostile back end, may try.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

#[path = "../support/mod.rs"]
mod support;

mod answers;
mod aside;
mod crowding;
mod differential;
mod downgrade;
mod floods;
mod frames;
mod headers;
mod hostile;
mod mutations;
mod paths;
mod refusals;
mod sizes;
mod slow;
mod smuggling;
mod stalled;
mod tunnels;
mod wire;

//! Deciding what the store cannot, in front of a store that comes and goes.
#![allow(clippy::unwrap_used, clippy::panic, reason = "this is how a test fails")]

mod alone;
mod fleet;
mod owners;
mod schedules;
mod support;

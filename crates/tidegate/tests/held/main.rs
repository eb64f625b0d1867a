//! Requests that cost what their answers say.
#![allow(clippy::unwrap_used, clippy::panic, reason = "this is how a test fails")]

mod away;
mod memory;
mod redis;
mod story;

//! Nodes in one process that find each other over real sockets.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod fleet;
mod relay;
mod secrets;
mod start;
mod together;

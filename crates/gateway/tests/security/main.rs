//! What a hostile client may try.

#[path = "../support/mod.rs"]
mod support;

mod tunnels;

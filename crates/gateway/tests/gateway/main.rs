//! Requests through a real gateway to real back ends.

#[path = "../support/mod.rs"]
mod support;

mod forwarding;

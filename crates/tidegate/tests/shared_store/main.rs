//! Decisions through a store that others share, and that may fail.
#![allow(clippy::unwrap_used, reason = "a test")]

mod asking;
mod fake;
mod joining;
mod layer;
mod waiting;

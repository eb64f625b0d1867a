//! One node asks another, over real connections.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod answering;
mod failing;
mod foreign;
mod hostile;
mod node;
mod raw;

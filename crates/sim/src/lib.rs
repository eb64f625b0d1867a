//! Deterministic simulation of the failover protocol.
//!
//! Each seed draws a fleet, its features and its faults, and runs real [`Machine`](tidegate_failover::Machine)s in virtual time
//! over links that delay, lose, repeat and reorder. Checkers hold every step to the invariants of the protocol; the same seed
//! always gives the same run.

mod bounds;
mod check;
mod fault_plan;
mod faults;
mod network;
mod node;
mod queue;
mod rng;
mod run;
mod scenario;
mod stats;
mod store;
mod trace;
mod truth;
mod workload;
mod world;

pub use run::{Report, Summary, run, run_traced, search};
pub use stats::RunStats;
pub use tidegate_failover::{Mistake, plant};
pub use world::Violation;

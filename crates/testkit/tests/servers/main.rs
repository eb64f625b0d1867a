//! Each kind of server starts, answers, does what its handle says, and leaves nothing behind.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod backend;
mod browser;
mod etcd_server;
mod groups;
mod postgres_server;
mod process;
mod prometheus_server;
mod proxy;
mod redis_server;

use std::time::Duration;

/// Longer than anything here takes.
const SOON: Duration = tidegate_testkit::wait::HANG_LIMIT;

/// Whether a process exists. One that has ended and was not yet waited for does not.
fn exists(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, state)| !state.starts_with('Z'))
}

//! Fuzz targets: one for each kind of bytes that somebody else chooses.
//!
//! A [`Target`] takes any bytes and panics if something that must hold does not. `cargo xtask fuzz` looks for bytes that make one
//! panic, run out of memory or take too long; what it ever found lies in `corpus/`, which every test run replays.

mod targets;

/// Something that reads bytes chosen by others.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Name on the command line, and of its folder in `corpus/`.
    pub name: &'static str,
    /// Reads the bytes, and panics if what must hold does not.
    pub run: fn(&[u8]),
}

/// All targets.
pub const TARGETS: [Target; 6] = [
    Target { name: "rule_documents", run: targets::rule_documents::run },
    Target { name: "access_logs", run: targets::access_logs::run },
    Target { name: "rate_limit_messages", run: targets::rate_limit_messages::run },
    Target { name: "request_heads", run: targets::request_heads::run },
    Target { name: "cluster_packets", run: targets::cluster_packets::run },
    Target { name: "redis_replies", run: targets::redis_replies::run },
];

/// Returns the target of this name.
pub fn target(name: &str) -> Option<Target> {
    TARGETS.into_iter().find(|target| target.name == name)
}

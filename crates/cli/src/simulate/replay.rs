//! The engine under a clock that says what the log says.

use std::sync::Arc;

use tidegate::{Checked, Limiter, ManualClock};
use tidegate_core::{Request, RuleSet, Secret, Timestamp};
use tidegate_wire::CheckBody;

use super::combined_log::{self, Logged};
use super::input::{Line, MAX_LINE_BYTES};
use super::json_line;
use crate::failure::Failure;

/// The same input gives the same output, to the byte: nothing may depend on chance.
const SECRET: Secret = Secret::new(*b"tidegate replays");

/// A limiter in virtual time.
pub(crate) struct Replay {
    limiter: Limiter,
    clock: Arc<ManualClock>,
    format: Option<Format>,
}

/// How requests are written down; the first line tells.
#[derive(Clone, Copy)]
enum Format {
    Json,
    CombinedLog,
}

/// A recorded request.
pub(crate) enum Recorded<'a> {
    Check(CheckBody<'a>),
    Logged(Logged<'a>),
}

impl Recorded<'_> {
    /// The request to decide.
    pub(crate) fn request(&self) -> Request<'_> {
        match self {
            Self::Check(body) => body.request(),
            Self::Logged(logged) => logged.request(),
        }
    }
}

impl Replay {
    /// Nothing counted yet.
    pub(crate) fn new(rules: RuleSet, max_keys: usize) -> Result<Self, Failure> {
        let clock = Arc::new(ManualClock::default());
        let limiter =
            Limiter::builder(rules).max_keys(max_keys).clock(Arc::clone(&clock) as _).secret(SECRET);
        let limiter = limiter
            .build()
            .map_err(|error| Failure::Failed(format!("cannot set up the limiter: {error}")))?;
        Ok(Self { limiter, clock, format: None })
    }

    /// What a line of the input says: when, and what was asked for.
    pub(crate) fn read<'l>(&mut self, line: Line<'l>) -> Result<(Timestamp, Recorded<'l>), String> {
        let text = line.text.ok_or_else(|| format!("it is longer than {MAX_LINE_BYTES} bytes"))?;
        let format = *self.format.get_or_insert_with(|| match text.trim_ascii_start().first() {
            Some(b'{') => Format::Json,
            _ => Format::CombinedLog,
        });
        match format {
            Format::Json => json_line::parse(text).map(|(at, body)| (at, Recorded::Check(body))),
            Format::CombinedLog => {
                combined_log::parse(text).map(|(at, logged)| (at, Recorded::Logged(logged)))
            }
        }
    }

    /// Decides a request as if it were `at` now.
    pub(crate) fn decide(&self, at: Timestamp, request: &Request<'_>) -> Result<Checked, String> {
        self.clock.set(at);
        self.limiter.try_check(request).map_err(|error| error.to_string())
    }

    /// The rules in force.
    pub(crate) fn rules(&self) -> Arc<RuleSet> {
        self.limiter.rules()
    }

    /// How many takes had to share a counter.
    pub(crate) fn overflowed(&self) -> u64 {
        self.limiter.store().overflowed()
    }
}

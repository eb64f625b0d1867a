//! Starting servers on ports that something outside the tests may want too.

use std::fmt;

use crate::process::Process;

/// How often another port is tried when something outside the tests has taken one.
const TRIES: usize = 5;

/// What programs say when their port is taken.
const TAKEN: [&str; 2] = ["address already in use", "address in use"];

/// Why a server does not run.
#[derive(Debug)]
pub(crate) enum StartError {
    PortTaken(String),
    Failed(String),
}

impl StartError {
    /// What the log of a server that is not ready tells.
    pub(crate) fn of(process: &Process) -> Self {
        let log = process.log_tail();
        let said = log.to_ascii_lowercase();
        if TAKEN.iter().any(|words| said.contains(words)) { Self::PortTaken(log) } else { Self::Failed(log) }
    }
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (StartError::PortTaken(log) | StartError::Failed(log)) = self;
        write!(f, "the server did not start; the end of its log:\n{log}")
    }
}

/// Starts again on other ports if something outside the tests was quicker.
pub(crate) fn retry_ports<T>(mut start: impl FnMut() -> Result<T, StartError>) -> T {
    for _ in 1..TRIES {
        match start() {
            Ok(started) => return started,
            Err(StartError::PortTaken(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }
    start().unwrap_or_else(|error| panic!("{error}"))
}

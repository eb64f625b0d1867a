//! How a command ends when it does not end well.

use std::io;
use std::process::ExitCode;

use crate::terminal;

/// How a command ended.
pub(crate) type Outcome = Result<ExitCode, Failure>;

/// Why a command did not do what it was asked to. The text says what to do about it.
#[derive(Debug)]
pub(crate) enum Failure {
    /// It was asked for in the wrong way.
    Usage(String),
    /// It was tried and did not work.
    Failed(String),
    /// Whoever read the output has seen enough.
    NobodyReads,
}

impl Failure {
    /// Tells the user, and gives the exit code that tells a program.
    pub(crate) fn report(self) -> ExitCode {
        let (code, message) = match self {
            Self::Usage(message) => (2, message),
            Self::Failed(message) => (1, message),
            Self::NobodyReads => return ExitCode::SUCCESS,
        };
        let style = terminal::BAD.bold();
        anstream::eprintln!("{style}error:{style:#} {}", terminal::safe_lines(&message));
        ExitCode::from(code)
    }
}

/// For what goes wrong while writing a command's output.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::NobodyReads,
            _ => Self::Failed(format!("cannot write the output: {error}")),
        }
    }
}

//! `tidegate completions`: what a shell needs to complete commands and options.

use std::io::{self, Write};
use std::process::ExitCode;

use clap_complete::Shell;

use crate::args;
use crate::failure::Outcome;

/// The arguments of `tidegate completions`.
#[derive(Debug, clap::Args)]
pub(crate) struct CompletionsArgs {
    /// The shell to complete for
    shell: Shell,
}

/// Prints the script for a shell.
pub(crate) fn run(args: &CompletionsArgs) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut args::command(), "tidegate", &mut script);
    io::stdout().write_all(&script)?;
    Ok(ExitCode::SUCCESS)
}

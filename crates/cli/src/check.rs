//! `tidegate check`: asks a running server, and counts.

use std::io::{self, Write};
use std::process::ExitCode;

use crate::client::{Address, Connect};
use crate::decision::{self, Decision};
use crate::failure::Outcome;
use crate::request::RequestArgs;
use crate::terminal::{BAD, GOOD};

/// The arguments of `tidegate check`.
#[derive(Debug, clap::Args)]
pub(crate) struct CheckArgs {
    /// Print the server's answer as it is
    #[arg(long)]
    json: bool,

    /// Where decisions are asked for
    #[arg(
        long,
        value_name = "URL",
        env = "TIDEGATE_SERVER",
        default_value = "http://127.0.0.1:8080",
        help_heading = "Server"
    )]
    server: Address,

    #[command(flatten)]
    connect: Connect,

    #[command(flatten)]
    request: RequestArgs,
}

/// Asks, and says what the answer is.
pub(crate) fn run(args: &CheckArgs) -> Outcome {
    let answer = args.connect.post(&args.server, "/v1/check", args.request.body(), "--server")?;
    let decision = decision::show(&answer, args.json, write)?;
    Ok(if decision.allowed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn write(out: &mut dyn Write, decision: &Decision) -> io::Result<()> {
    let (style, word) = if decision.allowed { (GOOD, "allowed") } else { (BAD, "refused") };
    write!(out, "{style}{word}{style:#}")?;
    decision.write_reason(out)?;
    if decision.rules.len() > 1 || decision.rules.iter().any(|rule| rule.shadow) {
        writeln!(out)?;
        decision.table().write(out)?;
    }
    Ok(())
}

//! `tidegate rules init`: making room for rules where they are to be.

use std::io::Write;
use std::process::ExitCode;

use super::opened::{Opened, SourceArgs};
use crate::failure::{Failure, Outcome};
use crate::terminal::{GOOD, safe};

pub(super) const EXAMPLES: &str = "\
Creates the tables for rules, their history and users' tiers in PostgreSQL, or brings them up to date; running it again \
changes nothing. Files, etcd and ZooKeeper need no preparation.

Examples:
  tidegate rules init --rules postgres://tidegate:secret@127.0.0.1:5432/tidegate
  TIDEGATE_RULES=postgres://tidegate@db/tidegate?schema=limits PGPASSWORD=secret tidegate rules init";

/// The arguments of `tidegate rules init`.
#[derive(Debug, clap::Args)]
pub(crate) struct InitArgs {
    #[command(flatten)]
    source: SourceArgs,
}

pub(super) fn run(args: &InitArgs) -> Outcome {
    let opened = Opened::new(&args.source)?;
    let Some(archive) = opened.tables() else {
        return Err(Failure::Usage(format!(
            "{} needs no preparation; only PostgreSQL does: put rules there with `tidegate rules apply`",
            safe(&opened.source.to_string())
        )));
    };
    opened.ask(async { Ok(archive.init().await?) })?;
    let mut out = anstream::stdout().lock();
    writeln!(out, "{GOOD}{}{GOOD:#} is ready for rules", safe(&opened.source.to_string()))?;
    Ok(ExitCode::SUCCESS)
}

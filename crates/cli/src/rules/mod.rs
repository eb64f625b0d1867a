//! `tidegate rules`: rules in files, and in the sources that servers read them from.
//!
//! ```text
//! files ─┐
//!        ├→ changes → plan (shown, agreed to) → source
//! names ─┘
//! ```

mod apply;
mod author;
mod change;
mod convert;
mod delete;
mod files;
mod get;
mod history;
mod init;
mod list;
mod make;
mod opened;
mod patch;
mod progress;
mod rollback;
mod step;
mod texts;
mod validate;

use std::io::{self, Write};
use std::process::ExitCode;

use tidegate_rules::json_schema;

use crate::failure::Outcome;
use apply::{ApplyArgs, DiffArgs};
use convert::ConvertArgs;
use delete::DeleteArgs;
use get::GetArgs;
use history::HistoryArgs;
use init::InitArgs;
use list::ListArgs;
use rollback::RollbackArgs;
pub(crate) use texts::{load, unusable};
use validate::ValidateArgs;

/// What to do with rules.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum RulesCommand {
    /// Make room for rules in PostgreSQL
    #[command(after_help = init::EXAMPLES)]
    Init(InitArgs),
    /// Show all rules of a source
    #[command(after_help = list::EXAMPLES)]
    List(ListArgs),
    /// Print a rule as it is written
    #[command(after_help = get::EXAMPLES)]
    Get(GetArgs),
    /// Put rules from files into a source
    #[command(after_help = apply::APPLY_EXAMPLES)]
    Apply(ApplyArgs),
    /// Show what applying files would change
    #[command(after_help = apply::DIFF_EXAMPLES)]
    Diff(DiffArgs),
    /// Take rules out of a source
    #[command(after_help = delete::EXAMPLES)]
    Delete(DeleteArgs),
    /// Show who changed a rule, when, and how
    #[command(after_help = history::EXAMPLES)]
    History(HistoryArgs),
    /// Have a rule be what it was at an earlier version
    #[command(after_help = rollback::EXAMPLES)]
    Rollback(RollbackArgs),
    /// Check rule files and show everything that is wrong with them
    #[command(after_help = validate::EXAMPLES)]
    Validate(ValidateArgs),
    /// Print rule files, such as those of Envoy's rate limit service, as one file in Tidegate's own form
    #[command(after_help = convert::EXAMPLES)]
    Convert(ConvertArgs),
    /// Print the JSON Schema of rule files, for editors
    #[command(after_help = SCHEMA_EXAMPLES)]
    Schema,
}

const SCHEMA_EXAMPLES: &str = "\
Examples:
  tidegate rules schema > rules.schema.json
  # then, as the first line of a rule file, for editors with a YAML language server:
  # yaml-language-server: $schema=rules.schema.json";

/// Does it.
pub(crate) fn run(command: &RulesCommand) -> Outcome {
    match command {
        RulesCommand::Init(args) => init::run(args),
        RulesCommand::List(args) => list::run(args),
        RulesCommand::Get(args) => get::run(args),
        RulesCommand::Apply(args) => apply::apply(args),
        RulesCommand::Diff(args) => apply::diff(args),
        RulesCommand::Delete(args) => delete::run(args),
        RulesCommand::History(args) => history::run(args),
        RulesCommand::Rollback(args) => rollback::run(args),
        RulesCommand::Validate(args) => validate::run(args),
        RulesCommand::Convert(args) => convert::run(args),
        RulesCommand::Schema => {
            writeln!(io::stdout(), "{:#}", json_schema())?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

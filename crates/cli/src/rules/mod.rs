//! `tidegate rules`: rule documents, without a server.

mod convert;
mod texts;
mod validate;

use std::io::{self, Write};
use std::process::ExitCode;

use tidegate_rules::json_schema;

use crate::failure::Outcome;
use convert::ConvertArgs;
pub(crate) use texts::{load, unusable};
use validate::ValidateArgs;

/// What to do with rules.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum RulesCommand {
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
        RulesCommand::Validate(args) => validate::run(args),
        RulesCommand::Convert(args) => convert::run(args),
        RulesCommand::Schema => {
            writeln!(io::stdout(), "{:#}", json_schema())?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

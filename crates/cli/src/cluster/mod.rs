//! Nodes that know each other: joining them, and looking at them.

mod join;
mod members;

pub(crate) use join::Together;

use crate::failure::Outcome;
use members::MembersArgs;

/// What to find out about the nodes.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum ClusterCommand {
    /// Show the nodes that know each other, as one of them sees it
    #[command(after_help = MEMBERS_EXAMPLES)]
    Members(MembersArgs),
}

const MEMBERS_EXAMPLES: &str = "\
Examples:
  tidegate cluster members
  TIDEGATE_TOKEN=$(cat reader.token) tidegate cluster members --admin http://10.0.0.7:8082
  tidegate cluster members --json | jq '.members[] | select(.state != \"alive\")'";

/// Finds it out.
pub(crate) fn run(command: &ClusterCommand) -> Outcome {
    match command {
        ClusterCommand::Members(args) => members::run(args),
    }
}

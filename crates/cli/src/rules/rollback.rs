//! `tidegate rules rollback`: a rule as it was.

use tidegate_sources::{Change, Wish};

use super::change::{self, Asker, ChangeArgs, VersionArgs};
use super::opened::{Opened, SourceArgs, SubjectArgs};
use crate::failure::Outcome;

pub(super) const EXAMPLES: &str = "\
Shows what would change and asks. It is a change like any other, with a version of its own; it can be rolled back, too. A \
version at which the rule was not there deletes it.

Examples:
  tidegate rules history orders
  tidegate rules rollback --rules etcd://127.0.0.1:2379/tidegate orders --to 42
  tidegate rules rollback --yes --document tiers --to 17 --if-version 21";

/// The arguments of `tidegate rules rollback`.
#[derive(Debug, clap::Args)]
pub(crate) struct RollbackArgs {
    #[command(flatten)]
    which: SubjectArgs,

    /// The version to go back to, of those that `tidegate rules history` lists
    #[arg(long, value_name = "VERSION")]
    to: u64,

    #[command(flatten)]
    version: VersionArgs,

    #[command(flatten)]
    change: ChangeArgs,

    #[command(flatten)]
    source: SourceArgs,
}

pub(super) fn run(args: &RollbackArgs) -> Outcome {
    let opened = Opened::new(&args.source)?;
    let wish = Wish::RollBack(args.to);
    let change = Change { subject: args.which.subject(), wish, guard: args.version.guard() };
    change::run(&opened, &args.change, &[change], Asker::StandardInput)
}

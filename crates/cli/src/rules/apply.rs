//! `tidegate rules apply` and `tidegate rules diff`: rules from files, put into a source or held against it.

use std::process::ExitCode;

use tidegate_sources::Guard;

use super::change::{self, ChangeArgs, VersionArgs};
use super::files::FilesArgs;
use super::opened::{Opened, SourceArgs};
use super::step;
use crate::failure::{Failure, Outcome};

pub(super) const APPLY_EXAMPLES: &str = "\
Shows what would change and asks. Each rule of the files replaces the one of that id, or is added; all others stay as \
they are. Nothing is written over that has changed since it was shown.

Examples:
  tidegate rules apply --rules etcd://127.0.0.1:2379/tidegate rules.yaml
  tidegate rules apply --rules rules.yaml --if-version 42 orders.yaml
  tidegate rules get orders | sed 's/limit: 50/limit: 80/' | tidegate rules apply --yes -
  tidegate rules apply --document tiers tiers.yaml     what says more than rules is stored whole";

pub(super) const DIFF_EXAMPLES: &str = "\
Exits with 0 if `tidegate rules apply` would change nothing, with 1 if it would.

Examples:
  tidegate rules diff --rules etcd://127.0.0.1:2379/tidegate rules.yaml
  tidegate rules diff --rules /etc/tidegate/rules.yaml --json orders.yaml";

/// The arguments of `tidegate rules apply`.
#[derive(Debug, clap::Args)]
pub(crate) struct ApplyArgs {
    #[command(flatten)]
    files: FilesArgs,

    #[command(flatten)]
    version: VersionArgs,

    /// Change nothing that is there already
    #[arg(long, conflicts_with = "if_version")]
    create_only: bool,

    #[command(flatten)]
    change: ChangeArgs,

    #[command(flatten)]
    source: SourceArgs,
}

/// The arguments of `tidegate rules diff`.
#[derive(Debug, clap::Args)]
pub(crate) struct DiffArgs {
    #[command(flatten)]
    files: FilesArgs,

    /// Print it for programs
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    source: SourceArgs,
}

pub(super) fn apply(args: &ApplyArgs) -> Outcome {
    let opened = Opened::new(&args.source)?;
    let guard = if args.create_only { Guard::Absent } else { args.version.guard() };
    let changes = args.files.changes(guard)?;
    args.version.check(changes.len())?;
    change::run(&opened, &args.change, &changes, args.files.asker())
}

pub(super) fn diff(args: &DiffArgs) -> Outcome {
    let opened = Opened::new(&args.source)?;
    let plan = opened.ask(opened.book.plan(args.files.changes(Guard::Any)?))?;
    let shown = if args.json {
        change::print(&step::to_json(&plan.steps, false, None)).map(drop)
    } else {
        change::write(&mut anstream::stdout().lock(), &opened, &plan.steps).map_err(Failure::from)
    };
    // Whether there is a difference is told all the same.
    if !matches!(shown, Err(Failure::NobodyReads)) {
        shown?;
    }
    Ok(if plan.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

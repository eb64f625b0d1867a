//! `tidegate rules delete`: rules taken out of a source.

use tidegate_sources::{Change, Subject, Wish};

use super::change::{self, Asker, ChangeArgs, VersionArgs};
use super::opened::{Opened, SourceArgs};
use crate::failure::Outcome;

pub(super) const EXAMPLES: &str = "\
Shows what goes and asks. What is deleted can be had again: `tidegate rules rollback`.

Examples:
  tidegate rules delete --rules etcd://127.0.0.1:2379/tidegate orders
  tidegate rules delete --rules rules.yaml --yes orders search login
  tidegate rules delete --document tiers --if-version 42";

/// The arguments of `tidegate rules delete`.
#[derive(Debug, clap::Args)]
pub(crate) struct DeleteArgs {
    #[command(flatten)]
    which: Which,

    #[command(flatten)]
    version: VersionArgs,

    #[command(flatten)]
    change: ChangeArgs,

    #[command(flatten)]
    source: SourceArgs,
}

/// Rules, or a document.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct Which {
    /// The rules, by their ids
    #[arg(value_name = "RULE")]
    ids: Vec<String>,

    /// A whole document instead, by its name
    #[arg(long, value_name = "NAME")]
    document: Option<String>,
}

impl Which {
    /// Each once.
    fn subjects(&self) -> Vec<Subject> {
        let mut subjects: Vec<Subject> = Vec::new();
        let rules = self.ids.iter().cloned().map(Subject::Rule);
        for subject in rules.chain(self.document.clone().map(Subject::Document)) {
            if !subjects.contains(&subject) {
                subjects.push(subject);
            }
        }
        subjects
    }
}

pub(super) fn run(args: &DeleteArgs) -> Outcome {
    let subjects = args.which.subjects();
    args.version.check(subjects.len())?;
    let opened = Opened::new(&args.source)?;
    let guard = args.version.guard();
    let delete = |subject| Change { subject, wish: Wish::Delete, guard };
    let changes: Vec<Change> = subjects.into_iter().map(delete).collect();
    change::run(&opened, &args.change, &changes, Asker::StandardInput)
}

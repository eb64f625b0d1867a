//! `tidegate rules get`: a rule as it is written.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use tidegate_sources::{Entry, Subject};

use super::change;
use super::list::entry_json;
use super::opened::{Opened, SourceArgs, SubjectArgs};
use super::patch::safe_line;
use crate::failure::{Failure, Outcome};
use crate::terminal::{FAINT, safe};

pub(super) const EXAMPLES: &str = "\
Prints the text with its comments, and its version on standard error.

Examples:
  tidegate rules get --rules etcd://127.0.0.1:2379/tidegate orders > orders.yaml
  tidegate rules get --document tiers
  tidegate rules get --json orders | jq .version";

/// The arguments of `tidegate rules get`.
#[derive(Debug, clap::Args)]
pub(crate) struct GetArgs {
    #[command(flatten)]
    which: SubjectArgs,

    /// Print name, document, version and text as JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    source: SourceArgs,
}

pub(super) fn run(args: &GetArgs) -> Outcome {
    let opened = Opened::new(&args.source)?;
    let subject = args.which.subject();
    let entry = opened.ask(opened.book.get(&subject))?;
    if args.json {
        return change::print(&entry_json(&entry));
    }
    let text = entry.text.as_deref().ok_or_else(|| no_text(&subject, &entry))?;
    let mut out = io::stdout().lock();
    // Files get every byte of it.
    if out.is_terminal() {
        text.lines().try_for_each(|line| writeln!(out, "{}", safe_line(line)))?;
    } else {
        out.write_all(text.as_bytes())?;
    }
    out.flush()?;
    let Entry { version, document, .. } = &entry;
    anstream::eprintln!("{FAINT}version {version}, {}{FAINT:#}", safe(document));
    Ok(ExitCode::SUCCESS)
}

fn no_text(subject: &Subject, entry: &Entry) -> Failure {
    let Entry { name, document, .. } = entry;
    Failure::Failed(match subject {
        Subject::Rule(_) => format!(
            "rule {name} is not written by itself; see the whole document with `tidegate rules get --document {document}`"
        ),
        Subject::Document(_) => format!("{document} is not UTF-8; replace it or take it away"),
    })
}

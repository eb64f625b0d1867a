//! `tidegate rules history`: what is remembered of a rule.

use std::io::{self, Write};
use std::process::ExitCode;

use serde_json::{Value, json};
use tidegate_core::Timestamp;
use tidegate_rules::{Source, convert};
use tidegate_sources::{BookError, Entry, Record, Subject};

use super::opened::{Opened, SourceArgs, SubjectArgs, explain};
use super::step::{action_name, in_words, name, to_version};
use super::{change, patch};
use crate::failure::Outcome;
use crate::table::{Align, Table};
use crate::terminal::{BAD, FAINT, PLAIN, STRONG, moment, moment_as, safe};

pub(super) const EXAMPLES: &str = "\
Newest first. Changes by other means than Tidegate's are not remembered, but that there was one is said.

Examples:
  tidegate rules history --rules etcd://127.0.0.1:2379/tidegate orders
  tidegate rules history --diff orders
  tidegate rules history --json --document tiers | jq '.changes[0].by'";

/// The arguments of `tidegate rules history`.
#[derive(Debug, clap::Args)]
pub(crate) struct HistoryArgs {
    #[command(flatten)]
    which: SubjectArgs,

    /// Show what each change changed
    #[arg(long)]
    diff: bool,

    /// Print it for programs, with all texts
    #[arg(long, conflicts_with = "diff")]
    json: bool,

    #[command(flatten)]
    source: SourceArgs,
}

/// A rule or a document as it is.
struct Present {
    entry: Entry,
    /// Whether its version changes with it alone, and not with other rules of its document, too.
    is_own: bool,
}

pub(super) fn run(args: &HistoryArgs) -> Outcome {
    let opened = Opened::new(&args.source)?;
    let subject = args.which.subject();
    let (records, present) = opened.ask(async {
        let records = opened.book.history(&subject).await?;
        Ok((records, present(&opened, &subject).await?))
    })?;
    if records.is_empty() && present.is_none() {
        return Err(explain(&BookError::NotFound(subject)));
    }
    let news = since(&subject, records.first(), present.as_ref());
    if args.json {
        return change::print(&to_json(&subject, &records, present.as_ref(), news.is_some()));
    }
    let mut out = anstream::stdout().lock();
    if let Some(news) = news {
        writeln!(out, "{BAD}{}{BAD:#}", safe(&news))?;
    }
    if args.diff {
        records.iter().try_for_each(|record| write_diff(&mut out, record))?;
    } else if !records.is_empty() {
        table(&records).write(&mut out)?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

async fn present(opened: &Opened, subject: &Subject) -> Result<Option<Present>, BookError> {
    let entry = match opened.book.get(subject).await {
        Err(BookError::NotFound(_)) => return Ok(None),
        entry => entry?,
    };
    let archive = opened.book.archive();
    let is_own = match subject {
        Subject::Document(_) => true,
        Subject::Rule(id) => archive.place_of_rule(id) == entry.document && archive.read().await?.apart,
    };
    Ok(Some(Present { entry, is_own }))
}

/// What has happened since the last record, by means that leave none.
fn since(subject: &Subject, last: Option<&Record>, present: Option<&Present>) -> Option<String> {
    let name = name(subject);
    let then = last.and_then(|record| record.change.after.as_deref());
    match (last, present) {
        (None, Some(Present { entry, .. })) => Some(format!(
            "{name} is at version {}; no change of it is remembered, so it was put there by other means",
            entry.version
        )),
        (Some(_), None) if then.is_some() => Some(format!("{name} has been deleted since by other means")),
        (Some(record), Some(now)) if record.version != now.entry.version && has_changed(then, now) => {
            let version = now.entry.version;
            let means = match subject {
                Subject::Rule(_) => "by other means",
                Subject::Document(_) => "rule by rule or by other means",
            };
            Some(format!("{name} is at version {version}: it has been changed since {means}"))
        }
        _ => None,
    }
}

/// Whether a rule says something else than it did then. Among others in a document it may have got another look.
fn has_changed(then: Option<&str>, now: &Present) -> bool {
    let meaning =
        |text: &str| convert(&[Source { name: "", text }]).unwrap_or_else(|_| text.trim_end().to_owned());
    now.is_own || then.map(meaning) != now.entry.text.as_deref().map(meaning)
}

fn at(record: &Record) -> Timestamp {
    Timestamp::from_millis(record.author.at_ms)
}

/// To the second, which is all that people are.
fn when(record: &Record) -> String {
    moment_as(at(record), "%Y-%m-%dT%H:%M:%SZ")
}

fn table(records: &[Record]) -> Table {
    let columns =
        [("version", Align::Right), ("when", Align::Left), ("who", Align::Left), ("what", Align::Left)];
    let mut table = Table::new(&columns);
    for record in records {
        table.row([
            (record.version.to_string(), STRONG),
            (when(record), PLAIN),
            (record.author.name.clone(), PLAIN),
            (in_words(record.change.action), PLAIN),
        ]);
    }
    table
}

fn write_diff(out: &mut dyn Write, record: &Record) -> io::Result<()> {
    let Record { version, author, change } = record;
    let (who, what) = (safe(&author.name), in_words(change.action));
    writeln!(out, "{STRONG}version {version}{STRONG:#}  {FAINT}{}{FAINT:#}  {who}  {what}", when(record))?;
    let name = name(&change.subject);
    let before = match change.previous {
        Some(previous) if change.before.is_some() => format!("{name} (version {previous})"),
        _ => format!("{name} (not there)"),
    };
    let after = match change.after {
        Some(_) => format!("{name} (version {version})"),
        None => format!("{name} (deleted)"),
    };
    patch::write(out, (&before, change.before.as_deref()), (&after, change.after.as_deref()))?;
    writeln!(out)
}

/// As the admin listener has it.
fn to_json(subject: &Subject, records: &[Record], present: Option<&Present>, changed_since: bool) -> Value {
    let changes = records.iter().map(|record| {
        let Record { version, author, change } = record;
        json!({
            "version": version,
            "previous_version": change.previous,
            "at": moment(at(record)),
            "by": author.name,
            "action": action_name(change.action),
            "to_version": to_version(change.action),
            "before": change.before,
            "after": change.after,
        })
    });
    json!({
        "name": name(subject),
        "version": present.map(|present| present.entry.version),
        "changed_since": changed_since,
        "changes": changes.collect::<Vec<_>>(),
    })
}

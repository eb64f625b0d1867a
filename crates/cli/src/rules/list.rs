//! `tidegate rules list`: all rules of a source.

use std::collections::{HashMap, HashSet};
use std::io::{self, Write};
use std::process::ExitCode;

use serde_json::{Value, json};
use tidegate_core::rule::Allowance;
use tidegate_core::{Algorithm, Quota, Rule};
use tidegate_rules::{Source, read};
use tidegate_sources::{Aside, Entry, Listing};

use super::change;
use super::opened::{Opened, SourceArgs};
use crate::failure::Outcome;
use crate::table::{Align, Table};
use crate::terminal::{BAD, FAINT, GOOD, PLAIN, STRONG, number, safe, safe_lines};

pub(super) const EXAMPLES: &str = "\
Documents that cannot be used are named on standard error, with what is wrong with them.

Examples:
  tidegate rules list --rules etcd://127.0.0.1:2379/tidegate
  tidegate rules list --config /etc/tidegate.yaml
  TIDEGATE_RULES=rules.yaml tidegate rules list --json | jq -r '.rules[].name'";

/// The arguments of `tidegate rules list`.
#[derive(Debug, clap::Args)]
pub(crate) struct ListArgs {
    /// Print it for programs, with the text of every rule
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    source: SourceArgs,
}

pub(super) fn run(args: &ListArgs) -> Outcome {
    let opened = Opened::new(&args.source)?;
    let listing = opened.ask(opened.book.list())?;
    if args.json {
        change::print(&to_json(&listing))?;
    } else {
        let mut out = anstream::stdout().lock();
        writeln!(out, "{STRONG}{}{STRONG:#}", safe(&opened.source.to_string()))?;
        write(&mut out, &listing)?;
        out.flush()?;
    }
    listing.aside.iter().for_each(complain);
    Ok(ExitCode::SUCCESS)
}

fn write(out: &mut dyn Write, listing: &Listing) -> io::Result<()> {
    if listing.rules.is_empty() {
        writeln!(out, "  {FAINT}no rules{FAINT:#}")?;
    } else {
        rules(listing).write(out)?;
    }
    if !listing.documents.is_empty() {
        writeln!(out, "\n{STRONG}Documents{STRONG:#}")?;
        documents(listing).write(out)?;
    }
    Ok(())
}

fn rules(listing: &Listing) -> Table {
    let shared: HashSet<&str> = listing.documents.iter().map(|(name, _)| name.as_str()).collect();
    let places: HashSet<&str> = listing.rules.iter().map(|rule| rule.document.as_str()).collect();
    // Where there is but one document, all rules are in it.
    let says_where = places.len() > 1 && !places.is_disjoint(&shared);
    let mut columns = vec![("rule", Align::Left), ("version", Align::Right), ("allows", Align::Left)];
    columns.extend(says_where.then_some(("in", Align::Left)));
    let mut table = Table::new(&columns);
    let aside: HashSet<&str> = listing.aside.iter().map(|aside| aside.name.as_str()).collect();
    for rule in &listing.rules {
        let document = if shared.contains(&*rule.document) { &*rule.document } else { "" };
        // What it allows is then not what its document says.
        let (style, note) =
            if aside.contains(&*rule.document) { (BAD, ", as last good") } else { (GOOD, "") };
        let cells = [
            (rule.name.clone(), style),
            (rule.version.to_string(), PLAIN),
            (allows(rule) + note, PLAIN),
            (document.to_owned(), FAINT),
        ];
        table.row(cells.into_iter().take(columns.len()));
    }
    table
}

fn documents(listing: &Listing) -> Table {
    let columns = [("document", Align::Left), ("version", Align::Right), ("rules", Align::Right)];
    let mut table = Table::new(&columns);
    let mut counts: HashMap<&str, u64> = HashMap::new();
    for rule in &listing.rules {
        *counts.entry(&rule.document).or_default() += 1;
    }
    for (name, version) in &listing.documents {
        let rules = counts.get(&**name).copied().unwrap_or_default();
        let cells = [(name.clone(), PLAIN), (version.to_string(), PLAIN), (number(rules), PLAIN)];
        table.row(cells);
    }
    table
}

/// What a rule allows, in short.
fn allows(entry: &Entry) -> String {
    let Some(text) = &entry.text else { return "see its document".to_owned() };
    let document = read(&Source { name: &entry.name, text });
    document.ok().and_then(|document| document.rules().next().map(in_short)).unwrap_or_default()
}

fn in_short(rule: &Rule) -> String {
    let mut said = match &rule.allowance {
        Allowance::Fixed(quota) => figures(quota),
        Allowance::Planned(base) => format!("{}, times the plan", figures(base)),
        Allowance::Tiered => "what the tier allows".to_owned(),
        Allowance::Unlimited => "everything".to_owned(),
    };
    if rule.shadow {
        said += ", shadow";
    }
    said
}

fn figures(quota: &Quota) -> String {
    if quota.is_blocked() {
        return "nothing".to_owned();
    }
    let (limit, window, algorithm) = (number(quota.limit()), quota.window(), quota.algorithm());
    let burst = match quota.capacity() {
        capacity if capacity == quota.limit() => String::new(),
        capacity => format!(", burst {}", number(capacity)),
    };
    if algorithm == Algorithm::InFlight {
        return format!("{limit} at once, each for at most {window}");
    }
    format!("{limit} per {window}{burst}, {algorithm}")
}

/// Not among what is printed, which may be on its way into a file.
fn complain(aside: &Aside) {
    let reason = aside.reason();
    anstream::eprintln!("{BAD}{}{BAD:#}", safe_lines(&reason));
}

/// A rule or a document for programs.
pub(super) fn entry_json(entry: &Entry) -> Value {
    let Entry { name, document, version, text } = entry;
    json!({ "name": name, "document": document, "version": version, "text": text })
}

fn to_json(listing: &Listing) -> Value {
    let documents =
        listing.documents.iter().map(|(name, version)| json!({ "name": name, "version": version }));
    let quarantined = listing.aside.iter().map(|aside| {
        json!({
            "name": aside.name,
            "version": aside.version,
            "last_good_in_force": aside.replaced,
            "errors": aside.problems.list(),
        })
    });
    json!({
        "rules": listing.rules.iter().map(entry_json).collect::<Vec<_>>(),
        "documents": documents.collect::<Vec<_>>(),
        "quarantined": quarantined.collect::<Vec<_>>(),
    })
}

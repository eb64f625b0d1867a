//! Changes: shown, agreed to, made, told.

use std::io::{self, BufRead, IsTerminal, Write};
use std::process::ExitCode;

use serde_json::Value;
use tidegate_sources::{Change, Guard, Step};

use super::make::make;
use super::opened::Opened;
use super::step::{self, in_words, name};
use crate::failure::{Failure, Outcome};
use crate::terminal::{FAINT, GOOD, STRONG, count, number, safe};

/// How to go about changes.
#[derive(Debug, clap::Args)]
pub(super) struct ChangeArgs {
    /// Only show what would change
    #[arg(long)]
    dry_run: bool,

    /// Do not ask
    #[arg(long, short)]
    yes: bool,

    /// Print what was changed for programs
    #[arg(long)]
    json: bool,
}

/// What a rule or a document must be to be changed.
#[derive(Debug, clap::Args)]
pub(super) struct VersionArgs {
    /// Change it only if it is at this version
    #[arg(long, value_name = "VERSION")]
    if_version: Option<u64>,
}

impl VersionArgs {
    pub(super) fn guard(&self) -> Guard {
        self.if_version.map_or(Guard::Any, Guard::Version)
    }

    /// Several rules rarely have one version.
    pub(super) fn check(&self, changes: usize) -> Result<(), Failure> {
        match self.if_version {
            Some(_) if changes != 1 => Err(Failure::Usage(format!(
                "--if-version is about one rule, and these are {}; change them one by one",
                number(changes as u64)
            ))),
            _ => Ok(()),
        }
    }
}

/// Whoever would have to be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asker {
    /// Somebody at a terminal, if standard input is one.
    StandardInput,
    /// Nobody: standard input is where the rules come from.
    Nobody,
}

/// Shows what `changes` would do, and does it if that is wanted.
pub(super) fn run(opened: &Opened, args: &ChangeArgs, changes: &[Change], asker: Asker) -> Outcome {
    let plan = opened.ask(opened.book.plan(changes.to_vec()))?;
    if plan.is_empty() {
        return nothing(args.json);
    }
    let steps = plan.steps.clone();
    let shown = show(opened, args, &steps);
    // Whoever does not want to be asked may not want to see it either.
    if !(args.yes && matches!(shown, Err(Failure::NobodyReads))) {
        shown?;
    }
    if args.dry_run {
        if args.json {
            return print(&step::to_json(&steps, false, None));
        }
        anstream::eprintln!("{FAINT}Nothing was changed: this was a dry run.{FAINT:#}");
        return Ok(ExitCode::SUCCESS);
    }
    if !args.yes && !is_wanted(opened, &steps, asker)? {
        anstream::eprintln!("Nothing was changed.");
        return Ok(ExitCode::FAILURE);
    }
    let version = make(opened, plan, changes)?;
    tell(opened, args, &steps, version)
}

/// Everything is as it is wished.
pub(super) fn nothing(json: bool) -> Outcome {
    if json {
        return print(&step::to_json(&[], false, None));
    }
    writeln!(anstream::stdout(), "Nothing to change.")?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn print(value: &Value) -> Outcome {
    writeln!(io::stdout(), "{value}")?;
    Ok(ExitCode::SUCCESS)
}

fn show(opened: &Opened, args: &ChangeArgs, steps: &[Step]) -> Result<(), Failure> {
    let asks = !args.yes && !args.dry_run;
    if args.json && !asks {
        return Ok(());
    }
    // Whoever is asked has to see it, wherever the output goes.
    if args.json || (asks && !io::stdout().is_terminal()) {
        write(&mut anstream::stderr().lock(), opened, steps)?;
    } else {
        write(&mut anstream::stdout().lock(), opened, steps)?;
    }
    Ok(())
}

/// Writes all steps.
pub(super) fn write(out: &mut dyn Write, opened: &Opened, steps: &[Step]) -> io::Result<()> {
    steps.iter().try_for_each(|step| step::write(out, opened, step))?;
    out.flush()
}

fn is_wanted(opened: &Opened, steps: &[Step], asker: Asker) -> Result<bool, Failure> {
    if asker == Asker::Nobody || !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        let message = "nobody is there to be asked, so nothing was changed; add --yes to change it, or --dry-run to look";
        return Err(Failure::Usage(message.to_owned()));
    }
    let mut err = anstream::stderr().lock();
    let (changes, source) = (count(steps.len() as u64, "change"), opened.source.to_string());
    write!(err, "{STRONG}Apply {changes} to {}? [y/N]{STRONG:#} ", safe(&source))?;
    err.flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(["y", "yes"].contains(&&*answer.trim().to_ascii_lowercase()))
}

fn tell(opened: &Opened, args: &ChangeArgs, steps: &[Step], version: Option<u64>) -> Outcome {
    let one_document = steps.iter().all(|step| step.document == steps[0].document);
    let version = version.filter(|_| one_document);
    if args.json {
        return print(&step::to_json(steps, true, version));
    }
    let mut out = anstream::stdout().lock();
    match (steps, version) {
        ([only], Some(version)) => {
            let (name, done) = (name(&only.subject), in_words(only.action));
            writeln!(out, "{GOOD}{}{GOOD:#}: {done}, version {version}", safe(name))?;
        }
        _ => {
            let (changes, source) = (count(steps.len() as u64, "change"), opened.source.to_string());
            writeln!(out, "{GOOD}{}{GOOD:#}: {changes} made", safe(&source))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

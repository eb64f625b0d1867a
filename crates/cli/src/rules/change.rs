//! Changes: shown, agreed to, made.

use std::cell::Cell;
use std::io::{self, BufRead, IsTerminal, Write};
use std::process::ExitCode;

use serde_json::Value;
use tidegate_sources::{ArchiveError, Author, BookError, Change, Guard, Plan, Step};
use tokio::time::Instant;

use super::author::author;
use super::opened::{Opened, explain};
use super::progress::Progress;
use super::step::{self, in_words, name};
use crate::failure::{Failure, Outcome};
use crate::terminal::{FAINT, GOOD, STRONG, count, number, safe};

/// How often changes are tried again because others have changed other rules at the same moment.
const ATTEMPTS: usize = 20;

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

/// Makes changes that have been shown, and returns the version that the last changed document has by that.
fn make(opened: &Opened, mut plan: Plan, changes: &[Change]) -> Result<Option<u64>, Failure> {
    let shown = plan.steps.clone();
    let author = author();
    for _ in 1..ATTEMPTS {
        let done = Cell::new(0);
        match attempt(opened, plan, &author, &done, shown.len()) {
            // Others may change other rules meanwhile.
            Ok(Err(BookError::Archive(ArchiveError::Moved))) if done.get() == 0 => {
                plan = opened.ask(opened.book.plan(changes.to_vec()))?;
                same(&shown, &plan.steps)?;
            }
            Ok(Ok(version)) => return Ok(version),
            Ok(Err(error)) => {
                let is_known = !matches!(error, BookError::Archive(ArchiveError::Away(_)));
                return Err(halfway(explain(&error), done.get(), shown.len(), is_known));
            }
            Err(failure) => return Err(halfway(failure, done.get(), shown.len(), false)),
        }
    }
    Err(explain(&ArchiveError::Moved.into()))
}

/// The outer error is that there was no answer.
fn attempt(
    opened: &Opened,
    plan: Plan,
    author: &Author,
    done: &Cell<usize>,
    steps: usize,
) -> Result<Result<Option<u64>, BookError>, Failure> {
    let progress = Progress::new(steps);
    let heard = Cell::new(Instant::now());
    let making = opened.book.carry_out(plan, author, |now_done| {
        heard.set(Instant::now());
        done.set(now_done);
        progress.at(now_done);
    });
    opened.listen(&heard, making)
}

/// What is done must be what was shown: no other step, and no more of them.
fn same(shown: &[Step], now: &[Step]) -> Result<(), Failure> {
    let missing = shown.iter().find(|step| !now.contains(step));
    let Some(step) = missing.or_else(|| now.iter().find(|step| !shown.contains(step))) else { return Ok(()) };
    let since = now.iter().find(|other| other.subject == step.subject);
    let version = match since.and_then(|step| step.previous) {
        Some(version) => format!(", it is at version {version} now"),
        None => String::new(),
    };
    Err(Failure::Failed(format!(
        "somebody has changed {} since it was shown{version}; nothing was changed by this: look at it and decide anew",
        name(&step.subject)
    )))
}

/// How far it came, and whether that `is_known` for certain.
fn halfway(failure: Failure, done: usize, all: usize, is_known: bool) -> Failure {
    let Failure::Failed(message) = failure else { return failure };
    let (done, all) = (number(done as u64), count(all as u64, "change"));
    Failure::Failed(match (&*done, is_known) {
        ("0", true) => message,
        ("0", false) => {
            format!("{message}\nIt is not known whether anything was changed; look before you go on.")
        }
        (_, true) => {
            format!("{message}\n{done} of {all} were made, for good; do the same again for the others.")
        }
        (_, false) => {
            format!(
                "{message}\nAt least {done} of {all} were made, for good; do the same again for the others."
            )
        }
    })
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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;
    use std::sync::{Arc, Mutex};

    use tidegate_sources::{
        Answer, Commit, Contents, FileArchive, GoodText, Record, RuleArchive, RuleBook, StoredText, Subject,
        Wish,
    };

    use super::*;

    /// What happens before a commit.
    type Event = Box<dyn FnOnce() -> Result<(), ArchiveError> + Send>;

    /// A folder of rules that takes one at a time, and in which something happens.
    struct Eventful {
        folder: FileArchive,
        events: Mutex<Vec<Event>>,
    }

    impl RuleArchive for Eventful {
        fn read(&self) -> Answer<'_, Contents> {
            self.folder.read()
        }

        fn commit(&self, commit: Commit) -> Answer<'_, u64> {
            let event = self.events.lock().unwrap().pop();
            match event.map_or(Ok(()), |event| event()) {
                Ok(()) => self.folder.commit(commit),
                Err(error) => Box::pin(async { Err(error) }),
            }
        }

        fn history<'a>(&'a self, subject: &'a Subject) -> Answer<'a, Vec<Record>> {
            self.folder.history(subject)
        }

        fn remember(&self, good: Vec<StoredText>) -> Answer<'_, ()> {
            self.folder.remember(good)
        }

        fn last_good<'a>(&'a self, names: &'a [String]) -> Answer<'a, Vec<(String, GoodText)>> {
            self.folder.last_good(names)
        }

        fn place_of_rule(&self, rule_id: &str) -> String {
            self.folder.place_of_rule(rule_id)
        }

        fn place_of_document(&self, name: &str) -> Result<String, String> {
            self.folder.place_of_document(name)
        }

        fn max_writes(&self) -> usize {
            1
        }
    }

    fn rule(id: &str, limit: u64) -> String {
        format!("{{rule_id: {id}, identifier_type: global, limit: {limit}, window: 1s}}")
    }

    fn put(id: &str, limit: u64) -> Change {
        Change { subject: Subject::Rule(id.to_owned()), wish: Wish::Put(rule(id, limit)), guard: Guard::Any }
    }

    /// What becomes of changes when something happens after they have been shown; the last event happens first.
    fn after(events: impl FnOnce(PathBuf) -> Vec<Event>, changes: &[Change]) -> Result<(), String> {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a.yaml"), rule("a", 1)).unwrap();
        fs::write(folder.path().join("b.yaml"), rule("b", 1)).unwrap();
        let events = Mutex::new(events(folder.path().to_owned()));
        let archive = Eventful { folder: FileArchive::new(folder.path()), events };
        let opened = Opened::to(RuleBook::new(Arc::new(archive)));
        let plan = opened.ask(opened.book.plan(changes.to_vec())).unwrap();
        match make(&opened, plan, changes) {
            Ok(_) => Ok(()),
            Err(Failure::Failed(message)) => Err(message),
            Err(other) => panic!("{other:?}"),
        }
    }

    fn write(folder: PathBuf, id: &'static str, limit: u64) -> Event {
        Box::new(move || {
            fs::write(folder.join(format!("{id}.yaml")), rule(id, limit)).unwrap();
            Ok(())
        })
    }

    #[test]
    fn others_who_change_other_rules_meanwhile_are_no_hindrance() {
        assert_eq!(after(|folder| vec![write(folder, "c", 2)], &[put("a", 5)]), Ok(()));
    }

    #[test]
    fn what_has_changed_since_it_was_shown_is_left_alone() {
        let said = after(|folder| vec![write(folder, "a", 2)], &[put("a", 5)]).unwrap_err();
        assert!(said.starts_with("somebody has changed a since it was shown, it is at version "), "{said}");
        // It was as wished, so nothing was shown.
        let said = after(|folder| vec![write(folder, "b", 2)], &[put("a", 5), put("b", 1)]).unwrap_err();
        assert!(said.starts_with("somebody has changed b since"), "{said}");
        // As wished, but by somebody else.
        let said = after(|folder| vec![write(folder, "a", 5)], &[put("a", 5)]).unwrap_err();
        assert!(said.contains("changed a since it was shown; nothing was changed by this"), "{said}");
    }

    #[test]
    fn it_is_said_how_far_it_came() {
        let away = || -> Event { Box::new(|| Err(ArchiveError::Away("the source is away".to_owned()))) };
        let said = after(|_| vec![away()], &[put("c", 1)]).unwrap_err();
        assert!(said.starts_with("the source is away\nIt is not known whether"), "{said}");
        let said = after(|_| vec![away(), Box::new(|| Ok(()))], &[put("c", 1), put("d", 1), put("e", 1)])
            .unwrap_err();
        assert!(said.starts_with("the source is away\nAt least 1 of 3 changes were made"), "{said}");
    }
}

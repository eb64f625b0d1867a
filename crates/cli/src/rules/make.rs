//! Changes that have been shown, made unless something else would come of them by now.

use std::cell::Cell;

use tidegate_sources::{ArchiveError, Author, BookError, Change, Plan, Step};
use tokio::time::Instant;

use super::author::author;
use super::opened::{Opened, explain};
use super::progress::Progress;
use super::step::name;
use crate::failure::Failure;
use crate::terminal::{count, number};

/// How often changes are tried again because others have changed other rules at the same moment.
const ATTEMPTS: usize = 20;

/// Makes changes that have been shown, and returns the version that the last changed document has by that.
pub(super) fn make(opened: &Opened, mut plan: Plan, changes: &[Change]) -> Result<Option<u64>, Failure> {
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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;
    use std::sync::{Arc, Mutex};

    use tidegate_sources::{
        Answer, Commit, Contents, FileArchive, GoodText, Guard, Record, RuleArchive, RuleBook, StoredText,
        Subject, Wish,
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

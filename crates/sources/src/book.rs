//! Rules as people change them: one by one, checked before they are written, never over somebody else's change.
//!
//! ```text
//! changes → desk (what the documents would be) → plan (to be shown) → commit
//! ```

mod desk;
mod error;

use std::sync::Arc;

use crate::archive::{Action, ArchiveError, Author, Commit, Contents, Record, RuleArchive, Subject, Write};
use crate::mend::{Aside, LastGood, Mended, mend};
use crate::one_at_a_time::{Interrupted, RULE_WORK};

use desk::{Desk, Edit};

pub use error::BookError;

/// How often a change is tried again because others have changed other rules at the same moment.
const ATTEMPTS: usize = 20;

/// The rules of a source, to be looked at and changed.
#[derive(Clone)]
pub struct RuleBook {
    archive: Arc<dyn RuleArchive>,
}

/// A change somebody wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// What is to be changed.
    pub subject: Subject,
    /// What is to become of it.
    pub wish: Wish,
    /// What it must be for that.
    pub guard: Guard,
}

/// What is to become of a rule or a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wish {
    /// It is to have this content, be it there already or not.
    Put(String),
    /// It is to be taken away.
    Delete,
    /// It is to be again what it was at this version.
    RollBack(u64),
}

/// What a rule or a document must be to be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    /// Anything.
    Any,
    /// Its document must have this version.
    Version(u64),
    /// It must be there.
    Present,
    /// It must not be there.
    Absent,
}

/// What a source holds.
#[derive(Debug)]
pub struct Listing {
    /// The rules, in the order of their documents.
    pub rules: Vec<Entry>,
    /// The names and versions of the documents that are no single rules.
    pub documents: Vec<(String, u64)>,
    /// Documents that are not in force.
    pub aside: Vec<Aside>,
}

/// A rule or a document as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The rule's id, or the document's name.
    pub name: String,
    /// The document that it is in, or is.
    pub document: String,
    /// The version of that document.
    pub version: u64,
    /// What is written; `None` if it is no text, or a rule that is not written by itself.
    pub text: Option<String>,
}

/// Changes that have been found to be good, to be shown and carried out.
#[derive(Debug)]
pub struct Plan {
    /// What would change, in the order of the wishes.
    pub steps: Vec<Step>,
    writes: Vec<Write>,
    state: u64,
}

impl Plan {
    /// Whether everything is as it is wished already.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }
}

/// What would change with one rule or document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Which.
    pub subject: Subject,
    /// The document that it is in, or is.
    pub document: String,
    /// The version of that document; `None` if it is not there.
    pub previous: Option<u64>,
    /// What would be done.
    pub action: Action,
    /// What it is.
    pub before: Option<String>,
    /// What it would be.
    pub after: Option<String>,
}

impl RuleBook {
    /// The rules that `archive` holds.
    pub fn new(archive: Arc<dyn RuleArchive>) -> Self {
        Self { archive }
    }

    /// Where they are held.
    pub fn archive(&self) -> &Arc<dyn RuleArchive> {
        &self.archive
    }

    /// All there is.
    pub async fn list(&self) -> Result<Listing, BookError> {
        let desk = self.desk().await?;
        Ok(RULE_WORK.run(move || desk.list()).await?)
    }

    /// Returns the names and versions of the documents that are no single rules, like [`Listing::documents`], without
    /// taking the texts of rules apart.
    pub async fn documents(&self) -> Result<Vec<(String, u64)>, BookError> {
        let desk = self.desk().await?;
        Ok(RULE_WORK.run(move || desk.documents()).await?)
    }

    /// One rule or document as it is written.
    pub async fn get(&self, subject: &Subject) -> Result<Entry, BookError> {
        let (desk, subject) = (self.desk().await?, subject.clone());
        RULE_WORK.run(move || desk.get(&subject)).await?
    }

    /// What is remembered of a rule or a document, newest first.
    pub async fn history(&self, subject: &Subject) -> Result<Vec<Record>, BookError> {
        let subject = match subject {
            Subject::Document(_) => self.desk().await?.full_name(subject.clone())?,
            Subject::Rule(_) => subject.clone(),
        };
        Ok(self.archive.history(&subject).await?)
    }

    /// What `changes` would do. Nothing is changed by that; whatever is wrong with any of them is an error.
    pub async fn plan(&self, changes: Vec<Change>) -> Result<Plan, BookError> {
        let mut desk = self.desk().await?;
        let mut edits = Vec::with_capacity(changes.len());
        for change in changes {
            edits.push(self.edit(&desk, change).await?);
        }
        let plan = move || {
            edits.into_iter().try_for_each(|edit| desk.edit(edit))?;
            desk.finish()
        };
        RULE_WORK.run(plan).await?
    }

    /// Carries a plan out, unless something has changed since it was made. Returns the version that the changed documents
    /// have by that; plans with more steps than the source takes at once are carried out in parts, of which `progress`
    /// hears how many steps are done.
    pub async fn carry_out(
        &self,
        plan: Plan,
        author: &Author,
        mut progress: impl FnMut(usize),
    ) -> Result<Option<u64>, BookError> {
        let Plan { writes, state, .. } = plan;
        let (mut version, mut done) = (None, 0);
        for part in writes.chunks(self.archive.max_writes()) {
            let state = version.unwrap_or(state);
            let commit = Commit { writes: part.to_vec(), state, author: author.clone() };
            version = Some(self.archive.commit(commit).await?);
            done += part.iter().map(|write| write.records.len()).sum::<usize>();
            progress(done);
        }
        Ok(version)
    }

    /// Plans and carries out. Others who change other rules meanwhile are no hindrance.
    pub async fn change(
        &self,
        changes: Vec<Change>,
        author: &Author,
    ) -> Result<(Vec<Step>, Option<u64>), BookError> {
        for _ in 1..ATTEMPTS {
            let plan = self.plan(changes.clone()).await?;
            let steps = plan.steps.clone();
            match self.carry_out(plan, author, |_| {}).await {
                Err(BookError::Archive(ArchiveError::Moved)) => {}
                done => return Ok((steps, done?)),
            }
        }
        Err(ArchiveError::Moved.into())
    }

    async fn desk(&self) -> Result<Desk, BookError> {
        let contents = self.archive.read().await?;
        let (contents, mended) = mended(contents, LastGood::default()).await?;
        let (contents, mended) = if mended.aside.is_empty() {
            (contents, mended)
        } else {
            let names: Vec<String> = mended.aside.iter().map(|aside| aside.name.clone()).collect();
            let mut known = LastGood::default();
            for (name, good) in self.archive.last_good(&names).await? {
                known.add(name, good);
            }
            self::mended(contents, known).await?
        };
        let archive = Arc::clone(&self.archive);
        Ok(RULE_WORK.run(move || Desk::new(archive, contents, mended)).await?)
    }

    /// Finds out what is to be written for a change.
    async fn edit(&self, desk: &Desk, change: Change) -> Result<Edit, BookError> {
        let Change { subject, wish, guard } = change;
        let subject = desk.full_name(subject)?;
        let (text, back_to) = match wish {
            Wish::Put(text) => (Some(text), None),
            Wish::Delete => (None, None),
            Wish::RollBack(to) => match text_at(&self.archive.history(&subject).await?, to) {
                Some(text) => (text, Some(to)),
                None => return Err(BookError::NoSuchVersion { subject, version: to }),
            },
        };
        Ok(Edit { subject, text, guard, back_to })
    }
}

/// Finds out what nodes would have in force.
async fn mended(contents: Contents, known: LastGood) -> Result<(Contents, Mended), Interrupted> {
    let work = move || {
        let mended = mend(&contents.documents, &known);
        (contents, mended)
    };
    RULE_WORK.run(work).await
}

impl std::fmt::Debug for RuleBook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RuleBook")
    }
}

/// What it was at a version, be it nothing; `None` if that is not known.
fn text_at(records: &[Record], version: u64) -> Option<Option<String>> {
    let since = records.iter().find(|record| record.version == version);
    let until = || records.iter().find(|record| record.change.previous == Some(version));
    since
        .map(|record| record.change.after.clone())
        .or_else(|| until().map(|record| record.change.before.clone()))
}

//! Where documents can be changed, and what is remembered of every change.

pub(crate) mod good;
pub(crate) mod line;

use std::future::Future;
use std::pin::Pin;

use crate::{GoodText, StoredText};

/// An answer of an archive, when it comes.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, ArchiveError>> + Send + 'a>>;

/// How many records are kept of each subject; older ones are forgotten.
pub(crate) const MAX_RECORDS: usize = 100;

/// The writing side of a source.
///
/// It knows nothing of rules: it holds documents with versions, changes some of them in one step or none, and keeps
/// records. What may be written is for [`RuleBook`](crate::RuleBook) to decide.
pub trait RuleArchive: Send + Sync {
    /// What is there now. Nothing at all is no error.
    fn read(&self) -> Answer<'_, Contents>;

    /// Changes documents, all or none, and returns the version that they have by that. Where [`max_writes`](Self::max_writes)
    /// is finite, this is the new [state](Contents::state), too: one step can follow the other.
    fn commit(&self, commit: Commit) -> Answer<'_, u64>;

    /// What is remembered of a subject, newest first.
    fn history<'a>(&'a self, subject: &'a Subject) -> Answer<'a, Vec<Record>>;

    /// Takes note that documents are good as they are, for nodes that start when they no longer are. What is noted of a
    /// document already, at this version or a later one, stays. [`commit`](Self::commit) does the same by itself.
    fn remember(&self, good: Vec<StoredText>) -> Answer<'_, ()>;

    /// What documents were when they were last good, as far as that is remembered.
    fn last_good<'a>(&'a self, names: &'a [String]) -> Answer<'a, Vec<(String, GoodText)>>;

    /// The name of the document that a new rule becomes, or joins if it is there already.
    fn place_of_rule(&self, rule_id: &str) -> String;

    /// The name of the document that is called `name` by people, or why there can be no such document.
    fn place_of_document(&self, name: &str) -> Result<String, String>;

    /// How many documents can be changed in one step.
    fn max_writes(&self) -> usize;
}

/// All documents at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contents {
    /// The documents, in the order in which they are joined.
    pub documents: Vec<StoredText>,
    /// Whether each is taken by itself; see [`Snapshot::apart`](crate::Snapshot).
    pub apart: bool,
    /// Changes with every [`Commit`], whatever it is about.
    pub state: u64,
}

/// What is to be changed in one step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// Each about another document.
    pub writes: Vec<Write>,
    /// What [`Contents::state`] must still be: what was found to be good with other documents may not be so any more.
    pub state: u64,
    /// Who changes it, and when.
    pub author: Author,
}

/// What is to become of one document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// Its name.
    pub document: String,
    /// The version that it must still have; `None` if it must not be there.
    pub expected: Option<u64>,
    /// Its new content; `None` to take it away.
    pub text: Option<String>,
    /// What is to be remembered of it.
    pub records: Vec<NewRecord>,
}

/// Who changes something, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Author {
    /// The name of a token, or of a user of the machine.
    pub name: String,
    /// Milliseconds since the epoch.
    pub at_ms: u64,
}

/// What has a history.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Subject {
    /// A rule, by its id.
    Rule(String),
    /// A whole document, by its name.
    Document(String),
}

/// What is to be remembered of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRecord {
    /// What was changed.
    pub subject: Subject,
    /// How.
    pub action: Action,
    /// The version of its document before; `None` if it was not there.
    pub previous: Option<u64>,
    /// What it was before.
    pub before: Option<String>,
    /// What it became; `None` if it was taken away.
    pub after: Option<String>,
}

/// What is remembered of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The version of the document since then.
    pub version: u64,
    /// Who made it, and when.
    pub author: Author,
    /// What it was.
    pub change: NewRecord,
}

/// What was done to a rule or a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// It was not there before.
    Created,
    /// It got another content.
    Changed,
    /// It was taken away.
    Deleted,
    /// It got the content that it had at that version.
    RolledBack {
        /// The version.
        to: u64,
    },
}

/// Why something could not be read or changed. Nothing was changed then, except perhaps after [`ArchiveError::Away`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArchiveError {
    /// The source cannot be reached or does not answer.
    #[error("{0}")]
    Away(String),
    /// It refuses; the text says why, and what to do.
    #[error("{0}")]
    Refused(String),
    /// Somebody else has changed something since it was read.
    #[error("somebody else has changed the rules at the same moment; try again")]
    Moved,
}

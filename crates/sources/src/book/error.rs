//! Why rules were not changed.

use tidegate_rules::{EditError, Problems};

use crate::archive::{ArchiveError, Subject};
use crate::one_at_a_time::Interrupted;

/// Why rules could not be looked at or were not changed. The text says what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum BookError {
    /// The source cannot be asked, or refuses.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// The rules could not be looked at to the end.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
    /// There is no such rule or document.
    #[error("there is no {}", describe(.0))]
    NotFound(Subject),
    /// It is not what whoever wants to change it thinks it is.
    #[error("{}", conflict(.subject, *.expected, *.present))]
    Conflict {
        /// Which.
        subject: Subject,
        /// The version it was expected to have; `None` if it was expected not to be there.
        expected: Option<u64>,
        /// The version it has; `None` if it is not there.
        present: Option<u64>,
    },
    /// Nothing is remembered of it at this version.
    #[error("nothing is remembered of {} at version {version}; its history lists the versions", describe(.subject))]
    NoSuchVersion {
        /// Which.
        subject: Subject,
        /// The version.
        version: u64,
    },
    /// The rules would not be good; all that is wrong with them.
    #[error("{0}")]
    Invalid(Problems),
    /// The text cannot be changed rule by rule.
    #[error("{document}: {error}")]
    Edit {
        /// The document.
        document: String,
        /// Why.
        error: EditError,
    },
    /// What is to be put in is not what its name says.
    #[error("{0}")]
    Name(String),
    /// Nothing would be left, which nodes take for a mistake.
    #[error(
        "these are the last rules: nodes would take their absence for a mistake and keep them; to have no limits at all, \
         store a document that says `rules: []` first"
    )]
    Last,
}

fn describe(subject: &Subject) -> String {
    match subject {
        Subject::Rule(id) => format!("rule {id}"),
        Subject::Document(name) => format!("document {name}"),
    }
}

fn conflict(subject: &Subject, expected: Option<u64>, present: Option<u64>) -> String {
    let what = describe(subject);
    match (expected, present) {
        (None, Some(present)) => format!("{what} is there already, at version {present}"),
        (Some(expected), Some(present)) => format!(
            "{what} is at version {present} by now, not {expected}: somebody has changed it; look at it and decide anew"
        ),
        (Some(expected), None) => {
            format!(
                "{what} is not there any more, it was expected at version {expected}: somebody has deleted it"
            )
        }
        (None, None) => format!("{what} is not there"),
    }
}

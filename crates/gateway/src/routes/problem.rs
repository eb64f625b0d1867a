//! What is wrong with documents of routes.

use std::fmt;

/// After so many, the rest is only counted.
const MAX_PROBLEMS: usize = 200;

/// One thing that is wrong, where, and its fix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The name of the document.
    pub document: Box<str>,
    /// The line, from 1, where one can be named.
    pub line: Option<u64>,
    /// The column, from 1, where the text itself cannot be read.
    pub column: Option<u64>,
    /// What is wrong and what to do about it.
    pub message: String,
}

impl Problem {
    pub(super) fn new(document: &str, line: Option<u64>, message: impl Into<String>) -> Self {
        // What was written is repeated in messages, and may be anything.
        let message =
            message.into().chars().map(|c| if c.is_control() { ' ' } else { c }).take(1_000).collect();
        Self { document: document.into(), line, column: None, message }
    }
}

/// `document:line: message`, with the column after the line where one can be named
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.document)?;
        [self.line, self.column].iter().flatten().try_for_each(|number| write!(f, "{number}:"))?;
        write!(f, " {}", self.message)
    }
}

/// All that is wrong, in the order of the documents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problems {
    list: Vec<Problem>,
    more: usize,
}

impl Problems {
    /// The problems, as many as somebody may want to read.
    pub fn list(&self) -> &[Problem] {
        &self.list
    }

    /// One line for each, and one for those that were only counted.
    pub fn lines(&self) -> Vec<String> {
        let more = (self.more > 0).then(|| format!("and {} more", self.more));
        self.list.iter().map(ToString::to_string).chain(more).collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(super) fn add(&mut self, problem: Problem) {
        match self.list.len() < MAX_PROBLEMS {
            true => self.list.push(problem),
            false => self.more += 1,
        }
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.lines().join("\n"))
    }
}

impl std::error::Error for Problems {}

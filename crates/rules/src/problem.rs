//! What is wrong with a text, where, and what to do about it.

use std::fmt;

use serde::ser::SerializeSeq;
use serde::{Serialize, Serializer};

use crate::Source;
use crate::text::{Cursor, Place, Text};

/// After so many problems reading stops: nobody reads on, and a hostile text must not fill the memory.
pub const MAX_PROBLEMS: usize = 1_000;

/// The most characters of a line that are quoted below a problem.
const SNIPPET_CHARS: usize = 110;

/// Nothing is quoted from so far out on a line: finding it anew for each problem would take its time.
const FAR_OUT: usize = 20_000;

/// The longest message: what was written is repeated in some.
const MAX_MESSAGE_CHARS: usize = 2_000;

/// Stands for what is left out.
const CUT: char = '\u{2026}';

/// One thing that is wrong, and its fix.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Problem {
    /// The name of the text it is in: a file's path, a key, a row.
    pub file: Box<str>,
    /// The line, from 1.
    pub line: u32,
    /// The column in characters, from 1.
    pub column: u32,
    /// What is wrong and what to do about it.
    pub message: String,
    /// The line it is on, made safe to show; `None` where there is nothing to show.
    #[serde(skip)]
    pub snippet: Option<Snippet>,
}

/// The part of a line around a problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snippet {
    /// One line without control characters.
    pub text: String,
    /// How many characters of it lie before the problem.
    pub before: usize,
}

impl Problem {
    /// A problem with a text as a whole: it cannot be read, it is too large.
    pub fn whole(file: &str, message: impl Into<String>) -> Self {
        Self { file: file.into(), line: 1, column: 1, message: message.into(), snippet: None }
    }

    pub(crate) fn new(text: &Text, at: Place, message: String) -> Self {
        let snippet = Snippet::new(text, at);
        // Core's errors repeat what was written, which may be anything.
        let message = if message.contains(char::is_control) { escaped(&message) } else { message };
        let message = shortened(message);
        Self { file: text.name().into(), line: at.line, column: at.column, message, snippet }
    }
}

/// The bytes of a text as characters, or the problem that they are none.
///
/// For sources, which meet bytes where documents are made of characters.
pub fn decode<'b>(file: &str, bytes: &'b [u8]) -> Result<&'b str, Problem> {
    std::str::from_utf8(bytes).map_err(|error| {
        let valid = std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default();
        let place = Cursor::new(valid).advance_to(valid.len());
        let byte = bytes.get(error.valid_up_to()).copied().unwrap_or_default();
        let message = format!("byte 0x{byte:02x} is not UTF-8; save the text as UTF-8");
        Problem { line: place.line, column: place.column, ..Problem::whole(file, message) }
    })
}

/// `file:line:column: message`
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: {}", self.file, self.line, self.column, self.message)
    }
}

impl std::error::Error for Problem {}

impl Snippet {
    fn new(text: &Text, at: Place) -> Option<Self> {
        let column = usize::try_from(at.column).ok()?.checked_sub(1).filter(|column| *column < FAR_OUT)?;
        let line = text.line(at.line);
        // The problem stays in view, however long the line is.
        let skipped = if column < SNIPPET_CHARS - 10 { 0 } else { column - SNIPPET_CHARS / 2 };
        let mut quote: String = if skipped > 0 { CUT.into() } else { String::new() };
        quote.extend(line.clone().skip(skipped).take(SNIPPET_CHARS).map(printable));
        let before = (column - skipped + usize::from(skipped > 0)).min(quote.chars().count());
        quote.truncate(quote.trim_end().len());
        quote.extend(line.skip(skipped + SNIPPET_CHARS).take(1).map(|_| CUT));
        (!quote.is_empty()).then_some(Self { text: quote, before })
    }
}

/// Cuts a message that nobody would read to its end.
fn shortened(mut message: String) -> String {
    if let Some((end, _)) = message.char_indices().nth(MAX_MESSAGE_CHARS) {
        message.truncate(end);
        message.push(CUT);
        message.shrink_to_fit();
    }
    message
}

fn printable(c: char) -> char {
    match c {
        '\t' => ' ',
        c if c.is_control() => '\u{fffd}',
        c => c,
    }
}

/// All that is wrong, in the order of the texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems {
    list: Vec<Problem>,
    more: usize,
}

impl Problems {
    /// The problems, at least one and at most [`MAX_PROBLEMS`].
    pub fn list(&self) -> &[Problem] {
        &self.list
    }

    /// How many more there are, at the least.
    pub fn more(&self) -> usize {
        self.more
    }
}

impl From<Problem> for Problems {
    fn from(problem: Problem) -> Self {
        Self { list: vec![problem], more: 0 }
    }
}

/// Each problem on a line of its own, with the line of the text it is about below it.
impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.list.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            write!(f, "{problem}")?;
            if let Some(Snippet { text, before }) = &problem.snippet {
                let line = problem.line;
                write!(f, "\n{line:>5} | {text}\n      | {:before$}^", "")?;
            }
        }
        if self.more > 0 {
            write!(f, "\nand {} more", self.more)?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

/// A list of `{file, line, column, message}`.
impl Serialize for Problems {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(Some(self.list.len()))?;
        self.list.iter().try_for_each(|problem| list.serialize_element(problem))?;
        list.end()
    }
}

/// Where problems are gathered while reading goes on.
#[derive(Debug, Default)]
pub(crate) struct Report {
    list: Vec<Problem>,
    more: usize,
}

impl Report {
    /// Whether there are so many problems that finding more is in vain; the `left` items of a list are then taken
    /// for as many problems.
    pub(crate) fn gives_up(&mut self, left: usize) -> bool {
        let full = self.more > 0;
        if full {
            self.more += left;
        }
        full
    }

    pub(crate) fn add(&mut self, problem: impl FnOnce() -> Problem) {
        if self.list.len() < MAX_PROBLEMS {
            self.list.push(problem());
        } else {
            self.more += 1;
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(crate) fn append(&mut self, other: Self) {
        self.more += other.more;
        other.list.into_iter().for_each(|problem| self.add(|| problem));
    }

    /// `value` if nothing was reported. What an alias repeats is said once.
    pub(crate) fn finish<T>(mut self, value: T) -> Result<T, Problems> {
        self.list.dedup();
        if self.list.is_empty() { Ok(value) } else { Err(Problems { list: self.list, more: self.more }) }
    }

    /// Brings problems, found in several passes, into the order of the texts and of the places in them.
    pub(crate) fn sort(&mut self, texts: &[Source<'_>]) {
        self.list.sort_by_key(|problem| {
            let text = texts.iter().position(|source| source.name == &*problem.file);
            (text, problem.line, problem.column)
        });
    }
}

/// Text from a document, made safe and short enough to be part of a message.
pub(crate) fn quoted(text: &str) -> String {
    const CHARS: usize = 60;
    if text.is_empty() {
        return "`\"\"`".to_owned();
    }
    let cut = text.char_indices().nth(CHARS).map_or(text.len(), |(end, _)| end);
    let mut out = format!("`{}", escaped(&text[..cut]));
    if cut < text.len() {
        out.push(CUT);
    }
    out.push('`');
    out
}

/// Text without anything that could play tricks on a terminal.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    out
}

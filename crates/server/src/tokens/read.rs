//! Reading named tokens: all of them, or all that is wrong with them.

use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use super::line::{Hash, NamedToken};

/// The most tokens there may be: each request is compared with all.
const MAX_TOKENS: usize = 1_000;

/// The most that is read: room for as many tokens and a comment with each.
const MAX_BYTES: usize = 512 * 1024;

const TOO_LARGE: &str = "this is more than 512 KiB; remove old tokens and comments";

/// More problems than this help nobody.
const MAX_PROBLEMS: usize = 20;

/// Tokens so far, and the lines they are in.
#[derive(Default)]
struct Reader {
    tokens: Vec<NamedToken>,
    names: HashMap<String, usize>,
    hashes: HashMap<Hash, usize>,
}

impl Reader {
    fn add(&mut self, line: usize, entry: &str) -> Result<(), String> {
        let token: NamedToken = entry.parse()?;
        let name = token.name();
        if let Some(first) = self.names.get(name) {
            return Err(format!("`{name}` is in line {first} already; give another name"));
        }
        if let Some(first) = self.hashes.get(token.hash()) {
            return Err(format!(
                "`{name}` has the token of line {first}; make another with `tidegate token new`"
            ));
        }
        if self.tokens.len() == MAX_TOKENS {
            return Err(format!("there are more than {MAX_TOKENS} tokens; remove some"));
        }
        self.names.insert(name.to_owned(), line);
        self.hashes.insert(*token.hash(), line);
        self.tokens.push(token);
        Ok(())
    }
}

/// The tokens in `text`, which is called `place` in errors and taken apart by `entries`.
pub(super) fn tokens<'t, E>(
    place: &str,
    text: &'t str,
    entries: impl FnOnce(&'t str) -> E,
) -> Result<Vec<NamedToken>, TokensError>
where
    E: Iterator<Item = (usize, &'t str)>,
{
    if text.len() > MAX_BYTES {
        return Err(TokensError::new(place, TOO_LARGE));
    }
    let mut reader = Reader::default();
    let problem = |(line, entry)| {
        let added = reader.add(line, entry);
        added.err().map(|message| format!("{place}:{line}: {message}"))
    };
    let problems: Vec<String> = entries(text).filter_map(problem).collect();
    if !problems.is_empty() {
        return Err(TokensError { problems });
    }
    if reader.tokens.is_empty() {
        return Err(TokensError::new(
            place,
            "there is no token; `tidegate token new` prints the line for one",
        ));
    }
    Ok(reader.tokens)
}

/// The text of a file.
pub(super) fn text(path: &Path) -> Result<String, TokensError> {
    let wrong = |message: &str| TokensError::new(&path.display().to_string(), message);
    let unreadable =
        |error: std::io::Error| wrong(&format!("it cannot be read: {error}; name a file that can"));
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(unreadable)?;
    file.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() > MAX_BYTES {
        return Err(wrong(TOO_LARGE));
    }
    String::from_utf8(bytes).map_err(|_| wrong("it is not UTF-8; write it as plain text"))
}

/// The lines that say something, with their numbers.
pub(super) fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = (1..).zip(text.lines().map(str::trim));
    lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

/// The same where commas do for line ends, as many places have no room for those. A comment still ends with its line: what
/// was put out of use must not come back behind a comma.
pub(super) fn lines_or_commas(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let parts = lines(text).flat_map(|(number, line)| line.split(',').map(move |part| (number, part.trim())));
    parts.filter(|(_, part)| !part.is_empty())
}

/// Why named tokens cannot be used: all that is wrong with them, each with its line and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokensError {
    problems: Vec<String>,
}

impl TokensError {
    fn new(place: &str, message: &str) -> Self {
        Self { problems: vec![format!("{place}: {message}")] }
    }

    /// As many of the problems as one wants to read.
    pub(crate) fn problems(&self) -> impl Iterator<Item = String> {
        let more = self.problems.len().saturating_sub(MAX_PROBLEMS);
        let more = (more > 0).then(|| format!("{more} more problems"));
        self.problems.iter().take(MAX_PROBLEMS).cloned().chain(more)
    }
}

impl fmt::Display for TokensError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the admin tokens cannot be used")?;
        self.problems().try_for_each(|problem| write!(f, "\n{problem}"))
    }
}

impl std::error::Error for TokensError {}

//! Rule files, read as they would be served.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use tidegate_core::RuleSet;
use tidegate_rules::{Problem, Problems, Source, decode};
use tidegate_sources::{Event, FileSource, RuleSource};

use crate::failure::Failure;
use crate::runtime::block_on;
use crate::terminal::{BAD, FAINT, safe_lines};

/// A text and what to call it in messages.
pub(super) struct NamedText {
    pub(super) name: String,
    pub(super) text: String,
}

impl NamedText {
    pub(super) fn as_source(&self) -> Source<'_> {
        Source { name: &self.name, text: &self.text }
    }
}

/// The rules of a file or a folder, or why there are none.
pub(crate) fn load(path: &Path) -> Result<RuleSet, Failure> {
    read(path).map_err(|problems| unusable(&problems))
}

/// How rules that cannot be used are complained about.
pub(crate) fn unusable(problems: &Problems) -> Failure {
    Failure::Failed(format!("the rules cannot be used\n{problems}"))
}

pub(super) fn read(path: &Path) -> Result<RuleSet, Problems> {
    tidegate_rules::load(&sources(&read_texts(path)?), 1)
}

pub(super) fn read_texts(path: &Path) -> Result<Vec<NamedText>, Problem> {
    if let Some((scheme, _)) = path.to_str().and_then(|text| text.split_once("://"))
        && !path.exists()
    {
        // What follows the scheme may have a password in it.
        let why = "only files are read here; give the path of a rule file";
        return Err(Problem::whole(&format!("{scheme}://\u{2026}"), why.to_owned()));
    }
    if path.is_dir() { read_folder(path) } else { Ok(vec![read_file(path)?]) }
}

pub(super) fn sources(texts: &[NamedText]) -> Vec<Source<'_>> {
    texts.iter().map(NamedText::as_source).collect()
}

fn read_file(path: &Path) -> Result<NamedText, Problem> {
    let name = path.display().to_string();
    let bytes =
        fs::read(path).map_err(|error| Problem::whole(&name, format!("cannot read the file: {error}")))?;
    let text = decode(&name, &bytes)?.to_owned();
    Ok(NamedText { name, text })
}

/// Which files of a folder count, and in what order, is for the source to say that serves them.
fn read_folder(path: &Path) -> Result<Vec<NamedText>, Problem> {
    let failed = |why: String| Problem::whole(&path.display().to_string(), why);
    match block_on(FileSource::new(path).next())
        .map_err(|_| failed("cannot start a runtime to read it".to_owned()))?
    {
        Event::Loaded(snapshot) => {
            let documents = snapshot.documents.into_iter();
            documents
                .map(|document| Ok(NamedText { name: document.name, text: document.text.map_err(failed)? }))
                .collect()
        }
        Event::Failed(why) => Err(failed(why)),
    }
}

/// Shows what is wrong with texts.
pub(super) fn complain(out: &mut impl Write, problems: &Problems) -> io::Result<()> {
    for line in safe_lines(&problems.to_string()).lines() {
        let quoted = line.trim_start_matches(|c: char| c == ' ' || c.is_ascii_digit()).starts_with("| ");
        let style = if quoted { FAINT } else { BAD };
        writeln!(out, "{style}{line}{style:#}")?;
    }
    Ok(())
}

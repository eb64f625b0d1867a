//! Changing files, with what is remembered of it in a hidden file beside them.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use tokio::task::spawn_blocking;

use super::read::{contents, is_document, version_of};
use crate::archive::{
    Answer, ArchiveError, Commit, Contents, MAX_RECORDS, Record, RuleArchive, Subject, line,
};
use crate::{GoodText, StoredText};

/// The most records of all subjects together.
const MAX_LINES: usize = 10_000;

/// A file of rules, or a folder of them, to be changed.
///
/// A file is replaced whole, so that nobody ever finds half of it, and comments stay as they are. Those who change it by
/// these means wait for each other; those who use an editor do not, but what they changed meanwhile is found and never
/// written over.
#[derive(Clone, Debug)]
pub struct FileArchive {
    path: PathBuf,
}

impl FileArchive {
    /// An archive of the rules at `path`, which need not exist yet.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// A hidden file for this purpose, which is never taken for rules.
    fn beside(&self, purpose: &str) -> PathBuf {
        if self.path.is_dir() {
            return self.path.join(format!(".tidegate.{purpose}"));
        }
        let target = fs::canonicalize(&self.path).unwrap_or_else(|_| self.path.clone());
        let mut name = OsString::from(".");
        name.push(target.file_name().unwrap_or(OsStr::new("rules")));
        name.push(format!(".{purpose}"));
        target.with_file_name(name)
    }

    fn read_all(&self) -> Result<Contents, ArchiveError> {
        let documents = contents(&self.path).map_err(ArchiveError::Refused)?;
        let state = state_of(&documents);
        Ok(Contents { documents, apart: false, state })
    }

    fn write(&self, commit: &Commit) -> Result<u64, ArchiveError> {
        let lock = self.beside("lock");
        let held = File::create(&lock).and_then(|file| file.lock().map(|()| file));
        let _held = held.map_err(|error| refused(&lock, &error))?;
        if self.read_all()?.state != commit.state {
            return Err(ArchiveError::Moved);
        }
        for write in &commit.writes {
            let file = Path::new(&write.document);
            let done = match &write.text {
                Some(text) => replace(file, text),
                None => fs::remove_file(file),
            };
            done.map_err(|error| refused(file, &error))?;
        }
        let state = self.read_all()?.state;
        let version = |text: &Option<String>| text.as_deref().map_or(state, version_of);
        let history = self.beside("history");
        let mut lines = self.lines()?;
        for write in &commit.writes {
            let version = Some(version(&write.text));
            lines.extend(write.records.iter().map(|record| line::write(record, &commit.author, version)));
        }
        replace(&history, &trimmed(&lines)).map_err(|error| refused(&history, &error))?;
        Ok(commit.writes.last().map_or(state, |write| version(&write.text)))
    }

    fn lines(&self) -> Result<Vec<String>, ArchiveError> {
        let history = self.beside("history");
        match fs::read_to_string(&history) {
            Ok(text) => Ok(text.lines().map(str::to_owned).collect()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(refused(&history, &error)),
        }
    }

    fn records(&self, subject: &Subject) -> Result<Vec<Record>, ArchiveError> {
        let lines = self.lines()?;
        let records = lines.iter().rev().filter_map(|text| line::read(text.as_bytes(), None));
        Ok(records.filter(|record| record.change.subject == *subject).collect())
    }

    /// Does something with files where waiting for it holds nobody up.
    fn off<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> Result<T, ArchiveError> + Send + 'static,
    ) -> Answer<'_, T> {
        let this = self.clone();
        let done = spawn_blocking(move || work(&this));
        Box::pin(async move {
            done.await.unwrap_or_else(|error| {
                Err(ArchiveError::Away(format!("changing the rules was interrupted: {error}; look at them")))
            })
        })
    }
}

impl RuleArchive for FileArchive {
    fn read(&self) -> Answer<'_, Contents> {
        self.off(Self::read_all)
    }

    fn commit(&self, commit: Commit) -> Answer<'_, u64> {
        self.off(move |this| this.write(&commit))
    }

    fn history<'a>(&'a self, subject: &'a Subject) -> Answer<'a, Vec<Record>> {
        let subject = subject.clone();
        self.off(move |this| this.records(&subject))
    }

    /// Files are taken together or not at all: there is no last good version of one of them.
    fn remember(&self, _: Vec<StoredText>) -> Answer<'_, ()> {
        Box::pin(async { Ok(()) })
    }

    fn last_good<'a>(&'a self, _: &'a [String]) -> Answer<'a, Vec<(String, GoodText)>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn place_of_rule(&self, rule_id: &str) -> String {
        // Hidden files are not read.
        let mark = if rule_id.starts_with('.') { "_" } else { "" };
        let name = || format!("{mark}{rule_id}.yaml");
        let place = if self.path.is_dir() { &self.path.join(name()) } else { &self.path };
        place.display().to_string()
    }

    fn place_of_document(&self, name: &str) -> Result<String, String> {
        if !self.path.is_dir() {
            let own = self.path.display().to_string();
            let known = name == own || self.path.file_name() == Some(OsStr::new(name));
            return if known { Ok(own) } else { Err(format!("the rules are one file; its name is {own}")) };
        }
        let file = Path::new(name);
        if file.file_name() != Some(file.as_os_str()) || !is_document(file) {
            return Err(format!("`{name}` cannot be a file of rules; give a name such as NAME.yaml"));
        }
        Ok(self.path.join(file).display().to_string())
    }

    fn max_writes(&self) -> usize {
        usize::MAX
    }
}

fn state_of(documents: &[StoredText]) -> u64 {
    let all: Vec<String> = documents.iter().map(|each| format!("{} {}\n", each.version, each.name)).collect();
    version_of(&all.concat())
}

/// The newest lines of each subject, as one text.
fn trimmed(lines: &[String]) -> String {
    let mut counts: std::collections::HashMap<Subject, usize> = std::collections::HashMap::new();
    let is_kept = |text: &&String| {
        let Some(record) = line::read(text.as_bytes(), None) else { return false };
        let count = counts.entry(record.change.subject).or_default();
        *count += 1;
        *count <= MAX_RECORDS
    };
    let mut kept: Vec<&String> = lines.iter().rev().filter(is_kept).take(MAX_LINES).collect();
    kept.reverse();
    kept.into_iter().flat_map(|line| [line, "\n"]).collect()
}

/// Replaces a file in one step, or creates it. A link stays one, and who may read it stays as it is.
fn replace(file: &Path, text: &str) -> io::Result<()> {
    let target = fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    let mut name = OsString::from(".");
    name.push(target.file_name().unwrap_or_default());
    name.push(".new");
    let unfinished = target.with_file_name(name);
    let mut new = File::create(&unfinished)?;
    if let Ok(old) = fs::metadata(&target) {
        new.set_permissions(old.permissions())?;
    }
    new.write_all(text.as_bytes())?;
    new.sync_all()?;
    fs::rename(&unfinished, &target)
}

fn refused(path: &Path, error: &io::Error) -> ArchiveError {
    let path = path.display();
    ArchiveError::Refused(match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            format!("{path} may not be written; let the user this runs as write to its folder")
        }
        _ => format!("{path} cannot be written: {error}"),
    })
}

//! What is there at one moment.

use std::fs::{self, File, Metadata};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use siphasher::sip::SipHasher13;
use tidegate_rules::decode;

use crate::{StoredText, name};

/// The most that all files together may hold; a hundred thousand rules take about 20 MiB.
const MAX_BYTES: u64 = 64 * 1024 * 1024;

/// The ends of the names of files that are read in a folder.
const EXTENSIONS: [&str; 3] = ["yaml", "yml", "json"];

/// What a look found.
#[derive(Debug)]
pub(super) struct Look {
    /// Changes with everything that can be told without reading: sizes, times, which files there are.
    pub(super) signs: u64,
    /// What the files say; `None` if the signs are those already known.
    pub(super) content: Option<Content>,
    /// The folders in which a change would show.
    pub(super) folders: Vec<PathBuf>,
}

/// The documents, or why they cannot be had.
#[derive(Debug)]
pub(super) struct Content {
    pub(super) documents: Result<Vec<StoredText>, String>,
    pub(super) digest: u64,
    /// When the newest of the files was modified, in microseconds since the epoch.
    pub(super) modified: u64,
}

impl Content {
    fn new(documents: Result<Vec<StoredText>, String>, modified: u64) -> Self {
        Self { digest: digest(&documents), documents, modified }
    }
}

impl Look {
    /// Looks at `path`; reads only if the signs of change are not those `known`.
    pub(super) fn at(path: &Path, known: Option<u64>) -> Self {
        let files = files(path);
        let signs = signs(path, &files);
        let content = (known != Some(signs)).then(|| {
            let modified = files.as_ref().map_or(0, |files| modified(path, files));
            Content::new(files.and_then(|files| read_all(&files)), modified)
        });
        Self { signs, content, folders: folders(path) }
    }

    /// A look that could not be taken at all.
    pub(super) fn failed(error: &dyn std::error::Error) -> Self {
        let content = Content::new(Err(format!("reading the rules was interrupted: {error}")), 0);
        Self { signs: content.digest, content: Some(content), folders: Vec::new() }
    }
}

/// All documents there are, be they none.
pub(super) fn contents(path: &Path) -> Result<Vec<StoredText>, String> {
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        _ => read_all(&list(path)?),
    }
}

fn digest(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// The files that `path` stands for. None at all is a mistake far more often than a wish for no limits.
fn files(path: &Path) -> Result<Vec<PathBuf>, String> {
    let files = list(path)?;
    if files.is_empty() {
        return Err(format!("{} holds no *.yaml, *.yml or *.json; put the rules there", path.display()));
    }
    Ok(files)
}

/// The files that `path` stands for, in order.
fn list(path: &Path) -> Result<Vec<PathBuf>, String> {
    let metadata = fs::metadata(path).map_err(|error| explain(path, &error))?;
    if !metadata.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(path).map_err(|error| explain(path, &error))? {
        let file = entry.map_err(|error| explain(path, &error))?.path();
        if is_document(&file) && !file.is_dir() {
            files.push(file);
        }
    }
    files.sort();
    Ok(files)
}

/// Hidden files are what editors and Kubernetes work with, not what somebody wrote.
pub(super) fn is_document(file: &Path) -> bool {
    let hidden = file.file_name().is_none_or(|name| name.as_encoded_bytes().starts_with(b"."));
    !hidden && file.extension().is_some_and(|end| EXTENSIONS.iter().any(|known| end == *known))
}

/// When the newest of the files was modified, in microseconds since the epoch. A folder counts with its files: one that
/// was taken away shows only there. Nothing is newer than now: a wrong date must not outrank all that comes after it.
fn modified(path: &Path, files: &[PathBuf]) -> u64 {
    let all = files.iter().map(PathBuf::as_path).chain([path]);
    let times = all.filter_map(|file| fs::metadata(file).and_then(|metadata| metadata.modified()).ok());
    let newest = times.max().unwrap_or(UNIX_EPOCH).min(SystemTime::now());
    newest.duration_since(UNIX_EPOCH).map_or(0, |since| u64::try_from(since.as_micros()).unwrap_or(0))
}

fn signs(path: &Path, files: &Result<Vec<PathBuf>, String>) -> u64 {
    let mut hasher = DefaultHasher::new();
    files.hash(&mut hasher);
    for file in files.iter().flatten().map(PathBuf::as_path).chain([path]) {
        match fs::metadata(file) {
            Ok(metadata) => signs_of(&metadata, &mut hasher),
            Err(error) => error.kind().hash(&mut hasher),
        }
    }
    hasher.finish()
}

fn signs_of(metadata: &Metadata, hasher: &mut DefaultHasher) {
    (metadata.len(), metadata.modified().ok()).hash(hasher);
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        // The change time cannot be set back, unlike the time of modification.
        (metadata.dev(), metadata.ino(), metadata.ctime(), metadata.ctime_nsec(), metadata.mode())
            .hash(hasher);
    }
}

fn read_all(files: &[PathBuf]) -> Result<Vec<StoredText>, String> {
    let mut left = MAX_BYTES;
    files
        .iter()
        .map(|file| {
            let (name, text) = read_one(file, left)?;
            left -= text.len() as u64;
            Ok(StoredText::new(name, version_of(&text), text))
        })
        .collect()
}

fn read_one(file: &Path, at_most: u64) -> Result<(String, String), String> {
    let name = file.display().to_string();
    name::check(&name)?;
    let metadata = fs::metadata(file).map_err(|error| explain(file, &error))?;
    if !metadata.is_file() {
        // Opening a pipe would wait for somebody to write into it.
        return Err(format!("{name} is not a regular file; name a file or a folder"));
    }
    let mut bytes = Vec::new();
    let read = File::open(file).and_then(|file| file.take(at_most + 1).read_to_end(&mut bytes));
    read.map_err(|error| explain(file, &error))?;
    if bytes.len() as u64 > at_most {
        let most = MAX_BYTES / (1024 * 1024);
        return Err(format!("{name} makes the rules larger than {most} MiB; use fewer or shorter rules"));
    }
    match String::from_utf8(bytes) {
        Ok(text) => Ok((name, text)),
        Err(error) => Err(decode(&name, error.as_bytes()).err().map_or_else(String::new, |p| p.to_string())),
    }
}

/// A number for the content, the same wherever the file is copied to.
pub(super) fn version_of(text: &str) -> u64 {
    // As JSON has numbers: what a double holds exactly.
    SipHasher13::new().hash(text.as_bytes()) >> 11
}

/// An error with what to do about it.
fn explain(path: &Path, error: &io::Error) -> String {
    let path_text = path.display();
    match error.kind() {
        io::ErrorKind::NotFound if path.is_symlink() => {
            format!("{path_text} is a link to something that is not there; point it at the rules")
        }
        io::ErrorKind::NotFound => format!("{path_text} is not there; create it or name another"),
        io::ErrorKind::PermissionDenied => {
            format!("{path_text} may not be read; make it readable for the user this runs as")
        }
        _ => format!("{path_text} cannot be read: {error}"),
    }
}

/// The folders around `path` and around what it resolves to: a file changes by its name being put in a folder, a
/// link by its target changing elsewhere.
fn folders(path: &Path) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    let mut add = |folder: Option<&Path>| {
        let folder = folder.map(|folder| if folder.as_os_str().is_empty() { Path::new(".") } else { folder });
        if let Some(folder) = folder.filter(|folder| folder.is_dir()).map(Path::to_owned)
            && !folders.contains(&folder)
        {
            folders.push(folder);
        }
    };
    let target = fs::canonicalize(path).ok();
    for place in [Some(path), target.as_deref()].into_iter().flatten() {
        add(place.parent());
        add(Some(place));
    }
    folders
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_told_by_their_names() {
        for name in ["a.yaml", "b.yml", "c.json", "x/d.yaml", "e.f.json"] {
            assert!(is_document(Path::new(name)), "{name}");
        }
        for name in [".a.yaml", "..data", ".#a.yaml", "a.yaml~", "a.yaml.swp", "a.txt", "yaml", "a.YAML.bak"]
        {
            assert!(!is_document(Path::new(name)), "{name}");
        }
    }

    #[test]
    fn known_signs_spare_the_reading() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.yaml");
        fs::write(&path, "x").unwrap();
        let first = Look::at(&path, None);
        assert!(first.content.is_some());
        assert!(Look::at(&path, Some(first.signs)).content.is_none());
        fs::write(&path, "xy").unwrap();
        assert!(Look::at(&path, Some(first.signs)).content.is_some());
    }
}

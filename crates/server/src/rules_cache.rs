//! The last good rules, kept on this machine: with them a node starts while the source of its rules is away.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tidegate_sources::{Snapshot, StoredText};

/// A file with the documents of the rules that were last put in force.
#[derive(Clone, Debug)]
pub(crate) struct RulesCache(PathBuf);

/// What is in the file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Copy {
    version: u64,
    stamp: u64,
    apart: bool,
    documents: Vec<CopiedText>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CopiedText {
    name: String,
    version: u64,
    text: String,
}

impl RulesCache {
    pub(crate) fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// What was last kept; nothing if nothing ever was. The text of an error says what to do about it.
    pub(crate) fn read(&self) -> Result<Option<Snapshot>, String> {
        let path = self.0.display();
        let bytes = match fs::read(&self.0) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(format!("the copy of the rules in {path} cannot be read: {error}")),
        };
        let copy: Copy = serde_json::from_slice(&bytes)
            .map_err(|error| format!("the copy of the rules in {path} is damaged ({error}); remove it"))?;
        let Copy { version, stamp, apart, documents } = copy;
        let documents = documents.into_iter();
        let documents =
            documents.map(|CopiedText { name, version, text }| StoredText::new(name, version, text));
        Ok(Some(Snapshot { version, stamp, apart, documents: documents.collect() }))
    }

    /// Keeps `snapshot`, which is in force. The file is replaced whole, so that nobody finds half of it.
    pub(crate) fn keep(&self, snapshot: &Snapshot) -> io::Result<()> {
        let documents = snapshot.documents.iter().filter_map(|document| {
            let StoredText { name, version, text } = document.clone();
            Some(CopiedText { name, version, text: text.ok()? })
        });
        let Snapshot { version, stamp, apart, .. } = *snapshot;
        let copy = Copy { version, stamp, apart, documents: documents.collect() };
        let mut name = self.0.clone().into_os_string();
        name.push(".new");
        let unfinished = PathBuf::from(name);
        let mut file = File::create(&unfinished)?;
        file.write_all(&serde_json::to_vec(&copy)?)?;
        file.sync_all()?;
        fs::rename(&unfinished, &self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_found_again() {
        let folder = tempfile::tempdir().unwrap();
        let cache = RulesCache::new(folder.path().join("rules.json"));
        assert_eq!(cache.read(), Ok(None));
        let document = |text: &str| StoredText::new("rules.yaml", 9, text);
        for (version, text) in [(3, "rules: [] # long\n"), (4, "rules: []\n")] {
            let snapshot =
                Snapshot { version, stamp: version + 70, apart: true, documents: vec![document(text)] };
            cache.keep(&snapshot).unwrap();
            assert_eq!(cache.read(), Ok(Some(snapshot)));
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left behind");
        fs::write(cache.path(), b"{\"version\":4").unwrap();
        assert!(cache.read().unwrap_err().contains("damaged"));
    }
}

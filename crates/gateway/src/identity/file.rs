//! Files that are read again when they change.

use std::fs::{File, Metadata};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tokio::task::spawn_blocking;

/// Times of change are coarse: what changed this recently may have changed again.
const RECENT: Duration = Duration::from_secs(5);

/// All of a file that is not too large.
pub(super) fn read(path: &Path, most: usize) -> Result<Vec<u8>, String> {
    let unreadable = |error: std::io::Error| format!("it cannot be read: {error}; name a file that can");
    let file = File::open(path).map_err(unreadable)?;
    let mut bytes = Vec::new();
    file.take(most as u64 + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() > most {
        return Err(format!("it is larger than {most} bytes; name a smaller file"));
    }
    Ok(bytes)
}

/// What a file looked like from outside.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Stamp {
    changed: Option<SystemTime>,
    bytes: u64,
    #[cfg(unix)]
    inode: u64,
}

impl Stamp {
    fn of(about: &Metadata) -> Self {
        Self {
            changed: about.modified().ok(),
            bytes: about.len(),
            #[cfg(unix)]
            inode: std::os::unix::fs::MetadataExt::ino(about),
        }
    }

    /// Whether another change could leave it as it is.
    fn is_recent(&self) -> bool {
        self.changed.is_none_or(|changed| changed.elapsed().is_ok_and(|age| age < RECENT))
    }
}

/// A file that is looked at from time to time.
pub(super) struct Watch {
    path: PathBuf,
    most: usize,
    seen: Option<Stamp>,
}

impl Watch {
    /// Watches a file of at most `most` bytes, which has not been seen yet.
    pub(super) fn new(path: &Path, most: usize) -> Self {
        Self { path: path.to_owned(), most, seen: None }
    }

    /// What is in it, if that may have changed since the last time.
    pub(super) async fn changed(&mut self) -> Option<Result<Vec<u8>, String>> {
        let (path, most, seen) = (self.path.clone(), self.most, self.seen);
        let looked = spawn_blocking(move || {
            let stamp = path.metadata().ok().map(|about| Stamp::of(&about));
            let unchanged = stamp.is_some_and(|stamp| Some(stamp) == seen && !stamp.is_recent());
            (stamp, (!unchanged).then(|| read(&path, most)))
        });
        let (stamp, read) = looked.await.ok()?;
        self.seen = stamp;
        read
    }
}

//! A file, or a folder of files, read again whenever the content changes.
//!
//! The truth is always the content: events from the operating system only say when to look, and looking now and
//! then anyway makes up for those that never come. New content must look the same twice in a row before it counts,
//! so that a file caught half written, or between the two steps of a replacement, is left alone until it is whole.

mod archive;
mod read;
mod settle;
mod watch;

use std::path::PathBuf;
use std::time::Duration;

use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};

use crate::{Event, Next, Pulse, RuleSource, Snapshot};

use read::{Content, Look};
use settle::{Settling, Step};
use watch::Watch;

pub use archive::FileArchive;

/// How long content must stay the same before it counts.
const SETTLE: Duration = Duration::from_millis(100);

/// How often to look without being woken. Together with [`SETTLE`], well below a second.
const POLL: Duration = Duration::from_millis(400);

/// The least time between two looks, however many events come: folders can be busy with other things.
const PAUSE: Duration = Duration::from_millis(20);

/// How long after a change the content is read even if nothing else shows another: two writes within the resolution of
/// a file system's clock leave one time.
const WARY: Duration = Duration::from_secs(2);

/// Rules from a file, or from every `*.yaml`, `*.yml` and `*.json` of a folder in the order of their names.
///
/// Follows links wherever they come to point, as Kubernetes mounts need, and survives editors that replace files
/// instead of writing them. The version counts what was loaded, from 1. The stamp is when the newest of the files was
/// modified, in microseconds since the epoch, which is the same wherever the files were copied to with their times.
/// Needs a Tokio runtime with time enabled.
#[derive(Debug)]
pub struct FileSource {
    path: PathBuf,
    watch: Watch,
    settling: Settling,
    version: u64,
    stamp: u64,
    /// The last signs of change seen and since when they have been those.
    signs: Option<(u64, Instant)>,
    pulse: Pulse,
}

impl FileSource {
    /// A source that will read `path`; nothing is read yet, and the path need not exist yet either.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self::watched(path.into(), Watch::new())
    }

    fn watched(path: PathBuf, watch: Watch) -> Self {
        Self {
            path,
            watch,
            settling: Settling::default(),
            version: 0,
            stamp: 0,
            signs: None,
            pulse: Pulse::new(),
        }
    }

    async fn wait_for_change(&mut self) -> Event {
        loop {
            let look = self.look().await;
            let step = match &look.content {
                Some(content) => self.settling.see(content.digest),
                None => Step::Nothing,
            };
            match (step, look.content) {
                (Step::Deliver, Some(content)) => return self.deliver(content),
                (Step::LookAgain, _) => sleep(SETTLE).await,
                _ => {
                    self.watch.changed(POLL).await;
                    sleep(PAUSE).await;
                }
            }
        }
    }

    /// Looks at what is there. The content is left out if it cannot have changed since it was last looked at.
    async fn look(&mut self) -> Look {
        let known = match self.signs {
            Some((signs, since)) if self.settling.is_settled() && since.elapsed() > WARY => Some(signs),
            _ => None,
        };
        let path = self.path.clone();
        let look =
            spawn_blocking(move || Look::at(&path, known)).await.unwrap_or_else(|error| Look::failed(&error));
        if self.signs.is_none_or(|(signs, _)| signs != look.signs) {
            self.signs = Some((look.signs, Instant::now()));
        }
        self.watch.follow(&look.folders);
        self.pulse.beat();
        look
    }

    fn deliver(&mut self, content: Content) -> Event {
        match content.documents {
            Ok(documents) => {
                self.version += 1;
                // A backup that is put back has an old time, and is news all the same.
                self.stamp = content.modified.max(self.stamp + 1);
                Event::Loaded(Snapshot { version: self.version, stamp: self.stamp, apart: false, documents })
            }
            Err(why) => Event::Failed(why),
        }
    }
}

impl RuleSource for FileSource {
    fn next(&mut self) -> Next<'_> {
        Box::pin(self.wait_for_change())
    }

    fn pulse(&self) -> Option<Pulse> {
        Some(self.pulse.clone())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tokio::time::timeout;

    use super::*;

    async fn next(source: &mut FileSource) -> Event {
        timeout(Duration::from_secs(10), source.next()).await.unwrap()
    }

    /// Where the operating system tells nothing, looking now and then must do.
    #[tokio::test]
    async fn changes_are_seen_without_events() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rules.yaml");
        fs::write(&path, "one").unwrap();
        let mut source = FileSource::watched(path.clone(), Watch::blind());
        for (version, text) in [(1, "one"), (2, "two"), (3, "six")] {
            fs::write(&path, text).unwrap();
            let Event::Loaded(snapshot) = next(&mut source).await else { panic!("failed") };
            assert_eq!((snapshot.version, snapshot.documents[0].text.as_deref()), (version, Ok(text)));
        }
    }

    /// Whoever waits for several things at once drops the future again and again.
    #[tokio::test]
    async fn giving_up_waiting_loses_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rules.yaml");
        fs::write(&path, "one").unwrap();
        let mut source = FileSource::new(&path);
        assert!(matches!(next(&mut source).await, Event::Loaded(_)));
        fs::write(&path, "two").unwrap();
        let event = timeout(Duration::from_secs(10), async {
            loop {
                if let Ok(event) = timeout(SETTLE / 3, source.next()).await {
                    return event;
                }
            }
        });
        let Event::Loaded(snapshot) = event.await.unwrap() else { panic!("failed") };
        assert_eq!(snapshot.documents[0].text.as_deref(), Ok("two"));
    }
}

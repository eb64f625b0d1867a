//! Being woken when a folder changes.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use notify::event::{AccessKind, AccessMode};
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::Notify;
use tokio::time::timeout;

/// The folders being watched. Where the operating system cannot watch, nothing ever wakes up, and looking now and
/// then has to do.
#[derive(Debug)]
pub(super) struct Watch {
    /// Ends its thread when dropped.
    watcher: Option<RecommendedWatcher>,
    folders: HashSet<PathBuf>,
    changed: Arc<Notify>,
}

impl Watch {
    pub(super) fn new() -> Self {
        let changed = Arc::new(Notify::new());
        let waker = Arc::clone(&changed);
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            if event.is_ok_and(|event| is_change(event.kind)) {
                waker.notify_one();
            }
        });
        Self { watcher: watcher.ok(), folders: HashSet::new(), changed }
    }

    /// Watches nothing.
    #[cfg(test)]
    pub(super) fn blind() -> Self {
        Self { watcher: None, folders: HashSet::new(), changed: Arc::new(Notify::new()) }
    }

    /// Watches these folders and no others.
    pub(super) fn follow(&mut self, folders: &[PathBuf]) {
        let Some(watcher) = &mut self.watcher else { return };
        self.folders.retain(|folder| {
            let wanted = folders.contains(folder);
            if !wanted {
                // It may be gone, and the watch with it.
                watcher.unwatch(folder).ok();
            }
            wanted
        });
        for folder in folders {
            if !self.folders.contains(folder) && watcher.watch(folder, RecursiveMode::NonRecursive).is_ok() {
                self.folders.insert(folder.clone());
            }
        }
    }

    /// Waits until something changes, or for `at_most` this long.
    pub(super) async fn changed(&self, at_most: Duration) {
        timeout(at_most, self.changed.notified()).await.ok();
    }
}

/// Opening a file is an event too, and looking opens files: it must not wake whoever looks.
fn is_change(kind: EventKind) -> bool {
    match kind {
        EventKind::Access(access) => access == AccessKind::Close(AccessMode::Write),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use notify::event::ModifyKind;

    use super::*;

    #[test]
    fn looking_wakes_nobody() {
        let access = |kind| is_change(EventKind::Access(kind));
        assert!(!access(AccessKind::Open(AccessMode::Any)));
        assert!(!access(AccessKind::Read));
        assert!(!access(AccessKind::Close(AccessMode::Read)));
        assert!(access(AccessKind::Close(AccessMode::Write)));
        assert!(is_change(EventKind::Modify(ModifyKind::Any)));
    }
}

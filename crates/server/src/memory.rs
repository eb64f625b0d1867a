//! Having the source of the rules remember what was good, for nodes that start when it no longer is.

use std::collections::HashMap;
use std::future::pending;
use std::time::Duration;

use tidegate_sources::{LastGood, RuleBook, StoredText};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use crate::feed::Usable;

/// How long to wait, so that changes in a row are written once. Who changes rules by the admin API or the command line has
/// done it already.
const PAUSE: Duration = Duration::from_secs(2);

/// What the source is to remember.
pub(crate) struct Memory {
    book: Option<RuleBook>,
    /// Documents that are good and may not be known to be, by name.
    unwritten: HashMap<String, StoredText>,
    due: Option<Instant>,
    writing: Option<JoinHandle<()>>,
}

impl Memory {
    pub(crate) fn new(book: Option<RuleBook>) -> Self {
        Self { book, unwritten: HashMap::new(), due: None, writing: None }
    }

    /// Takes note of documents that are in force and differ from those that were.
    pub(crate) fn note(&mut self, usable: &Usable, before: &LastGood) {
        if self.book.is_none() || !usable.snapshot.apart {
            return;
        }
        let aside = |name: &str| usable.aside.iter().any(|aside| aside.name == name);
        let known = |document: &StoredText| {
            before.get(&document.name).is_some_and(|good| Ok(&good.text) == document.text.as_ref())
        };
        let news = usable.snapshot.documents.iter().filter(|each| !known(each) && !aside(&each.name));
        self.unwritten.extend(news.map(|each| (each.name.clone(), each.clone())));
        if !self.unwritten.is_empty() {
            self.due = Some(Instant::now() + PAUSE);
        }
    }

    /// Waits until there is something to write.
    pub(crate) async fn is_due(&self) {
        match self.due {
            Some(due) => sleep_until(due).await,
            None => pending().await,
        }
    }

    /// Writes what there is to write, unless that is still being done.
    pub(crate) fn write(&mut self) {
        if self.writing.as_ref().is_some_and(|writing| !writing.is_finished()) {
            self.due = Some(Instant::now() + PAUSE);
            return;
        }
        self.due = None;
        let Some(book) = self.book.clone() else { return };
        let documents: Vec<StoredText> = self.unwritten.drain().map(|(_, document)| document).collect();
        self.writing = Some(tokio::spawn(async move {
            if let Err(error) = book.archive().remember(documents).await {
                tracing::warn!(
                    %error,
                    "the source of the rules cannot remember the last good ones; let this node write there, or give it \
                     --rules-cache"
                );
            }
        }));
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if let Some(writing) = &self.writing {
            writing.abort();
        }
    }
}

//! The last things that happened, for people to read.

use std::collections::VecDeque;

use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::Serialize;
use tidegate_core::Timestamp;
use tokio::sync::watch;

use super::frame::{Event, Kept};
use crate::admin::rfc3339;
use crate::alerts::Severity;

/// How many are remembered.
const REMEMBERED: usize = 100;

/// No text is longer than this, in bytes; `…` says that there was more.
const LONGEST: usize = 512;

/// What something that happened is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    Mode,
    Store,
    Breaker,
    Rules,
    Tiers,
    Alert,
    HotKey,
    Cluster,
    Node,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub(crate) struct Entry {
    /// When (RFC 3339).
    at: String,
    /// What it is about.
    kind: Kind,
    /// `critical`, `warning` or `info`.
    severity: &'static str,
    /// What happened, in a few words.
    title: String,
    /// More about it; may be empty.
    detail: String,
    /// Where it says what to do.
    runbook: Option<String>,
}

impl Entry {
    /// Something that happened at a time, in a few words.
    pub(crate) fn new(at: Timestamp, kind: Kind, severity: Severity, title: impl AsRef<str>) -> Self {
        Self {
            at: rfc3339(at.as_millis()),
            kind,
            severity: severity.name(),
            title: bounded(title.as_ref()),
            detail: String::new(),
            runbook: None,
        }
    }

    /// With more about it.
    pub(crate) fn detail(self, detail: impl AsRef<str>) -> Self {
        Self { detail: bounded(detail.as_ref()), ..self }
    }

    /// What happened, in a few words.
    #[cfg(test)]
    pub(crate) fn title(&self) -> &str {
        &self.title
    }

    /// With where it says what to do.
    pub(crate) fn runbook(self, runbook: String) -> Self {
        Self { runbook: Some(runbook), ..self }
    }
}

fn bounded(text: &str) -> String {
    if text.len() <= LONGEST {
        return text.to_owned();
    }
    format!("{}…", &text[..text.floor_char_boundary(LONGEST - '…'.len_utf8())])
}

/// What is told of the journal.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct JournalBody {
    /// Newest first, up to a hundred.
    entries: Vec<Entry>,
}

/// The last entries.
#[derive(Debug)]
pub(crate) struct Journal {
    /// Oldest first.
    entries: Mutex<VecDeque<Entry>>,
    /// How many there have been.
    written: watch::Sender<u64>,
    kept: Kept<Event>,
}

impl Default for Journal {
    fn default() -> Self {
        Self { entries: Mutex::default(), written: watch::Sender::new(0), kept: Kept::default() }
    }
}

impl Journal {
    /// Writes it down. The oldest goes if there is no room.
    pub(crate) fn note(&self, entry: Entry) {
        let mut entries = self.entries.lock();
        if entries.len() >= REMEMBERED {
            entries.pop_front();
        }
        entries.push_back(entry);
        drop(entries);
        self.written.send_modify(|written| *written += 1);
    }

    /// Tells of every change.
    pub(crate) fn changed(&self) -> watch::Receiver<u64> {
        self.written.subscribe()
    }

    /// All of it as an event, written once however many read it.
    pub(crate) fn frame(&self) -> Event {
        let written = *self.written.borrow();
        self.kept.get(written, || Event::new("journal", &self.body()))
    }

    fn body(&self) -> JournalBody {
        JournalBody { entries: self.entries.lock().iter().rev().cloned().collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(number: u64) -> Entry {
        Entry::new(Timestamp::from_millis(number), Kind::Node, Severity::Info, number.to_string())
    }

    #[test]
    fn the_newest_are_remembered_and_shown_first() {
        let journal = Journal::default();
        (0..250).for_each(|number| journal.note(entry(number)));
        let titles: Vec<String> = journal.body().entries.into_iter().map(|entry| entry.title).collect();
        let expected: Vec<String> = (150..250).rev().map(|number| number.to_string()).collect();
        assert_eq!(titles, expected);
    }

    #[test]
    fn a_frame_is_written_once_for_each_change() {
        let journal = Journal::default();
        journal.note(entry(1));
        let (first, again) = (journal.frame(), journal.frame());
        assert!(first.is(&again));
        journal.note(entry(2));
        assert!(!first.is(&journal.frame()));
    }

    #[test]
    fn texts_are_cut_where_characters_end() {
        let entry = entry(1).detail("ü".repeat(1_000));
        assert!(entry.detail.len() <= LONGEST && entry.detail.ends_with("ü…"), "{}", entry.detail);
        assert_eq!(bounded("short"), "short");
    }
}

//! A source whose documents stand each by itself, and what it tells.

use std::time::Duration;

use tidegate_sources::{Event, RuleSource, Snapshot};
use tokio::time::timeout;

/// Noticing a hang takes its time, and so does a busy machine.
pub(crate) const DEADLINE: Duration = tidegate_testkit::wait::HANG_LIMIT;

/// A source, and what it has told so far.
pub(crate) struct Scene {
    pub(crate) source: Box<dyn RuleSource>,
    pub(crate) version: u64,
}

impl Scene {
    pub(crate) fn new(source: impl RuleSource + 'static) -> Self {
        Self { source: Box::new(source), version: 0 }
    }

    pub(crate) async fn next(&mut self) -> Event {
        let event = timeout(DEADLINE, self.source.next()).await.expect("an event before the deadline");
        if let Event::Loaded(snapshot) = &event {
            assert!(snapshot.version >= self.version, "{} < {}", snapshot.version, self.version);
            assert_eq!(snapshot.stamp, snapshot.version);
            assert!(snapshot.apart);
            self.version = snapshot.version;
        }
        event
    }

    pub(crate) async fn loaded(&mut self) -> Snapshot {
        match self.next().await {
            Event::Loaded(snapshot) => snapshot,
            Event::Failed(why) => panic!("failed: {why}"),
        }
    }

    pub(crate) async fn failed(&mut self) -> String {
        match self.next().await {
            Event::Failed(why) => why,
            Event::Loaded(snapshot) => panic!("loaded: {snapshot:?}"),
        }
    }
}

pub(crate) fn texts(snapshot: &Snapshot) -> Vec<&str> {
    snapshot.documents.iter().map(|document| document.text.as_deref().unwrap()).collect()
}

pub(crate) fn names(snapshot: &Snapshot) -> Vec<&str> {
    snapshot.documents.iter().map(|document| &*document.name).collect()
}

/// What is wrong with the second of two documents, of which the first is well.
pub(crate) fn bad_among_two(snapshot: &Snapshot) -> String {
    assert!(snapshot.documents.len() == 2 && snapshot.documents[0].text.is_ok(), "{snapshot:?}");
    snapshot.documents[1].text.clone().unwrap_err()
}

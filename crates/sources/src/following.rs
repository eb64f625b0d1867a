//! A task that follows a server, and the events it has found.

use std::future::Future;

use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::task::AbortHandle;

use crate::trouble::Trouble;
use crate::{Event, Snapshot, StoredText};

/// The task at work, ended when this is dropped.
#[derive(Debug)]
pub(crate) struct Following {
    events: Receiver<Event>,
    task: AbortHandle,
}

impl Following {
    fn start<F>(follow: impl FnOnce(Teller) -> F) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        // One event on its way is enough: what changes meanwhile is joined into the next.
        let (sender, events) = mpsc::channel(1);
        let task = tokio::spawn(follow(Teller { events: sender, version: 0, told: None })).abort_handle();
        Self { events, task }
    }

    /// Waits for an event of the task that follows `what`, which is started if it does not run. Giving up waiting loses
    /// nothing.
    pub(crate) async fn next<F>(
        following: &mut Option<Self>,
        what: &str,
        follow: impl FnOnce(Teller) -> F,
    ) -> Event
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let started = following.get_or_insert_with(|| Self::start(follow));
        match started.events.recv().await {
            Some(event) => event,
            None => {
                *following = None;
                Event::Failed(format!("following {what} was interrupted; it begins anew by itself"))
            }
        }
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Nobody listens any more.
pub(crate) struct Gone;

/// What the task tells, and what it told last.
#[derive(Debug)]
pub(crate) struct Teller {
    events: Sender<Event>,
    version: u64,
    /// The trouble told last, unless documents were told since.
    told: Option<Trouble>,
}

impl Teller {
    /// Waits until there is room for an event. Whoever waits may hear of more meanwhile, and tell it as one.
    pub(crate) async fn room(&self) -> Result<(), Gone> {
        self.events.reserve().await.map(drop).map_err(|_| Gone)
    }

    /// Tells documents as they are, or why they are none, unless that was told last. `version` says which they are, given
    /// the version told before.
    pub(crate) async fn news(
        &mut self,
        documents: Result<Vec<StoredText>, Trouble>,
        version: impl FnOnce(u64) -> u64,
    ) -> Result<(), Gone> {
        let event = match documents {
            Ok(documents) => {
                self.version = version(self.version);
                self.told = None;
                Event::Loaded(Snapshot { version: self.version, stamp: self.version, apart: true, documents })
            }
            Err(trouble) if self.told.as_ref() == Some(&trouble) => return Ok(()),
            Err(trouble) => self.failed(trouble),
        };
        self.events.send(event).await.map_err(|_| Gone)
    }

    /// Tells that the server is lost, unless the same was told last.
    pub(crate) async fn trouble(&mut self, trouble: Trouble) -> Result<(), Gone> {
        if self.told.as_ref().is_some_and(|told| trouble.is_like(told)) {
            return if self.events.is_closed() { Err(Gone) } else { Ok(()) };
        }
        let event = self.failed(trouble);
        self.events.send(event).await.map_err(|_| Gone)
    }

    fn failed(&mut self, trouble: Trouble) -> Event {
        let event = Event::Failed(trouble.text.clone());
        self.told = Some(trouble);
        event
    }
}

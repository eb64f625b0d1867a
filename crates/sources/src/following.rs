//! A task that follows a server, and the events it has found.

use std::future::Future;

use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::task::AbortHandle;

use crate::Event;

/// The task at work, ended when this is dropped.
#[derive(Debug)]
pub(crate) struct Following {
    events: Receiver<Event>,
    task: AbortHandle,
}

impl Following {
    /// Starts the task that sends its events into the given channel.
    pub(crate) fn start<F>(follow: impl FnOnce(Sender<Event>) -> F) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        // One event on its way is enough: what changes meanwhile is joined into the next.
        let (sender, events) = mpsc::channel(1);
        let task = tokio::spawn(follow(sender)).abort_handle();
        Self { events, task }
    }

    /// Waits for an event; nothing if the task has ended. Giving up waiting loses nothing.
    pub(crate) async fn next(&mut self) -> Option<Event> {
        self.events.recv().await
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        self.task.abort();
    }
}

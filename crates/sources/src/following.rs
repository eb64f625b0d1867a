//! A task that follows a server, and the events it has found.

use std::future::Future;
use std::time::Duration;

use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep};

use crate::pulse::Pulse;
use crate::trouble::Trouble;
use crate::{Event, Snapshot, StoredText};

/// How long to wait before the first attempt to connect again.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// A connection that has lasted this long was a good one: the next attempt comes soon.
const LASTING: Duration = Duration::from_secs(10);

/// The task at work, ended when this is dropped.
#[derive(Debug)]
pub(crate) struct Following {
    events: Receiver<Event>,
    task: AbortHandle,
}

impl Following {
    fn start<F>(pulse: Pulse, follow: impl FnOnce(Teller) -> F) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        // One event on its way is enough: what changes meanwhile is joined into the next.
        let (sender, events) = mpsc::channel(1);
        let task =
            tokio::spawn(follow(Teller { events: sender, version: 0, told: None, pulse })).abort_handle();
        Self { events, task }
    }

    /// Waits for an event of the task that follows `what`, which is started if it does not run. Giving up waiting loses
    /// nothing.
    pub(crate) async fn next<F>(
        following: &mut Option<Self>,
        what: &str,
        pulse: &Pulse,
        follow: impl FnOnce(Teller) -> F,
    ) -> Event
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let started = following.get_or_insert_with(|| Self::start(pulse.clone(), follow));
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

/// Somebody who follows a server over one connection after the other.
pub(crate) trait Follower: Send {
    /// A connection over which everything has been read.
    type Link: Send;

    /// How long to wait at most between two attempts to connect.
    const LAST_PAUSE: Duration;

    /// Connects and reads everything.
    fn open(&mut self) -> impl Future<Output = Result<Self::Link, Trouble>> + Send;

    /// Tells what there is, now and after every change, until the connection is lost.
    fn follow(&mut self, link: Self::Link) -> impl Future<Output = Result<Trouble, Gone>> + Send;

    fn teller(&mut self) -> &mut Teller;
}

/// Connects again and again, until nobody listens any more.
pub(crate) async fn keep_following<F: Follower>(mut follower: F) {
    let mut pause = FIRST_PAUSE;
    loop {
        let trouble = match follower.open().await {
            Ok(link) => {
                let opened = Instant::now();
                let Ok(trouble) = follower.follow(link).await else { return };
                if opened.elapsed() >= LASTING {
                    pause = FIRST_PAUSE;
                }
                trouble
            }
            Err(trouble) => trouble,
        };
        if follower.teller().trouble(trouble).await.is_err() {
            return;
        }
        sleep(pause).await;
        pause = (pause * 2).min(F::LAST_PAUSE);
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
    pulse: Pulse,
}

impl Teller {
    /// Takes note that the server is there, and that what was told last is still so.
    pub(crate) fn beat(&self) {
        self.pulse.beat();
    }

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
        self.beat();
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

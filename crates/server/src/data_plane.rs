//! The threads that serve requests, each with an event loop of its own.
//!
//! A connection lives on one thread for its life, and so does everything that is done for it. Tasks run first in, first out there:
//! all responses that are ready leave with one write, where a scheduler that shares tasks among threads sends each by itself.
//! Administration runs on other threads, so that it takes no processor time from decisions.

mod liveness;

use std::cell::Cell;
use std::fmt;
use std::io;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::runtime::{Builder, Handle};
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};

use crate::health::Concern;
use crate::node::Node;

pub(crate) use liveness::Liveness;

thread_local! {
    /// Number of the data thread that this is, counted from 0.
    static INDEX: Cell<usize> = const { Cell::new(0) };
}

/// Threads that serve connections. They end when the last clone of this is dropped.
#[derive(Clone)]
pub struct DataPlane {
    threads: Arc<[DataThread]>,
    /// How often to look whether a thread is stuck.
    look: Duration,
    /// Dropped to end the threads.
    _running: Arc<watch::Sender<()>>,
}

struct DataThread {
    runtime: Handle,
    load: Arc<ThreadLoad>,
    liveness: Arc<Liveness>,
}

impl DataPlane {
    /// Starts the threads.
    pub fn start(threads: NonZeroUsize) -> io::Result<Self> {
        let (running, stopped) = watch::channel(());
        let threads: io::Result<Arc<[DataThread]>> =
            (0..threads.get()).map(|index| DataThread::start(index, stopped.clone())).collect();
        Ok(Self { threads: threads?, look: liveness::LOOK, _running: Arc::new(running) })
    }

    /// Looks whether a thread is stuck at this interval (default 1 s). One that has not got on for ten looks is.
    #[must_use]
    pub fn look_every(mut self, interval: Duration) -> Self {
        self.look = interval;
        self
    }

    /// Returns the number of the data thread that this is called on, counted from 0; 0 on any other thread.
    pub fn current_thread() -> usize {
        INDEX.get()
    }

    /// Returns the event loops, so that a store can have connections on each.
    pub fn event_loops(&self) -> Vec<Handle> {
        self.threads.iter().map(|thread| thread.runtime.clone()).collect()
    }

    /// Returns what is known of whether each thread is stuck.
    pub(crate) fn liveness(&self) -> Box<[Arc<Liveness>]> {
        self.threads.iter().map(|thread| Arc::clone(&thread.liveness)).collect()
    }

    /// Looks whether threads are stuck, and tells, for as long as this runs. To be run on another thread.
    pub(crate) async fn watch(self, node: Arc<Node>) {
        let mut looks = interval(self.look);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut known: Vec<String> = Vec::new();
        loop {
            looks.tick().await;
            self.threads.iter().for_each(|thread| thread.liveness.look(&thread.runtime));
            let stuck: Vec<String> = stuck(&node.data_threads).map(|(name, _)| name).collect();
            if stuck == known {
                continue;
            }
            for name in stuck.iter().filter(|name| !known.contains(name)) {
                tracing::error!(thread = name, "a data thread is stuck; its connections are not served");
            }
            for name in known.iter().filter(|name| !stuck.contains(name)) {
                tracing::info!(thread = name, "a data thread runs again");
            }
            let reason = |name: &String| {
                format!("threads: {name} is stuck, its connections are not served; restart this node")
            };
            node.note(Concern::Threads, stuck.iter().map(reason).collect());
            known = stuck;
        }
    }

    /// Serves a connection on the thread that has least to do.
    pub(crate) fn serve<F>(
        &self,
        stream: TcpStream,
        serve: impl FnOnce(TcpStream, LoadGuard) -> F + Send + 'static,
    ) where
        F: Future<Output = ()> + Send + 'static,
    {
        // A socket belongs to the event loop that it was made on.
        let Ok(stream) = stream.into_std() else { return };
        let Some(thread) = self.threads.iter().min_by_key(|thread| thread.load.get()) else { return };
        let guard = ThreadLoad::enter(&thread.load);
        thread.runtime.spawn(async move {
            match TcpStream::from_std(stream) {
                Ok(stream) => serve(stream, guard).await,
                Err(error) => tracing::warn!(%error, "cannot serve a connection"),
            }
        });
    }
}

/// Returns the names of threads that are stuck, and for how long they have been.
pub(crate) fn stuck(threads: &[Arc<Liveness>]) -> impl Iterator<Item = (String, Duration)> {
    let stuck = |(index, thread): (usize, &Arc<Liveness>)| Some((thread_name(index), thread.stuck()?));
    threads.iter().enumerate().filter_map(stuck)
}

/// Returns the name of a data thread, as logs, metrics and the operating system show it.
pub(crate) fn thread_name(index: usize) -> String {
    format!("data-{index}")
}

impl fmt::Debug for DataPlane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DataPlane").field("threads", &self.threads.len()).finish()
    }
}

impl DataThread {
    fn start(index: usize, mut stopped: watch::Receiver<()>) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        thread::Builder::new().name(thread_name(index)).spawn(move || {
            INDEX.set(index);
            // Fails when the sender is gone, which is the end.
            runtime.block_on(async { while stopped.changed().await.is_ok() {} });
            runtime.shutdown_background();
        })?;
        Ok(Self { runtime: handle, load: Arc::default(), liveness: Arc::default() })
    }
}

/// Load of a thread: its open connections plus the requests in flight on them.
#[derive(Debug, Default)]
pub(crate) struct ThreadLoad(AtomicUsize);

/// One connection or request of a thread, until it is dropped.
#[derive(Debug)]
pub(crate) struct LoadGuard(Arc<ThreadLoad>);

impl ThreadLoad {
    fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    fn enter(load: &Arc<Self>) -> LoadGuard {
        load.0.fetch_add(1, Ordering::Relaxed);
        LoadGuard(Arc::clone(load))
    }
}

impl LoadGuard {
    /// Counts a request on the connection that this is the guard of.
    pub(crate) fn request(&self) -> Self {
        ThreadLoad::enter(&self.0)
    }
}

impl Drop for LoadGuard {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use tokio::net::TcpListener;
    use tokio::sync::mpsc;
    use tokio::time::timeout;

    use super::*;

    const PATIENCE: Duration = tidegate_testkit::wait::HANG_LIMIT;

    /// Serves a connection until its client is gone, and tells on which thread.
    async fn open(
        plane: &DataPlane,
        listener: &TcpListener,
        served: &mpsc::UnboundedSender<usize>,
    ) -> TcpStream {
        let (client, accepted) =
            tokio::join!(TcpStream::connect(listener.local_addr().unwrap()), listener.accept());
        let served = served.clone();
        plane.serve(accepted.unwrap().0, move |stream, guard| async move {
            let _guard = guard;
            served.send(DataPlane::current_thread()).unwrap();
            stream.readable().await.unwrap();
        });
        client.unwrap()
    }

    #[tokio::test]
    async fn connections_are_spread_evenly_and_leave_room() {
        let plane = DataPlane::start(NonZeroUsize::new(3).unwrap()).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (sender, mut served) = mpsc::unbounded_channel();
        let mut clients: BTreeMap<usize, Vec<TcpStream>> = BTreeMap::new();
        for _ in 0..12 {
            let client = open(&plane, &listener, &sender).await;
            let thread = timeout(PATIENCE, served.recv()).await.unwrap().unwrap();
            clients.entry(thread).or_default().push(client);
        }
        assert_eq!(clients.values().map(Vec::len).collect::<Vec<_>>(), [4, 4, 4]);
        // The next ones go where others have left.
        clients.remove(&1);
        let gone = async {
            while plane.threads[1].load.get() > 0 {
                tokio::task::yield_now().await;
            }
        };
        timeout(PATIENCE, gone).await.unwrap();
        for _ in 0..4 {
            let client = open(&plane, &listener, &sender).await;
            let thread = timeout(PATIENCE, served.recv()).await.unwrap().unwrap();
            assert_eq!(thread, 1);
            clients.entry(thread).or_default().push(client);
        }
    }

    #[test]
    fn requests_count_as_much_as_connections() {
        let load = Arc::new(ThreadLoad::default());
        let connection = ThreadLoad::enter(&load);
        let request = connection.request();
        assert_eq!(load.get(), 2);
        drop((connection, request));
        assert_eq!(load.get(), 0);
    }
}

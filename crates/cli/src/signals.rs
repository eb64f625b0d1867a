//! Being told to end.

use std::io;

use tokio::sync::watch;

/// Counts how often this process has been told to end.
pub(crate) struct Signals(watch::Receiver<u32>);

impl Signals {
    /// Listens from now on; must be called within a runtime.
    pub(crate) fn listen() -> io::Result<Self> {
        let (told, count) = watch::channel(0);
        let mut next = Next::new()?;
        tokio::spawn(async move {
            loop {
                next.signal().await;
                told.send_modify(|count| *count += 1);
            }
        });
        Ok(Self(count))
    }

    /// Resolves when it has been told `times`.
    pub(crate) fn told(&self, times: u32) -> impl Future<Output = ()> + use<> {
        let mut count = self.0.clone();
        async move {
            if count.wait_for(|count| *count >= times).await.is_err() {
                // Nobody is left to tell.
                std::future::pending::<()>().await;
            }
        }
    }
}

#[cfg(unix)]
struct Next {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Next {
    fn new() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn signal(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

#[cfg(not(unix))]
struct Next;

#[cfg(not(unix))]
impl Next {
    fn new() -> io::Result<Self> {
        Ok(Self)
    }

    async fn signal(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

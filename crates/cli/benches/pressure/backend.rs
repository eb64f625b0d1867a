//! A back end that can serve so much and no more.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tidegate_testkit::{Pieces, Scripted};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

const WORKERS: usize = 10;
const SERVICE_TIME: Duration = Duration::from_millis(20);

/// Requests per second if timers were exact.
pub(crate) const CAPACITY: f64 = WORKERS as f64 / 0.02;

/// Time for which the true capacity is measured.
const MEASURED: Duration = Duration::from_secs(3);

/// Returns how many requests per second the workers can serve on this machine: timers are late.
pub(crate) fn measured_capacity() -> f64 {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let end = Instant::now() + MEASURED;
        let mut workers = JoinSet::new();
        for _ in 0..WORKERS {
            workers.spawn(async move {
                let mut served = 0u32;
                while Instant::now() < end {
                    sleep(SERVICE_TIME).await;
                    served += 1;
                }
                served
            });
        }
        let served: u32 = workers.join_all().await.into_iter().sum();
        f64::from(served) / MEASURED.as_secs_f64()
    })
}

/// Workers with one queue, which they serve in order: also requests that nobody waits for any more.
pub(crate) struct Backend {
    server: Scripted,
    /// Requests of an earlier contestant are not served.
    run: Arc<AtomicU64>,
}

impl Backend {
    pub(crate) fn start() -> Self {
        let workers = Arc::new(Semaphore::new(WORKERS));
        let run = Arc::new(AtomicU64::new(0));
        let present = Arc::clone(&run);
        let server = Scripted::http(move |_| {
            let (workers, present) = (Arc::clone(&workers), Arc::clone(&present));
            let of = present.load(Ordering::Relaxed);
            let work = tokio::spawn(async move {
                let _worker = workers.acquire().await;
                if present.load(Ordering::Relaxed) == of {
                    sleep(SERVICE_TIME).await;
                }
            });
            async move {
                work.await.ok();
                hyper::Response::new(Pieces::whole("served"))
            }
        });
        Self { server, run }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Drops what is queued.
    pub(crate) fn forget(&self) {
        self.run.fetch_add(1, Ordering::Relaxed);
    }
}

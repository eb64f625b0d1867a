//! From spans that have ended to a collector, beside everything else.
//!
//! Spans wait in a queue of a fixed length and are sent in batches, by one task. Where a collector is away or slow, the queue fills
//! up and what comes then is dropped and counted: no request ever waits for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use opentelemetry::Context;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{Span, SpanData, SpanExporter, SpanProcessor};
use tidegate_server::SpanFigures;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until, timeout};

/// How many spans wait at most.
const ROOM: usize = 8_192;

/// How many are sent at once at most.
const BATCH: usize = 512;

/// How long the first of a batch waits for others.
const PAUSE: Duration = Duration::from_millis(500);

/// How long a collector may take.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// What the sending task is told.
enum Word {
    Span(Box<SpanData>),
    /// All that came before is to be sent at once.
    Flush(oneshot::Sender<()>),
}

/// What became of spans.
#[derive(Debug, Default)]
pub(super) struct Counts {
    exported: AtomicU64,
    dropped: AtomicU64,
    failed: AtomicU64,
}

impl Counts {
    pub(super) fn figures(&self) -> SpanFigures {
        SpanFigures {
            exported: self.exported.load(Ordering::Relaxed),
            dropped: self.dropped.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
        }
    }
}

/// Where spans wait.
#[derive(Clone)]
pub(super) struct Queue {
    words: Sender<Word>,
    pub(super) counts: Arc<Counts>,
}

impl Queue {
    /// Starts sending what comes to `exporter`, within the present Tokio runtime.
    pub(super) fn start(exporter: impl SpanExporter + 'static) -> Self {
        let (words, heard) = channel(ROOM);
        let counts = Arc::new(Counts::default());
        let post = Post { exporter, counts: Arc::clone(&counts), failing: false };
        tokio::spawn(post.run(heard));
        Self { words, counts }
    }

    /// Has all that waits sent, for `longest` at most.
    pub(super) async fn flush(&self, longest: Duration) {
        let (done, heard) = oneshot::channel();
        let flushed = async {
            if self.words.send(Word::Flush(done)).await.is_ok() {
                heard.await.ok();
            }
        };
        timeout(longest, flushed).await.ok();
    }
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queue").field("counts", &self.counts).finish_non_exhaustive()
    }
}

impl SpanProcessor for Queue {
    fn on_start(&self, _: &mut Span, _: &Context) {}

    fn on_end(&self, span: SpanData) {
        if self.words.try_send(Word::Span(Box::new(span))).is_err() {
            self.counts.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }
}

/// What sends them.
struct Post<E> {
    exporter: E,
    counts: Arc<Counts>,
    /// Whether the last batch was not taken: that is said once, however many follow.
    failing: bool,
}

impl<E: SpanExporter> Post<E> {
    async fn run(mut self, mut heard: Receiver<Word>) {
        let mut words = Vec::with_capacity(BATCH);
        loop {
            let (batch, flushed) = gather(&mut heard, &mut words).await;
            if !batch.is_empty() {
                self.send(batch).await;
            } else if flushed.is_empty() {
                return;
            }
            for done in flushed {
                done.send(()).ok();
            }
        }
    }

    async fn send(&mut self, batch: Vec<SpanData>) {
        let count = batch.len() as u64;
        let problem = match timeout(PATIENCE, self.exporter.export(batch)).await {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some("it does not answer".to_owned()),
        };
        let counter = if problem.is_none() { &self.counts.exported } else { &self.counts.failed };
        counter.fetch_add(count, Ordering::Relaxed);
        match (problem, self.failing) {
            (Some(problem), false) => tracing::warn!(problem, "the collector does not take spans"),
            (None, true) => {
                let SpanFigures { failed, dropped, .. } = self.counts.figures();
                tracing::info!(failed, dropped, "the collector takes spans again");
            }
            (Some(_), true) => return,
            (None, false) => return,
        }
        self.failing = !self.failing;
    }
}

/// The next batch, and who wants to hear when it is sent. Both are empty when nobody is left to send anything.
async fn gather(
    heard: &mut Receiver<Word>,
    words: &mut Vec<Word>,
) -> (Vec<SpanData>, Vec<oneshot::Sender<()>>) {
    let (mut batch, mut flushed) = (Vec::new(), Vec::new());
    let mut until = None;
    while batch.len() < BATCH && flushed.is_empty() {
        let room = BATCH - batch.len();
        let count = match until {
            None => heard.recv_many(words, room).await,
            Some(until) => tokio::select! {
                biased;
                count = heard.recv_many(words, room) => count,
                () = sleep_until(until) => break,
            },
        };
        if count == 0 {
            break;
        }
        until.get_or_insert_with(|| Instant::now() + PAUSE);
        for word in words.drain(..) {
            match word {
                Word::Span(span) => batch.push(*span),
                Word::Flush(done) => flushed.push(done),
            }
        }
    }
    (batch, flushed)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use opentelemetry::trace::{Tracer as _, TracerProvider as _};
    use opentelemetry_sdk::error::OTelSdkError;
    use opentelemetry_sdk::trace::SdkTracerProvider;

    use super::*;

    /// A collector that never answers.
    #[derive(Debug)]
    struct Silent;

    impl SpanExporter for Silent {
        async fn export(&self, _: Vec<SpanData>) -> OTelSdkResult {
            std::future::pending().await
        }
    }

    /// One that is away at times.
    #[derive(Debug)]
    struct Moody(Arc<AtomicBool>);

    impl SpanExporter for Moody {
        async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
            assert!(batch.len() <= BATCH, "{}", batch.len());
            if self.0.load(Ordering::Relaxed) {
                Ok(())
            } else {
                Err(OTelSdkError::InternalFailure("away".to_owned()))
            }
        }
    }

    fn end_spans(queue: &Queue, count: usize) {
        let provider = SdkTracerProvider::builder().with_span_processor(queue.clone()).build();
        let tracer = provider.tracer("test");
        (0..count).for_each(|_| drop(tracer.start("span")));
    }

    #[tokio::test]
    async fn what_there_is_no_room_for_is_dropped_and_counted_and_nobody_waits() {
        let queue = Queue::start(Silent);
        end_spans(&queue, ROOM + 7);
        assert_eq!(queue.counts.figures(), SpanFigures { dropped: 7, ..SpanFigures::default() });
        queue.flush(Duration::from_millis(1)).await;
        assert_eq!(queue.counts.figures().exported, 0);
    }

    #[tokio::test]
    async fn each_span_is_counted_once() {
        let there = Arc::new(AtomicBool::new(false));
        let queue = Queue::start(Moody(Arc::clone(&there)));
        end_spans(&queue, 2 * BATCH + 1);
        queue.flush(Duration::from_secs(20)).await;
        there.store(true, Ordering::Relaxed);
        end_spans(&queue, 3);
        queue.flush(Duration::from_secs(20)).await;
        let failed = 2 * BATCH as u64 + 1;
        assert_eq!(queue.counts.figures(), SpanFigures { exported: 3, failed, dropped: 0 });
    }
}

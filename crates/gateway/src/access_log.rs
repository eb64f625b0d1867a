//! The access log: a line of JSON for each request, written where it holds nobody up.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;

/// How many lines may wait to be written; more are lost, and counted.
const MOST_WAITING: usize = 16_384;

/// How long a line may wait for others to be written with.
const LINGER: Duration = Duration::from_millis(200);

/// How often to see whether the file is still the one that its name means.
const LOOK: Duration = Duration::from_secs(1);

/// Where the access log goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccessLogTarget {
    /// To standard output.
    Stdout,
    /// To the end of a file, which is opened again when it has been renamed or removed.
    File(PathBuf),
}

/// What became of one request.
#[derive(Debug, Serialize)]
pub(crate) struct Line<'a> {
    /// When it came, in RFC 3339.
    pub(crate) time: &'a str,
    pub(crate) client: IpAddr,
    pub(crate) method: &'a str,
    pub(crate) host: &'a str,
    pub(crate) path: &'a str,
    pub(crate) protocol: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) user: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tenant: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) request_id: Option<&'a str>,
    /// 0: the client did not wait for an answer.
    pub(crate) status: u16,
    /// `allowed`, `refused`, `failed_open`, `unavailable`, `shed`; none: it was not asked for.
    pub(crate) decision: Option<&'static str>,
    /// The rule that decided.
    pub(crate) rule: Option<&'a str>,
    pub(crate) route: Option<&'a str>,
    /// The server that answered, or was tried last.
    pub(crate) upstream: Option<&'a str>,
    pub(crate) attempts: u32,
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
    /// From the request's head to the end of the answer.
    pub(crate) total_ms: f64,
    /// What the decision took of that.
    pub(crate) limiter_ms: f64,
    /// How long it waited for its turn.
    pub(crate) waited_ms: f64,
    /// From sending it on to the head of the answer.
    pub(crate) upstream_ms: Option<f64>,
    /// What went wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<&'a str>,
}

/// Takes lines; they are written by a thread of its own, which ends when nobody can send it any more.
#[derive(Debug)]
pub(crate) struct AccessLog {
    lines: SyncSender<Vec<u8>>,
    lost: Arc<AtomicU64>,
}

impl AccessLog {
    /// Opens the log; that it cannot be is found out at once.
    pub(crate) fn open(target: &AccessLogTarget) -> io::Result<Self> {
        let sink = match target {
            AccessLogTarget::Stdout => Sink::Stdout(io::stdout()),
            AccessLogTarget::File(path) => Sink::File(Followed::open(path)?),
        };
        let (lines, waiting) = sync_channel(MOST_WAITING);
        let lost = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&lost);
        thread::Builder::new()
            .name("access-log".to_owned())
            .spawn(move || write_all(sink, &waiting, &counted))?;
        Ok(Self { lines, lost })
    }

    /// Has a line written, if there is room for it.
    pub(crate) fn write(&self, line: &Line<'_>) {
        let mut text = Vec::with_capacity(512);
        if serde_json::to_writer(&mut text, line).is_err() {
            return;
        }
        text.push(b'\n');
        if self.lines.try_send(text).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How many lines were lost.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

fn write_all(sink: Sink, waiting: &Receiver<Vec<u8>>, lost: &AtomicU64) {
    let mut sink = BufWriter::with_capacity(64 * 1024, sink);
    let mut looked = Instant::now();
    let mut unwritten = 0;
    loop {
        let received = if unwritten == 0 {
            waiting.recv().map_err(|_| RecvTimeoutError::Disconnected)
        } else {
            waiting.recv_timeout(LINGER)
        };
        let written = match &received {
            Ok(line) => {
                unwritten += 1;
                sink.write_all(line)
            }
            Err(_) => Ok(()),
        };
        let due = received.is_err() || looked.elapsed() >= LOOK;
        let flushed = if due { sink.flush() } else { Ok(()) };
        if let Err(error) = written.and(flushed) {
            lost.fetch_add(unwritten, Ordering::Relaxed);
            unwritten = 0;
            tracing::warn!(%error, "the access log cannot be written");
            // What could not be written stays in the buffer, and would be again before everything else.
            let (inner, _) = sink.into_parts();
            sink = BufWriter::with_capacity(64 * 1024, inner);
        }
        if due {
            unwritten = 0;
            looked = Instant::now();
            sink.get_mut().look();
        }
        if matches!(received, Err(RecvTimeoutError::Disconnected)) {
            return;
        }
    }
}

enum Sink {
    Stdout(io::Stdout),
    File(Followed),
}

impl Sink {
    fn look(&mut self) {
        if let Self::File(file) = self
            && let Err(error) = file.look()
        {
            tracing::warn!(%error, path = %file.path.display(), "the access log cannot be opened again");
        }
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Stdout(out) => out.write(bytes),
            Self::File(file) => file.file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Stdout(out) => out.flush(),
            Self::File(file) => file.file.flush(),
        }
    }
}

/// A file that may be renamed under us, as rotation does.
struct Followed {
    path: PathBuf,
    file: File,
}

impl Followed {
    fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().append(true).create(true).open(path)?;
        Ok(Self { path: path.to_owned(), file })
    }

    /// Opens it again if its name means another file now, or none.
    fn look(&mut self) -> io::Result<()> {
        let same = match (self.path.metadata(), self.file.metadata()) {
            (Ok(named), Ok(open)) => is_same(&named, &open),
            _ => false,
        };
        if !same {
            *self = Self::open(&self.path)?;
        }
        Ok(())
    }
}

#[cfg(unix)]
fn is_same(one: &std::fs::Metadata, other: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

#[cfg(not(unix))]
fn is_same(_: &std::fs::Metadata, _: &std::fs::Metadata) -> bool {
    true
}

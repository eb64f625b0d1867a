//! `tidegate simulate`: recorded traffic replayed in virtual time through the real engine.

mod chart;
pub(crate) mod combined_log;
mod input;
pub(crate) mod json_line;
mod log_text;
mod progress;
mod replay;
mod report;
mod sink;
mod tally;

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;

use crate::failure::{Failure, Outcome};
use crate::rules;
use crate::store::Store;
use crate::terminal::{count, number, safe};
use input::{Line, Lines};
use progress::Progress;
use replay::Replay;
use sink::Sink;

/// The most that is said about a bad line.
const MAX_REASON_BYTES: usize = 400;

/// The arguments of `tidegate simulate`.
#[derive(Debug, clap::Args)]
pub(crate) struct SimulateArgs {
    /// The rules to try
    #[arg(long, value_name = "FILE")]
    rules: PathBuf,

    /// Where counters are kept during the replay: memory:, or a Redis whose scripts are to be tried, under keys of its own
    #[arg(long, value_name = "URL", default_value = "memory:")]
    store: Store,

    /// How many counters to keep at most
    #[arg(long, value_name = "N", default_value_t = tidegate::store::memory::DEFAULT_MAX_KEYS)]
    max_keys: usize,

    /// Print one decision per request, in order, as the answer to /v1/check has it
    #[arg(long)]
    json: bool,

    /// Pass over lines that cannot be read instead of stopping at the first
    #[arg(long)]
    skip_bad_lines: bool,

    /// How many of those refused most to list
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,

    /// Recorded requests: JSON lines or an access log in combined format, plain or gzip; - is standard input
    #[arg(value_name = "REQUESTS")]
    requests: PathBuf,
}

impl SimulateArgs {
    fn input_name(&self) -> String {
        match self.requests.to_str() {
            Some("-") => "standard input".to_owned(),
            _ => self.requests.display().to_string(),
        }
    }
}

/// Replays the requests and says what became of them.
pub(crate) fn run(args: &SimulateArgs) -> Outcome {
    let rules = rules::load(&args.rules)?;
    let progress = Progress::new(args.json && io::stdout().is_terminal());
    let name = args.input_name();
    let mut lines = Lines::open(&args.requests, &progress)
        .map_err(|error| Failure::Failed(format!("cannot read {name}: {error}")))?;
    let mut replay = Replay::new(rules, &args.store, args.max_keys)?;
    let mut sink = if args.json { Sink::decisions() } else { Sink::report(&replay.rules()) };
    let played = play(args, &mut lines, &mut replay, &mut sink);
    drop(progress);
    replay.end();
    let bad = match played {
        Ok(bad) => bad,
        Err(failure) => {
            sink.flush()?;
            return Err(failure);
        }
    };
    sink.finish(&replay.rules(), args.top)?;
    notes(&replay, &bad);
    Ok(ExitCode::SUCCESS)
}

/// Lines that were passed over.
#[derive(Default)]
struct Bad {
    lines: u64,
    first: Option<String>,
}

fn play(
    args: &SimulateArgs,
    lines: &mut Lines,
    replay: &mut Replay,
    sink: &mut Sink,
) -> Result<Bad, Failure> {
    let mut bad = Bad::default();
    let name = args.input_name();
    loop {
        let line = match lines.next() {
            Ok(Some(line)) => line,
            Ok(None) => return Ok(bad),
            Err(error) => {
                let number = lines.number();
                return Err(Failure::Failed(format!("cannot read {name} beyond line {number}: {error}")));
            }
        };
        let number = line.number;
        match play_line(line, replay, sink).map_err(short) {
            Ok(written) => written?,
            Err(reason) if args.skip_bad_lines => {
                bad.lines += 1;
                bad.first.get_or_insert_with(|| format!("line {number}: {reason}"));
            }
            Err(reason) => {
                return Err(Failure::Failed(format!(
                    "{name}: line {number}: {reason}\nCorrect the line, or pass over all such lines with --skip-bad-lines."
                )));
            }
        }
    }
}

/// Decides one line; the outer error is the line's, the inner one the output's.
fn play_line(line: Line<'_>, replay: &mut Replay, sink: &mut Sink) -> Result<io::Result<()>, String> {
    let (at, recorded) = replay.read(line)?;
    let request = recorded.request();
    let checked = replay.decide(at, &request)?;
    Ok(sink.add(&checked, &request))
}

/// A reason may quote a line as long as it likes.
fn short(mut reason: String) -> String {
    if reason.len() > MAX_REASON_BYTES {
        reason.truncate(reason.floor_char_boundary(MAX_REASON_BYTES));
        reason.push('\u{2026}');
    }
    reason
}

/// What the reader of the result should know besides.
fn notes(replay: &Replay, bad: &Bad) {
    if let Some(first) = &bad.first {
        let lines = count(bad.lines, "bad line");
        anstream::eprintln!("passed over {lines}; the first: {}", safe(first));
    }
    if replay.short_of_room() > 0 {
        let times = number(replay.short_of_room());
        anstream::eprintln!(
            "there were more live counters than --max-keys: new ones displaced others {times} times, and decisions on those may \
             be too strict"
        );
    }
}

//! Runs seeds of the simulator; see `cargo xtask sim --help`.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use tidegate_sim::{Mistake, Report, RunStats, run_traced, search};

/// Seeds between two looks at the clock.
const CHUNK: u64 = 1_000;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match Settings::read(&arguments) {
        Ok(settings) => settings.run(),
        Err(message) => {
            eprintln!("sim: {message}");
            ExitCode::FAILURE
        }
    }
}

struct Settings {
    seed: Option<u64>,
    seeds: u64,
    minutes: Option<u64>,
    trace: bool,
    mistakes: bool,
}

impl Settings {
    fn read(arguments: &[String]) -> Result<Self, String> {
        let mut settings = Self { seed: None, seeds: 2_000, minutes: None, trace: false, mistakes: false };
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            let mut number = || {
                let value = rest.next().ok_or_else(|| format!("{argument} wants a number"))?;
                value.parse::<u64>().map_err(|_| format!("`{value}` is not a number; {argument} wants one"))
            };
            match argument.as_str() {
                "--seed" => settings.seed = Some(number()?),
                "--seeds" => settings.seeds = number()?,
                "--minutes" => settings.minutes = Some(number()?),
                "--mistakes" => settings.mistakes = true,
                "--trace" => settings.trace = true,
                other => return Err(format!("there is no option `{other}`")),
            }
        }
        Ok(settings)
    }

    fn run(&self) -> ExitCode {
        match self.seed {
            _ if self.mistakes => self.run_mistakes(),
            Some(seed) => show(&run_traced(seed), self.trace),
            None => self.run_many(),
        }
    }

    /// Plants every known mistake and says how soon it is found.
    fn run_mistakes(&self) -> ExitCode {
        let mut code = ExitCode::SUCCESS;
        for mistake in Mistake::ALL {
            let summary = search(0, self.seeds, Some(mistake));
            match summary.failure.and_then(|report| Some((report.seed, report.violation?.what))) {
                Some((seed, what)) => println!("{mistake:?}: found by seed {seed}: {what}"),
                None => {
                    println!("{mistake:?}: NOT found in {} seeds", summary.seeds);
                    code = ExitCode::FAILURE;
                }
            }
        }
        code
    }

    fn run_many(&self) -> ExitCode {
        let start = Instant::now();
        let end = self.minutes.map(|minutes| start + Duration::from_secs(60 * minutes));
        let (mut done, mut stats) = (0, RunStats::default());
        while end.map_or(done < self.seeds, |end| Instant::now() < end) {
            let chunk = if end.is_some() { CHUNK } else { CHUNK.min(self.seeds - done) };
            let summary = search(done, chunk, None);
            done += summary.seeds;
            stats += summary.stats;
            if let Some(report) = summary.failure {
                return show(&run_traced(report.seed), self.trace);
            }
        }
        println!("{done} seeds in {:.1} s, no violation", start.elapsed().as_secs_f64());
        println!("{}", describe(&stats));
        println!(
            "{} times a phase of owners, {} splits, at most {} ‰ of a limit admitted in one window (by the published bounds)",
            stats.outages, stats.splits, stats.worst
        );
        ExitCode::SUCCESS
    }
}

/// Prints a run: all of it if wanted or if it failed.
fn show(report: &Report, trace: bool) -> ExitCode {
    if trace || report.violation.is_some() {
        report.trace.iter().for_each(|line| println!("{line}"));
    }
    println!("seed {}: {}", report.seed, describe(&report.stats));
    match &report.violation {
        None => ExitCode::SUCCESS,
        Some(violation) => {
            println!("VIOLATION at {:.3} ms: {}", violation.at as f64 / 1e3, violation.what);
            println!("run it again with: cargo xtask sim --seed {} --trace", report.seed);
            ExitCode::FAILURE
        }
    }
}

fn describe(stats: &RunStats) -> String {
    let RunStats {
        requests,
        admitted,
        by_owner,
        by_reserve,
        by_emergency,
        refused,
        undecided,
        events,
        books,
        ..
    } = stats;
    format!(
        "{requests} requests, {admitted} admitted ({by_owner} by owners, {by_reserve} from reserves, {by_emergency} in \
         emergency), {refused} refused, {undecided} undecided; {books} books opened, {events} events"
    )
}

//! Runs commands side by side, shows what is under way, and prints what each of them had to say when it has ended.

use std::collections::VecDeque;
use std::fmt;
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use crate::test_output::{Count, Stopwatch, finished_test};

/// Interval between lines that say what is running.
const HEARTBEAT: Duration = Duration::from_secs(30);

/// A command to run, and the tests it is known to run.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) name: String,
    pub(crate) command: Command,
    /// In the order in which they start; empty if not known.
    pub(crate) tests: Vec<String>,
    pub(crate) threads: usize,
}

impl Job {
    /// Creates a job whose tests are not known beforehand.
    pub(crate) fn new(name: &str, command: Command) -> Self {
        Self { name: name.to_owned(), command, tests: Vec::new(), threads: 1 }
    }
}

/// Jobs that are run in order, a number of them at a time.
#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) jobs: Vec<Job>,
    pub(crate) at_once: usize,
}

/// A job that has ended.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) name: String,
    pub(crate) count: Count,
    pub(crate) took: Duration,
    /// The tests of which it is known how long they took.
    pub(crate) tests: Vec<(String, Duration)>,
    pub(crate) failed_tests: Vec<String>,
    pub(crate) output: String,
    /// Reason for its failure, if it failed.
    pub(crate) error: Option<String>,
}

enum Event {
    /// A job has begun, or has come to another test.
    Progress(Progress),
    Ended(Report),
}

/// How far a job has come.
#[derive(Debug)]
struct Progress {
    job: String,
    done: usize,
    total: usize,
    /// The test that has been running longest, and since when.
    longest: Option<(String, Instant)>,
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.job)?;
        if let Some((test, since)) = &self.longest {
            let (done, total) = (self.done, self.total);
            write!(f, " {done}/{total} ({test} for {:.0} s)", since.elapsed().as_secs_f64())?;
        }
        Ok(())
    }
}

/// Runs all jobs of a queue, and reports on them in the order in which they end.
pub(crate) fn run(queue: Queue) -> Vec<Report> {
    let start = Instant::now();
    let (events, received) = mpsc::channel();
    let (jobs, at_once) = (Mutex::new(VecDeque::from(queue.jobs)), queue.at_once);
    thread::scope(|scope| {
        for _ in 0..at_once {
            let (events, jobs) = (events.clone(), &jobs);
            scope.spawn(move || {
                while let Some(job) = next(jobs) {
                    run_job(job, &events);
                }
            });
        }
        drop(events);
        follow(&received, start)
    })
}

fn next(jobs: &Mutex<VecDeque<Job>>) -> Option<Job> {
    jobs.lock().ok()?.pop_front()
}

/// Prints what happens until all senders of events are gone.
fn follow(events: &Receiver<Event>, start: Instant) -> Vec<Report> {
    let mut reports = Vec::new();
    let mut running: Vec<Progress> = Vec::new();
    let mut next_line = start + HEARTBEAT;
    loop {
        match events.recv_timeout(next_line.saturating_duration_since(Instant::now())) {
            Ok(Event::Progress(progress)) => match running.iter_mut().find(|known| known.job == progress.job)
            {
                Some(known) => *known = progress,
                None => running.push(progress),
            },
            Ok(Event::Ended(report)) => {
                running.retain(|progress| progress.job != report.name);
                report.print();
                reports.push(report);
            }
            Err(RecvTimeoutError::Timeout) => {
                let doing: Vec<String> = running.iter().map(Progress::to_string).collect();
                println!("  … {:.0} s, running: {}", start.elapsed().as_secs_f64(), doing.join("; "));
                next_line = Instant::now() + HEARTBEAT;
            }
            Err(RecvTimeoutError::Disconnected) => return reports,
        }
    }
}

impl Report {
    #[cfg(test)]
    pub(crate) fn failed(name: &str, error: &str) -> Self {
        Self { error: Some(error.to_owned()), ..Self::new(name) }
    }

    fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            count: Count::default(),
            took: Duration::ZERO,
            tests: Vec::new(),
            failed_tests: Vec::new(),
            output: String::new(),
            error: None,
        }
    }

    fn print(&self) {
        let result = if self.error.is_some() { "FAILED" } else { "ok" };
        let count = if self.count == Count::default() { String::new() } else { format!(": {}", self.count) };
        println!("{result:<6} {}{count} ({:.1} s)", self.name, self.took.as_secs_f64());
        if let Some(error) = &self.error {
            println!("---- {}", self.name);
            let passed = |line: &&str| finished_test(line).is_some_and(|(_, failed)| !failed);
            self.output.lines().filter(|line| !passed(line)).for_each(|line| println!("{line}"));
            println!("---- {error}");
        }
    }
}

fn run_job(mut job: Job, events: &Sender<Event>) {
    let start = Instant::now();
    let mut report = Report::new(&job.name);
    report.error = watch(&mut job, &mut report, events, start).err();
    report.took = start.elapsed();
    events.send(Event::Ended(report)).ok();
}

/// Runs the command, reading its output as it comes.
fn watch(job: &mut Job, report: &mut Report, events: &Sender<Event>, start: Instant) -> Result<(), String> {
    let could_not = |error| format!("{} could not be run: {error}", job.name);
    let (output, sink) = std::io::pipe().map_err(could_not)?;
    let errors = sink.try_clone().map_err(could_not)?;
    job.command.stdin(Stdio::null()).stdout(sink).stderr(errors);
    let mut child = job.command.spawn().map_err(could_not)?;
    // The command keeps the writing end of the pipe, and reading would not end before it is gone.
    let shown = format!("{:?}", job.command);
    job.command = Command::new("true");
    let total = job.tests.len();
    let mut stopwatch = Stopwatch::new(std::mem::take(&mut job.tests), job.threads);
    let mut done = 0;
    let tell = |done, stopwatch: &Stopwatch| {
        let longest = stopwatch.longest_running().map(|(test, since)| (test.to_owned(), start + since));
        // The receiver lives as long as there are jobs.
        events.send(Event::Progress(Progress { job: job.name.clone(), done, total, longest })).ok();
    };
    tell(done, &stopwatch);
    for line in lines(output) {
        report.count.add_line(&line);
        if let Some((test, failed)) = finished_test(&line) {
            done += 1;
            let took = stopwatch.finish(test, start.elapsed());
            let name = format!("{} {test}", job.name);
            report.failed_tests.extend(failed.then(|| name.clone()));
            report.tests.extend(took.map(|took| (name, took)));
            tell(done, &stopwatch);
        }
        report.output.push_str(&line);
        report.output.push('\n');
    }
    match child.wait() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{shown} ended with {status}")),
        Err(error) => Err(could_not(error)),
    }
}

/// Reads lines of whatever bytes a program prints.
fn lines(output: impl Read) -> impl Iterator<Item = String> {
    let mut output = BufReader::new(output);
    std::iter::from_fn(move || {
        let mut line = Vec::new();
        match output.read_until(b'\n', &mut line) {
            Ok(1..) => Some(String::from_utf8_lossy(&line).trim_end().to_owned()),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(name: &str, script: &str) -> Job {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Job::new(name, command)
    }

    #[test]
    fn jobs_are_counted_and_failures_told() {
        let good = "echo 'test a ... ok'; echo 'test result: ok. 1 passed; 0 failed; 0 ignored'";
        let bad = "echo 'test b ... FAILED'; echo 'test result: FAILED. 2 passed; 1 failed; 0 ignored' >&2; exit 101";
        let tests = vec!["a".to_owned()];
        let jobs = vec![Job { tests, ..shell("good", good) }, shell("bad", bad)];
        let mut reports = run(Queue { jobs, at_once: 2 });
        reports.sort_by_key(|report| report.name != "good");
        let [good, bad] = &reports[..] else { panic!("{reports:?}") };
        assert_eq!((good.count, &good.error), (Count { passed: 1, failed: 0 }, &None));
        assert_eq!(good.tests[0].0, "good a");
        assert_eq!(bad.count, Count { passed: 2, failed: 1 });
        assert_eq!((&good.failed_tests[..], &bad.failed_tests[..]), (&[][..], &["bad b".to_owned()][..]));
        assert!(bad.error.as_ref().is_some_and(|error| error.contains("101")), "{:?}", bad.error);
    }

    #[test]
    fn a_command_that_is_not_there_has_failed() {
        let jobs = vec![Job::new("nothing", Command::new("/nonexistent/program"))];
        let reports = run(Queue { jobs, at_once: 1 });
        assert!(reports[0].error.as_ref().is_some_and(|error| error.contains("could not be run")));
    }

    #[test]
    fn a_queue_is_run_in_order() {
        let file = std::env::temp_dir().join(format!("tidegate-xtask-queue-{}", std::process::id()));
        let add = |text: &str| shell(text, &format!("echo {text} >> {}", file.display()));
        let jobs = ["one", "two", "three"].map(add).into();
        let reports = run(Queue { jobs, at_once: 1 });
        assert!(reports.iter().all(|report| report.error.is_none()), "{reports:?}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "one\ntwo\nthree\n");
        std::fs::remove_file(file).unwrap();
    }
}

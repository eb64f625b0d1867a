//! Reads the output of test runners: how many tests passed and failed, and how long each took.

use std::collections::VecDeque;
use std::fmt;
use std::ops::AddAssign;
use std::time::Duration;

/// Number of tests by result.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Count {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)
    }
}

impl AddAssign for Count {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
    }
}

impl Count {
    /// Adds a line such as `test result: ok. 3 passed; 0 failed; …`, or `ℹ pass 3` as Node.js prints it.
    pub(crate) fn add_line(&mut self, line: &str) {
        match line.strip_prefix("ℹ ").and_then(|figure| figure.split_once(' ')) {
            Some(("pass", number)) => self.passed += number.parse().unwrap_or(0),
            Some(("fail", number)) => self.failed += number.parse().unwrap_or(0),
            _ => {}
        }
        let result = line.strip_prefix("test result: ").and_then(|rest| rest.split_once(". "));
        for figure in result.into_iter().flat_map(|(_, figures)| figures.split("; ")) {
            match figure.split_once(' ') {
                Some((number, "passed")) => self.passed += number.parse().unwrap_or(0),
                Some((number, "failed")) => self.failed += number.parse().unwrap_or(0),
                _ => {}
            }
        }
    }
}

/// Returns the test named by a line such as `test a::b ... ok`, and whether it failed.
pub(crate) fn finished_test(line: &str) -> Option<(&str, bool)> {
    let (name, result) = line.strip_prefix("test ")?.split_once(" ... ")?;
    Some((name.strip_suffix(" - should panic").unwrap_or(name), result.starts_with("FAILED")))
}

/// Works out how long each test of a binary took from the order in which they finish.
///
/// The test harness of stable Rust does not report durations. It does start tests in the order in which it lists them, as many at
/// once as it has threads, and the next one whenever one has finished.
#[derive(Debug)]
pub(crate) struct Stopwatch {
    waiting: VecDeque<String>,
    running: Vec<(String, Duration)>,
}

impl Stopwatch {
    /// Starts with the tests in the order in which the harness lists them.
    pub(crate) fn new(tests: impl IntoIterator<Item = String>, threads: usize) -> Self {
        let mut waiting: VecDeque<String> = tests.into_iter().collect();
        let first = waiting.drain(..threads.min(waiting.len()));
        let running = first.map(|test| (test, Duration::ZERO)).collect();
        Self { waiting, running }
    }

    /// Records that a test has finished, and returns how long it took.
    pub(crate) fn finish(&mut self, test: &str, now: Duration) -> Option<Duration> {
        let index = self.running.iter().position(|(running, _)| running == test)?;
        let (_, started) = self.running.swap_remove(index);
        self.running.extend(self.waiting.pop_front().map(|next| (next, now)));
        now.checked_sub(started)
    }

    /// Returns the test that has been running longest, and since when.
    pub(crate) fn longest_running(&self) -> Option<(&str, Duration)> {
        let oldest = self.running.iter().min_by_key(|(_, started)| *started)?;
        Some((&oldest.0, oldest.1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_added_up() {
        let mut count = Count::default();
        for line in [
            "test result: ok. 32 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.69s",
            "test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.69s",
            "test a::b ... ok",
            "ℹ tests 7",
            "ℹ pass 6",
            "ℹ fail 1",
        ] {
            count.add_line(line);
        }
        assert_eq!(count.to_string(), "41 passed, 3 failed");
    }

    #[test]
    fn finished_tests_are_recognised() {
        let lines =
            ["test a::b ... ok", "test c - should panic ... FAILED", "test result: ok. 1 passed", "a ... b"];
        assert_eq!(lines.map(finished_test), [Some(("a::b", false)), Some(("c", true)), None, None]);
    }

    #[test]
    fn a_test_starts_when_a_thread_is_free() {
        let mut watch = Stopwatch::new(["a", "b", "c", "d"].map(str::to_owned), 2);
        let seconds = Duration::from_secs;
        assert_eq!(watch.finish("b", seconds(3)), Some(seconds(3)));
        assert_eq!(watch.longest_running(), Some(("a", seconds(0))));
        assert_eq!(watch.finish("a", seconds(5)), Some(seconds(5)));
        assert_eq!(watch.finish("c", seconds(10)), Some(seconds(7)));
        assert_eq!(watch.finish("d", seconds(11)), Some(seconds(6)));
        assert_eq!(watch.finish("d", seconds(11)), None);
        assert_eq!(watch.longest_running(), None);
    }
}

//! Tests that failed in any round, and where their output is.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;

use crate::jobs::Report;

/// Failures of all rounds.
#[derive(Debug)]
pub(crate) struct Failures {
    folder: PathBuf,
    rounds: usize,
    /// Output of each failure, by test; by suite if the suite failed as a whole.
    outputs: BTreeMap<String, Vec<PathBuf>>,
}

impl Failures {
    /// Starts with none, and removes the output of an earlier run.
    pub(crate) fn new(folder: PathBuf, rounds: usize) -> Result<Self, String> {
        let cannot = |error| format!("{} cannot be emptied: {error}", folder.display());
        if folder.exists() {
            fs::remove_dir_all(&folder).map_err(cannot)?;
        }
        Ok(Self { folder, rounds, outputs: BTreeMap::new() })
    }

    /// Records what failed in a round, and keeps its output.
    pub(crate) fn add(&mut self, round: usize, report: &Report) -> Result<(), String> {
        if report.error.is_none() {
            return Ok(());
        }
        let path =
            self.folder.join(format!("round-{round}")).join(format!("{}.txt", report.name.replace(' ', "-")));
        let cannot = |error| format!("{} cannot be written: {error}", path.display());
        fs::create_dir_all(path.parent().unwrap_or(&self.folder)).map_err(cannot)?;
        // A suite some of whose tests run alone has two outputs.
        let mut file = File::options().create(true).append(true).open(&path).map_err(cannot)?;
        file.write_all(report.output.as_bytes()).map_err(cannot)?;
        let names = if report.failed_tests.is_empty() {
            vec![&report.name]
        } else {
            report.failed_tests.iter().collect()
        };
        for name in names {
            self.outputs.entry(name.clone()).or_default().push(path.clone());
        }
        Ok(())
    }
}

impl fmt::Display for Failures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.outputs.is_empty() {
            return writeln!(f, "No test failed in {} rounds.", self.rounds);
        }
        writeln!(f, "Tests that failed, and where their output is:")?;
        for (test, outputs) in &self.outputs {
            writeln!(f, "  {} of {} rounds  {test}", outputs.len(), self.rounds)?;
            outputs.iter().try_for_each(|path| writeln!(f, "                 {}", path.display()))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(name: &str, failed: &[&str]) -> Report {
        let failed_tests = failed.iter().map(|test| format!("{name} {test}")).collect();
        Report { failed_tests, output: format!("what {name} printed\n"), ..Report::failed(name, "it failed") }
    }

    #[test]
    fn failures_are_counted_over_all_rounds() {
        let folder = tempfile::tempdir().unwrap();
        let mut failures = Failures::new(folder.path().join("kept"), 3).unwrap();
        assert_eq!(failures.to_string(), "No test failed in 3 rounds.\n");
        failures.add(1, &report("a b", &["x", "y"])).unwrap();
        failures.add(2, &Report { error: None, ..report("a b", &[]) }).unwrap();
        failures.add(3, &report("a b", &["x"])).unwrap();
        failures.add(3, &report("lints", &[])).unwrap();
        let table = failures.to_string();
        let counted: Vec<&str> = table.lines().filter(|line| line.contains(" of 3 rounds")).collect();
        assert_eq!(counted, ["  2 of 3 rounds  a b x", "  1 of 3 rounds  a b y", "  1 of 3 rounds  lints"]);
        let output = folder.path().join("kept/round-3/a-b.txt");
        assert!(table.contains(&output.display().to_string()), "{table}");
        assert_eq!(fs::read_to_string(output).unwrap(), "what a b printed\n");
        Failures::new(folder.path().join("kept"), 1).unwrap();
        assert!(!folder.path().join("kept").exists());
    }
}

//! `cargo xtask fuzz`: builds the fuzz targets with coverage and looks for bytes that make one of them fail.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::packages::{target_folder, workspace};
use crate::steps::{self, cargo};

const HELP: &str = "\
Looks for bytes that make a reader panic, take too long or take too much memory. What is found is kept in target/fuzz/findings; what
is worth keeping goes into crates/fuzz/corpus, which every test run replays.

Usage: cargo xtask fuzz [OPTIONS] [TARGET]...

Arguments:
  [TARGET]...    rule_documents, access_logs, rate_limit_messages, request_heads, cluster_packets, redis_replies [default: all]

Options:
  --minutes M    runs each target for M minutes [default: 10]

Examples:
  cargo xtask fuzz
  cargo xtask fuzz --minutes 1 request_heads
";

const TARGETS: [&str; 6] = [
    "rule_documents",
    "access_logs",
    "rate_limit_messages",
    "request_heads",
    "cluster_packets",
    "redis_replies",
];

/// Instruments what is built so that the fuzzer sees which code an input reaches.
const COVERAGE: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cdebug-assertions=yes -Coverflow-checks=yes";

/// Runs the command.
pub(crate) fn run(arguments: &[&str]) -> Result<(), String> {
    if arguments.iter().any(|argument| ["help", "--help", "-h"].contains(argument)) {
        print!("{HELP}");
        return Ok(());
    }
    let (minutes, targets) = read(arguments)
        .map_err(|error| format!("{error}\n\n`cargo xtask fuzz --help` explains the options"))?;
    let fuzzer = build()?;
    let failed: Vec<&str> =
        targets.into_iter().filter(|target| fuzz(&fuzzer, target, minutes).is_err()).collect();
    if failed.is_empty() { Ok(()) } else { Err(format!("findings in {}", failed.join(", "))) }
}

/// Reads the arguments: minutes for each target, and the targets.
fn read<'a>(arguments: &[&'a str]) -> Result<(u64, Vec<&'a str>), String> {
    let (mut minutes, mut targets) = (10, Vec::new());
    let mut rest = arguments.iter();
    while let Some(&argument) = rest.next() {
        match argument {
            "--minutes" => {
                let number = rest.next().and_then(|text| text.parse().ok()).filter(|minutes| *minutes > 0);
                minutes = number.ok_or("--minutes takes a number of at least 1")?;
            }
            flag if flag.starts_with('-') => return Err(format!("there is no option `{flag}`")),
            target if TARGETS.contains(&target) => targets.push(target),
            other => return Err(format!("there is no target `{other}`; there are {}", TARGETS.join(", "))),
        }
    }
    if targets.is_empty() {
        targets.extend(TARGETS);
    }
    Ok((minutes, targets))
}

/// Builds the fuzzer in a target folder of its own, and returns where it is.
fn build() -> Result<PathBuf, String> {
    if Command::new("c++").arg("--version").output().is_err() {
        return Err("the fuzzer needs a C++ compiler; apt-get install g++".to_owned());
    }
    let (folder, host) = (target_folder().join("fuzz"), host()?);
    let arguments = ["build", "--release", "--package", "tidegate-fuzz", "--features", "libfuzzer"];
    let mut build = cargo();
    // With a target named, build scripts and macros are built without coverage, which they could not be linked with.
    build.args(arguments).args(["--target", &host, "--target-dir"]).arg(&folder).env("RUSTFLAGS", COVERAGE);
    steps::step("fuzzer", &mut build)?;
    Ok(folder.join(host).join("release/tidegate-fuzz"))
}

/// Returns the platform that this is run on, as rustc calls it.
fn host() -> Result<String, String> {
    let output = Command::new("rustc").arg("-vV").output();
    let output = output.map_err(|error| format!("rustc could not be started: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| "`rustc -vV` does not name the host".to_owned())
}

/// Runs one target. What it learns is kept in the target folder, for the next run.
fn fuzz(fuzzer: &Path, target: &str, minutes: u64) -> Result<(), String> {
    let folder = target_folder().join("fuzz");
    let (learned, findings) = (folder.join("corpus").join(target), folder.join("findings").join(target));
    for folder in [&learned, &findings] {
        fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    let mut run = Command::new(fuzzer);
    run.env("TIDEGATE_FUZZ_TARGET", target);
    run.args([
        format!("-max_total_time={}", minutes * 60),
        format!("-artifact_prefix={}/", findings.display()),
    ]);
    run.args(["-timeout=10", "-rss_limit_mb=2048", "-print_final_stats=1", "-print_funcs=0", "-verbosity=0"]);
    run.arg(learned).args(seeds(target));
    steps::step(target, &mut run)
        .map_err(|error| format!("{error}; the input is in {}", findings.display()))
        .inspect_err(|error| eprintln!("{error}"))
}

/// Returns the committed folders that a target starts with.
fn seeds(target: &str) -> Vec<PathBuf> {
    let mut folders = vec![workspace().join("crates/fuzz/corpus").join(target)];
    if target == "rule_documents" {
        folders.extend(["good", "bad"].map(|kind| workspace().join("crates/rules/tests").join(kind)));
    }
    folders
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_and_targets_are_read() {
        assert_eq!(read(&[]), Ok((10, TARGETS.to_vec())));
        assert_eq!(read(&["--minutes", "2", "redis_replies"]), Ok((2, vec!["redis_replies"])));
        for (arguments, part) in [
            (&["--minutes", "0"][..], "at least 1"),
            (&["--minutes"], "at least 1"),
            (&["--seeds"], "no option `--seeds`"),
            (&["redis"], "no target `redis`"),
        ] {
            assert!(read(arguments).unwrap_err().contains(part));
        }
    }

    #[test]
    fn every_target_has_seeds() {
        for target in TARGETS {
            for folder in seeds(target) {
                assert!(folder.is_dir(), "{}", folder.display());
            }
        }
    }
}

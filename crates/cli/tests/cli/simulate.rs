//! `tidegate simulate`.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::Value;
use tempfile::TempDir;

use crate::support::{Said, fixture, run, tidegate};

fn simulate(rules: &Path, requests: &Path, options: &[&str]) -> Said {
    let mut command = tidegate();
    command.args(["simulate", "--rules"]).arg(rules).args(options).arg(requests);
    command.output().unwrap().into()
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn written(text: &str) -> (TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("requests");
    fs::write(&path, text).unwrap();
    (folder, path)
}

fn gzip(text: &str, to: &Path) {
    let mut encoder = GzEncoder::new(File::create(to).unwrap(), Compression::default());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap();
}

/// Everything that is expected is there; what is not mentioned may be anything.
fn agree(expected: &Value, actual: &Value, place: &str) {
    match (expected, actual) {
        (Value::Object(fields), Value::Object(_)) => {
            fields.iter().for_each(|(name, value)| agree(value, &actual[name], &format!("{place}.{name}")));
        }
        (Value::Array(expected), Value::Array(actual)) => {
            assert_eq!(expected.len(), actual.len(), "{place}");
            let pairs = expected.iter().zip(actual).enumerate();
            pairs.for_each(|(index, (expected, actual))| {
                agree(expected, actual, &format!("{place}[{index}]"));
            });
        }
        _ => assert_eq!(expected, actual, "{place}"),
    }
}

#[test]
fn the_worked_examples_come_out_as_worked_out() {
    let said = simulate(&fixture("worked_examples.yaml"), &fixture("worked_examples.jsonl"), &["--json"]);
    assert_eq!((said.code, said.err.as_str()), (0, ""));
    let expected = lines(&fs::read_to_string(fixture("worked_examples.expected.jsonl")).unwrap());
    let actual = lines(&said.out);
    assert_eq!(expected.len(), actual.len());
    for (number, (expected, actual)) in expected.iter().zip(&actual).enumerate() {
        agree(expected, actual, &format!("line {}", number + 1));
        let reset = actual["rules"][0]["reset_after_ms"].as_u64().unwrap();
        assert!(reset <= 7_200_000, "{actual}");
        assert!(actual["reset_at"].as_u64().unwrap() >= 1_704_067_200, "{actual}");
    }
}

#[test]
fn the_same_input_gives_the_same_bytes() {
    let once = simulate(&fixture("worked_examples.yaml"), &fixture("worked_examples.jsonl"), &["--json"]);
    let again = simulate(&fixture("worked_examples.yaml"), &fixture("worked_examples.jsonl"), &["--json"]);
    assert!(!once.out.is_empty() && once.out == again.out);
    let once = simulate(&fixture("login.yaml"), &fixture("access.log"), &[]);
    let again = simulate(&fixture("login.yaml"), &fixture("access.log"), &[]);
    assert!(!once.out.is_empty() && once.out == again.out);
}

#[test]
fn compressed_or_from_a_pipe_is_the_same() {
    let plain = simulate(&fixture("worked_examples.yaml"), &fixture("worked_examples.jsonl"), &["--json"]);
    let text = fs::read_to_string(fixture("worked_examples.jsonl")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let compressed = folder.path().join("requests");
    gzip(&text, &compressed);
    assert_eq!(simulate(&fixture("worked_examples.yaml"), &compressed, &["--json"]).out, plain.out);
    for input in [fixture("worked_examples.jsonl"), compressed] {
        let mut command = tidegate();
        command.args(["simulate", "--json", "--rules"]).arg(fixture("worked_examples.yaml")).arg("-");
        let said: Said = command.stdin(File::open(input).unwrap()).output().unwrap().into();
        assert_eq!((said.code, said.out == plain.out), (0, true), "{}", said.err);
    }
}

/// A log from the year 2000, decided as if it were the year 2000.
#[test]
fn an_access_log_is_replayed_in_its_own_time() {
    let said = simulate(&fixture("login.yaml"), &fixture("access.log"), &["--json"]);
    assert_eq!((said.code, said.err.as_str()), (0, ""));
    let decisions = lines(&said.out);
    let allowed: Vec<bool> =
        decisions.iter().map(|decision| decision["allowed"].as_bool().unwrap()).collect();
    // The third of each network is refused, however its path is written; IPv6 counts by network.
    assert_eq!(allowed, [true, true, true, false, true, true, false, true]);
    let rules: Vec<_> = decisions.iter().map(|decision| decision["rule_id"].as_str()).collect();
    assert_eq!(rules[2], Some("orders"));
    assert_eq!(rules[7], None);
    // 20:55:36 UTC is 4 min 24 s before the window ends.
    assert_eq!(decisions[0]["reset_at"], 971_211_600);
    assert_eq!(decisions[3]["retry_after"], 261);
}

#[test]
fn the_report_says_who_by_what_and_when() {
    let said = simulate(&fixture("login.yaml"), &fixture("access.log"), &[]);
    assert_eq!((said.code, said.err.as_str()), (0, ""));
    for text in [
        "8 requests from 2000-10-10T20:55:36Z to 2000-10-10T20:55:43Z",
        "  allowed  6   75.0%",
        "  refused  2   25.0%",
        "  no rule applies to 1 request\n",
        "  login_attempt_ip        6        2  33.3%",
        "  login_attempt_ip  192.0.2.1             1  2000-10-10T20:55:39Z  2000-10-10T20:55:39Z",
        "  login_attempt_ip  2001:db8:1:2::        1  2000-10-10T20:55:42Z  2000-10-10T20:55:42Z",
        "Over time (1s per row, UTC; █ allowed, ░ refused)",
        "  20:55:39  ",
    ] {
        assert!(said.out.contains(text), "`{text}` is not in:\n{}", said.out);
    }
    let short = simulate(&fixture("login.yaml"), &fixture("access.log"), &["--top", "1"]).out;
    assert!(short.contains("Who would have been refused (the first 1 of 2)"), "{short}");
}

#[test]
fn a_rule_that_watches_is_told_apart() {
    let (_folder, rules) =
        written("rules:\n  - {rule_id: w, identifier_type: global, limit: 1, window: 1h, shadow: true}\n");
    let said = simulate(&rules, &fixture("access.log"), &[]);
    assert!(said.out.contains("refused  0    0.0%") && said.out.contains("w (shadow)"), "{}", said.out);
    assert!(said.out.contains("w (shadow)  everybody        7"), "{}", said.out);
}

#[test]
fn a_bad_line_is_named_and_ends_it_unless_it_is_to_be_passed_over() {
    let good = r#"{"at_ms":1000,"user":"alice","resource":"/ten_at_once"}"#;
    let (_folder, requests) = written(&format!(
        "{good}\n\n{good}\n{{\"resource\":\"/x\"}}\n{good}\n{{\"at_ms\":1,\"usr\":\"x\"}}\n"
    ));
    let said = simulate(&fixture("worked_examples.yaml"), &requests, &["--json"]);
    said.complains(1, &["line 4: it does not say when", "`at_ms`", "--skip-bad-lines"]);
    assert_eq!(lines(&said.out).len(), 2);
    let said = simulate(&fixture("worked_examples.yaml"), &requests, &["--json", "--skip-bad-lines"]);
    assert_eq!((said.code, lines(&said.out).len()), (0, 3));
    assert!(said.err.starts_with("passed over 2 bad lines; the first: line 4: "), "{}", said.err);
    let said = simulate(&fixture("worked_examples.yaml"), &requests, &[]);
    said.complains(1, &["line 4:"]);
    assert_eq!(said.out, "");
}

#[test]
fn every_kind_of_bad_line_has_its_reason() {
    for (line, reason) in [
        (r#"{"at_ms":1,"resource":"/","usr":"x"}"#, "unknown field `usr`"),
        (r#"{"at_ms":1,"resource":"/%zz"}"#, "two hexadecimal digits"),
        (r#"{"at_ms":1,"resource":"/","cost":-1}"#, "`-1`"),
        (r#"{"at_ms":1,"resource":"/","ip":"300.0.0.1"}"#, "IP address"),
        (r#"{"at":"now","resource":"/"}"#, "`now` is no RFC 3339 time"),
        ("{", "EOF"),
        ("hello world", "neither JSON nor a line of an access log"),
        (r#"192.0.2.1 - - [10/Oct/2000:13:55:36 -0700] "-" 408 0"#, "is no request"),
    ] {
        let (_folder, requests) = written(&format!("{line}\n"));
        simulate(&fixture("worked_examples.yaml"), &requests, &[]).complains(1, &["line 1: ", reason]);
    }
    let (_folder, requests) = written(&format!("{{\"resource\":\"{}\"}}\n", "x".repeat(70_000)));
    simulate(&fixture("worked_examples.yaml"), &requests, &[]).complains(1, &["longer than 65536 bytes"]);
}

/// Lines out of order are decided at their own time, and nobody gets more for it.
#[test]
fn a_clock_that_goes_backwards_gives_nothing_away() {
    let line =
        |ms: u64| format!("{{\"at_ms\":{ms},\"user\":\"alice\",\"resource\":\"/ten_at_once\",\"cost\":5}}\n");
    let base = 1_704_067_200_000;
    let text: String = [base, base - 400, base - 400, base, base - 3_000].map(line).concat();
    let (_folder, requests) = written(&text);
    let said = simulate(&fixture("worked_examples.yaml"), &requests, &["--json"]);
    let allowed: Vec<_> =
        lines(&said.out).iter().map(|decision| decision["allowed"].as_bool().unwrap()).collect();
    assert_eq!(allowed, [true, true, false, false, false]);
    let report = simulate(&fixture("worked_examples.yaml"), &requests, &[]).out;
    assert!(report.contains("2 requests earlier than the one before; counted as they come"), "{report}");
}

#[test]
fn names_from_a_log_do_nothing_to_a_terminal() {
    let (_folder, rules) =
        written("rules:\n  - {rule_id: r, identifier_type: user_id, limit: 0, window: 1h}\n");
    let text = "192.0.2.1 - ev\u{202e}il [10/Oct/2000:13:55:36 -0700] \"GET / HTTP/1.1\" 200 0\n";
    let (_folder2, requests) = written(text);
    let said = simulate(&rules, &requests, &[]);
    assert!(said.out.contains("ev\\u{202e}il"), "{}", said.out);
    let (_folder3, requests) = written("192.0.2.1 - \u{1b}[2J [oh] \"GET / HTTP/1.1\" 200 0\n");
    let said = simulate(&rules, &requests, &[]);
    assert!(said.code == 1 && !said.err.contains('\u{1b}'), "{said:?}");
}

#[test]
fn counters_that_had_to_be_shared_are_mentioned() {
    let line = |user| format!("{{\"at_ms\":1,\"user\":\"{user}\",\"resource\":\"/ten_at_once\"}}\n");
    let (_folder, requests) = written(&(0..3_000).map(line).collect::<String>());
    let said = simulate(&fixture("worked_examples.yaml"), &requests, &["--max-keys", "1000"]);
    assert_eq!(said.code, 0);
    assert!(said.err.contains("more live counters than --max-keys"), "{}", said.err);
    assert_eq!(simulate(&fixture("worked_examples.yaml"), &requests, &[]).err, "");
}

#[test]
fn nothing_recorded_is_nothing_refused() {
    let (_folder, requests) = written("");
    let said = simulate(&fixture("worked_examples.yaml"), &requests, &[]);
    assert_eq!((said.code, said.out.as_str()), (0, "There are no requests in the input.\n"));
    assert_eq!(simulate(&fixture("worked_examples.yaml"), &requests, &["--json"]).out, "");
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let line = "{\"at_ms\":1,\"user\":\"alice\",\"resource\":\"/ten_at_once\"}\n";
    let (_folder, requests) = written(&line.repeat(20_000));
    let mut command = tidegate();
    command.args(["simulate", "--json", "--rules"]).arg(fixture("worked_examples.yaml")).arg(&requests);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let said: Said = child.wait_with_output().unwrap().into();
    assert_eq!((said.code, said.err.as_str()), (0, ""));
}

#[test]
fn what_cannot_be_simulated_is_said() {
    let rules = fixture("worked_examples.yaml");
    let rules = rules.to_str().unwrap();
    run(["simulate", "--rules", rules, "/nowhere.jsonl"]).complains(1, &["cannot read /nowhere.jsonl"]);
    run(["simulate", "--rules", rules, "/"]).complains(1, &["cannot read /: it is a folder"]);
    run(["simulate", "--rules", "/nowhere.yaml", "x"])
        .complains(1, &["/nowhere.yaml", "cannot read the file"]);
    run(["simulate", "--rules", rules, "--store", "redis:/127.0.0.1", "x"])
        .complains(2, &["--store", "write it as redis://127.0.0.1:6379"]);
    let folder = tempfile::tempdir().unwrap();
    let cut = folder.path().join("cut.gz");
    gzip(&"x".repeat(1_000), &cut);
    let bytes = fs::read(&cut).unwrap();
    fs::write(&cut, &bytes[..bytes.len() - 10]).unwrap();
    run(["simulate", "--rules", rules, cut.to_str().unwrap()]).complains(1, &["cannot read", "cut.gz"]);
}

/// `script` pretends to be the terminal.
#[test]
#[cfg(target_os = "linux")]
fn people_at_a_terminal_get_colours_unless_they_do_not_want_them() {
    let run = |environment: &str| {
        let line = format!(
            "{environment} {} simulate --rules {} {}",
            env!("CARGO_BIN_EXE_tidegate"),
            fixture("login.yaml").display(),
            fixture("access.log").display()
        );
        let output = Command::new("script").args(["-qec", &line, "/dev/null"]).stdin(Stdio::null()).output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    };
    let coloured = run("TERM=xterm NO_COLOR=");
    assert!(coloured.contains("\u{1b}[32m"), "{coloured:?}");
    let plain = run("TERM=xterm NO_COLOR=1");
    assert!(plain.contains("login_attempt_ip") && !plain.contains("\u{1b}[3"), "{plain:?}");
}

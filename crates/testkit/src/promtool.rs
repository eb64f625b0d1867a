//! What Prometheus' own tool says about metrics.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::program::find_program;

/// Checks what was scraped, in OpenMetrics' format, with `promtool check metrics`: names, units, help.
///
/// # Errors
/// What the tool says, if it finds anything wrong.
///
/// # Panics
/// If it is not installed: the message says how to.
pub fn check_metrics(scraped: &str) -> Result<(), String> {
    let mut promtool = Command::new(find_program("promtool", "prometheus"));
    promtool.args(["check", "metrics"]);
    promtool.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = promtool.spawn().unwrap_or_else(|error| panic!("promtool: {error}"));
    child.stdin.take().unwrap().write_all(as_text(scraped).as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    if output.status.success() {
        return Ok(());
    }
    Err((String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr)).into_owned())
}

/// OpenMetrics as the older text format, which is what the tool reads: there the suffixes are part of the names.
fn as_text(scraped: &str) -> String {
    let mut text = String::new();
    for line in scraped.lines().filter(|line| *line != "# EOF") {
        let mut words: Vec<&str> = line.splitn(4, ' ').collect();
        let named = match words[..] {
            ["#", _, name, _] => format!("{name}{}", suffix(kind(scraped, name))),
            _ => String::new(),
        };
        if !named.is_empty() {
            words[2] = &named;
        }
        if words[..2] == ["#", "TYPE"] && words[3] == "info" {
            words[3] = "gauge";
        }
        text += &words.join(" ");
        text.push('\n');
    }
    text
}

fn kind<'a>(scraped: &'a str, wanted: &str) -> &'a str {
    let mut types = scraped.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    types.find(|(name, _)| *name == wanted).map_or("", |(_, kind)| kind)
}

fn suffix(kind: &str) -> &'static str {
    match kind {
        "counter" => "_total",
        "info" => "_info",
        _ => "",
    }
}

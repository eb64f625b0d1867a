//! What would change in a text, line by line.

use std::io::{self, Write};
use std::time::Duration;

use similar::{ChangeTag, TextDiff};

use crate::terminal::{BAD, FAINT, GOOD, PLAIN, STRONG, safe};

/// Finding the shortest difference of two long texts that have nothing in common is not worth more.
const PATIENCE: Duration = Duration::from_secs(1);

/// Writes how `after` differs from `before`, each under what it is called.
pub(super) fn write(
    out: &mut dyn Write,
    before: (&str, Option<&str>),
    after: (&str, Option<&str>),
) -> io::Result<()> {
    writeln!(out, "{STRONG}--- {}{STRONG:#}", safe(before.0))?;
    writeln!(out, "{STRONG}+++ {}{STRONG:#}", safe(after.0))?;
    let (before, after) = (ended(before.1), ended(after.1));
    let diff = TextDiff::configure().timeout(PATIENCE).diff_lines(&before, &after);
    for hunk in diff.unified_diff().iter_hunks() {
        writeln!(out, "{FAINT}{}{FAINT:#}", hunk.header())?;
        for change in hunk.iter_changes() {
            let (sign, style) = match change.tag() {
                ChangeTag::Delete => ('-', BAD),
                ChangeTag::Insert => ('+', GOOD),
                ChangeTag::Equal => (' ', PLAIN),
            };
            let line = change.value();
            let line = line.strip_suffix('\n').unwrap_or(line);
            writeln!(out, "{style}{sign}{}{style:#}", safe_line(line))?;
        }
    }
    Ok(())
}

/// A line without anything a terminal would obey but tabs, with which some indent.
pub(super) fn safe_line(line: &str) -> String {
    let parts: Vec<_> = line.split('\t').map(safe).collect();
    parts.join("\t")
}

/// A text that ends with its last line: how many empty ones follow is nobody's concern.
fn ended(text: Option<&str>) -> String {
    match text.map(str::trim_end) {
        None | Some("") => String::new(),
        Some(text) => format!("{text}\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patch(before: Option<&str>, after: Option<&str>) -> String {
        let mut out = Vec::new();
        write(&mut out, ("a", before), ("b", after)).unwrap();
        anstream::adapter::strip_str(std::str::from_utf8(&out).unwrap()).to_string()
    }

    #[test]
    fn what_differs_is_shown_with_what_is_around_it() {
        let said = patch(Some("1\n2\n3\n4\n5\nlimit: 5\n"), Some("1\n2\n3\n4\n5\nlimit: 6"));
        assert_eq!(said, "--- a\n+++ b\n@@ -3,4 +3,4 @@\n 3\n 4\n 5\n-limit: 5\n+limit: 6\n");
        assert_eq!(patch(None, Some("x\n\n\n")), "--- a\n+++ b\n@@ -0,0 +1 @@\n+x\n");
        assert_eq!(patch(Some("x"), None), "--- a\n+++ b\n@@ -1 +0,0 @@\n-x\n");
        assert_eq!(patch(Some("x\n"), Some("x")), "--- a\n+++ b\n");
    }

    #[test]
    fn nothing_a_terminal_would_obey_gets_through() {
        let said = patch(Some("# \u{1b}[2J\n"), Some("#\tnew\u{202e}\r\n"));
        assert!(said.contains("-# \\u{1b}[2J\n+#\tnew\\u{202e}"), "{said}");
    }
}

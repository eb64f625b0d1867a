//! Lines, their indentation and their comments.

use std::ops::Range;

/// Where the line of `at` starts.
pub(super) fn start(text: &str, at: usize) -> usize {
    text[..at].rfind('\n').map_or(0, |end| end + 1)
}

/// Where the line of `at` ends, without what ends it.
pub(super) fn end(text: &str, at: usize) -> usize {
    let end = text[at..].find('\n').map_or(text.len(), |length| at + length);
    if end > at && text[..end].ends_with('\r') { end - 1 } else { end }
}

/// Where the line after that of `at` starts; the end of the text if there is none.
pub(super) fn next(text: &str, at: usize) -> usize {
    text[at..].find('\n').map_or(text.len(), |length| at + length + 1)
}

/// By how many spaces a line is indented.
pub(super) fn indent(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

/// What ends the lines of a text.
pub(super) fn ending(text: &str) -> &'static str {
    match text.find('\n') {
        Some(end) if text[..end].ends_with('\r') => "\r\n",
        _ => "\n",
    }
}

/// How comments are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Language {
    Json,
    Yaml,
}

impl Language {
    /// What a comment to the end of the line starts with.
    pub(super) fn mark(self) -> &'static str {
        match self {
            Self::Json => "//",
            Self::Yaml => "#",
        }
    }

    pub(super) fn is_comment(self, line: &str) -> bool {
        line.trim_start().starts_with(self.mark())
    }

    /// Whether nothing but a comment is left of a line.
    pub(super) fn is_over(self, rest: &str) -> bool {
        rest.trim().is_empty() || self.is_comment(rest)
    }

    /// The next place at `from` or after it that is neither space nor comment.
    pub(super) fn skip(self, text: &str, from: usize) -> usize {
        let mut at = from;
        loop {
            let rest = &text[at..];
            at += rest.len() - rest.trim_start().len();
            let rest = &text[at..];
            if rest.starts_with(self.mark()) {
                at = next(text, at);
            } else if self == Self::Json && rest.starts_with("/*") {
                at = rest.find("*/").map_or(text.len(), |length| at + length + 2);
            } else {
                return at;
            }
        }
    }

    /// Where the lines start that are nothing but comments and stand directly above the one that starts at `line`;
    /// none before `floor` counts.
    pub(super) fn above(self, text: &str, line: usize, floor: usize) -> usize {
        let mut top = line;
        while top > floor {
            let line = start(text, top - 1);
            if line < floor || !self.is_comment(&text[line..top]) {
                break;
            }
            top = line;
        }
        top
    }

    /// Where the lines end that are nothing but comments, are indented by `least` spaces or more, and start at `line`.
    pub(super) fn below(self, text: &str, line: usize, least: usize) -> usize {
        let mut bottom = line;
        while bottom < text.len() {
            let end = next(text, bottom);
            let comment = &text[bottom..end];
            if !self.is_comment(comment) || indent(comment) < least {
                break;
            }
            bottom = end;
        }
        bottom
    }
}

/// The next place in a YAML text that is neither space nor comment, nor an anchor or a tag.
pub(super) fn skip_properties(text: &str, from: usize) -> Option<usize> {
    let mut at = Language::Yaml.skip(text, from);
    while text[at..].starts_with(['&', '!']) {
        let length = text[at..].find(char::is_whitespace)?;
        at = Language::Yaml.skip(text, at + length);
    }
    Some(at)
}

/// The lines of a part of a text, all but the first without the first `indent` spaces.
pub(super) fn dedented(part: &str, indent: usize) -> String {
    let mut out = String::with_capacity(part.len());
    for (index, line) in part.lines().enumerate() {
        let spaces = self::indent(line).min(if index == 0 { 0 } else { indent });
        out.push_str(line[spaces..].trim_end_matches('\r'));
        out.push('\n');
    }
    out
}

/// The lines of `part`, all but the first that say something indented by `indent` spaces, without the end of the last.
pub(super) fn indented(part: &str, indent: usize, ending: &str) -> String {
    let mut out = String::with_capacity(part.len());
    for (index, line) in part.lines().enumerate() {
        if index > 0 {
            out.push_str(ending);
            out.extend(std::iter::repeat_n(' ', if line.is_empty() { 0 } else { indent }));
        }
        out.push_str(line);
    }
    out
}

/// The lines of a YAML text that stand between documents.
pub(super) fn markers(text: &str) -> Vec<Range<usize>> {
    let is_marker = |line: &str| {
        let rest = line.strip_prefix("---").or_else(|| line.strip_prefix("..."));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace))
    };
    let mut at = 0;
    let mut found = Vec::new();
    for line in text.split_inclusive('\n') {
        if is_marker(line) {
            found.push(at..at + 3);
        }
        at += line.len();
    }
    found
}

//! What people read: styles, numbers, times, and texts that do no harm.

use std::borrow::Cow;
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use jiff::tz::Offset;
use tidegate_core::Timestamp;

/// Something was allowed, or is well.
pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
/// Something was refused, or is wrong.
pub(crate) const BAD: Style = AnsiColor::Red.on_default();
/// What the eye may pass over.
pub(crate) const FAINT: Style = Style::new().dimmed();
/// What the eye should find.
pub(crate) const STRONG: Style = Style::new().bold();
/// As it comes.
pub(crate) const PLAIN: Style = Style::new();

/// A text without anything a terminal would obey.
pub(crate) fn safe(text: &str) -> Cow<'_, str> {
    escape(text, is_harmful)
}

/// The same for a text of several lines.
pub(crate) fn safe_lines(text: &str) -> Cow<'_, str> {
    escape(text, |c| c != '\n' && is_harmful(c))
}

/// Control characters move the cursor; the directional ones make a text look like another.
fn is_harmful(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

fn escape(text: &str, harmful: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.chars().any(&harmful) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if harmful(c) {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

/// A number with its thousands apart.
pub(crate) fn number(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() * 4 / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A number and what it counts: `1 rule`, `3 rules`.
pub(crate) fn count(of: u64, what: &str) -> String {
    let plural = if of == 1 { "" } else { "s" };
    format!("{} {what}{plural}", number(of))
}

/// A part of a whole in per cent.
pub(crate) fn share(part: u64, whole: u64) -> String {
    let whole = u128::from(whole.max(1));
    let tenths = (u128::from(part) * 1_000 + whole / 2) / whole;
    format!("{}.{}%", tenths / 10, tenths % 10)
}

/// A moment in UTC, as RFC 3339 has it.
pub(crate) fn moment(at: Timestamp) -> String {
    instant(at).to_string()
}

/// A time that is too short for seconds.
pub(crate) fn millis(duration: Duration) -> String {
    format!("{:.2} ms", duration.as_secs_f64() * 1_000.0)
}

/// A moment in UTC, written as `format` says.
pub(crate) fn moment_as(at: Timestamp, format: &str) -> String {
    Offset::UTC.to_datetime(instant(at)).strftime(format).to_string()
}

fn instant(at: Timestamp) -> jiff::Timestamp {
    let ms = i64::try_from(at.as_millis()).unwrap_or(i64::MAX);
    jiff::Timestamp::from_millisecond(ms).unwrap_or(jiff::Timestamp::MAX)
}

/// How long to wait, in the two largest units that say something: `250ms`, `12s`, `4m 12s`, `2d 3h`.
pub(crate) fn duration(ms: u64) -> String {
    if ms < 1_000 {
        return format!("{ms}ms");
    }
    let seconds = ms.div_ceil(1_000);
    const UNITS: [(u64, &str); 4] = [(86_400, "d"), (3_600, "h"), (60, "m"), (1, "s")];
    let largest = UNITS.iter().position(|(size, _)| seconds >= *size).unwrap_or(UNITS.len() - 1);
    let mut left = seconds;
    let mut words = Vec::new();
    for (size, unit) in &UNITS[largest..(largest + 2).min(UNITS.len())] {
        if left / size > 0 {
            words.push(format!("{}{unit}", left / size));
        }
        left %= size;
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_a_terminal_would_obey_gets_through() {
        assert_eq!(safe("a\u{1b}[2Jb\n"), "a\\u{1b}[2Jb\\n");
        assert_eq!(safe("\u{202e}evil"), "\\u{202e}evil");
        assert_eq!(safe("\u{9b}31m"), "\\u{9b}31m");
        assert_eq!(safe("grüße 🦀"), "grüße 🦀");
        assert_eq!(safe_lines("a\nb\r"), "a\nb\\r");
    }

    #[test]
    fn figures_for_people() {
        assert_eq!((number(0).as_str(), number(999).as_str()), ("0", "999"));
        assert_eq!((number(1_000).as_str(), number(12_345_678).as_str()), ("1,000", "12,345,678"));
        assert_eq!((share(1, 3).as_str(), share(0, 0).as_str()), ("33.3%", "0.0%"));
        let spans = [
            (0, "0ms"),
            (999, "999ms"),
            (1_001, "2s"),
            (252_000, "4m 12s"),
            (3_600_000, "1h"),
            (183_600_000, "2d 3h"),
        ];
        for (ms, words) in spans {
            assert_eq!(duration(ms), words);
        }
        assert_eq!(moment(Timestamp::from_millis(1_704_067_200_500)), "2024-01-01T00:00:00.5Z");
    }
}

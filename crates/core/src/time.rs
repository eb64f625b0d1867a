//! Points in time and lengths of time, in whole milliseconds.
//!
//! The core never asks what time it is: every function that needs to know is told.

use std::fmt;
use std::ops::{Add, Sub};
use std::str::FromStr;

/// A length of time in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Span(u64);

impl Span {
    /// No time at all.
    pub const ZERO: Self = Self(0);

    /// A span of `ms` milliseconds.
    pub const fn from_millis(ms: u64) -> Self {
        Self(ms)
    }

    /// A span of `s` seconds (saturating).
    pub const fn from_secs(s: u64) -> Self {
        Self(s.saturating_mul(1_000))
    }

    /// This span in milliseconds.
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// This span in whole seconds, rounded up, as answers to clients are.
    pub const fn as_secs_ceil(self) -> u64 {
        self.0.div_ceil(1_000)
    }
}

impl Add for Span {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

/// The units people write spans in, largest first.
const UNITS: [(&str, u64); 6] =
    [("w", 604_800_000), ("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// Writes the span in the largest unit that divides it: `90s`, `1h`, `1500ms`.
impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, size) = UNITS
            .into_iter()
            .find(|&(_, size)| self.0 >= size && self.0.is_multiple_of(size))
            .unwrap_or(("s", 1));
        write!(f, "{}{unit}", self.0 / size)
    }
}

/// Why a text is not a [`Span`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpanError {
    text: String,
}

impl fmt::Display for SpanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` is not a duration; write a whole number and a unit, such as 500ms, 30s, 5m, 1h, 1d or 1w",
            self.text
        )
    }
}

impl std::error::Error for SpanError {}

impl FromStr for Span {
    type Err = SpanError;

    fn from_str(text: &str) -> Result<Self, SpanError> {
        let error = || SpanError { text: text.chars().take(40).collect() };
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at(digits);
        let (_, size) = UNITS.into_iter().find(|&(name, _)| name == unit).ok_or_else(error)?;
        let number: u64 = number.parse().map_err(|_| error())?;
        number.checked_mul(size).map(Self).ok_or_else(error)
    }
}

/// A point in time: milliseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Timestamp(u64);

impl Timestamp {
    /// The Unix epoch.
    pub const EPOCH: Self = Self(0);

    /// Later than anything. As the time since when something is given back: whatever was consumed last.
    pub const LATEST: Self = Self(u64::MAX);

    /// The point `ms` milliseconds after the epoch.
    pub const fn from_millis(ms: u64) -> Self {
        Self(ms)
    }

    /// Milliseconds since the epoch.
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// Whole seconds since the epoch, rounded up, as `X-RateLimit-Reset` gives them.
    pub const fn as_secs_ceil(self) -> u64 {
        self.0.div_ceil(1_000)
    }

    /// The time from `earlier` to here; zero if `earlier` is later.
    pub const fn since(self, earlier: Self) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Span> for Timestamp {
    type Output = Self;

    fn add(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

impl Sub<Span> for Timestamp {
    type Output = Self;

    fn sub(self, span: Span) -> Self {
        Self(self.0.saturating_sub(span.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_read_and_write_alike() {
        for (text, ms) in [
            ("1ms", 1),
            ("1500ms", 1_500),
            ("30s", 30_000),
            ("5m", 300_000),
            ("1h", 3_600_000),
            ("1d", 86_400_000),
            ("1w", 604_800_000),
        ] {
            let span: Span = text.parse().unwrap();
            assert_eq!(span.as_millis(), ms, "{text}");
            assert_eq!(span.to_string(), text);
        }
        assert_eq!(Span::ZERO.to_string(), "0s");
    }

    #[test]
    fn nonsense_is_no_span() {
        for text in
            ["", "s", "10", "1.5s", "-1s", "1 s", "1M", "99999999999999999999s", "18446744073709551615w"]
        {
            assert!(text.parse::<Span>().is_err(), "{text}");
        }
    }

    #[test]
    fn seconds_are_rounded_up() {
        assert_eq!(Span::from_millis(1).as_secs_ceil(), 1);
        assert_eq!(Span::from_millis(1_000).as_secs_ceil(), 1);
        assert_eq!(Timestamp::from_millis(1_001).as_secs_ceil(), 2);
    }
}

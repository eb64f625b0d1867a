//! The pieces of an access log: times, quotes, and texts made safe for the log.

use std::borrow::Cow;

use jiff::civil::DateTime;
use jiff::tz::Offset;
use tidegate_core::Timestamp;

/// `10/Oct/2000:13:55:36 -0700`
pub(super) fn time(text: &[u8]) -> Result<Timestamp, String> {
    parse_time(text).ok_or_else(|| {
        format!("`{}` is no time such as 10/Oct/2000:13:55:36 -0700", String::from_utf8_lossy(text))
    })
}

fn parse_time(text: &[u8]) -> Option<Timestamp> {
    const MONTHS: [&[u8]; 12] =
        [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];
    const SHAPE: &[u8] = b"00/Mon/0000:00:00:00 +0000";
    let fits = |(b, shape): (&u8, &u8)| match shape {
        b'0' => b.is_ascii_digit(),
        b'/' | b':' | b' ' => b == shape,
        _ => true,
    };
    if text.len() != SHAPE.len() || !text.iter().zip(SHAPE).all(fits) {
        return None;
    }
    let two = |at: usize| i32::from(text[at] - b'0') * 10 + i32::from(text[at + 1] - b'0');
    let small = |at: usize| i8::try_from(two(at)).ok();
    let month = (1i8..).zip(MONTHS).find(|(_, name)| *name == &text[3..6])?.0;
    let year = i16::try_from(two(7) * 100 + two(9)).ok()?;
    let local = DateTime::new(year, month, small(0)?, small(12)?, small(15)?, small(18)?, 0).ok()?;
    let east = two(22) * 3_600 + two(24) * 60;
    let offset = match text[21] {
        b'+' => Offset::from_seconds(east),
        b'-' => Offset::from_seconds(-east),
        _ => return None,
    };
    let at = offset.ok()?.to_timestamp(local).ok()?;
    u64::try_from(at.as_millisecond()).ok().map(Timestamp::from_millis)
}

/// The text up to the closing quote, and what follows it.
pub(super) fn quoted(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut escaped = false;
    let end = text.iter().position(|b| {
        let closes = *b == b'"' && !escaped;
        escaped = *b == b'\\' && !escaped;
        closes
    })?;
    Some((&text[..end], &text[end + 1..]))
}

/// A part of a line as it was before it was made safe for the log. A check would refuse control characters, too.
pub(super) fn text<'a>(what: &str, raw: &'a [u8]) -> Result<Cow<'a, str>, String> {
    let text = if raw.contains(&b'\\') {
        String::from_utf8(unescape(raw)).map(Cow::Owned).ok()
    } else {
        std::str::from_utf8(raw).map(Cow::Borrowed).ok()
    };
    let text = text.ok_or_else(|| format!("the {what} `{}` is not UTF-8", String::from_utf8_lossy(raw)))?;
    match text.chars().find(|c| c.is_control()) {
        None => Ok(text),
        Some(c) => Err(format!("the {what} contains the control character {}", c.escape_default())),
    }
}

fn unescape(mut raw: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(raw.len());
    while let Some((byte, rest)) = first(raw) {
        out.push(byte);
        raw = rest;
    }
    out
}

/// The first byte of an escaped text: `\"`, `\\`, `\xhh`, the usual letters, or as it stands.
fn first(raw: &[u8]) -> Option<(u8, &[u8])> {
    Some(match raw {
        [b'\\', b'x', high, low, rest @ ..] if let (Some(high), Some(low)) = (hex(*high), hex(*low)) => {
            (high << 4 | low, rest)
        }
        [b'\\', b'n', rest @ ..] => (b'\n', rest),
        [b'\\', b'r', rest @ ..] => (b'\r', rest),
        [b'\\', b't', rest @ ..] => (b'\t', rest),
        [b'\\', byte @ (b'"' | b'\\'), rest @ ..] | [byte, rest @ ..] => (*byte, rest),
        [] => return None,
    })
}

fn hex(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

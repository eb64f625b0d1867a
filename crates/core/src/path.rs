//! The one normal form of a path, so that no spelling walks around a rule.
//!
//! The query and fragment are cut, percent-codes of unreserved characters decoded, everything that must be
//! encoded is (in upper case), `//` merged, `.` and `..` resolved and the trailing slash dropped.
//!
//! Some spellings cannot be settled: back ends disagree on whether `%2F` separates segments, whether `%5C` is a
//! slash, and how often to decode. Such a path has a second, fully decoded *reading*. A gateway refuses it
//! ([`Path::is_ambiguous`]); a check applies the rules of both readings. So does a gateway with a path that is not UTF-8 once it is
//! decoded: an overlong `%C0%AF` is a slash to some, and what stands for the unreadable is the same for all such paths to others.

use std::borrow::Cow;
use std::fmt;

/// The longest path accepted, in bytes.
pub const MAX_PATH_BYTES: usize = 8 * 1024;

/// A path in normal form, with its second reading if there is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path<'a> {
    plain: Cow<'a, str>,
    decoded: Option<String>,
    ambiguous: bool,
}

/// Why a text is no path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathError {
    /// Longer than [`MAX_PATH_BYTES`].
    TooLong,
    /// A `%` that is not followed by two hexadecimal digits.
    BadEscape,
    /// NUL, plain or encoded.
    Nul,
}

impl fmt::Display for PathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong => write!(f, "the path is longer than {MAX_PATH_BYTES} bytes"),
            Self::BadEscape => {
                f.write_str("the path has a `%` that is not followed by two hexadecimal digits")
            }
            Self::Nul => f.write_str("the path contains NUL"),
        }
    }
}

impl std::error::Error for PathError {}

impl<'a> Path<'a> {
    /// Brings `raw` into normal form. Allocates only if it is not already.
    pub fn parse(raw: &'a str) -> Result<Self, PathError> {
        if raw.len() > MAX_PATH_BYTES {
            return Err(PathError::TooLong);
        }
        if let Some(end) = normal_until(raw.as_bytes()) {
            return Ok(Self { plain: Cow::Borrowed(&raw[..end]), decoded: None, ambiguous: false });
        }
        let raw = without_origin(raw);
        let raw = &raw[..raw.find(['?', '#']).unwrap_or(raw.len())];
        let plain = normalise(raw)?;
        let (reading, is_text) = decode_all(&plain)?;
        let decoded = (reading != plain).then_some(reading);
        let is_coded = || ["%2F", "%5C", "%25"].iter().any(|code| plain.contains(code));
        let ambiguous = !is_text || decoded.is_some() && is_coded();
        Ok(Self { plain: Cow::Owned(plain), decoded, ambiguous })
    }

    /// The normal form.
    pub fn as_str(&self) -> &str {
        &self.plain
    }

    /// The fully decoded reading, where that is another path.
    pub fn decoded(&self) -> Option<&str> {
        self.decoded.as_deref()
    }

    /// Whether back ends may disagree on what this path is.
    pub fn is_ambiguous(&self) -> bool {
        self.ambiguous
    }

    /// The reading to count by: the most decoded one, so that every spelling counts as one path.
    pub fn identity(&self) -> &str {
        self.decoded.as_deref().unwrap_or(&self.plain)
    }
}

/// Cuts `http://host` off a request target in absolute form.
fn without_origin(raw: &str) -> &str {
    let rest = ["http://", "https://"].into_iter().find_map(|scheme| {
        let start = raw.get(..scheme.len())?;
        start.eq_ignore_ascii_case(scheme).then(|| &raw[scheme.len()..])
    });
    match rest {
        Some(rest) => rest.find(['/', '?', '#']).map_or("/", |start| &rest[start..]),
        None => raw,
    }
}

/// Where the path ends if it is in normal form already: the case that must cost next to nothing.
fn normal_until(bytes: &[u8]) -> Option<usize> {
    if bytes.first() != Some(&b'/') {
        return None;
    }
    let mut after_slash = true;
    let mut end = bytes.len();
    for (at, &byte) in bytes.iter().enumerate().skip(1) {
        match CLASSES[usize::from(byte)] {
            Class::Plain => after_slash = false,
            // Nothing that could be `//`, `/.` or `/..`.
            Class::Slash if !after_slash => after_slash = true,
            Class::Dot if !after_slash => {}
            Class::Query => {
                end = at;
                break;
            }
            Class::Slash | Class::Dot | Class::Other => return None,
        }
    }
    (end == 1 || !after_slash).then_some(end)
}

/// What a byte means to [`normal_until`].
#[derive(Clone, Copy)]
enum Class {
    Plain,
    Slash,
    Dot,
    Query,
    Other,
}

const CLASSES: [Class; 256] = {
    let mut classes = [Class::Other; 256];
    let mut byte = 0u8;
    loop {
        classes[byte as usize] = match byte {
            b'/' => Class::Slash,
            b'.' => Class::Dot,
            b'?' | b'#' => Class::Query,
            _ if is_literal(byte) => Class::Plain,
            _ => Class::Other,
        };
        if byte == u8::MAX {
            break classes;
        }
        byte += 1;
    }
};

/// Brings a path into normal form: decodes only characters that mean the same encoded and plain (RFC 3986, 2.3).
fn normalise(raw: &str) -> Result<String, PathError> {
    let mut out: Vec<u8> = Vec::with_capacity(raw.len() + 1);
    let bytes = raw.as_bytes();
    let mut at = 0;
    out.push(b'/');
    while at < bytes.len() {
        let (byte, coded) = match bytes[at] {
            b'%' => {
                let code = bytes.get(at + 1..at + 3).and_then(decode_hex).ok_or(PathError::BadEscape)?;
                at += 3;
                (code, true)
            }
            byte => {
                at += 1;
                (byte, false)
            }
        };
        match byte {
            0 => return Err(PathError::Nul),
            byte if coded && !is_unreserved(byte) => encode(&mut out, byte),
            b'/' => end_segment(&mut out),
            byte if is_literal(byte) => out.push(byte),
            byte => encode(&mut out, byte),
        }
    }
    Ok(finish(out))
}

/// Decodes a path in normal form until nothing is left to be decoded, however often it was encoded.
///
/// A code that was decoded may be part of another one, so that there are as many layers as bytes at worst. One pass sees to all of
/// them: each byte is put on a stack, and a code on top of it is replaced by what it stands for. Also says whether that is UTF-8.
fn decode_all(plain: &str) -> Result<(String, bool), PathError> {
    let mut bytes: Vec<u8> = Vec::with_capacity(plain.len());
    for &byte in plain.as_bytes() {
        bytes.push(byte);
        while let [.., b'%', high, low] = bytes[..]
            && let Some(code) = decode_hex(&[high, low])
        {
            bytes.truncate(bytes.len() - 3);
            bytes.push(code);
        }
    }
    let is_text = std::str::from_utf8(&bytes).is_ok();
    let mut out: Vec<u8> = Vec::with_capacity(bytes.len() + 1);
    out.push(b'/');
    for byte in bytes {
        match byte {
            0 => return Err(PathError::Nul),
            b'/' | b'\\' => end_segment(&mut out),
            byte if is_literal(byte) => out.push(byte),
            byte => encode(&mut out, byte),
        }
    }
    Ok((finish(out), is_text))
}

/// Drops the trailing slash.
fn finish(mut out: Vec<u8>) -> String {
    end_segment(&mut out);
    if out.len() > 1 {
        out.pop();
    }
    // Only ASCII was pushed: everything else is encoded.
    String::from_utf8_lossy(&out).into_owned()
}

/// Ends the segment in `out` with a slash: empty and `.` vanish, `..` takes the one before with it.
fn end_segment(out: &mut Vec<u8>) {
    let start = out.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
    match &out[start..] {
        b"" => {}
        b"." => out.truncate(start),
        b".." => {
            out.truncate(start.saturating_sub(1));
            let parent = out.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
            out.truncate(parent.max(1));
            if out.is_empty() {
                out.push(b'/');
            }
        }
        _ => out.push(b'/'),
    }
}

fn decode_hex(digits: &[u8]) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let &[high, low] = digits else { return None };
    u8::try_from(digit(high)? * 16 + digit(low)?).ok()
}

fn encode(out: &mut Vec<u8>, byte: u8) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    out.extend([b'%', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
}

const fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// Whether a byte stands for itself in a path (RFC 3986, 3.3, `pchar` and the slash).
const fn is_literal(byte: u8) -> bool {
    is_unreserved(byte)
        || matches!(
            byte,
            b'/' | b':' | b'@' | b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'*' | b'+' | b',' | b';' | b'='
        )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(raw: &str, plain: &str, decoded: Option<&str>) {
        let path = Path::parse(raw).unwrap_or_else(|e| panic!("{raw}: {e}"));
        assert_eq!(path.as_str(), plain, "{raw}");
        assert_eq!(path.decoded(), decoded, "{raw}");
    }

    #[test]
    fn one_normal_form_for_all_spellings() {
        for raw in [
            "/orders/7",
            "/orders/7/",
            "//orders///7",
            "/./orders/./7",
            "/x/../orders/7",
            "/orders/7?page=1",
            "/orders/7#top",
            "/%6Frders/%37",
            "/orders/x/..//7/.",
            "orders/7",
            "/../../orders/7",
            "/x/%2e%2E/orders/7",
            "/%2e/orders/7",
            "http://api.example/orders/7",
            "HTTPS://api.example/orders/7?x",
        ] {
            check(raw, "/orders/7", None);
        }
        for raw in ["", "/", "//", "/.", "/..", "/a/..", "?x", "http://api.example", "http://api.example?x=1"]
        {
            check(raw, "/", None);
        }
        check("/...", "/...", None);
        check("/.well-known/x", "/.well-known/x", None);
        check("/caf\u{e9} x", "/caf%C3%A9%20x", None);
        check("/caf%c3%a9%20x", "/caf%C3%A9%20x", None);
    }

    #[test]
    fn doubtful_spellings_have_two_readings() {
        check("/a%2fb", "/a%2Fb", Some("/a/b"));
        check("/a%5Cb", "/a%5Cb", Some("/a/b"));
        check("/a\\b", "/a%5Cb", Some("/a/b"));
        check("/a%252Fb", "/a%252Fb", Some("/a/b"));
        check("/a%25252Fb", "/a%25252Fb", Some("/a/b"));
        check("/x%2F..%2Forders", "/x%2F..%2Forders", Some("/orders"));
        check("/%252e%252e/orders", "/%252e%252e/orders", Some("/orders"));
        check("/a%3Ab", "/a%3Ab", Some("/a:b"));
        check("/100%25", "/100%25", None);
        assert!(Path::parse("/a%2fb").unwrap().is_ambiguous());
        assert!(Path::parse("/a%252Fb").unwrap().is_ambiguous());
        assert!(!Path::parse("/a%3Ab").unwrap().is_ambiguous());
        assert_eq!(Path::parse("/a%2Fb").unwrap().identity(), "/a/b");
    }

    /// Overlong, cut off, a surrogate, and another encoding altogether.
    #[test]
    fn what_is_not_utf_8_is_ambiguous() {
        for raw in [
            "/a%C0%AFb",
            "/a%c0%ae%c0%ae/b",
            "/a%E0%80%AF",
            "/a%E2%82",
            "/%ED%A0%80",
            "/caf%E9",
            "/a%25C0%25AFb",
        ] {
            assert!(Path::parse(raw).unwrap().is_ambiguous(), "{raw}");
        }
        for raw in ["/caf%C3%A9", "/caf\u{e9}", "/%E2%82%AC", "/100%25", "/%F0%9F%8C%8A"] {
            assert!(!Path::parse(raw).unwrap().is_ambiguous(), "{raw}");
        }
    }

    #[test]
    fn the_deepest_encoding_is_decoded() {
        let depth = (MAX_PATH_BYTES - 4) / 2;
        let slash = format!("/a%{}2Fb", "25".repeat(depth - 2));
        check(&slash, &slash, Some("/a/b"));
        assert!(Path::parse(&slash).unwrap().is_ambiguous());
        let percent = format!("/%{}", "25".repeat(depth));
        check(&percent, &percent, Some("/%25"));
        // Each code is decoded to a part of the next.
        check("/%25%34%31", "/%2541", Some("/A"));
    }

    #[test]
    fn what_is_no_path() {
        for raw in ["/%", "/%2", "/%zz", "/%%41"] {
            assert_eq!(Path::parse(raw), Err(PathError::BadEscape), "{raw}");
        }
        for raw in ["/a\0b", "/a%00b", "/a%2500b"] {
            assert_eq!(Path::parse(raw), Err(PathError::Nul), "{raw}");
        }
        assert_eq!(Path::parse(&"/a".repeat(MAX_PATH_BYTES)), Err(PathError::TooLong));
    }

    /// Decodes one layer of codes after the other, which takes as many passes as there are layers.
    fn decode_by_layers(plain: &str) -> Vec<u8> {
        let mut bytes = plain.as_bytes().to_vec();
        loop {
            let (mut next, mut at) = (Vec::new(), 0);
            while at < bytes.len() {
                let code = bytes.get(at + 1..at + 3).filter(|_| bytes[at] == b'%').and_then(decode_hex);
                next.push(code.unwrap_or(bytes[at]));
                at += if code.is_some() { 3 } else { 1 };
            }
            if next == bytes {
                return bytes;
            }
            bytes = next;
        }
    }

    proptest! {
        /// One pass finds what one pass per layer finds.
        #[test]
        fn all_layers_are_decoded(raw in "(%25|25|%2|%32|%35|%|2|5|F|[a-c]|%41|%2F|%5C|%252F|%255c){0,24}") {
            if let Ok(path) = Path::parse(&raw) {
                let mut expected = String::new();
                let layers = decode_by_layers(path.as_str());
                for segment in layers.split(|byte| matches!(byte, b'/' | b'\\')).filter(|segment| !segment.is_empty()) {
                    let mut out = vec![b'/'];
                    for &byte in segment {
                        if is_literal(byte) { out.push(byte) } else { encode(&mut out, byte) }
                    }
                    expected += &String::from_utf8(out).unwrap();
                }
                prop_assert_eq!(path.identity(), if expected.is_empty() { "/" } else { &expected });
            }
        }

        /// Whatever comes in, what comes out is in normal form and stays as it is.
        #[test]
        fn the_normal_form_is_final(raw in "(/|\\.|%2e|%2F|%25|%5c|%41|[a-c]|\\\\|\u{e9}|\\PC){0,24}") {
            if let Ok(path) = Path::parse(&raw) {
                let again = Path::parse(path.as_str()).unwrap();
                prop_assert_eq!(again.as_str(), path.as_str());
                prop_assert!(path.as_str().starts_with('/'));
                for reading in [Some(path.as_str()), path.decoded()].into_iter().flatten() {
                    prop_assert!(!reading.contains("//"));
                    prop_assert!(reading.split('/').all(|segment| segment != "." && segment != ".."));
                }
                if let Some(decoded) = path.decoded() {
                    prop_assert!(Path::parse(decoded).unwrap().decoded().is_none());
                }
            }
        }
    }
}

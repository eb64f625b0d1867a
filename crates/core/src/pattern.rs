//! Path patterns as rules write them.

use std::fmt;
use std::str::FromStr;

use crate::path::{Path, PathError};

/// One segment of a [`Pattern`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Segment {
    /// Exactly this text, in normal form.
    Literal(Box<str>),
    /// `*` or `{name}`: any one segment.
    One,
    /// `**`: any number of segments, none included.
    Any,
    /// A trailing `*`: everything below, one segment or more.
    Below,
}

/// A path pattern: `/orders`, `/orders/*`, `/users/{id}/posts`, `/**/admin`.
///
/// A trailing `*` is everything below (`/*` is simply everything), `*` or `{name}` elsewhere one segment, `**`
/// any number of segments. Case counts. Literal parts are brought into the same normal form as request paths.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pattern {
    segments: Vec<Segment>,
    text: Box<str>,
}

/// As its author wrote it.
impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Pattern {
    /// The pattern's segments in order.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Whether it matches every path.
    pub fn is_everything(&self) -> bool {
        matches!(self.segments.as_slice(), [Segment::Any])
    }
}

/// Why a text is no [`Pattern`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PatternError {
    /// It does not start with a slash.
    NoSlash,
    /// A segment mixes `*` or braces with text.
    Mixed(String),
    /// The pattern has a query, an ambiguous code or a relative segment, which no normal path has.
    NotNormal(String),
    /// A part of it is no path at all.
    Path(PathError),
}

impl fmt::Display for PatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSlash => f.write_str("a path pattern starts with `/`"),
            Self::Mixed(segment) => write!(
                f,
                "`{segment}` mixes a wildcard with text; a wildcard is a whole segment: `*`, `**` or `{{name}}`"
            ),
            Self::NotNormal(part) => {
                write!(
                    f,
                    "`{part}` never occurs in a path as it is matched; write it decoded, without query, `.` and `..`"
                )
            }
            Self::Path(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for PatternError {}

impl FromStr for Pattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, PatternError> {
        let rest = text.strip_prefix('/').ok_or(PatternError::NoSlash)?;
        let parts: Vec<&str> = rest.split('/').filter(|part| !part.is_empty()).collect();
        let last = parts.len().saturating_sub(1);
        let mut segments = Vec::with_capacity(parts.len());
        for (index, part) in parts.into_iter().enumerate() {
            segments.push(match part {
                "*" if index == last && index == 0 => Segment::Any,
                "*" if index == last => Segment::Below,
                "*" => Segment::One,
                "**" => Segment::Any,
                _ if part.starts_with('{') && part.find('}') == Some(part.len() - 1) && part.len() > 2 => {
                    Segment::One
                }
                _ if part.contains(['*', '{', '}']) => return Err(PatternError::Mixed(part.to_owned())),
                _ => Segment::Literal(literal(part)?),
            });
        }
        segments.dedup_by(|a, b| matches!((&a, &b), (Segment::Any, Segment::Any)));
        Ok(Self { segments, text: text.into() })
    }
}

/// One literal segment in normal form.
fn literal(part: &str) -> Result<Box<str>, PatternError> {
    let path = Path::parse(part).map_err(PatternError::Path)?;
    match path.as_str().strip_prefix('/') {
        Some(segment) if !segment.is_empty() && path.decoded().is_none() && !part.contains(['?', '#']) => {
            Ok(segment.into())
        }
        _ => Err(PatternError::NotNormal(part.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_read() {
        let read = |text: &str| text.parse::<Pattern>().unwrap().segments;
        let literal = |text: &str| Segment::Literal(text.into());
        assert_eq!(read("/"), []);
        assert_eq!(read("/orders"), [literal("orders")]);
        assert_eq!(read("/orders/"), [literal("orders")]);
        assert_eq!(read("/orders/*"), [literal("orders"), Segment::Below]);
        assert_eq!(read("/users/{id}/posts"), [literal("users"), Segment::One, literal("posts")]);
        assert_eq!(read("/users/{id}"), [literal("users"), Segment::One]);
        assert_eq!(read("/*/x"), [Segment::One, literal("x")]);
        assert_eq!(read("/*"), [Segment::Any]);
        assert_eq!(read("/a/**/**/b"), [literal("a"), Segment::Any, literal("b")]);
        assert_eq!(read("/caf\u{e9}"), [literal("caf%C3%A9")]);
        assert_eq!(read("/%6Frders"), [literal("orders")]);
        assert_eq!("/users/{id}".parse::<Pattern>().unwrap().to_string(), "/users/{id}");
    }

    #[test]
    fn what_is_no_pattern() {
        for text in [
            "", "orders", "/orders*", "/{id", "/{}", "/a{b}", "/***", "/a/../b", "/a?x=1", "/a%2Fb", "/%zz",
            "/./a",
        ] {
            assert!(text.parse::<Pattern>().is_err(), "{text}");
        }
    }
}

//! Values that rules about descriptors ask for.

use std::fmt;

/// What the value of an entry must be.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ValuePattern {
    /// Anything.
    Any,
    /// Exactly this.
    Is(Box<str>),
    /// Like this, where each `*` stands for any text, or none.
    Like(Box<str>),
}

impl ValuePattern {
    /// Reads a value as rules write it: with `*` for any text; nothing at all is any value.
    pub fn new(text: &str) -> Self {
        match text {
            "" => Self::Any,
            text if text.contains('*') => Self::Like(text.into()),
            text => Self::Is(text.into()),
        }
    }

    /// As its author wrote it; `None` if any value will do.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Any => None,
            Self::Is(text) | Self::Like(text) => Some(text),
        }
    }
}

impl fmt::Display for ValuePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text().unwrap_or("*"))
    }
}

/// Whether `value` is like `pattern`. Each piece between two `*` is taken where it first occurs, which is as good as
/// any other place for what follows, so that nothing is ever tried twice.
pub(super) fn is_like(pattern: &str, value: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == value };
    let (middle, end) = rest.rsplit_once('*').unwrap_or(("", rest));
    let Some(mut left) = value.strip_prefix(start).and_then(|left| left.strip_suffix(end)) else {
        return false;
    };
    for piece in middle.split('*') {
        let Some(at) = left.find(piece) else { return false };
        left = &left[at + piece.len()..];
    }
    true
}

//! Texts that servers send: identities are as clients wrote them, and a terminal would obey them.

use std::fmt;

use ratatui::style::Style;
use ratatui::text::Span;
use serde::{Deserialize, Deserializer};

use crate::terminal::safe;

/// What is beyond is cut off; a name is shown in less.
const MAX_CHARS: usize = 300;

/// The longest thing that takes one place on a terminal; more marks than that on one letter are not shown.
const MAX_GRAPHEME_BYTES: usize = 32;

/// A text of bounded length without anything that a terminal would obey: there is no other way to have one of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Text(String);

impl Text {
    /// Makes one of anything.
    pub(super) fn new(raw: &str) -> Self {
        match raw.char_indices().nth(MAX_CHARS) {
            Some((end, _)) => Self(format!("{}\u{2026}", safe(&raw[..end]))),
            None => Self(safe(raw).into_owned()),
        }
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<&Text> for String {
    fn from(text: &Text) -> Self {
        text.0.clone()
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Ok(Self::new(&String::deserialize(from)?))
    }
}

/// How many places a text takes on a terminal.
pub(super) fn width(text: &str) -> usize {
    Span::raw(text).width()
}

/// As much of a text as fits into `room` places; it ends with an ellipsis if that is not all.
pub(super) fn cut(text: &str, room: usize) -> String {
    let (mut out, mut used) = (String::with_capacity(text.len().min(room * 4)), 0);
    let span = Span::raw(text);
    for grapheme in span.styled_graphemes(Style::new()) {
        let symbol = if grapheme.symbol.len() > MAX_GRAPHEME_BYTES { "?" } else { grapheme.symbol };
        let wide = width(symbol);
        if used + wide > room {
            return shorten(out, room);
        }
        out.push_str(symbol);
        used += wide;
    }
    out
}

/// Makes room for the ellipsis.
fn shorten(mut text: String, room: usize) -> String {
    if room == 0 {
        return String::new();
    }
    while width(&text) + 1 > room {
        text.pop();
    }
    text.push('\u{2026}');
    text
}

/// Exactly `room` places, filled on the right.
pub(super) fn left(text: &str, room: usize) -> String {
    let cut = cut(text, room);
    let gap = room.saturating_sub(width(&cut));
    cut + &" ".repeat(gap)
}

/// Exactly `room` places, filled on the left.
pub(super) fn right(text: &str, room: usize) -> String {
    let cut = cut(text, room);
    " ".repeat(room.saturating_sub(width(&cut))) + &cut
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_written_out() {
        let text: Text = serde_json::from_str(r#""a\u001b[2J\u009b1m\r\n\u202eb""#).unwrap();
        assert_eq!(text.as_str(), "a\\u{1b}[2J\\u{9b}1m\\r\\n\\u{202e}b");
        assert_eq!(Text::new(&"x".repeat(1_000)).as_str(), format!("{}\u{2026}", "x".repeat(MAX_CHARS)));
    }

    #[test]
    fn places_are_counted_and_not_characters() {
        assert_eq!((cut("alice", 5), cut("alice", 4)), ("alice".to_owned(), "ali\u{2026}".to_owned()));
        assert_eq!(cut("日本語", 5), "日本\u{2026}");
        assert_eq!(cut("日本語", 4), "日\u{2026}", "half of a wide one is not shown");
        assert_eq!((left("ab", 4), right("ab", 4)), ("ab  ".to_owned(), "  ab".to_owned()));
        let marks = format!("a{}b", "\u{301}".repeat(100));
        assert_eq!(cut(&marks, 5), "?b", "a letter under a tower of marks");
    }

    proptest! {
        #[test]
        fn it_fits_whatever_it_is(text in ".{0,40}", room in 0_usize..30) {
            let text = Text::new(&text);
            prop_assert!(!text.as_str().contains(char::is_control));
            prop_assert!(width(&cut(text.as_str(), room)) <= room);
            prop_assert_eq!(width(&left(text.as_str(), room)), room);
            prop_assert_eq!(width(&right(text.as_str(), room)), room);
        }
    }
}

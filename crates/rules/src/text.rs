//! A text with a name, and places in it.

use std::sync::OnceLock;

/// A place in a text: line and column, both from 1, the column in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) line: u32,
    pub(crate) column: u32,
}

impl Place {
    /// The very beginning: where a problem with the text as a whole is.
    pub(crate) const START: Self = Self { line: 1, column: 1 };
}

/// A value and where it is written.
#[derive(Clone, Debug)]
pub(crate) struct Placed<T> {
    pub(crate) at: Place,
    pub(crate) value: T,
}

/// A text to read, kept as long as a problem may have to quote from it.
#[derive(Debug)]
pub(crate) struct Text {
    name: Box<str>,
    content: Box<str>,
    line_starts: OnceLock<Vec<usize>>,
}

impl Text {
    /// `content` under `name`; a byte order mark says nothing and is dropped.
    pub(crate) fn new(name: &str, content: &str) -> Self {
        let content = content.strip_prefix('\u{feff}').unwrap_or(content);
        Self { name: name.into(), content: content.into(), line_starts: OnceLock::new() }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn content(&self) -> &str {
        &self.content
    }

    /// The characters of a line, without its end. Lazily: a line can be as long as the text.
    pub(crate) fn line(&self, number: u32) -> impl Iterator<Item = char> + Clone + '_ {
        let starts = self.line_starts.get_or_init(|| line_starts(&self.content));
        let index = usize::try_from(number).ok().and_then(|number| number.checked_sub(1));
        let start = index.and_then(|index| starts.get(index).copied()).unwrap_or(self.content.len());
        let rest = self.content.get(start..).unwrap_or_default();
        rest.chars().take_while(|c| !matches!(c, '\n' | '\r'))
    }
}

fn line_starts(content: &str) -> Vec<usize> {
    let bytes = content.as_bytes();
    let ends = bytes.iter().enumerate().filter(|&(index, &byte)| {
        byte == b'\n' || (byte == b'\r' && bytes.get(index + 1).is_none_or(|&next| next != b'\n'))
    });
    std::iter::once(0).chain(ends.map(|(index, _)| index + 1)).collect()
}

/// Turns growing byte offsets into places, so that a long text is gone through once and not once per value.
#[derive(Debug)]
pub(crate) struct Cursor<'t> {
    content: &'t str,
    offset: usize,
    place: Place,
}

impl<'t> Cursor<'t> {
    pub(crate) fn new(content: &'t str) -> Self {
        Self { content, offset: 0, place: Place::START }
    }

    /// The place of the byte at `offset`, which must not lie before one asked for earlier.
    pub(crate) fn advance_to(&mut self, offset: usize) -> Place {
        let passed = self.content.get(self.offset..offset).unwrap_or_default();
        let mut rest = passed.chars().peekable();
        while let Some(c) = rest.next() {
            // The line feed of a pair ends the line.
            let pair = c == '\r' && self.followed_by_line_feed(rest.peek(), offset);
            if c == '\n' || (c == '\r' && !pair) {
                self.place = Place { line: self.place.line.saturating_add(1), column: 1 };
            } else {
                self.place.column = self.place.column.saturating_add(1);
            }
        }
        self.offset = self.offset.max(offset);
        self.place
    }

    fn followed_by_line_feed(&self, next: Option<&char>, end: usize) -> bool {
        match next {
            Some(next) => *next == '\n',
            None => self.content.as_bytes().get(end) == Some(&b'\n'),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_found_however_they_end() {
        let text = Text::new("t", "\u{feff}a\nb\r\nc\rd");
        let lines: Vec<String> = (0..6).map(|number| text.line(number).collect()).collect();
        assert_eq!(lines, ["", "a", "b", "c", "d", ""]);
    }

    #[test]
    fn offsets_become_places() {
        let content = "a\u{e9}b\r\nc\rd";
        let mut cursor = Cursor::new(content);
        let places: Vec<_> = content
            .char_indices()
            .map(|(offset, _)| {
                let place = cursor.advance_to(offset);
                (place.line, place.column)
            })
            .collect();
        assert_eq!(places, [(1, 1), (1, 2), (1, 3), (1, 4), (1, 5), (2, 1), (2, 2), (3, 1)]);
    }
}

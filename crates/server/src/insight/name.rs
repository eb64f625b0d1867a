//! Names that clients chose, made fit for people to read.

use std::fmt::{self, Display, Write};

/// No name is shown longer than this, in bytes; `…` says that there was more.
pub(crate) const LONGEST: usize = 256;

/// Says what `name` is, up to [`LONGEST`]; what is beyond is not even looked at.
pub(crate) fn shown(name: impl Display) -> String {
    let mut bounded = Bounded { text: String::new(), cut: false };
    // That it is cut short is no failure.
    let _ = write!(bounded, "{name}");
    if bounded.cut {
        bounded.text.push('…');
    }
    bounded.text
}

struct Bounded {
    text: String,
    cut: bool,
}

impl Write for Bounded {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        let room = LONGEST - '…'.len_utf8() - self.text.len();
        if more.len() <= room {
            self.text.push_str(more);
            return Ok(());
        }
        self.text.push_str(&more[..more.floor_char_boundary(room)]);
        self.cut = true;
        Err(fmt::Error)
    }
}

/// A text without control characters, which do harm on terminals.
pub(crate) struct Plain<'a>(pub(crate) &'a str);

impl Display for Plain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|c| {
            if c.is_control() { write!(f, "{}", c.escape_default()) } else { f.write_char(c) }
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_are_shown_as_they_are_if_they_are_harmless() {
        assert_eq!(shown("acme/alice"), "acme/alice");
        assert_eq!(shown(Plain("a\u{1b}[2J\nb")), "a\\u{1b}[2J\\nb");
        let long = "x".repeat(10_240);
        assert_eq!(shown(&long), "x".repeat(LONGEST - 3) + "…");
        assert_eq!(shown(Plain(&long)), shown(&long));
    }

    proptest! {
        #[test]
        fn no_name_is_too_long(name in ".{0,400}") {
            let shown = shown(Plain(&name));
            prop_assert!(shown.len() <= LONGEST);
            prop_assert!(!shown.contains(char::is_control));
        }
    }
}

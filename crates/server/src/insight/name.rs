//! Names that clients chose, made fit for people to read.

use std::fmt::{self, Display, Write};

use tidegate_core::descriptor::Entry;

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

/// What entries of descriptors are called whose values are nobody's to read.
const SECRETS: [&str; 8] =
    ["api_key", "api-key", "apikey", "authorization", "token", "secret", "password", "cookie"];

/// What a proxy says about a request. Values are not shown that may be secrets, going by what they are called.
pub(crate) struct Described<'a>(pub(crate) &'a [Entry<'a>]);

impl Display for Described<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, Entry { key, value }) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            let called = key.to_ascii_lowercase();
            let is_secret = SECRETS.iter().any(|secret| called.contains(secret));
            let value = if is_secret { "(hidden)" } else { value };
            write!(f, "{comma}{}={}", Plain(key), Plain(value))?;
        }
        Ok(())
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

    #[test]
    fn descriptors_are_shown_but_for_secrets() {
        let entries = [("generic_key", "edge"), ("X-API-Key", "hunter2"), ("user", "a\nb")];
        let entries = entries.map(|(key, value)| Entry { key, value });
        assert_eq!(shown(Described(&entries)), "generic_key=edge, X-API-Key=(hidden), user=a\\nb");
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

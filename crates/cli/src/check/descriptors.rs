//! Descriptors as they are written on the command line: `remote_address=203.0.113.7,path=/login`.

use std::fmt;
use std::str::FromStr;

use tidegate_wire::grpc::protobuf::envoy::extensions::common::ratelimit::v3::{
    RateLimitDescriptor, rate_limit_descriptor,
};

/// Shown with every complaint.
const EXAMPLE: &str = "write it as remote_address=203.0.113.7,path=/login";

/// One descriptor: entries that together say what is counted.
///
/// Its entries cannot be none, and each is what the server will see: an empty key is for the server to refuse.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Descriptor(Vec<(String, String)>);

impl Descriptor {
    /// As the service is asked about it.
    pub(super) fn message(&self) -> RateLimitDescriptor {
        let entries = self.0.iter().cloned();
        RateLimitDescriptor {
            entries: entries.map(|(key, value)| rate_limit_descriptor::Entry { key, value }).collect(),
            ..RateLimitDescriptor::default()
        }
    }
}

impl FromStr for Descriptor {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut entries = Vec::new();
        let mut entry = Written::default();
        let mut chars = text.chars();
        while let Some(c) = chars.next() {
            match c {
                '\\' => entry.push(escaped(chars.next())?),
                ',' => entries.push(std::mem::take(&mut entry).finish()?),
                '=' if entry.value.is_none() => entry.value = Some(String::new()),
                c => entry.push(c),
            }
        }
        entries.push(entry.finish()?);
        Ok(Self(entries))
    }
}

/// What stands behind a backslash; anything else there is more likely a mistake than meant.
fn escaped(c: Option<char>) -> Result<char, String> {
    match c {
        Some(c @ (',' | '=' | '\\')) => Ok(c),
        Some(c) => Err(format!("`\\{c}` means nothing; a backslash is written as `\\\\`; {EXAMPLE}")),
        None => Err(format!("it ends with a backslash, which is written as `\\\\`; {EXAMPLE}")),
    }
}

/// An entry that is being read; its value begins with the first `=`.
#[derive(Default)]
struct Written {
    key: String,
    value: Option<String>,
}

impl Written {
    fn push(&mut self, c: char) {
        self.value.as_mut().unwrap_or(&mut self.key).push(c);
    }

    fn finish(self) -> Result<(String, String), String> {
        if self.key.is_empty() && self.value.is_none() {
            return Err(format!("there is an entry with nothing in it; {EXAMPLE}"));
        }
        Ok((self.key, self.value.unwrap_or_default()))
    }
}

/// In the way it is read.
impl fmt::Display for Descriptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (key, value)) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            escape(f, key, &[',', '=', '\\'])?;
            if !value.is_empty() || key.is_empty() {
                f.write_str("=")?;
                escape(f, value, &[',', '\\'])?;
            }
        }
        Ok(())
    }
}

fn escape(f: &mut fmt::Formatter<'_>, text: &str, special: &[char]) -> fmt::Result {
    text.chars().try_for_each(|c| {
        if special.contains(&c) {
            f.write_str("\\")?;
        }
        write!(f, "{c}")
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Result<Vec<(String, String)>, String> {
        text.parse::<Descriptor>().map(|descriptor| descriptor.0)
    }

    #[test]
    fn entries_and_what_is_in_them() {
        for (text, entries) in [
            ("a=b", &[("a", "b")][..]),
            ("a=b,c=d", &[("a", "b"), ("c", "d")]),
            ("a", &[("a", "")]),
            ("a=", &[("a", "")]),
            ("a,b=c", &[("a", ""), ("b", "c")]),
            ("a=b=c", &[("a", "b=c")]),
            (r"a=b\,c\\d", &[("a", r"b,c\d")]),
            (r"a\=b=c\=d", &[("a=b", "c=d")]),
            (r"a\,b=c", &[("a,b", "c")]),
            ("a= b ,c=\u{fc}", &[("a", " b "), ("c", "\u{fc}")]),
            ("=b", &[("", "b")]),
            ("=", &[("", "")]),
        ] {
            let entries = entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
            assert_eq!(read(text), Ok(entries.collect()), "{text}");
        }
    }

    #[test]
    fn mistakes_come_with_an_example() {
        for (text, complaint) in [
            ("", "nothing in it"),
            ("a=b,", "nothing in it"),
            (",a=b", "nothing in it"),
            ("a=b,,c=d", "nothing in it"),
            (r"a=b\", "ends with a backslash"),
            (r"a=b\n", r"`\n` means nothing"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(complaint) && error.contains(EXAMPLE), "{text}: {error}");
        }
        assert!(read(EXAMPLE.trim_start_matches("write it as ")).is_ok());
    }

    proptest! {
        #[test]
        fn what_is_shown_can_be_read(
            entries in proptest::collection::vec((r"[a-c,=\\ü]{0,4}", r"[a-c,=\\ü]{0,4}"), 1..5)
        ) {
            let descriptor = Descriptor(entries);
            prop_assert_eq!(descriptor.to_string().parse(), Ok(descriptor));
        }

        #[test]
        fn what_is_read_is_shown_as_the_same(text in r"[a-c,=\\]{0,12}") {
            if let Ok(descriptor) = text.parse::<Descriptor>() {
                prop_assert_eq!(descriptor.to_string().parse(), Ok(descriptor));
            }
        }
    }
}

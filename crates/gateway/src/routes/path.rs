//! Path patterns of routes: what they match, and which of two is the narrower.

use std::cmp::Ordering;

use tidegate_core::pattern::{Pattern, Segment};

/// Whether the pattern made of `segments` matches `path`, which is in normal form.
pub(super) fn matches(segments: &[Segment], path: &str) -> bool {
    let mut rest = Rest(path.strip_prefix('/').unwrap_or(path));
    let mut at = 0;
    // Where to go on if the last `**` has to take one segment more: what comes after it, and from where.
    let mut again: Option<(usize, Rest<'_>)> = None;
    loop {
        let goes_on = match segments.get(at) {
            None => rest.is_empty(),
            Some(Segment::Any) => {
                again = Some((at + 1, rest));
                at += 1;
                continue;
            }
            Some(Segment::Below) => return !rest.is_empty(),
            Some(segment) => match (segment, rest.next()) {
                (Segment::Literal(text), Some(part)) => **text == *part,
                (_, part) => part.is_some(),
            },
        };
        if goes_on {
            if at >= segments.len() {
                return true;
            }
            at += 1;
            continue;
        }
        let Some((after, mut from)) = again else { return false };
        if from.next().is_none() {
            return false;
        }
        again = Some((after, from));
        (at, rest) = (after, from);
    }
}

/// The segments of a path that are left.
#[derive(Clone, Copy)]
struct Rest<'a>(&'a str);

impl<'a> Rest<'a> {
    fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    fn next(&mut self) -> Option<&'a str> {
        if self.0.is_empty() {
            return None;
        }
        let (segment, rest) = self.0.split_once('/').unwrap_or((self.0, ""));
        self.0 = rest;
        Some(segment)
    }
}

/// Orders patterns from the narrowest to the widest, by the first segment in which they differ in kind: text, then any
/// one segment, then `**` with something after it, then everything below, then everything.
pub(super) fn by_width(a: &Pattern, b: &Pattern) -> Ordering {
    ranks(a).cmp(ranks(b))
}

fn ranks(pattern: &Pattern) -> impl Iterator<Item = u8> {
    let last = pattern.segments().len().saturating_sub(1);
    pattern.segments().iter().enumerate().map(move |(index, segment)| match segment {
        Segment::Literal(_) => 0,
        Segment::One => 1,
        Segment::Any if index < last => 2,
        Segment::Below => 3,
        Segment::Any => 4,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pattern(text: &str) -> Pattern {
        text.parse().unwrap()
    }

    #[test]
    fn patterns_match_what_rules_would() {
        for (text, matching, other) in [
            ("/", vec!["/"], vec!["/a"]),
            ("/*", vec!["/", "/a", "/a/b"], vec![]),
            ("/a", vec!["/a"], vec!["/", "/a/b", "/ab"]),
            ("/a/*", vec!["/a/b", "/a/b/c"], vec!["/a", "/ab", "/"]),
            ("/a/**", vec!["/a", "/a/b", "/a/b/c"], vec!["/", "/b"]),
            ("/a/{id}/c", vec!["/a/b/c"], vec!["/a/c", "/a/b/c/d", "/a/b"]),
            ("/**/c", vec!["/c", "/a/c", "/a/c/c", "/c/c/c"], vec!["/", "/c/a", "/a"]),
            ("/a/**/b/**/c", vec!["/a/b/c", "/a/x/b/b/y/c"], vec!["/a/c/b", "/a/b"]),
            ("/**/*", vec!["/a", "/a/b"], vec!["/"]),
        ] {
            let pattern = pattern(text);
            for path in matching {
                assert!(matches(pattern.segments(), path), "{text} {path}");
            }
            for path in other {
                assert!(!matches(pattern.segments(), path), "{text} {path}");
            }
        }
    }

    #[test]
    fn narrower_ones_come_first() {
        let order = ["/a", "/a/b", "/a/{x}", "/a/**/b", "/a/*", "/a/**", "/{x}", "/{x}/*", "/**/b", "/**"];
        for pair in order.windows(2) {
            let [first, second] = pair else { unreachable!() };
            assert_eq!(by_width(&pattern(first), &pattern(second)), Ordering::Less, "{first} {second}");
        }
    }

    /// By trying everything.
    fn slowly(segments: &[Segment], path: &[&str]) -> bool {
        match (segments, path) {
            ([], path) => path.is_empty(),
            ([Segment::Any, rest @ ..], _) => (0..=path.len()).any(|skip| slowly(rest, &path[skip..])),
            ([Segment::Below, ..], path) => !path.is_empty(),
            ([Segment::Literal(text), rest @ ..], [first, path @ ..]) => {
                **text == **first && slowly(rest, path)
            }
            ([Segment::One, rest @ ..], [_, path @ ..]) => slowly(rest, path),
            (_, []) => false,
        }
    }

    proptest! {
        #[test]
        fn matching_is_trying_everything(
            pattern in prop::collection::vec(prop_oneof![Just("a"), Just("b"), Just("*"), Just("**")], 0..6),
            path in prop::collection::vec(prop_oneof![Just("a"), Just("b")], 0..6),
        ) {
            let pattern: Pattern = format!("/{}", pattern.join("/")).parse().unwrap();
            let text = format!("/{}", path.join("/"));
            prop_assert_eq!(matches(pattern.segments(), &text), slowly(pattern.segments(), &path));
        }
    }
}

//! Headers that come in several lines, as the one value that they are.

use http::header::{COOKIE, HeaderName};
use http::{HeaderMap, HeaderValue};
use tidegate_core::header_names::{HeaderNames, HeaderUse};
use tidegate_core::request::Fields;
use tidegate_wire::ErrorBody;

/// A request's headers, with the lines of each that rules read put together (RFC 9110, 5.3).
pub(crate) struct Combined<'a> {
    headers: &'a HeaderMap,
    /// Those that come in several different lines: none, as a rule.
    joined: Vec<(&'a HeaderName, String)>,
}

impl<'a> Combined<'a> {
    /// Fails if one that rules read is not UTF-8: they would go on as if it were not there.
    pub(crate) fn new(headers: &'a HeaderMap, names: &HeaderNames) -> Result<Self, ErrorBody> {
        let mut joined = Vec::new();
        if names.is_empty() {
            return Ok(Self { headers, joined });
        }
        for name in headers.keys().filter(|name| names.look_up(name.as_str()) == HeaderUse::Read) {
            let lines: Result<Vec<&str>, ErrorBody> =
                headers.get_all(name).iter().map(|line| readable(name, line)).collect();
            let mut lines = lines?;
            lines.dedup();
            if lines.len() > 1 {
                joined.push((name, lines.join(if name == COOKIE { "; " } else { ", " })));
            }
        }
        Ok(Self { headers, joined })
    }

    fn joined(&self, name: &str) -> Option<&str> {
        let found = self.joined.iter().find(|(known, _)| known.as_str().eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }
}

impl Fields for Combined<'_> {
    fn value(&self, name: &str) -> Option<&str> {
        self.joined(name).or_else(|| self.headers.value(name))
    }

    fn each(&self, visit: &mut dyn FnMut(&str, &str)) {
        self.joined.iter().for_each(|(name, value)| visit(name.as_str(), value));
        self.headers.each(&mut |name, value| {
            if self.joined(name).is_none() {
                visit(name, value);
            }
        });
    }
}

fn readable<'a>(name: &HeaderName, line: &'a HeaderValue) -> Result<&'a str, ErrorBody> {
    std::str::from_utf8(line.as_bytes()).map_err(|_| {
        ErrorBody::field(name.as_str(), format!("the value of header {name} is not UTF-8; send it as text"))
    })
}

#[cfg(test)]
mod tests {
    use tidegate_core::rule::Wanted;
    use tidegate_core::{Condition, Facet, Quota, Rule, RuleSet, RuleSetParts};

    use super::*;

    fn rules() -> RuleSet {
        let headers = ["x-plan", "cookie"].map(|name| (name.into(), Wanted::Present)).to_vec();
        let rule = Rule {
            condition: Condition { headers, ..Condition::default() },
            ..Rule::new("one", Facet::Global, Quota::BLOCKED)
        };
        RuleSet::new(RuleSetParts { rules: vec![rule], ..RuleSetParts::default() }).unwrap()
    }

    fn headers(lines: &[(&'static str, &[u8])]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, HeaderValue::from_bytes(value).unwrap());
        }
        headers
    }

    #[test]
    fn lines_that_rules_read_are_one_value() {
        let headers = headers(&[
            ("x-plan", b"free"),
            ("accept", b"a"),
            ("cookie", b"a=1"),
            ("x-plan", b"gold"),
            ("accept", b"b"),
            ("cookie", b"b=2"),
        ]);
        let rules = rules();
        let combined = Combined::new(&headers, rules.headers()).unwrap();
        assert_eq!(combined.value("X-Plan"), Some("free, gold"));
        assert_eq!(combined.value("cookie"), Some("a=1; b=2"));
        assert_eq!(combined.value("accept"), Some("a"), "nobody reads it");
        let mut seen = Vec::new();
        combined.each(&mut |name, value| seen.push(format!("{name}: {value}")));
        seen.sort_unstable();
        assert_eq!(seen, ["accept: a", "accept: b", "cookie: a=1; b=2", "x-plan: free, gold"]);
    }

    #[test]
    fn a_line_that_is_repeated_says_nothing_new() {
        let headers = headers(&[("x-plan", b"free"), ("x-plan", b"free")]);
        assert_eq!(Combined::new(&headers, rules().headers()).unwrap().value("x-plan"), Some("free"));
    }

    #[test]
    fn what_is_no_text_is_not_as_if_it_were_missing() {
        let field = |lines: &[(&'static str, &[u8])]| {
            let headers = headers(lines);
            Combined::new(&headers, rules().headers()).err().and_then(|error| error.field)
        };
        assert_eq!(field(&[("x-plan", b"free\xff")]).as_deref(), Some("x-plan"));
        assert_eq!(field(&[("x-plan", b"free"), ("x-plan", b"\xff")]).as_deref(), Some("x-plan"));
        assert_eq!(field(&[("x-plan", "zo\u{eb}".as_bytes()), ("accept", b"\xff")]), None);
    }
}

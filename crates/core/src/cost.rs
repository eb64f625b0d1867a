//! How much a request takes from a rule, and what its answer changes about that.

use std::ops::RangeInclusive;

use crate::request::Request;
use crate::time::Span;

/// The most that one request can take from a rule by what is said about it.
pub const MAX_COST: u64 = 1_000_000_000;

/// How long an answer may take to be charged unless told otherwise.
pub const DEFAULT_CHARGE_WITHIN: Span = Span::from_secs(60);

/// What a request takes from a rule's quota, times what the request itself [costs](Request::cost).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cost {
    /// Always so much.
    Fixed(u64),
    /// What a header of the request says, but at least 1: clients may have written it.
    Header {
        /// Its name, in lower case.
        name: Box<str>,
        /// What a request without it takes, or with one that is no number.
        otherwise: u64,
        /// What is more counts as this.
        most: u64,
    },
    /// One for each so many bytes of the request's body that are begun, and one for none.
    Body {
        /// So many bytes.
        unit: u64,
        /// What is more counts as this, and so does a body whose length is not known beforehand.
        most: u64,
    },
}

impl Default for Cost {
    fn default() -> Self {
        Self::Fixed(1)
    }
}

impl Cost {
    /// What `request` takes: nothing, if it only looks.
    #[inline]
    pub fn of(&self, request: &Request<'_>) -> u64 {
        let each = match self {
            Self::Fixed(cost) => *cost,
            Self::Header { name, otherwise, most } => {
                let said = request.headers.value(name).and_then(|value| value.trim().parse().ok());
                said.map_or(*otherwise, |said: u64| said.min(*most).max(1))
            }
            Self::Body { unit, most } => {
                request.body_bytes.map_or(*most, |bytes| bytes.div_ceil((*unit).max(1)).min(*most).max(1))
            }
        };
        each.saturating_mul(request.cost)
    }
}

/// Has the answer to a request say what the request takes. What it [costs](Cost) is held until then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Charge {
    /// The header of the answer (in lower case) that says how much; without it, or if it is no number, it is what was held.
    pub header: Option<Box<str>>,
    /// Answers with any other status cost nothing; empty means that all are charged.
    pub statuses: Vec<RangeInclusive<u16>>,
    /// How long the answer may take. After that, what was held is given back.
    pub within: Span,
}

impl Charge {
    /// Returns true if its `statuses` name this one. A charge without any charges all responses and names none.
    pub fn names(&self, status: u16) -> bool {
        self.statuses.iter().any(|statuses| statuses.contains(&status))
    }

    /// What an answer with this status costs, of which `header` gives what a header says, when `held` was held.
    pub fn of<'h>(&self, status: u16, header: impl FnOnce(&str) -> Option<&'h str>, held: u64) -> u64 {
        if !self.statuses.is_empty() && !self.names(status) {
            return 0;
        }
        let said = self.header.as_deref().and_then(header);
        said.and_then(|said| said.trim().parse().ok()).map_or(held, |said: u64| said.min(MAX_COST))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_request_takes() {
        let headers = |value: &'static str| [("x-cost", value)];
        let by_header = Cost::Header { name: "x-cost".into(), otherwise: 7, most: 100 };
        for (value, cost) in [("5", 5), (" 5 ", 5), ("0", 1), ("-3", 7), ("lots", 7), ("", 7), ("101", 100)] {
            let headers = headers(value);
            let request = Request { headers: &headers, ..Request::new("/") };
            assert_eq!(by_header.of(&request), cost, "{value}");
        }
        assert_eq!(by_header.of(&Request::new("/")), 7);
        let by_body = Cost::Body { unit: 1024, most: 50 };
        for (bytes, cost) in
            [(Some(0), 1), (Some(1), 1), (Some(1024), 1), (Some(1025), 2), (Some(u64::MAX), 50), (None, 50)]
        {
            assert_eq!(by_body.of(&Request { body_bytes: bytes, ..Request::new("/") }), cost, "{bytes:?}");
        }
        let none = Request { body_bytes: Some(9), ..Request::new("/") };
        assert_eq!(Cost::Body { unit: 0, most: 0 }.of(&none), 1, "nonsense is no reason to fall over");
        assert_eq!(Cost::Fixed(5).of(&Request { cost: 3, ..Request::new("/") }), 15);
        assert_eq!(Cost::Fixed(5).of(&Request { cost: 0, ..Request::new("/") }), 0, "only looks");
    }

    #[test]
    fn what_an_answer_costs() {
        let charge = |header: Option<&str>, statuses: &[RangeInclusive<u16>]| Charge {
            header: header.map(Into::into),
            statuses: statuses.to_vec(),
            within: DEFAULT_CHARGE_WITHIN,
        };
        let failed = charge(None, &[401..=401, 403..=403]);
        assert_eq!(failed.of(401, |_| None, 1), 1);
        assert_eq!(failed.of(402, |_| None, 1), 0);
        assert!(failed.names(401) && !failed.names(402) && !charge(None, &[]).names(401));
        let tokens = charge(Some("x-tokens"), &[200..=299]);
        assert_eq!(tokens.of(200, |name| (name == "x-tokens").then_some("812"), 500), 812);
        assert_eq!(tokens.of(200, |_| Some("0"), 500), 0);
        assert_eq!(tokens.of(200, |_| Some("many"), 500), 500);
        assert_eq!(tokens.of(200, |_| None, 500), 500);
        assert_eq!(tokens.of(500, |_| Some("812"), 500), 0);
        assert_eq!(tokens.of(200, |_| Some("99999999999999999999"), 500), 500, "no number");
        assert_eq!(tokens.of(200, |_| Some("9999999999999999999"), 500), MAX_COST);
    }
}

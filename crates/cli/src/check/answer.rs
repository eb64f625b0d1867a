//! What the service said about each descriptor, for people.

use std::io::{self, Write};

use anstyle::Style;
use tidegate_wire::grpc::protobuf::envoy::service::ratelimit::v3::RateLimitResponse;
use tidegate_wire::grpc::protobuf::envoy::service::ratelimit::v3::rate_limit_response::rate_limit::Unit;
use tidegate_wire::grpc::protobuf::envoy::service::ratelimit::v3::rate_limit_response::{
    Code, DescriptorStatus, RateLimit,
};

use super::descriptors::Descriptor;
use crate::table::{Align, Table};
use crate::terminal::{BAD, FAINT, GOOD, PLAIN, STRONG, number};

/// Writes the verdict, and how each of `descriptors` stands.
pub(super) fn write(
    out: &mut dyn Write,
    descriptors: &[Descriptor],
    answer: &RateLimitResponse,
) -> io::Result<()> {
    let (word, style) = said(answer.overall_code());
    writeln!(out, "{style}{word}{style:#}\n")?;
    let mut table = Table::new(&[
        ("descriptor", Align::Left),
        ("code", Align::Left),
        ("limit", Align::Left),
        ("remaining", Align::Right),
        ("reset", Align::Right),
    ]);
    for (index, descriptor) in descriptors.iter().enumerate() {
        let [code, limit, remaining, reset] = match answer.statuses.get(index) {
            Some(status) => cells(status),
            None => [("no answer", FAINT), ("", PLAIN), ("", PLAIN), ("", PLAIN)]
                .map(|(text, style)| (text.to_owned(), style)),
        };
        table.row([(descriptor.to_string(), STRONG), code, limit, remaining, reset]);
    }
    table.write(out)
}

fn said(code: Code) -> (&'static str, Style) {
    (code.as_str_name(), if code == Code::Ok { GOOD } else { BAD })
}

fn cells(status: &DescriptorStatus) -> [(String, Style); 4] {
    let (code, style) = said(status.code());
    let (limit, remaining) = match &status.current_limit {
        Some(limit) => ((words(limit), PLAIN), (number(status.limit_remaining.into()), PLAIN)),
        // A rule that has no limit says so by the largest number there is.
        None if status.limit_remaining == u32::MAX => {
            ((String::new(), PLAIN), ("unlimited".to_owned(), PLAIN))
        }
        None => (("no rule".to_owned(), FAINT), (String::new(), PLAIN)),
    };
    let reset = status.duration_until_reset.as_ref().map(|left| format!("{}s", left.seconds));
    [(code.to_owned(), style), limit, remaining, (reset.unwrap_or_default(), PLAIN)]
}

/// `5 per minute`, and what the rule calls it.
fn words(limit: &RateLimit) -> String {
    let unit = match limit.unit() {
        // The protocol has no name for it.
        Unit::Unknown => "window",
        Unit::Second => "second",
        Unit::Minute => "minute",
        Unit::Hour => "hour",
        Unit::Day => "day",
        Unit::Week => "week",
        Unit::Month => "month",
        Unit::Year => "year",
    };
    let name = if limit.name.is_empty() { String::new() } else { format!(" ({})", limit.name) };
    format!("{} per {unit}{name}", number(limit.requests_per_unit.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(requests_per_unit: u32, unit: Unit, name: &str) -> Option<RateLimit> {
        Some(RateLimit { requests_per_unit, unit: unit.into(), name: name.to_owned() })
    }

    fn status(code: Code, current_limit: Option<RateLimit>, limit_remaining: u32) -> DescriptorStatus {
        DescriptorStatus { code: code.into(), current_limit, limit_remaining, ..DescriptorStatus::default() }
    }

    #[test]
    fn every_kind_of_status_has_its_words() {
        let mut over = status(Code::OverLimit, limit(5, Unit::Minute, "login"), 0);
        over.duration_until_reset.get_or_insert_default().seconds = 42;
        let answer = RateLimitResponse {
            overall_code: Code::OverLimit.into(),
            statuses: vec![
                over,
                status(Code::Ok, limit(1_000, Unit::Unknown, ""), 999),
                status(Code::Ok, None, 0),
                status(Code::Ok, None, u32::MAX),
            ],
            ..RateLimitResponse::default()
        };
        let descriptors = ["a=b,c=d", "e", "f", "g", "h"].map(|text| text.parse().unwrap());
        let mut out = Vec::new();
        write(&mut out, &descriptors, &answer).unwrap();
        let text = anstream::adapter::strip_str(std::str::from_utf8(&out).unwrap()).to_string();
        let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(rows[0], ["OVER_LIMIT"]);
        assert_eq!(rows[3], ["a=b,c=d", "OVER_LIMIT", "5", "per", "minute", "(login)", "0", "42s"]);
        assert_eq!(rows[4], ["e", "OK", "1,000", "per", "window", "999"]);
        assert_eq!(rows[5], ["f", "OK", "no", "rule"]);
        assert_eq!(rows[6], ["g", "OK", "unlimited"]);
        assert_eq!(rows[7], ["h", "no", "answer"]);
    }
}

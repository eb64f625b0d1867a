//! What became of many requests.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::time::Duration;

use serde::Serialize;
use tidegate_wire::grpc::protobuf::envoy::service::ratelimit::v3::RateLimitResponse;
use tidegate_wire::grpc::protobuf::envoy::service::ratelimit::v3::rate_limit_response::Code;

use super::service::Problem;
use crate::terminal::{BAD, FAINT, GOOD, STRONG, count, millis, number, safe, share};

/// Requests by how they ended.
#[derive(Debug, Default)]
pub(super) struct Tally {
    ok: u64,
    over_limit: u64,
    errors: BTreeMap<&'static str, Errors>,
    /// Of those that were answered by OK or OVER_LIMIT: an error says nothing about how long a verdict takes.
    latencies: Vec<Duration>,
}

/// Errors of one code.
#[derive(Debug, Serialize)]
struct Errors {
    count: u64,
    /// The first one's; the others rarely differ.
    message: String,
}

impl Tally {
    /// Counts a request that took so long.
    pub(super) fn add(&mut self, answer: Result<RateLimitResponse, Problem>, took: Duration) {
        match answer {
            Ok(answer) => {
                self.latencies.push(took);
                if answer.overall_code() == Code::Ok { self.ok += 1 } else { self.over_limit += 1 }
            }
            Err(problem) => {
                let errors = self.errors.entry(problem.code_name());
                errors.or_insert_with(|| Errors { count: 0, message: problem.message }).count += 1;
            }
        }
    }

    /// How many were over the limit, so far.
    pub(super) fn over_limit(&self) -> u64 {
        self.over_limit
    }

    fn requests(&self) -> u64 {
        self.ok + self.over_limit + self.errors.values().map(|errors| errors.count).sum::<u64>()
    }

    /// All there is to say after `elapsed`, if `wanted` requests were to be sent.
    pub(super) fn finish(mut self, wanted: u64, elapsed: Duration) -> Summary {
        self.latencies.sort_unstable();
        let requests = self.requests();
        let seconds = elapsed.as_secs_f64();
        Summary {
            requests,
            wanted,
            ok: self.ok,
            over_limit: self.over_limit,
            seconds: rounded(seconds),
            requests_per_second: if seconds > 0.0 { rounded(requests as f64 / seconds) } else { 0.0 },
            latency: Latency::of(&self.latencies),
            errors: self.errors,
        }
    }
}

/// The end of the matter.
#[derive(Debug, Serialize)]
pub(super) struct Summary {
    /// How many ended, in one way or another.
    requests: u64,
    wanted: u64,
    ok: u64,
    over_limit: u64,
    errors: BTreeMap<&'static str, Errors>,
    seconds: f64,
    requests_per_second: f64,
    #[serde(rename = "latency_ms")]
    latency: Option<Latency>,
}

/// How long verdicts took.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Latency {
    #[serde(serialize_with = "as_millis")]
    p50: Duration,
    #[serde(serialize_with = "as_millis")]
    p90: Duration,
    #[serde(serialize_with = "as_millis")]
    p99: Duration,
    #[serde(serialize_with = "as_millis")]
    max: Duration,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
fn as_millis<S: serde::Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(rounded(time.as_secs_f64() * 1_000.0))
}

/// To three digits, which is more than can be measured.
fn rounded(figure: f64) -> f64 {
    (figure * 1_000.0).round() / 1_000.0
}

impl Latency {
    /// `None` if there are no times; they must be in order.
    fn of(times: &[Duration]) -> Option<Self> {
        Some(Self {
            p50: percentile(times, 50)?,
            p90: percentile(times, 90)?,
            p99: percentile(times, 99)?,
            max: *times.last()?,
        })
    }
}

/// The least of `times` that `percent` of them do not exceed: one that was measured, never one in between.
fn percentile(times: &[Duration], percent: usize) -> Option<Duration> {
    let rank = (times.len() * percent).div_ceil(100);
    times.get(rank.saturating_sub(1)).copied()
}

impl Summary {
    /// Whether all that ended may go ahead, and there were any.
    pub(super) fn is_all_ok(&self) -> bool {
        self.ok > 0 && self.ok == self.requests
    }

    pub(super) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let of = if self.requests < self.wanted {
            format!("{} of {}", number(self.requests), count(self.wanted, "request"))
        } else {
            count(self.requests, "request")
        };
        let Self { seconds, requests_per_second, .. } = self;
        writeln!(out, "{STRONG}{of}{STRONG:#} in {seconds:.2} s, {requests_per_second:.1} per second")?;
        let mut lines = vec![("OK", GOOD, self.ok, ""), ("OVER_LIMIT", BAD, self.over_limit, "")];
        lines.extend(self.errors.iter().map(|(code, errors)| (*code, BAD, errors.count, &*errors.message)));
        let names = lines.iter().map(|(name, ..)| name.len()).max().unwrap_or_default();
        let width = number(self.requests).len();
        for (name, style, part, message) in lines {
            let share = share(part, self.requests);
            write!(out, "  {style}{name:<names$}{style:#}  {:>width$}  {share:>6}", number(part))?;
            if !message.is_empty() {
                write!(out, "  {FAINT}{}{FAINT:#}", safe(message))?;
            }
            writeln!(out)?;
        }
        if let Some(Latency { p50, p90, p99, max }) = &self.latency {
            let [p50, p90, p99, max] = [p50, p90, p99, max].map(|time| millis(*time));
            writeln!(out, "latency  p50 {p50}  p90 {p90}  p99 {p99}  max {max}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tonic::Status;

    use super::*;

    fn ms(time: u64) -> Duration {
        Duration::from_millis(time)
    }

    fn answer(code: Code) -> Result<RateLimitResponse, Problem> {
        Ok(RateLimitResponse { overall_code: code.into(), ..RateLimitResponse::default() })
    }

    #[test]
    fn percentiles_are_times_that_were_measured() {
        let hundred: Vec<_> = (1..=100).map(ms).collect();
        let latency =
            |p50, p90, p99, max| Some(Latency { p50: ms(p50), p90: ms(p90), p99: ms(p99), max: ms(max) });
        assert_eq!(Latency::of(&hundred), latency(50, 90, 99, 100));
        assert_eq!(Latency::of(&hundred[..10]), latency(5, 9, 10, 10));
        assert_eq!(Latency::of(&hundred[..3]), latency(2, 3, 3, 3));
        assert_eq!(Latency::of(&hundred[..1]), latency(1, 1, 1, 1));
        assert_eq!(Latency::of(&[]), None);
    }

    fn mixed() -> Summary {
        let mut tally = Tally::default();
        for time in [4, 1, 3] {
            tally.add(answer(Code::Ok), ms(time));
        }
        tally.add(answer(Code::OverLimit), ms(2));
        for message in ["first\u{1b}", "second"] {
            tally.add(Err(Status::unavailable(message).into()), ms(5_000));
        }
        tally.finish(8, ms(500))
    }

    #[test]
    fn every_request_is_counted_once() {
        let summary = serde_json::to_value(mixed()).unwrap();
        assert_eq!(
            summary,
            serde_json::json!({
                "requests": 6, "wanted": 8, "ok": 3, "over_limit": 1,
                "errors": { "UNAVAILABLE": { "count": 2, "message": "first\u{1b}" } },
                "seconds": 0.5, "requests_per_second": 12.0,
                "latency_ms": { "p50": 2.0, "p90": 4.0, "p99": 4.0, "max": 4.0 },
            })
        );
    }

    #[test]
    fn people_get_the_same_in_words() {
        let mut out = Vec::new();
        mixed().write(&mut out).unwrap();
        let text = anstream::adapter::strip_str(std::str::from_utf8(&out).unwrap()).to_string();
        let expected = "6 of 8 requests in 0.50 s, 12.0 per second\n  \
            OK           3   50.0%\n  \
            OVER_LIMIT   1   16.7%\n  \
            UNAVAILABLE  2   33.3%  first\\u{1b}\n\
            latency  p50 2.00 ms  p90 4.00 ms  p99 4.00 ms  max 4.00 ms\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn all_is_well_only_if_all_were_admitted() {
        assert!(!mixed().is_all_ok());
        assert!(!Tally::default().finish(3, ms(0)).is_all_ok(), "nothing was asked");
        let mut tally = Tally::default();
        tally.add(answer(Code::Ok), ms(1));
        assert!(tally.finish(1, ms(1)).is_all_ok());
    }
}

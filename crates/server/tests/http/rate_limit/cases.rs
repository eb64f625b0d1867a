//! What the rate limit service promises, case by case, wherever the counters are.

use super::client::{Client, ask, told};
use tonic::Code;

/// One thing that is promised.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    /// A file as Envoy's own server reads it; the domain is `d`.
    pub(crate) rules: &'static str,
    pub(crate) steps: &'static [Step],
}

/// A question and its answer.
pub(crate) enum Step {
    /// These descriptors are answered with a code, and each with its own.
    Told(u32, &'static [&'static str], &'static str, &'static [&'static str]),
    /// A question about another domain is answered so.
    Elsewhere(&'static str, &'static [&'static str], &'static str, &'static [&'static str]),
    /// A question about a domain and descriptors is an error whose text has this in it.
    Wrong(&'static str, &'static [&'static str], Code, &'static str),
}

use Step::{Elsewhere, Told, Wrong};

impl Case {
    /// Asks all questions of the case, whose domain goes by the case's own name so that cases can share a server.
    pub(crate) async fn run(&self, client: &Client) {
        for (number, step) in self.steps.iter().enumerate() {
            let what = format!("{}, step {number}", self.name);
            match step {
                Told(hits, descriptors, code, statuses) => {
                    let answer = client.ask(ask(self.name, *hits, descriptors)).await;
                    let answer = answer.unwrap_or_else(|status| panic!("{what}: {status}"));
                    let (overall, each) = told(&answer);
                    assert_eq!((overall, each.as_slice()), (*code, &*strings(statuses)), "{what}");
                }
                Elsewhere(domain, descriptors, code, statuses) => {
                    let answer = client.ask(ask(domain, 0, descriptors)).await.unwrap();
                    let (overall, each) = told(&answer);
                    assert_eq!((overall, each.as_slice()), (*code, &*strings(statuses)), "{what}");
                }
                Wrong(domain, descriptors, code, text) => {
                    let domain = if *domain == "d" { self.name } else { domain };
                    let status = client.ask(ask(domain, 0, descriptors)).await.unwrap_err();
                    assert_eq!(status.code(), *code, "{what}: {status}");
                    assert!(status.message().contains(text), "{what}: {}", status.message());
                }
            }
        }
    }

    /// The rules, in a domain of the case's own.
    pub(crate) fn rules(&self) -> String {
        self.rules.replacen("domain: d\n", &format!("domain: {}\n", self.name), 1)
    }
}

fn strings(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|&text| text.to_owned()).collect()
}

const OK: &str = "OK";
const OVER: &str = "OVER_LIMIT";

/// Every case by the name of its test.
macro_rules! cases {
    ($($name:ident: $rules:expr, [$($step:expr),+ $(,)?];)+) => {
        pub(crate) const CASES: &[Case] = &[$(Case {
            name: stringify!($name),
            rules: $rules,
            steps: &[$($step),+],
        }),+];

        mod memory {
            $(
                #[tokio::test]
                async fn $name() {
                    crate::rate_limit::in_memory(stringify!($name)).await;
                }
            )+
        }
    };
}

cases! {
    a_domain_and_descriptors_are_needed: "domain: d\ndescriptors: []\n", [
        Wrong("", &["a=1"], Code::InvalidArgument, "domain is empty"),
        Wrong("d", &[], Code::InvalidArgument, "no descriptors"),
        Wrong("d", &["=1"], Code::InvalidArgument, "no key"),
    ];
    what_no_rule_is_about_passes: "
domain: d
descriptors:
  - {key: a, value: x, rate_limit: {unit: year, requests_per_unit: 1}}
", [
        Elsewhere("unknown", &["a=x"], OK, &["OK"]),
        Told(0, &["b=1", "a=y", "a"], OK, &["OK", "OK", "OK"]),
    ];
    each_descriptor_is_answered_in_order_and_one_that_is_over_is_enough: "
domain: d
descriptors:
  - {key: a, rate_limit: {unit: year, requests_per_unit: 1}}
  - {key: b, rate_limit: {unit: year, requests_per_unit: 9}}
", [
        Told(0, &["b=1", "none=1", "a=1"], OK, &["OK 8 of 9 per YEAR", "OK", "OK 0 of 1 per YEAR"]),
        Told(0, &["b=1", "a=1", "b=2"], OVER,
            &["OK 8 of 9 per YEAR", "OVER_LIMIT 0 of 1 per YEAR", "OK 9 of 9 per YEAR"]),
        Told(0, &["b=1"], OK, &["OK 7 of 9 per YEAR"]),
    ];
    hits_are_one_unless_told_otherwise: "
domain: d
descriptors:
  - {key: a, rate_limit: {unit: year, requests_per_unit: 20}}
", [
        Told(0, &["a=1"], OK, &["OK 19 of 20 per YEAR"]),
        Told(1, &["a=1"], OK, &["OK 18 of 20 per YEAR"]),
        Told(5, &["a=1"], OK, &["OK 13 of 20 per YEAR"]),
        Told(5, &["a=1 +2", "a=2"], OK, &["OK 11 of 20 per YEAR", "OK 15 of 20 per YEAR"]),
        Told(5, &["a=1 +0"], OK, &["OK 11 of 20 per YEAR"]),
        Told(12, &["a=1"], OVER, &["OVER_LIMIT 11 of 20 per YEAR"]),
        Told(11, &["a=1"], OK, &["OK 0 of 20 per YEAR"]),
        // Whoever looks wants to know whether anything is left.
        Told(7, &["a=1 +0"], OVER, &["OVER_LIMIT 0 of 20 per YEAR"]),
        Told(u32::MAX, &["a=2 +18446744073709551615"], OVER, &["OVER_LIMIT 15 of 20 per YEAR"]),
    ];
    negative_hits_give_back_but_never_beyond_the_limit: "
domain: d
descriptors:
  - {key: a, rate_limit: {unit: year, requests_per_unit: 10}}
  - {key: b, rate_limit: {unit: year, requests_per_unit: 10, algorithm: token_bucket}}
  - {key: c, rate_limit: {unit: year, requests_per_unit: 10, algorithm: sliding_window}}
  - {key: l, rate_limit: {unit: year, requests_per_unit: 10, algorithm: sliding_log}}
", [
        Told(6, &["a=1", "b=1", "c=1", "l=1"], OK, &[
            "OK 4 of 10 per YEAR", "OK 4 of 10 per YEAR", "OK 4 of 10 per YEAR", "OK 4 of 10 per YEAR"]),
        Told(0, &["a=1 -2", "b=1 -2", "c=1 -2", "l=1 -2"], OK, &[
            "OK 6 of 10 per YEAR", "OK 6 of 10 per YEAR", "OK 6 of 10 per YEAR", "OK 6 of 10 per YEAR"]),
        Told(0, &["a=1 -99", "b=1 -99", "c=1 -99", "l=1 -99"], OK, &[
            "OK 10 of 10 per YEAR", "OK 10 of 10 per YEAR", "OK 10 of 10 per YEAR", "OK 10 of 10 per YEAR"]),
        Told(0, &["a=2 -1"], OK, &["OK 10 of 10 per YEAR"]),
        Told(11, &["a=1"], OVER, &["OVER_LIMIT 10 of 10 per YEAR"]),
    ];
    a_limit_that_comes_along_wins: "
domain: d
descriptors:
  - {key: a, rate_limit: {unit: year, requests_per_unit: 1}}
", [
        Told(0, &["a=1 @3/YEAR"], OK, &["OK 2 of 3 per YEAR"]),
        Told(0, &["a=1 @3/YEAR"], OK, &["OK 1 of 3 per YEAR"]),
        Told(0, &["a=1"], OK, &["OK 0 of 1 per YEAR"]),
        Told(0, &["a=1 @3/YEAR", "a=1 @5/MONTH"], OK, &["OK 0 of 3 per YEAR", "OK 4 of 5 per MONTH"]),
        Told(0, &["z=1 @3/YEAR"], OK, &["OK 2 of 3 per YEAR"]),
        Told(0, &["a=1 @3/YEAR"], OVER, &["OVER_LIMIT 0 of 3 per YEAR"]),
        Told(0, &["a=1 @4294967295/YEAR"], OK, &["OK 4294967291 of 4294967295 per YEAR"]),
        Wrong("d", &["a=1 @3/UNKNOWN"], Code::InvalidArgument, "unit"),
        Elsewhere("unknown", &["a=1 @0/YEAR"], OK, &["OK"]),
    ];
    the_most_specific_rule_of_the_same_depth_counts: "
domain: d
descriptors:
  - {key: k, value: ab*, rate_limit: {unit: year, requests_per_unit: 11}}
  - {key: k, value: a*, rate_limit: {unit: year, requests_per_unit: 12}}
  - {key: k, value: abc, rate_limit: {unit: year, requests_per_unit: 13}}
  - {key: k, rate_limit: {unit: year, requests_per_unit: 14}}
  - key: path
    value: /login
    descriptors:
      - {key: user, rate_limit: {unit: year, requests_per_unit: 15}}
      - {key: user, value: root}
  - {key: mid, value: /api*v1, rate_limit: {unit: year, requests_per_unit: 16}}
", [
        Told(0, &["k=abc"], OK, &["OK 12 of 13 per YEAR"]),
        Told(0, &["k=abd"], OK, &["OK 10 of 11 per YEAR"]),
        Told(0, &["k=ax"], OK, &["OK 11 of 12 per YEAR"]),
        Told(0, &["k=x"], OK, &["OK 13 of 14 per YEAR"]),
        Told(0, &["k=Abc"], OK, &["OK 13 of 14 per YEAR"]),
        Told(0, &["K=abc"], OK, &["OK"]),
        Told(0, &["path=/login"], OK, &["OK"]),
        Told(0, &["path=/login, user=alice"], OK, &["OK 14 of 15 per YEAR"]),
        Told(0, &["path=/login, user=alice, x=1"], OK, &["OK"]),
        Told(0, &["path=/login, user=root"], OK, &["OK unlimited"]),
        Told(0, &["path=/other, user=alice"], OK, &["OK"]),
        Told(0, &["mid=/api/x/v1"], OK, &["OK 15 of 16 per YEAR"]),
        Told(0, &["mid=/api/x/v2"], OK, &["OK"]),
    ];
    each_open_value_has_its_own_counter_unless_they_share: "
domain: d
descriptors:
  - {key: a, rate_limit: {unit: year, requests_per_unit: 5}}
  - {key: f, value: files/*, rate_limit: {unit: year, requests_per_unit: 5}}
  - {key: s, value: files/*, share_threshold: true, rate_limit: {unit: year, requests_per_unit: 5}}
", [
        Told(0, &["a=1", "f=files/1", "s=files/1"], OK,
            &["OK 4 of 5 per YEAR", "OK 4 of 5 per YEAR", "OK 4 of 5 per YEAR"]),
        Told(0, &["a=2", "f=files/2", "s=files/2"], OK,
            &["OK 4 of 5 per YEAR", "OK 4 of 5 per YEAR", "OK 3 of 5 per YEAR"]),
    ];
    unlimited_is_no_end: "
domain: d
descriptors:
  - {key: a, value: vip, rate_limit: {unlimited: true}}
  - {key: a, rate_limit: {unit: year, requests_per_unit: 0}}
", [
        Told(0, &["a=vip"], OK, &["OK unlimited"]),
        Told(u32::MAX, &["a=vip"], OK, &["OK unlimited"]),
        Told(0, &["a=other"], OVER, &["OVER_LIMIT 0 of 0 per YEAR"]),
    ];
    a_shadow_says_ok_and_holds_up_nobody: "
domain: d
descriptors:
  - {key: s, shadow_mode: true, rate_limit: {unit: year, requests_per_unit: 1}}
  - {key: a, rate_limit: {unit: year, requests_per_unit: 5}}
", [
        Told(0, &["s=1", "a=1"], OK, &["OK 0 of 1 per YEAR", "OK 4 of 5 per YEAR"]),
        Told(0, &["s=1", "a=1"], OK, &["OK 0 of 1 per YEAR", "OK 3 of 5 per YEAR"]),
    ];
    a_quota_says_that_it_is_exceeded_and_refuses_nobody: "
domain: d
descriptors:
  - {key: q, quota_mode: true, rate_limit: {unit: year, requests_per_unit: 1}}
  - {key: a, rate_limit: {unit: year, requests_per_unit: 2}}
", [
        Told(0, &["q=1", "a=1"], OK, &["OK 0 of 1 per YEAR", "OK 1 of 2 per YEAR"]),
        Told(0, &["q=1", "a=1"], OK, &["OVER_LIMIT 0 of 1 per YEAR", "OK 0 of 2 per YEAR"]),
        Told(0, &["q=2", "a=1"], OVER, &["OK 1 of 1 per YEAR", "OVER_LIMIT 0 of 2 per YEAR"]),
    ];
    a_rule_that_is_replaced_is_left_alone: "
domain: d
descriptors:
  - {key: wide, rate_limit: {name: reads, unit: year, requests_per_unit: 5}}
  - {key: narrow, rate_limit: {name: one, unit: year, requests_per_unit: 9, replaces: [{name: reads}]}}
", [
        Told(0, &["wide=1"], OK, &["OK 4 of 5 per YEAR (reads)"]),
        Told(0, &["wide=1", "narrow=1"], OK, &["OK", "OK 8 of 9 per YEAR (one)"]),
        Told(0, &["wide=1"], OK, &["OK 3 of 5 per YEAR (reads)"]),
    ];
    a_refused_request_charges_nothing: "
domain: d
descriptors:
  - {key: a, rate_limit: {unit: year, requests_per_unit: 9}}
  - {key: b, rate_limit: {unit: year, requests_per_unit: 1}}
", [
        Told(0, &["a=1", "b=1"], OK, &["OK 8 of 9 per YEAR", "OK 0 of 1 per YEAR"]),
        Told(0, &["a=1", "b=1"], OVER, &["OK 8 of 9 per YEAR", "OVER_LIMIT 0 of 1 per YEAR"]),
        Told(0, &["a=1"], OK, &["OK 7 of 9 per YEAR"]),
    ];
    a_refused_request_is_charged_for_where_that_is_wanted: "
domain: d
charge_refused: true
descriptors:
  - {key: a, rate_limit: {unit: year, requests_per_unit: 9}}
  - {key: b, rate_limit: {unit: year, requests_per_unit: 1}}
", [
        Told(0, &["a=1", "b=1"], OK, &["OK 8 of 9 per YEAR", "OK 0 of 1 per YEAR"]),
        Told(0, &["a=1", "b=1"], OVER, &["OK 7 of 9 per YEAR", "OVER_LIMIT 0 of 1 per YEAR"]),
        Told(0, &["a=1"], OK, &["OK 6 of 9 per YEAR"]),
        // Asking for too much leaves nothing, as it does where counters count what they refuse.
        Told(7, &["a=1"], OVER, &["OVER_LIMIT 6 of 9 per YEAR"]),
        Told(1, &["a=1"], OVER, &["OVER_LIMIT 0 of 9 per YEAR"]),
    ];
    what_is_told_afterwards_is_charged_as_far_as_it_goes: "
domain: d
descriptors:
  - {key: tokens, charge_refused: true, rate_limit: {unit: year, requests_per_unit: 1000}}
  - {key: a, rate_limit: {unit: year, requests_per_unit: 5}}
", [
        Told(0, &["a=1", "tokens=t +0"], OK, &["OK 4 of 5 per YEAR", "OK 1000 of 1000 per YEAR"]),
        Told(0, &["tokens=t +600"], OK, &["OK 400 of 1000 per YEAR"]),
        Told(0, &["a=1", "tokens=t +0"], OK, &["OK 3 of 5 per YEAR", "OK 400 of 1000 per YEAR"]),
        Told(0, &["tokens=t +600"], OVER, &["OVER_LIMIT 400 of 1000 per YEAR"]),
        Told(0, &["a=1", "tokens=t +0"], OVER, &["OK 3 of 5 per YEAR", "OVER_LIMIT 0 of 1000 per YEAR"]),
        Told(0, &["a=1"], OK, &["OK 2 of 5 per YEAR"]),
    ];
    any_window_and_any_algorithm: "
domain: d
descriptors:
  - {key: second, rate_limit: {unit: second, requests_per_unit: 4294967295}}
  - {key: minute, rate_limit: {unit: MINUTE, requests_per_unit: 4294967295}}
  - {key: hour, rate_limit: {unit: Hour, requests_per_unit: 4294967295}}
  - {key: day, rate_limit: {unit: day, requests_per_unit: 4294967295}}
  - {key: week, rate_limit: {unit: week, requests_per_unit: 4294967295}}
  - {key: month, rate_limit: {unit: month, requests_per_unit: 4294967295}}
  - {key: bucket, rate_limit: {unit: hour, requests_per_unit: 10, burst: 20, algorithm: token_bucket}}
  - {key: sliding, rate_limit: {unit: hour, requests_per_unit: 10, algorithm: sliding_window}}
  - {key: log, rate_limit: {unit: hour, requests_per_unit: 10, algorithm: sliding_log}}
  - {key: own, rate_limit: {window: 90m, requests_per_unit: 10}}
  - {key: many, rate_limit: {unit: year, unit_multiplier: 1, requests_per_unit: 10}}
", [
        Told(0, &["second=1", "minute=1", "hour=1"], OK, &[
            "OK 4294967294 of 4294967295 per SECOND", "OK 4294967294 of 4294967295 per MINUTE",
            "OK 4294967294 of 4294967295 per HOUR"]),
        Told(0, &["day=1", "week=1", "month=1"], OK, &[
            "OK 4294967294 of 4294967295 per DAY", "OK 4294967294 of 4294967295 per WEEK",
            "OK 4294967294 of 4294967295 per MONTH"]),
        Told(20, &["bucket=1"], OK, &["OK 0 of 10 per HOUR"]),
        Told(0, &["bucket=1"], OVER, &["OVER_LIMIT 0 of 10 per HOUR"]),
        Told(10, &["sliding=1", "log=1"], OK, &["OK 0 of 10 per HOUR", "OK 0 of 10 per HOUR"]),
        Told(0, &["sliding=1"], OVER, &["OVER_LIMIT 0 of 10 per HOUR"]),
        Told(0, &["log=1"], OVER, &["OVER_LIMIT 0 of 10 per HOUR"]),
        Told(0, &["own=1"], OK, &["OK 9 of 10 per UNKNOWN"]),
        Told(0, &["many=1"], OK, &["OK 9 of 10 per YEAR"]),
    ];
}

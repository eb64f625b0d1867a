//! Limits on requests in flight, as documents write them.

use std::collections::BTreeMap;

use tidegate_overload::{Headroom, LimitBounds, Share};

use super::document::{ConcurrencyEntry, TextOr};
use super::group::Wrong;
use crate::upstream::{Concurrency, ConcurrencyLimit};

/// Greatest limit that can be written.
const MAX_LIMIT: u32 = 1_000_000;

const FORMS: &str = "concurrency can be `adaptive`, a number of requests, or a mapping such as {adaptive: true, headroom: {free: 60%}}";

/// Returns the limit that an entry describes, if it describes one.
pub(super) fn concurrency(wrong: &mut Wrong, entry: &TextOr<ConcurrencyEntry>) -> Option<Concurrency> {
    match entry {
        TextOr::Text(text) => {
            let limit = match text.as_str() {
                "off" => return None,
                "adaptive" => ConcurrencyLimit::Adaptive(LimitBounds::default()),
                number => match number.parse() {
                    Ok(number) => fixed(wrong, number),
                    Err(_) => {
                        wrong.add(FORMS);
                        return None;
                    }
                },
            };
            Some(Concurrency { limit, headroom: Headroom::default() })
        }
        TextOr::Full(entry) => {
            let limit = limit(wrong, entry);
            let headroom = entry.headroom.as_ref().map(|shares| headroom(wrong, shares));
            Some(Concurrency { limit: limit?, headroom: headroom.unwrap_or_default() })
        }
    }
}

fn limit(wrong: &mut Wrong, entry: &ConcurrencyEntry) -> Option<ConcurrencyLimit> {
    match (entry.adaptive, entry.limit) {
        (true, None) => adaptive(wrong, entry),
        (false, Some(limit)) => {
            if [entry.min, entry.initial, entry.max].iter().any(Option::is_some) {
                wrong.add("concurrency: min, initial and max are for adaptive limits; leave them out or write `adaptive: true`");
            }
            Some(fixed(wrong, limit))
        }
        (true, Some(_)) => {
            wrong.add("concurrency: has both `adaptive: true` and `limit`; leave one out");
            None
        }
        (false, None) => {
            wrong.add("concurrency: has no limit; write `adaptive: true` or `limit: NUMBER`");
            None
        }
    }
}

fn fixed(wrong: &mut Wrong, limit: u64) -> ConcurrencyLimit {
    ConcurrencyLimit::Fixed(wrong.count("concurrency: limit", Some(limit), MAX_LIMIT, 1))
}

fn adaptive(wrong: &mut Wrong, entry: &ConcurrencyEntry) -> Option<ConcurrencyLimit> {
    let usual = LimitBounds::default();
    let min = wrong.count("concurrency: min", entry.min, MAX_LIMIT, usual.min()).get();
    let max = wrong.count("concurrency: max", entry.max, MAX_LIMIT, usual.max().max(min)).get();
    let initial = usual.initial().clamp(min, max.max(min));
    let initial = wrong.count("concurrency: initial", entry.initial, MAX_LIMIT, initial).get();
    let bounds = LimitBounds::new(min, initial, max).map_err(|error| format!("concurrency: {error}"));
    wrong.ok(bounds).map(ConcurrencyLimit::Adaptive)
}

fn headroom(wrong: &mut Wrong, shares: &BTreeMap<String, String>) -> Headroom {
    let mut listed = Vec::new();
    for (tier, text) in shares {
        let percent = text.trim().trim_end_matches('%').parse().ok().and_then(Share::percent);
        match percent {
            Some(share) => listed.push((tier, share)),
            None => {
                let shown: String =
                    tier.chars().take(64).chain(": ".chars()).chain(text.chars().take(32)).collect();
                wrong.add(format!(
                    "concurrency: headroom `{shown}` is no share of the limit; write 1% to 100%"
                ));
            }
        }
    }
    let headroom = Headroom::new(listed).map_err(|error| format!("concurrency: headroom: {error}"));
    wrong.ok(headroom).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::Routes;

    fn concurrency(text: &str) -> String {
        let document = format!(
            "upstreams: {{a: {{servers: 'http://127.0.0.1:1', concurrency: {text}}}}}\nroutes: [{{upstream: a}}]\n"
        );
        match Routes::read("routes.yaml", &document) {
            Ok(routes) => match routes.groups()[0].shedder() {
                None => "none".to_owned(),
                Some(shedder) => {
                    let share = |tier| shedder.class(Some(tier)).share;
                    let limit = shedder.stats().limit;
                    format!(
                        "{limit}, free {}, premium {}, gold {}",
                        share("free"),
                        share("premium"),
                        share("gold")
                    )
                }
            },
            Err(problems) => problems.to_string(),
        }
    }

    #[test]
    fn all_forms_are_read() {
        for (text, expected) in [
            ("off", "none"),
            ("adaptive", "50, free 60%, premium 100%, gold 60%"),
            ("7", "7, free 60%, premium 100%, gold 60%"),
            ("{limit: 7, headroom: {free: 10%, gold: 90}}", "7, free 10%, premium 10%, gold 90%"),
            ("{limit: 7, headroom: {free: 10%, other: 30%}}", "7, free 10%, premium 30%, gold 30%"),
            ("{limit: 7, headroom: {}}", "7, free 100%, premium 100%, gold 100%"),
            ("{adaptive: true, min: 60}", "60, free 60%, premium 100%, gold 60%"),
            ("{adaptive: true, max: 20}", "20, free 60%, premium 100%, gold 60%"),
            ("{adaptive: true, initial: 70, max: 80}", "70, free 60%, premium 100%, gold 60%"),
        ] {
            assert_eq!(concurrency(text), expected, "{text}");
        }
    }

    #[test]
    fn mistakes_are_told_with_what_to_write() {
        for (text, expected) in [
            ("on", "concurrency can be `adaptive`"),
            ("-1", "concurrency can be `adaptive`"),
            ("0", "concurrency: limit 0 is out of range; it can be 1 to 1000000"),
            ("{}", "has no limit; write `adaptive: true` or `limit: NUMBER`"),
            ("{adaptive: true, limit: 3}", "has both `adaptive: true` and `limit`"),
            ("{limit: 3, max: 4}", "min, initial and max are for adaptive limits"),
            ("{adaptive: true, min: 5, initial: 4}", "out of order: 5 (min), 4 (initial), 10000 (max)"),
            (
                "{adaptive: true, headroom: {free: 101%}}",
                "headroom `free: 101%` is no share of the limit; write 1% to 100%",
            ),
            ("{adaptive: true, headroom: {free: 0}}", "is no share"),
            ("{adaptive: true, headroom: {free: half}}", "is no share"),
            ("{adaptive: true, headroom: {free: 1%, FREE: 2%}}", "twice"),
            ("{adaptve: true}", "adaptve"),
        ] {
            let told = concurrency(text);
            assert!(told.contains(expected), "{text}: {told}");
        }
    }
}

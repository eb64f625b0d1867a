//! Limit, window, burst and algorithm to a quota.

use tidegate_core::quota::QuotaError;
use tidegate_core::{Algorithm, Quota, Span};

use crate::fields::Fields;
use crate::names::{ALGORITHMS, DEFAULT_ALGORITHM};
use crate::problem::quoted;
use crate::reader::Reader;
use crate::text::{Place, Placed};

/// The keys that state figures.
pub(crate) const KEYS: [&str; 6] =
    ["limit", "window", "window_size_seconds", "hold_for", "burst", "algorithm"];

/// Longest time for which a request counts as in flight, unless a rule states another.
const DEFAULT_HOLD_FOR: Span = Span::from_secs(60);

/// What counts where figures are left out.
#[derive(Clone, Copy)]
pub(crate) enum Base {
    /// Nothing: limit and window must be given.
    None,
    /// Window and algorithm of this quota.
    Quota(Quota),
    /// Cannot be told, because what it would be is itself wrong.
    Unknown,
}

impl Base {
    fn algorithm(self) -> Algorithm {
        match self {
            Self::Quota(quota) => quota.algorithm(),
            Self::None | Self::Unknown => DEFAULT_ALGORITHM,
        }
    }

    /// The window, which for requests in flight is something else than for all others.
    fn window(self, algorithm: Algorithm) -> Option<Span> {
        let is_alike = |quota: &Quota| is_in_flight(quota.algorithm()) == is_in_flight(algorithm);
        match self {
            Self::Quota(quota) => Some(quota).filter(is_alike).map(|quota| quota.window()),
            Self::None | Self::Unknown => None,
        }
    }
}

/// Returns true if a limit counts what is there at once, and not per window.
pub(crate) fn is_in_flight(algorithm: Algorithm) -> bool {
    algorithm == Algorithm::InFlight
}

/// Figures as given: readable ones only.
struct Figures {
    limit: Option<Placed<u64>>,
    window: Option<Placed<Span>>,
    hold_for: Option<Placed<Span>>,
    burst: Option<Placed<u64>>,
    algorithm: Option<Algorithm>,
}

/// The quota that `fields` state with `limit`; `what` they belong to is named where something is missing.
pub(crate) fn quota(
    reader: &mut Reader<'_>,
    fields: &Fields<'_, '_>,
    what: &str,
    base: Base,
) -> Option<Quota> {
    quota_by(reader, fields, "limit", what, base)
}

/// The same with another key for the limit.
pub(crate) fn quota_by(
    reader: &mut Reader<'_>,
    fields: &Fields<'_, '_>,
    key: &str,
    what: &str,
    base: Base,
) -> Option<Quota> {
    let given = read(reader, fields, key);
    let lacks_window = fields.lacks("window") && fields.lacks("window_size_seconds");
    let algorithm = given.algorithm.unwrap_or(base.algorithm());
    let is_clear = given.algorithm.is_some() || !fields.has("algorithm");
    if fields.lacks(key) {
        let hint = match is_in_flight(algorithm) {
            true => "say how many requests at once, such as `limit: 20`",
            false => "say how much per window, such as `limit: 100`",
        };
        reader.problem(fields.at, format!("{what} has no `limit`; {hint} (0 blocks)"));
    }
    if is_clear && is_in_flight(algorithm) {
        return quota_in_flight(reader, fields, &given, base);
    }
    if !is_clear && fields.has("hold_for") {
        // Its author had something in mind that needs no window.
        return None;
    }
    let is_known = is_clear && (given.algorithm.is_some() || !matches!(base, Base::Unknown));
    if let Some(at) = fields.key_at("hold_for").filter(|_| is_known) {
        let counted = quoted(algorithm.name());
        let hint = "remove it or change the algorithm";
        reader.problem(at, format!("`hold_for` is for `in_flight`, and this counts by {counted}; {hint}"));
        return None;
    }
    if lacks_window && base.window(algorithm).is_none() && !matches!(base, Base::Unknown) {
        let message = format!("{what} has no `window`; say for how long the limit is, such as `window: 60s`");
        reader.problem(fields.at, message);
    }
    if !is_clear {
        return None;
    }
    let limit = given.limit?;
    let window = match given.window {
        Some(window) => window,
        None if lacks_window => Placed { at: fields.at, value: base.window(algorithm)? },
        None => return None,
    };
    build(reader, algorithm, &limit, &window, given.burst.as_ref())
}

/// The quota of a limit on requests in flight.
fn quota_in_flight(
    reader: &mut Reader<'_>,
    fields: &Fields<'_, '_>,
    given: &Figures,
    base: Base,
) -> Option<Quota> {
    let hold_for = "say how long a request may be in flight at most, such as `hold_for: 60s`";
    let limit = "its limit is how many requests there are at once";
    let mut is_sound = true;
    for (key, hint) in [("window", hold_for), ("window_size_seconds", hold_for), ("burst", limit)] {
        if let Some(at) = fields.key_at(key) {
            reader.problem(at, format!("`in_flight` has no `{key}`; remove it: {hint}"));
            is_sound = false;
        }
    }
    let default = || base.window(Algorithm::InFlight).unwrap_or(DEFAULT_HOLD_FOR);
    let hold_for = match &given.hold_for {
        Some(span) => Placed { at: span.at, value: span.value },
        None if fields.lacks("hold_for") => Placed { at: fields.at, value: default() },
        None => return None,
    };
    let limit = given.limit.as_ref().filter(|_| is_sound)?;
    build(reader, Algorithm::InFlight, limit, &hold_for, None)
}

/// Looks at the figures one by one, where it is unclear whether they are wanted at all.
pub(crate) fn check(reader: &mut Reader<'_>, fields: &Fields<'_, '_>) {
    read(reader, fields, "limit");
}

fn read(reader: &mut Reader<'_>, fields: &Fields<'_, '_>, key: &str) -> Figures {
    let limit = whole(reader, fields, key, "0 blocks; for no limit, leave the rule out");
    let burst = whole(reader, fields, "burst", "");
    let window = window(reader, fields);
    let algorithm = fields.read("algorithm", |key, node| reader.named(key, node, &ALGORITHMS));
    let hold_for =
        fields.read("hold_for", |key, node| Some(Placed { at: node.at, value: reader.duration(key, node)? }));
    Figures { limit, window, hold_for, burst, algorithm }
}

pub(crate) fn whole(
    reader: &mut Reader<'_>,
    fields: &Fields<'_, '_>,
    key: &str,
    hint: &str,
) -> Option<Placed<u64>> {
    fields.read(key, |key, node| Some(Placed { at: node.at, value: reader.whole(key, node, hint)? }))
}

fn window(reader: &mut Reader<'_>, fields: &Fields<'_, '_>) -> Option<Placed<Span>> {
    let span =
        fields.read("window", |key, node| Some(Placed { at: node.at, value: reader.duration(key, node)? }));
    let seconds = whole(
        reader,
        fields,
        "window_size_seconds",
        "for anything but whole seconds use `window`, such as `window: 500ms`",
    );
    if let (Some(_), Some(at)) = (fields.key_at("window"), fields.key_at("window_size_seconds")) {
        reader.problem(at, "`window` is given as well; remove one of the two");
    }
    span.or(seconds.map(|seconds| Placed { at: seconds.at, value: Span::from_secs(seconds.value) }))
}

/// The quota of these figures; reports what is wrong with them together.
pub(crate) fn build(
    reader: &mut Reader<'_>,
    algorithm: Algorithm,
    limit: &Placed<u64>,
    window: &Placed<Span>,
    burst: Option<&Placed<u64>>,
) -> Option<Quota> {
    let quota = match burst {
        Some(burst) if algorithm == Algorithm::TokenBucket => {
            Quota::token_bucket(limit.value, window.value, burst.value)
        }
        // A burst that equals the limit is what every other algorithm has anyway.
        Some(burst) if burst.value != limit.value => {
            let counted = quoted(algorithm.name());
            let message = format!(
                "`burst` is for `token_bucket`, and this counts by {counted}; remove it or change the algorithm"
            );
            reader.problem(burst.at, message);
            return None;
        }
        _ => Quota::new(algorithm, limit.value, window.value),
    };
    quota.map_err(|error| reader.problem(place_of(&error, limit, window, burst), error.to_string())).ok()
}

/// Which of the figures an error is about.
fn place_of(
    error: &QuotaError,
    limit: &Placed<u64>,
    window: &Placed<Span>,
    burst: Option<&Placed<u64>>,
) -> Place {
    match (error, burst) {
        (QuotaError::Window(_) | QuotaError::HoldFor(_), _) => window.at,
        (QuotaError::Units { .. }, Some(burst)) if burst.value > limit.value => burst.at,
        (QuotaError::Units { .. } | QuotaError::LogLimit(_) | QuotaError::InFlightLimit(_), _) => limit.at,
    }
}

//! The counters against worked examples, and against a reference that keeps a list of all that was ever admitted.

use proptest::prelude::*;
use serde::Deserialize;

use super::*;
use crate::quota::Algorithm;

/// Runs one step on whichever counter the quota asks for.
#[derive(Clone)]
enum Any {
    TokenBucket(TokenBucket),
    FixedWindow(FixedWindow),
    SlidingWindow(SlidingWindow),
    SlidingLog(SlidingLog),
    InFlight(InFlight),
}

impl Any {
    fn new(algorithm: Algorithm) -> Self {
        match algorithm {
            Algorithm::TokenBucket => Self::TokenBucket(TokenBucket::default()),
            Algorithm::FixedWindow => Self::FixedWindow(FixedWindow::default()),
            Algorithm::SlidingWindow => Self::SlidingWindow(SlidingWindow::default()),
            Algorithm::SlidingLog => Self::SlidingLog(SlidingLog::default()),
            Algorithm::InFlight => Self::InFlight(InFlight::default()),
        }
    }

    fn step(&mut self, quota: &Quota, cost: u64, now: Timestamp) -> Verdict {
        match self {
            Self::TokenBucket(counter) => step(counter, quota, cost, now),
            Self::FixedWindow(counter) => step(counter, quota, cost, now),
            Self::SlidingWindow(counter) => step(counter, quota, cost, now),
            Self::SlidingLog(counter) => step(counter, quota, cost, now),
            Self::InFlight(counter) => step(counter, quota, cost, now),
        }
    }

    fn is_at_rest(&self, quota: &Quota, now: Timestamp) -> bool {
        match self {
            Self::TokenBucket(counter) => counter.is_at_rest(quota, now),
            Self::FixedWindow(counter) => counter.is_at_rest(quota, now),
            Self::SlidingWindow(counter) => counter.is_at_rest(quota, now),
            Self::SlidingLog(counter) => counter.is_at_rest(quota, now),
            Self::InFlight(counter) => counter.is_at_rest(quota, now),
        }
    }
}

#[derive(Deserialize)]
struct Case {
    name: String,
    algorithm: String,
    limit: u64,
    window_ms: u64,
    burst: u64,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
struct Step {
    at_ms: u64,
    cost: u64,
    allowed: bool,
    remaining: u64,
    retry_after_ms: u64,
}

#[test]
fn the_worked_examples_hold() {
    let cases: Vec<Case> = serde_json::from_str(include_str!("../../tests/vectors/algorithms.json")).unwrap();
    assert!(cases.len() > 50);
    for case in cases {
        let window = Span::from_millis(case.window_ms);
        let quota = match case.algorithm.parse().unwrap() {
            Algorithm::TokenBucket => Quota::token_bucket(case.limit, window, case.burst),
            other => Quota::new(other, case.limit, window),
        };
        let quota = quota.unwrap();
        let mut counter = Any::new(quota.algorithm());
        for (number, wanted) in case.steps.iter().enumerate() {
            let verdict = counter.step(&quota, wanted.cost, Timestamp::from_millis(wanted.at_ms));
            let retry = match verdict.retry {
                Retry::Now => 0,
                Retry::After(span) => span.as_millis(),
                Retry::Never => panic!("{}, step {number}: never", case.name),
            };
            let got = (verdict.allowed, verdict.remaining, retry);
            assert_eq!(
                got,
                (wanted.allowed, wanted.remaining, wanted.retry_after_ms),
                "{}, step {number}",
                case.name
            );
        }
    }
}

/// Everything ever admitted, and each algorithm's definition applied to that list. Slow and obviously right.
struct Reference {
    quota: Quota,
    admitted: Vec<(u64, u64)>,
    last: u64,
}

impl Reference {
    fn new(quota: Quota) -> Self {
        Self { quota, admitted: Vec::new(), last: 0 }
    }

    /// Moves the reference's time to where the clock says `now` means.
    fn set_time(&mut self, now: u64) {
        if self.last > now + MAX_AHEAD.as_millis() {
            self.rebase(now);
            self.last = now;
        }
        self.last = self.last.max(now);
    }

    /// What counted at the last time seen counts at `now` instead.
    fn rebase(&mut self, now: u64) {
        let (window, last) = (self.quota.window().as_millis(), self.last);
        let windowed = matches!(self.quota.algorithm(), Algorithm::FixedWindow | Algorithm::SlidingWindow);
        for (at, _) in &mut self.admitted {
            *at = match (windowed, last / window - *at / window) {
                (false, _) => at.saturating_sub(last - now),
                (true, windows) => now.saturating_sub(windows * window),
            };
        }
    }

    /// Whether `cost` fits at `at`, by the algorithm's definition.
    fn admits(&self, cost: u64, at: u64) -> bool {
        let (limit, window) = (u128::from(self.quota.limit()), u128::from(self.quota.window().as_millis()));
        let (capacity, at, cost) =
            (u128::from(self.quota.capacity()), u128::from(at.max(self.last)), u128::from(cost));
        let admitted = || self.admitted.iter().map(|&(at, cost)| (u128::from(at), u128::from(cost)));
        let sum = |wanted: &dyn Fn(u128) -> bool| {
            admitted().filter(|&(t, _)| wanted(t)).map(|(_, c)| c).sum::<u128>()
        };
        limit > 0
            && match self.quota.algorithm() {
                // Since any moment, no more than a full bucket and what has flowed in since.
                Algorithm::TokenBucket => admitted().map(|(t, _)| t).chain([at]).all(|start| {
                    (sum(&|t| t >= start) + cost) * window <= capacity * window + limit * (at - start)
                }),
                Algorithm::FixedWindow => sum(&|t| t / window == at / window) + cost <= limit,
                Algorithm::SlidingWindow => {
                    let (current, previous) =
                        (sum(&|t| t / window == at / window), sum(&|t| t / window + 1 == at / window));
                    previous * (window - at % window) + (current + cost) * window <= limit * window
                }
                Algorithm::SlidingLog => sum(&|t| t + window > at) + cost <= limit,
                // As long as nothing is given back.
                Algorithm::InFlight => sum(&|_| true) + cost <= limit,
            }
    }
}

fn quotas() -> impl Strategy<Value = Quota> {
    quotas_of(&Algorithm::ALL)
}

fn quotas_of(algorithms: &[Algorithm]) -> impl Strategy<Value = Quota> + use<> {
    let windows = prop::sample::select(vec![1u64, 7, 10, 100, 1_000, 60_000]);
    (prop::sample::select(algorithms.to_vec()), 0u64..20, windows, 0u64..40).prop_map(
        |(algorithm, limit, window, burst)| {
            let window = Span::from_millis(window);
            match algorithm {
                Algorithm::TokenBucket => Quota::token_bucket(limit, window, burst),
                other => Quota::new(other, limit, window),
            }
            .unwrap()
        },
    )
}

/// Steps of time (also backwards, a little and a lot) and costs (also 0, also more than fits).
fn histories() -> impl Strategy<Value = Vec<(i64, u64)>> {
    let moves = prop_oneof![
        6 => 0i64..50,
        3 => 0i64..2_000,
        1 => 0i64..200_000,
        1 => -9_000i64..0,
        1 => -80_000i64..-10_000,
    ];
    prop::collection::vec((moves, prop_oneof![4 => Just(1u64), 2 => 0u64..5, 1 => 0u64..50]), 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_500))]

    #[test]
    fn counters_do_what_they_say(quota in quotas_of(&Algorithm::REFILLING), history in histories()) {
        let mut counter = Any::new(quota.algorithm());
        let mut reference = Reference::new(quota);
        let mut now = 1_704_067_200_000u64;
        for (step, cost) in history {
            now = now.saturating_add_signed(step);
            reference.set_time(now);
            let at = Timestamp::from_millis(now);
            let allowed = cost == 0 && quota.limit() > 0 || reference.admits(cost, now);
            let verdict = counter.step(&quota, cost, at);
            prop_assert_eq!(verdict.allowed, allowed);
            if allowed && cost > 0 {
                reference.admitted.push((reference.last, cost));
            }
            check_remaining(&reference, &verdict, now)?;
            check_retry(&reference, &verdict, cost, now)?;
            if quota.limit() > 0 {
                check_reset(&counter, &reference, &verdict, now)?;
            }
        }
    }

    /// What there is room for is what could be had by trying: also when rules have changed to other figures.
    #[test]
    fn room_is_the_most_that_fits(quota in quotas(), other in quotas(), history in histories(), part in 0u64..50) {
        let mut counter = Any::new(quota.algorithm());
        let mut now = 1_704_067_200_000u64;
        for (step, cost) in history {
            now = now.saturating_add_signed(step);
            counter.step(&quota, cost, Timestamp::from_millis(now));
        }
        match &mut counter {
            Any::TokenBucket(counter) => check_room(counter, &quota, &other, part)?,
            Any::FixedWindow(counter) => check_room(counter, &quota, &other, part)?,
            Any::SlidingWindow(counter) => check_room(counter, &quota, &other, part)?,
            Any::SlidingLog(counter) => check_room(counter, &quota, &other, part)?,
            Any::InFlight(counter) => check_room(counter, &quota, &other, part)?,
        }
    }

    /// There is never more in flight than the limit, whatever the clock does, and all that is given back can be had again.
    #[test]
    fn no_more_is_in_flight_than_the_limit(
        quota in quotas_of(&[Algorithm::InFlight]),
        events in prop::collection::vec((-20_000i64..90_000, 1u64..4, any::<prop::sample::Index>(), any::<bool>()), 1..80),
    ) {
        let mut counter = InFlight::default();
        let mut open: Vec<u64> = Vec::new();
        let mut now = 1_704_067_200_000u64;
        for (step, cost, which, ends) in events {
            now = now.saturating_add_signed(step);
            let at = Timestamp::from_millis(now);
            if ends && !open.is_empty() {
                let cost = open.swap_remove(which.index(open.len()));
                counter.advance(&quota, at);
                counter.credit(&quota, cost, Timestamp::EPOCH);
            } else {
                let fits = open.iter().sum::<u64>() + cost <= quota.limit() && quota.limit() > 0;
                let verdict = super::step(&mut counter, &quota, cost, at);
                prop_assert_eq!(verdict.allowed, fits);
                let retry = match (fits, cost <= quota.capacity()) {
                    (true, _) => Retry::Now,
                    (false, true) => Retry::After(Span::from_secs(1)),
                    (false, false) => Retry::Never,
                };
                prop_assert_eq!(verdict.retry, retry);
                if fits {
                    open.push(cost);
                }
            }
            let used = open.iter().sum::<u64>();
            let verdict = counter.look(&quota, 0, at);
            prop_assert_eq!(verdict.remaining, quota.limit() - used);
            let reset = if used == 0 { Span::ZERO } else { quota.window() };
            prop_assert_eq!(verdict.reset_after, reset);
            prop_assert_eq!(counter.is_at_rest(&quota, at), used == 0);
        }
    }

    /// However a counter is squeezed, it never admits more than the exact one would.
    #[test]
    fn a_squeezed_log_errs_towards_refusing(limit in 1u64..20, history in histories()) {
        let quota = Quota::new(Algorithm::SlidingLog, limit, Span::from_millis(1_000)).unwrap();
        let mut log = SlidingLog::default();
        let mut reference = Reference::new(quota);
        let mut now = 1_704_067_200_000u64;
        for (step, cost) in history {
            now = now.saturating_add_signed(step);
            reference.set_time(now);
            if super::step(&mut log, &quota, cost, Timestamp::from_millis(now)).allowed && cost > 0 {
                prop_assert!(reference.admits(cost, now));
                reference.admitted.push((reference.last, cost));
            }
            log.squeeze();
            prop_assert!(log.entries() <= 60);
        }
    }

    /// Giving back never leaves more than if it had never been taken, and never less than if it had been kept.
    #[test]
    fn a_credit_is_no_gift(quota in quotas(), before in histories(), cost in 1u64..5, wait in 0u64..3_000) {
        let quota = if quota.is_blocked() { return Ok(()) } else { quota };
        let mut now = 1_704_067_200_000u64;
        let mut without = Any::new(quota.algorithm());
        for (step, cost) in before {
            now = now.saturating_add_signed(step.max(0));
            without.step(&quota, cost, Timestamp::from_millis(now));
        }
        let mut kept = without.clone();
        let since = Timestamp::from_millis(now);
        if !kept.step(&quota, cost, since).allowed {
            return Ok(());
        }
        let mut credited = kept.clone();
        let later = since + Span::from_millis(wait);
        let remaining = |counter: &mut Any| counter.step(&quota, 0, later).remaining;
        let (without, kept) = (remaining(&mut without), remaining(&mut kept));
        remaining(&mut credited);
        match &mut credited {
            Any::TokenBucket(counter) => counter.credit(&quota, cost, since),
            Any::FixedWindow(counter) => counter.credit(&quota, cost, since),
            Any::SlidingWindow(counter) => counter.credit(&quota, cost, since),
            Any::SlidingLog(counter) => counter.credit(&quota, cost, since),
            Any::InFlight(counter) => counter.credit(&quota, cost, since),
        }
        let credited = remaining(&mut credited);
        prop_assert!(kept <= credited && credited <= without, "{kept} ≤ {credited} ≤ {without}");
    }
}

/// Holds the room of a counter against every cost, as it is, after a part of it is taken, and after `other` reshapes it.
fn check_room<C: Counter>(
    counter: &mut C,
    quota: &Quota,
    other: &Quota,
    part: u64,
) -> Result<(), TestCaseError> {
    let by_trying = |counter: &C, quota: &Quota| {
        (0..=quota.capacity() + 1).filter(|&cost| counter.fits(quota, cost)).max().unwrap_or_default()
    };
    let room = counter.room(quota);
    prop_assert_eq!(room, by_trying(counter, quota));
    if room > 0 {
        counter.charge(quota, part.min(room));
        prop_assert_eq!(counter.room(quota), room - part.min(room));
    }
    if other.algorithm() == quota.algorithm() && !quota.is_blocked() && !other.is_blocked() {
        counter.rescale(quota, other);
        counter.advance(other, counter.at());
        prop_assert_eq!(counter.room(other), by_trying(counter, other));
    }
    Ok(())
}

fn check_remaining(reference: &Reference, verdict: &Verdict, now: u64) -> Result<(), TestCaseError> {
    let capacity = reference.quota.capacity();
    prop_assert!(verdict.remaining <= capacity);
    prop_assert!(verdict.remaining == 0 || reference.admits(verdict.remaining, now));
    prop_assert!(verdict.remaining == capacity || !reference.admits(verdict.remaining + 1, now));
    Ok(())
}

fn check_retry(reference: &Reference, verdict: &Verdict, cost: u64, now: u64) -> Result<(), TestCaseError> {
    match verdict.retry {
        Retry::Now => prop_assert!(verdict.allowed),
        Retry::Never => prop_assert!(cost > reference.quota.capacity() || reference.quota.limit() == 0),
        Retry::After(span) => {
            let wait = span.as_millis();
            prop_assert!(!verdict.allowed && wait > 0);
            prop_assert!(reference.admits(cost, now + wait), "not allowed after {wait} ms");
            prop_assert!(!reference.admits(cost, now + wait - 1), "allowed before {wait} ms");
        }
    }
    Ok(())
}

fn check_reset(
    counter: &Any,
    reference: &Reference,
    verdict: &Verdict,
    now: u64,
) -> Result<(), TestCaseError> {
    let (quota, reset) = (&reference.quota, verdict.reset_after.as_millis());
    prop_assert!(counter.is_at_rest(quota, Timestamp::from_millis(now + reset)));
    prop_assert!(reference.admits(quota.capacity(), now + reset));
    prop_assert!(reset == 0 || !counter.is_at_rest(quota, Timestamp::from_millis(now + reset - 1)));
    Ok(())
}

#[test]
fn rescaling_keeps_what_was_consumed() {
    let at = Timestamp::from_millis(1_704_067_200_000);
    let quota = |algorithm, limit, seconds| Quota::new(algorithm, limit, Span::from_secs(seconds)).unwrap();
    let remaining =
        |algorithm, (limit, seconds): (u64, u64), (new_limit, new_seconds): (u64, u64), used: u64| {
            let (from, to) = (quota(algorithm, limit, seconds), quota(algorithm, new_limit, new_seconds));
            let mut counter = Any::new(algorithm);
            assert!(counter.step(&from, used, at).allowed);
            match &mut counter {
                Any::TokenBucket(counter) => counter.rescale(&from, &to),
                Any::FixedWindow(counter) => counter.rescale(&from, &to),
                Any::SlidingWindow(counter) => counter.rescale(&from, &to),
                Any::SlidingLog(counter) => counter.rescale(&from, &to),
                Any::InFlight(counter) => counter.rescale(&from, &to),
            }
            counter.step(&to, 0, at).remaining
        };
    // A bucket stays as full as it was; debt is rounded up.
    assert_eq!(remaining(Algorithm::TokenBucket, (100, 60), (10, 60), 50), 5);
    assert_eq!(remaining(Algorithm::TokenBucket, (100, 60), (10, 1), 51), 4);
    assert_eq!(remaining(Algorithm::TokenBucket, (10, 60), (100, 60), 10), 0);
    // Counts stay, whatever the limit and the window become.
    for algorithm in
        [Algorithm::FixedWindow, Algorithm::SlidingWindow, Algorithm::SlidingLog, Algorithm::InFlight]
    {
        assert_eq!(remaining(algorithm, (100, 60), (80, 60), 50), 30, "{algorithm}");
        assert_eq!(remaining(algorithm, (100, 60), (40, 60), 50), 0, "{algorithm}");
        assert_eq!(remaining(algorithm, (100, 60), (80, 3_600), 50), 30, "{algorithm}");
    }
}

#[test]
fn a_credit_is_what_waiting_has_not_given_back_already() {
    let start = Timestamp::from_millis(1_704_067_200_000);
    let left = |algorithm, credit_after: u64| {
        let quota = Quota::new(algorithm, 10, Span::from_secs(10)).unwrap();
        let mut counter = Any::new(algorithm);
        assert!(counter.step(&quota, 6, start).allowed && counter.step(&quota, 4, start).allowed);
        let later = start + Span::from_secs(credit_after);
        counter.step(&quota, 0, later);
        match &mut counter {
            Any::TokenBucket(counter) => counter.credit(&quota, 4, start),
            Any::FixedWindow(counter) => counter.credit(&quota, 4, start),
            Any::SlidingWindow(counter) => counter.credit(&quota, 4, start),
            Any::SlidingLog(counter) => counter.credit(&quota, 4, start),
            Any::InFlight(counter) => counter.credit(&quota, 4, start),
        }
        counter.step(&quota, 0, later).remaining
    };
    // After three seconds a bucket has got three of the four back by itself.
    assert_eq!([0, 3, 5].map(|after| left(Algorithm::TokenBucket, after)), [4, 4, 5]);
    // A window is credited while it lasts.
    assert_eq!([0, 9, 10].map(|after| left(Algorithm::FixedWindow, after)), [4, 4, 10]);
    assert_eq!([0, 9, 10].map(|after| left(Algorithm::SlidingWindow, after)), [4, 4, 0]);
    assert_eq!([0, 9, 10].map(|after| left(Algorithm::SlidingLog, after)), [4, 4, 10]);
    // Time gives nothing back of what is in flight.
    assert_eq!([0, 9, 1_000].map(|after| left(Algorithm::InFlight, after)), [4, 4, 4]);
}

#[test]
fn a_counter_is_believed_up_to_ten_seconds_ahead() {
    let start = Timestamp::from_millis(1_704_067_200_000);
    let quota = Quota::new(Algorithm::TokenBucket, 10, Span::from_secs(10)).unwrap();
    let reset = |ahead: u64| {
        let mut counter = TokenBucket::default();
        assert!(step(&mut counter, &quota, 1, start + Span::from_millis(ahead)).allowed);
        step(&mut counter, &quota, 0, start).reset_after.as_millis()
    };
    assert_eq!(reset(10_000), 11_000, "held: the clock must catch up first");
    assert_eq!(reset(10_001), 1_000, "moved to now");
}

use proptest::prelude::*;

use super::*;

mod spikes;

const MS: Duration = Duration::from_millis(1);

/// A breaker and a clock.
struct Bench {
    breaker: Breaker,
    now: Instant,
}

impl Bench {
    fn new(settings: BreakerSettings) -> Self {
        let now = Instant::now();
        Self { breaker: Breaker::new(settings, now), now }
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
    }

    fn begin(&mut self) -> Option<Permit> {
        self.breaker.begin(self.now, u32::MAX / 2)
    }

    /// Ends a call that was not answered until now, or is not at all.
    fn end(&mut self, permit: Permit, answered: bool) {
        let unanswered = answered.then(|| self.now.duration_since(permit.begun()));
        self.breaker.end(permit, unanswered, self.now, u32::MAX / 2);
    }

    /// A call that takes no time.
    fn call(&mut self, answered: bool) {
        let permit = self.begin().expect("it is asked");
        self.end(permit, answered);
    }

    fn state(&self) -> BreakerState {
        self.breaker.state()
    }
}

#[test]
fn more_than_half_of_ten_calls_open_it_for_a_minute() {
    let mut bench = Bench::new(BreakerSettings::CLASSIC);
    (0..5).for_each(|_| bench.call(true));
    (0..5).for_each(|_| bench.call(false));
    assert_eq!(bench.state(), BreakerState::Closed, "half is not more than half");
    bench.call(false);
    assert_eq!(bench.state(), BreakerState::Open);
    bench.pass(BreakerSettings::CLASSIC.rest - MS);
    assert_eq!(bench.begin(), None);
    bench.pass(MS);
    let probe = bench.begin().expect("one may try");
    assert_eq!((bench.state(), bench.begin()), (BreakerState::HalfOpen, None), "and no other");
    bench.end(probe, true);
    assert_eq!(bench.state(), BreakerState::Closed);
    bench.call(false);
    assert_eq!(bench.state(), BreakerState::Closed, "what was before is forgotten");
}

#[test]
fn nine_failures_are_too_few_and_old_ones_do_not_count() {
    let mut bench = Bench::new(BreakerSettings::CLASSIC);
    (0..9).for_each(|_| bench.call(false));
    assert_eq!(bench.state(), BreakerState::Closed);
    bench.pass(BreakerSettings::CLASSIC.window);
    bench.call(false);
    assert_eq!(bench.state(), BreakerState::Closed);
    // Over many windows, with most calls failing but never ten within one.
    for _ in 0..100 {
        bench.pass(Duration::from_millis(1_300));
        bench.call(false);
    }
    assert_eq!(bench.state(), BreakerState::Closed);
}

#[test]
fn five_failures_in_a_row_open_it_for_half_a_minute() {
    let mut bench = Bench::new(BreakerSettings::FIVE_IN_A_ROW);
    for answered in [false, false, false, false, true, false, false, false, false] {
        bench.call(answered);
    }
    assert_eq!(bench.state(), BreakerState::Closed);
    bench.call(false);
    assert_eq!(bench.state(), BreakerState::Open);
    bench.pass(Duration::from_secs(30));
    let probe = bench.begin().expect("one may try");
    bench.end(probe, false);
    assert_eq!((bench.state(), bench.begin()), (BreakerState::Open, None));
    bench.pass(Duration::from_secs(30));
    bench.call(true);
    assert_eq!(bench.state(), BreakerState::Closed);
}

#[test]
fn slow_answers_are_failures() {
    let mut bench = Bench::new(BreakerSettings::FAST);
    for _ in 0..5 {
        let permit = bench.begin().unwrap();
        // One that is answered in between keeps it from being silent.
        bench.pass(BreakerSettings::FAST.slow / 2);
        bench.breaker.look(bench.now, 0);
        bench.pass(BreakerSettings::FAST.slow / 2 + MS);
        bench.end(permit, true);
    }
    assert_eq!(bench.state(), BreakerState::Open);
}

#[test]
fn a_call_that_took_long_because_nobody_listened_is_no_failure() {
    let mut bench = Bench::new(BreakerSettings::FAST);
    for _ in 0..100 {
        let permit = bench.begin().unwrap();
        bench.pass(BreakerSettings::FAST.slow * 2);
        bench.breaker.end(permit, Some(Duration::ZERO), bench.now, 0);
    }
    assert_eq!(bench.state(), BreakerState::Closed);
}

#[test]
fn silence_opens_it_soon() {
    let mut bench = Bench::new(BreakerSettings::FAST);
    bench.pass(Duration::from_secs(100));
    let permit = bench.begin().unwrap();
    assert!(bench.begin().is_some(), "a second one is made meanwhile");
    bench.pass(Duration::from_millis(50));
    bench.breaker.look(bench.now, 0);
    assert_eq!(bench.state(), BreakerState::Closed);
    bench.pass(MS);
    assert!(bench.begin().is_some(), "perhaps it was us who did not listen");
    bench.pass(Duration::from_millis(13));
    assert_eq!((bench.begin(), bench.state()), (None, BreakerState::Open));
    // What comes back afterwards says nothing about now.
    bench.end(permit, true);
    assert_eq!(bench.state(), BreakerState::Open);
    // An answer in between ends the doubt.
    let mut busy = Bench::new(BreakerSettings::FAST);
    let (first, _second) = (busy.begin().unwrap(), busy.begin().unwrap());
    busy.pass(Duration::from_millis(51));
    busy.breaker.look(busy.now, 0);
    busy.end(first, true);
    busy.pass(Duration::from_millis(13));
    busy.breaker.look(busy.now, 0);
    assert_eq!(busy.state(), BreakerState::Closed);
    // No calls, no silence.
    let mut idle = Bench::new(BreakerSettings::FAST);
    idle.call(true);
    idle.pass(Duration::from_secs(100));
    assert!(idle.begin().is_some());
}

#[test]
fn a_try_that_is_lost_is_followed_by_another() {
    let mut bench = Bench::new(BreakerSettings::FAST);
    (0..5).for_each(|_| bench.call(false));
    bench.pass(BreakerSettings::FAST.rest);
    let lost = bench.begin().expect("one may try");
    bench.pass(BreakerSettings::FAST.rest - MS);
    assert_eq!(bench.begin(), None);
    bench.pass(MS);
    let second = bench.begin().expect("another may try");
    bench.end(lost, true);
    assert_eq!(bench.state(), BreakerState::HalfOpen, "the first one is too late");
    bench.end(second, true);
    assert_eq!(bench.state(), BreakerState::Closed);
}

#[test]
fn tries_are_spread() {
    let rest = BreakerSettings::FAST.rest;
    let opened = |jitter| {
        let now = Instant::now();
        let mut breaker = Breaker::new(BreakerSettings::FAST, now);
        (0..5).for_each(|_| {
            let permit = breaker.begin(now, 0).unwrap();
            breaker.end(permit, None, now, jitter);
        });
        let first = (0..3000).find(|&ms| breaker.begin(now + MS * ms, 0).is_some());
        MS * first.expect("it tries")
    };
    assert_eq!((opened(0), opened(u32::MAX)), (rest * 4 / 5, rest * 6 / 5));
}

/// Something that happens.
#[derive(Clone, Debug)]
enum Happens {
    Pass(u64),
    Begin,
    /// The call that was begun so many calls ago ends.
    End(usize, bool),
}

fn happening() -> impl Strategy<Value = Happens> {
    prop_oneof![
        (0..2_000_u64).prop_map(Happens::Pass),
        (0..60_u64).prop_map(Happens::Pass),
        Just(Happens::Begin),
        (0..4_usize, any::<bool>()).prop_map(|(ago, answered)| Happens::End(ago, answered)),
        (0..2_usize).prop_map(|ago| Happens::End(ago, false)),
    ]
}

fn settings() -> impl Strategy<Value = BreakerSettings> {
    let presets = [BreakerSettings::FAST, BreakerSettings::CLASSIC, BreakerSettings::FIVE_IN_A_ROW];
    proptest::sample::select(presets.to_vec())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// Whatever happens: nothing is asked of what is left alone, never more than one tries, and it opens for a reason.
    #[test]
    fn it_is_open_for_a_reason_and_not_for_ever(
        settings in settings(),
        happenings in proptest::collection::vec(happening(), 1..200),
    ) {
        let mut bench = Bench::new(settings);
        let mut out: Vec<Permit> = Vec::new();
        // What was heard since it was last closed: when, whether it failed, and whether it was slow.
        let mut heard: Vec<(Instant, bool, bool)> = Vec::new();
        let mut opened = None;
        for happens in happenings {
            let before = bench.state();
            let mut silent = false;
            match happens {
                Happens::Pass(ms) => bench.pass(MS * u32::try_from(ms).unwrap()),
                Happens::Begin => {
                    let granted = bench.begin();
                    silent = granted.is_none();
                    prop_assert!(!(granted.is_some() && bench.state() == BreakerState::Open));
                    if let (Some(opened), Some(_), BreakerState::Open) = (opened, granted, before) {
                        prop_assert!(bench.now.duration_since(opened) >= settings.rest * 4 / 5);
                    }
                    out.extend(granted);
                }
                Happens::End(ago, answered) => {
                    let Some(position) = out.len().checked_sub(ago + 1) else { continue };
                    let permit = out.remove(position);
                    let counts = permit.era == bench.breaker.era && before == BreakerState::Closed;
                    let went = settings.went(answered.then(|| bench.now.duration_since(permit.begun())));
                    bench.end(permit, answered);
                    if counts {
                        heard.push((bench.now, went == Went::Wrong, went == Went::Slowly));
                    }
                }
            }
            prop_assert!(!bench.breaker.is_slow() || bench.state() != BreakerState::Closed);
            match (before, bench.state()) {
                (BreakerState::Closed, BreakerState::Open) => {
                    let row = heard.iter().rev().take_while(|(_, failed, _)| *failed).count();
                    let recent =
                        heard.iter().filter(|(at, ..)| bench.now.duration_since(*at) <= settings.window);
                    let failures = recent.clone().filter(|(_, failed, _)| *failed).count();
                    let slow = recent.clone().filter(|(.., slow)| *slow).count();
                    let calls = recent.count();
                    let share = calls >= settings.min_calls as usize && failures > 0;
                    let in_a_row = settings.in_a_row.is_some_and(|most| row >= most as usize);
                    let spike =
                        settings.spike.is_some_and(|spike| calls >= spike.min_calls as usize && slow > 0);
                    if bench.breaker.is_slow() {
                        prop_assert!(spike);
                    } else {
                        prop_assert!(in_a_row || share || (silent && settings.silence.is_some()));
                    }
                    opened = Some(bench.now);
                }
                (BreakerState::HalfOpen, BreakerState::Open) => opened = Some(bench.now),
                (_, BreakerState::Closed) if before != BreakerState::Closed => heard.clear(),
                _ => {}
            }
        }
        // However it got there, a store that answers is asked again.
        bench.pass(settings.rest * 2);
        if bench.state() == BreakerState::Closed && settings.silence.is_some() && bench.begin().is_none() {
            bench.pass(settings.rest * 2);
        }
        let permit = bench.begin();
        prop_assert!(permit.is_some());
        bench.end(permit.unwrap(), true);
    }
}

//! A store that answers, but slowly.

use super::*;

const FAST: BreakerSettings = BreakerSettings::FAST;
const QUICK: Duration = MS;
const SLUGGISH: Duration = Duration::from_millis(20);

impl Bench {
    /// A call that is answered after `took`; false if it may not be made.
    fn takes(&mut self, took: Duration) -> bool {
        let Some(permit) = self.begin() else { return false };
        self.pass(took);
        self.end(permit, true);
        true
    }

    /// Opens it by slow calls.
    fn slow_down(&mut self) {
        for _ in 0..1_000 {
            if self.state() != BreakerState::Closed {
                break;
            }
            assert!(self.takes(SLUGGISH));
        }
        assert_eq!((self.state(), self.breaker.is_slow()), (BreakerState::Open, true));
    }

    /// Lets time pass until a call may try.
    fn rest(&mut self) {
        for _ in 0..100_000 {
            if self.breaker.may_begin(self.now) {
                return;
            }
            self.pass(MS);
        }
        panic!("nothing ever tries");
    }

    /// How many fast tries it takes until it is closed.
    fn recover(&mut self) -> u32 {
        let mut tries = 0;
        while self.state() != BreakerState::Closed {
            assert!(self.breaker.is_slow());
            self.rest();
            assert!(self.takes(QUICK));
            tries += 1;
        }
        assert!(!self.breaker.is_slow());
        tries
    }
}

#[test]
fn more_than_a_fifth_of_slow_calls_open_it_and_a_hiccup_does_not() {
    let mut bench = Bench::new(FAST);
    for slow in [true, true, true, true] {
        assert!(bench.takes(if slow { SLUGGISH } else { QUICK }));
        (0..4).for_each(|_| assert!(bench.takes(QUICK)));
    }
    assert_eq!(bench.state(), BreakerState::Closed, "a fifth is not more than a fifth");
    bench.slow_down();

    let mut hiccup = Bench::new(FAST);
    for _ in 0..20 {
        (0..49).for_each(|_| assert!(hiccup.takes(QUICK)));
        assert!(hiccup.takes(SLUGGISH));
    }
    assert_eq!(hiccup.state(), BreakerState::Closed);

    let mut few = Bench::new(FAST);
    for _ in 0..100 {
        assert!(few.takes(SLUGGISH));
        few.pass(SLUGGISH * 3);
    }
    assert_eq!(few.state(), BreakerState::Closed, "so few calls tell nothing");

    for settings in [BreakerSettings::CLASSIC, BreakerSettings::FIVE_IN_A_ROW] {
        let mut bench = Bench::new(settings);
        (0..1_000).for_each(|_| assert!(bench.takes(SLUGGISH)));
        assert_eq!(bench.state(), BreakerState::Closed);
    }
}

#[test]
fn one_fast_answer_is_no_recovery() {
    let mut bench = Bench::new(FAST);
    bench.slow_down();
    bench.rest();
    assert!(bench.takes(QUICK));
    assert_eq!((bench.state(), bench.begin()), (BreakerState::HalfOpen, None), "not at once");
    bench.rest();
    assert!(bench.takes(QUICK));
    bench.rest();
    assert!(bench.takes(SLUGGISH));
    assert_eq!((bench.state(), bench.breaker.is_slow()), (BreakerState::Open, true));
    assert_eq!(bench.recover(), FIRST_TRIES, "and all over again");
    // One that is lost was not fast.
    bench.pass(FAST.rest * (RELAPSE + 1));
    bench.slow_down();
    bench.rest();
    assert!(bench.takes(QUICK));
    bench.rest();
    bench.begin().expect("one may try");
    assert_eq!(bench.recover(), FIRST_TRIES);
}

#[test]
fn a_try_that_fails_is_no_slowness() {
    let mut bench = Bench::new(FAST);
    bench.slow_down();
    bench.rest();
    let permit = bench.begin().unwrap();
    bench.end(permit, false);
    assert_eq!((bench.state(), bench.breaker.is_slow()), (BreakerState::Open, false));
    bench.rest();
    bench.call(true);
    assert_eq!(bench.state(), BreakerState::Closed);
}

#[test]
fn a_relapse_makes_it_wary() {
    let mut bench = Bench::new(FAST);
    let mut relapse = || {
        bench.slow_down();
        bench.recover()
    };
    let tries: Vec<u32> = (0..7).map(|_| relapse()).collect();
    assert_eq!(tries, [3, 6, 12, 24, 48, 96, 96]);
    bench.pass(FAST.rest * (RELAPSE + 1));
    bench.slow_down();
    assert_eq!(bench.recover(), FIRST_TRIES, "long ago");
    bench.slow_down();
    bench.breaker.reset(bench.now);
    assert!(!bench.breaker.is_slow());
    bench.slow_down();
    assert_eq!(bench.recover(), FIRST_TRIES, "it is another server");
}

/// A time in which calls take so long.
fn phases() -> impl Strategy<Value = Vec<(u64, u64)>> {
    proptest::collection::vec((1..3_000_u64, prop_oneof![0..5_u64, 0..40_u64]), 1..30)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// However fast and slow a store is in turns: it closes only after fast tries in a row that are some time apart, it does
    /// not open and close all the time, and in the end it is asked again.
    #[test]
    fn it_does_not_flap(phases in phases(), jitter in any::<u32>()) {
        let mut bench = Bench::new(FAST);
        let (start, mut opened, mut fast) = (bench.now, 0_u32, Vec::new());
        let calm = [(40_000, 1)];
        for (lasts, latency) in phases.into_iter().chain(calm) {
            let until = bench.now + MS * u32::try_from(lasts).unwrap();
            while bench.now < until {
                let before = bench.state();
                let took = MS * u32::try_from(latency).unwrap();
                let begun = bench.now;
                if let Some(permit) = bench.breaker.begin(bench.now, jitter) {
                    bench.pass(took);
                    bench.breaker.end(permit, Some(took), bench.now, jitter);
                    if before != BreakerState::Closed {
                        fast.push((begun, took <= FAST.spike.unwrap().slow));
                    }
                }
                match (before, bench.state()) {
                    (BreakerState::Closed, BreakerState::Open) => {
                        prop_assert!(bench.breaker.is_slow());
                        opened += 1;
                        fast.clear();
                    }
                    (BreakerState::Open | BreakerState::HalfOpen, BreakerState::Closed) => {
                        let row: Vec<_> = fast.iter().rev().take_while(|(_, fast)| *fast).collect();
                        prop_assert!(row.len() >= FIRST_TRIES as usize);
                        let apart = |pair: &[&(Instant, bool)]| pair[0].0 - pair[1].0 >= FAST.rest / APART;
                        prop_assert!(row.windows(2).all(apart));
                    }
                    _ => {}
                }
                bench.pass(MS);
            }
        }
        prop_assert_eq!(bench.state(), BreakerState::Closed);
        // Each time takes a rest and three tries at least, and soon many more.
        let seconds = u32::try_from(bench.now.duration_since(start).as_secs()).unwrap();
        prop_assert!(opened <= 1 + seconds, "{} times in {} s", opened, seconds);
    }
}

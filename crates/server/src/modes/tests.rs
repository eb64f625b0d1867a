use proptest::prelude::*;

use super::*;

const MS: Duration = Duration::from_millis(1);

/// The modes of a node and a clock.
struct Bench {
    modes: Modes,
    start: Instant,
    now: Instant,
    changes: Vec<(u128, Mode)>,
}

impl Bench {
    fn new() -> Self {
        let start = Instant::now();
        let modes = Modes::new(Thresholds::default(), start);
        Self { modes, start, now: start, changes: Vec::new() }
    }

    fn look(&mut self, seen: Seen) {
        let before = self.modes.mode();
        let mode = self.modes.look(seen, self.now);
        if mode != before {
            self.changes.push((self.now.duration_since(self.start).as_millis(), mode));
        }
    }

    /// Looks ten times a second for so long.
    fn run(&mut self, lasts: Duration, seen: Seen) {
        let until = self.now + lasts;
        while self.now < until {
            self.look(seen);
            self.now += MS * 100;
        }
    }
}

fn store(unwell: bool) -> Seen {
    Seen { store_unwell: unwell, others_unwell: false, peers: Peers::None }
}

fn alone(unwell: bool) -> Seen {
    Seen { peers: Peers::Heard(None), ..store(unwell) }
}

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn a_store_that_is_away_for_long_makes_it_degraded_until_it_is_back_for_good() {
    let mut bench = Bench::new();
    bench.run(seconds(5), store(true));
    bench.look(store(true));
    assert_eq!(
        (bench.modes.mode(), bench.modes.has_spell()),
        (Mode::Normal, true),
        "5 s are not more than 5 s"
    );
    bench.run(seconds(2), store(true));
    bench.run(seconds(10), store(false));
    assert_eq!(bench.changes, [(5_100, Mode::Degraded), (10_000, Mode::Normal)]);
    assert!(!bench.modes.has_spell());
}

#[test]
fn a_short_absence_is_forgotten() {
    let mut bench = Bench::new();
    for _ in 0..10 {
        bench.run(seconds(4), store(true));
        bench.run(seconds(3) + MS * 100, store(false));
    }
    // Nor does it count once it is over, although it is not forgotten yet.
    bench.run(seconds(4), store(true));
    bench.run(seconds(2), store(false));
    assert_eq!(bench.changes, []);
}

#[test]
fn a_store_that_flaps_changes_it_once_there_and_once_back() {
    let mut bench = Bench::new();
    for _ in 0..60 {
        bench.run(MS * 700, store(true));
        bench.run(MS * 700, store(false));
    }
    bench.run(seconds(10), store(false));
    let modes: Vec<Mode> = bench.changes.iter().map(|(_, mode)| *mode).collect();
    assert_eq!(modes, [Mode::Degraded, Mode::Normal]);
    // The same without peers, who are no help: the store decides half of the time.
    let mut bench = Bench::new();
    for _ in 0..60 {
        bench.run(MS * 700, alone(true));
        bench.run(MS * 700, alone(false));
    }
    bench.run(seconds(10), alone(false));
    let modes: Vec<Mode> = bench.changes.iter().map(|(_, mode)| *mode).collect();
    assert_eq!(modes, [Mode::Degraded, Mode::Normal]);
}

#[test]
fn without_the_store_and_without_peers_it_is_an_emergency() {
    let mut bench = Bench::new();
    bench.run(seconds(12), alone(true));
    assert_eq!(bench.changes, [(5_100, Mode::Degraded), (10_100, Mode::Emergency)]);
    // Once heard is enough, for a while.
    bench.look(Seen { peers: Peers::Heard(Some(bench.now)), ..store(true) });
    assert_eq!(bench.modes.mode(), Mode::Degraded);
    let heard = Seen { peers: Peers::Heard(Some(bench.now)), ..store(true) };
    bench.run(seconds(11), heard);
    assert_eq!(bench.modes.mode(), Mode::Emergency);
    bench.look(Seen { store_unwell: false, ..heard });
    assert_eq!(bench.modes.mode(), Mode::Degraded, "the store is back");
    bench.run(seconds(3), Seen { store_unwell: false, ..heard });
    bench.look(Seen { store_unwell: false, ..heard });
    assert_eq!(bench.modes.mode(), Mode::Normal, "for good");
    bench.run(seconds(60), alone(false));
    assert_eq!(bench.modes.mode(), Mode::Normal, "nobody is missed while there is a store");
}

#[test]
fn whatever_else_is_unwell_counts_at_once() {
    let mut bench = Bench::new();
    let others = Seen { others_unwell: true, ..alone(false) };
    bench.run(seconds(60), others);
    bench.look(store(false));
    assert_eq!(bench.changes, [(0, Mode::Degraded), (60_000, Mode::Normal)]);
}

/// How things are for a while.
#[derive(Clone, Copy, Debug)]
struct Phase {
    lasts: u64,
    store_unwell: bool,
    others_unwell: bool,
    /// Whether peers are heard all the time.
    heard: bool,
}

fn phase() -> impl Strategy<Value = Phase> {
    let lasts = prop_oneof![1..1_500_u64, 1..6_000_u64, 1..30_000_u64];
    (lasts, any::<bool>(), prop::bool::weighted(0.1), any::<bool>()).prop_map(
        |(lasts, store_unwell, others_unwell, heard)| Phase { lasts, store_unwell, others_unwell, heard },
    )
}

/// One look: when, and what was seen.
type Looked = (Duration, Seen);

/// What the mode is after all these looks, by the words of the rules.
fn by_the_rules(looks: &[Looked], start: Instant) -> (Mode, bool) {
    let limits = Thresholds::default();
    let &(now, seen) = looks.last().unwrap();
    // Since when the store is unwell, as of the look at `last`: the first time since it was last well for long.
    let since = |last: usize| {
        let (mut since, mut well) = (None, None);
        for (at, seen) in &looks[..=last] {
            if seen.store_unwell {
                (since, well) = (since.or(Some(*at)), None);
            } else if *at - *well.get_or_insert(*at) >= limits.normal_after {
                since = None;
            }
        }
        since
    };
    let unwell = since(looks.len() - 1);
    let degraded = unwell.is_some_and(|unwell| {
        let late =
            |(at, seen): &Looked| seen.store_unwell && *at >= unwell && *at - unwell > limits.degraded_after;
        looks.iter().any(late)
    });
    let unbroken = looks.iter().rev().take_while(|(_, seen)| seen.store_unwell).last();
    let away = unbroken.is_some_and(|(first, _)| now - *first > limits.degraded_after);
    let alone = match seen.peers {
        Peers::None => false,
        Peers::Heard(None) => now > limits.alone_after,
        Peers::Heard(Some(heard)) => now - heard.duration_since(start) > limits.alone_after,
    };
    let mode = match degraded {
        true if away && alone => Mode::Emergency,
        true => Mode::Degraded,
        false if seen.others_unwell => Mode::Degraded,
        false => Mode::Normal,
    };
    (mode, unwell.is_some())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn it_is_what_the_rules_say(
        phases in prop::collection::vec(phase(), 1..12),
        peers in any::<bool>(),
        pause in 50..900_u64,
    ) {
        let mut bench = Bench::new();
        let (mut looks, mut heard): (Vec<Looked>, _) = (Vec::new(), None);
        for phase in phases {
            let until = bench.now + Duration::from_millis(phase.lasts);
            while bench.now < until {
                heard = if phase.heard { Some(bench.now) } else { heard };
                let seen = Seen {
                    store_unwell: phase.store_unwell,
                    others_unwell: phase.others_unwell,
                    peers: if peers { Peers::Heard(heard) } else { Peers::None },
                };
                bench.look(seen);
                looks.push((bench.now - bench.start, seen));
                let (mode, unwell) = by_the_rules(&looks, bench.start);
                prop_assert_eq!(bench.modes.mode(), mode, "after {:?}", looks.last());
                prop_assert_eq!(bench.modes.has_spell(), unwell);
                prop_assert!(!bench.modes.is_convalescent() || mode != Mode::Normal);
                bench.now += Duration::from_millis(pause);
            }
        }
        // However the store comes and goes: once normal, it stays so for 5 s at least.
        if looks.iter().all(|(_, seen)| !seen.others_unwell) {
            for pair in bench.changes.windows(2) {
                prop_assert!(pair[0].1 != Mode::Normal || pair[1].0 - pair[0].0 > 5_000, "{:?}", bench.changes);
            }
        }
        // And in the end, all is well.
        bench.run(seconds(4), alone(false));
        prop_assert_eq!(bench.modes.mode(), Mode::Normal);
    }
}

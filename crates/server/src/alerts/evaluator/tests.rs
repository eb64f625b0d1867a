use std::time::Duration;

use proptest::prelude::*;
use tidegate::store::BreakerState;
use tidegate_core::Mode;

use super::*;
use crate::alerts::figures::{Load, ShardFigures, StoreFigures};

struct Bench {
    evaluator: Evaluator,
    start: Instant,
    second: u64,
    figures: Figures,
}

impl Bench {
    fn new() -> Self {
        let shard = ShardFigures {
            name: "a".to_owned(),
            problem: None,
            breaker: BreakerState::Closed,
            calls: 0,
            errors: 0,
            load: Load::default(),
        };
        let store = Some(StoreFigures { problem: None, shards: vec![shard] });
        let latency = vec![(0.001, 0), (0.005, 0), (f64::INFINITY, 0)];
        let figures = Figures { store, latency, rules_version: 1, ..Figures::default() };
        Self {
            evaluator: Evaluator::new(AlertSettings::default()),
            start: Instant::now(),
            second: 0,
            figures,
        }
    }

    fn shard(&mut self) -> &mut ShardFigures {
        &mut self.figures.store.as_mut().unwrap().shards[0]
    }

    /// Lets seconds pass, in each of which `change` happens.
    fn pass(&mut self, seconds: u64, mut change: impl FnMut(&mut Self)) -> Vec<(u64, String)> {
        let mut told = Vec::new();
        for _ in 0..seconds {
            change(self);
            let now = Moment {
                instant: self.start + Duration::from_secs(self.second),
                time: Timestamp::from_millis(self.second * 1_000),
            };
            for news in self.evaluator.look(&self.figures, now) {
                told.push((
                    self.second,
                    match news {
                        News::Fired(fired) => format!("+{}", fired.alert),
                        News::Resolved(fired) => format!("-{}", fired.alert),
                        News::Event(event) => event.kind.name().to_owned(),
                    },
                ));
            }
            self.second += 1;
        }
        told
    }

    /// A hundred decisions, of which some are refused and some slow.
    fn decide(&mut self, refused: u64, slow: u64) {
        self.figures.decisions += 100;
        self.figures.refused += refused;
        self.figures.latency[0].1 += 100 - slow;
        self.figures.latency[2].1 += slow;
    }
}

type Change = fn(&mut Bench);

/// What makes each alert fire, what just does not, and how long it takes.
const CASES: &[(Alert, Change, Change, u64)] = &[
    (
        Alert::StoreDown,
        |bench| bench.shard().problem = Some("gone".to_owned()),
        |bench| bench.shard().problem = None,
        5,
    ),
    (
        Alert::BreakerOpen,
        |bench| bench.shard().breaker = BreakerState::Open,
        |bench| bench.shard().breaker = BreakerState::Closed,
        300,
    ),
    (
        Alert::StoreErrors,
        |bench| {
            bench.shard().calls += 90;
            bench.shard().errors += 10;
        },
        |bench| {
            bench.shard().calls += 96;
            bench.shard().errors += 4;
        },
        60,
    ),
    (Alert::StoreCpuCritical, |b| b.shard().load.cpu = Some(0.91), |b| b.shard().load.cpu = Some(0.9), 60),
    (Alert::StoreCpu, |b| b.shard().load.cpu = Some(0.81), |b| b.shard().load.cpu = Some(0.8), 60),
    (
        Alert::StoreMemoryCritical,
        |b| b.shard().load.memory = Some(0.91),
        |b| b.shard().load.memory = Some(0.9),
        60,
    ),
    (Alert::StoreMemory, |b| b.shard().load.memory = Some(0.81), |b| b.shard().load.memory = None, 60),
    (Alert::Latency, |bench| bench.decide(0, 2), |bench| bench.decide(0, 1), 60),
    (Alert::HotKey, |b| b.figures.hot_key = Some("k".to_owned()), |b| b.figures.hot_key = None, 60),
    (
        Alert::ReplicationLag,
        |b| b.shard().load.replication_lag = Some(Duration::from_millis(101)),
        |b| b.shard().load.replication_lag = Some(Duration::from_millis(100)),
        60,
    ),
    (
        Alert::ConnectionsExhausted,
        |b| b.figures.connections = Some(0.95),
        |b| b.figures.connections = Some(0.94),
        60,
    ),
    (Alert::Overload, |bench| bench.figures.shed += 1, |_| {}, 60),
    (Alert::KeysExhausted, |bench| bench.figures.evicted += 1, |_| {}, 60),
    (Alert::Rejections, |bench| bench.decide(21, 0), |bench| bench.decide(20, 0), 60),
    (Alert::Degraded, |b| b.figures.mode = Mode::Emergency, |b| b.figures.mode = Mode::Normal, 60),
];

#[test]
fn each_fires_when_it_should_and_is_over_when_it_is() {
    for (alert, wrong, right, after) in CASES {
        let mut bench = Bench::new();
        let name = |sign: char| format!("{sign}{alert}");
        let told = bench.pass(1_000, right);
        assert!(told.iter().all(|(_, what)| *what != name('+')), "{alert}: {told:?}");
        let told = bench.pass(1_000, wrong);
        let fired: Vec<u64> = told.iter().filter(|(_, what)| *what == name('+')).map(|(at, _)| *at).collect();
        let [at] = fired[..] else { panic!("{alert} fires once: {told:?}") };
        // Rates take a window to become what they are.
        assert!((1_000 + after..=1_000 + after + 60).contains(&at), "{alert} at {at}");
        assert!(bench.evaluator.is_active(*alert));
        let told = bench.pass(1_000, right);
        let over: Vec<u64> = told.iter().filter(|(_, what)| *what == name('-')).map(|(at, _)| *at).collect();
        let [at] = over[..] else { panic!("{alert} is over once: {told:?}") };
        assert!((2_060..=2_120).contains(&at), "{alert} at {at}");
        assert!(!bench.evaluator.is_active(*alert));
        let resolved = bench.evaluator.resolved();
        assert!(resolved.iter().any(|fired| fired.alert == *alert && fired.resolved.is_some()));
    }
}

#[test]
fn what_does_not_last_fires_nothing() {
    let mut bench = Bench::new();
    let told = bench.pass(3_000, |bench| {
        let wrong = bench.second % 300 != 0;
        bench.shard().breaker = if wrong { BreakerState::Open } else { BreakerState::Closed };
    });
    assert_eq!(told, []);
}

#[test]
fn what_comes_and_goes_fires_once() {
    let mut bench = Bench::new();
    let told = bench.pass(2_000, |bench| {
        let wrong = bench.second % 30 < 15;
        bench.shard().problem = wrong.then(|| "gone".to_owned());
    });
    assert_eq!(told, [(5, "+store_down".to_owned())]);
}

#[test]
fn throughput_that_drops_is_noticed_and_growing_or_quiet_nodes_are_not() {
    for fault in [
        |bench: &mut Bench| bench.figures.mode = Mode::Degraded,
        |bench: &mut Bench| bench.shard().problem = Some("gone".to_owned()),
        |bench: &mut Bench| bench.shard().errors += 10,
        |bench: &mut Bench| bench.figures.latency[2].1 += 1,
        |bench: &mut Bench| bench.figures.connections = Some(1.0),
        |bench: &mut Bench| bench.figures.refused += 3,
    ] {
        let mut bench = Bench::new();
        assert_eq!(bench.pass(1_000, |bench| bench.decide(0, 0)), []);
        let told = bench.pass(300, |bench| {
            bench.figures.decisions += 10;
            fault(bench);
        });
        let dropped = told.iter().find(|(_, what)| what == "+throughput_drop");
        assert!(dropped.is_some_and(|(at, _)| *at < 1_200), "{told:?}");
    }
    let mut bench = Bench::new();
    assert_eq!(bench.pass(2_000, |_| {}), [], "nothing ever came");
    assert_eq!(bench.pass(1_000, |bench| bench.decide(0, 0)), []);
}

#[test]
fn clients_that_ask_less_are_no_drop() {
    // A load test that is mostly refused and partly slow, and its end.
    for (refused, slow) in [(0, 0), (60, 0), (0, 1)] {
        for left in [0, 10] {
            let mut bench = Bench::new();
            bench.pass(1_000, |bench| bench.decide(refused, slow));
            let told = bench.pass(1_000, |bench| {
                bench.figures.decisions += left;
                bench.figures.refused += left * refused / 100;
            });
            let drops: Vec<_> = told.iter().filter(|(_, what)| what.contains("throughput_drop")).collect();
            assert!(drops.is_empty(), "{refused} refused, {slow} slow, {left} left: {told:?}");
        }
    }
}

#[test]
fn few_requests_say_nothing() {
    let mut bench = Bench::new();
    let told = bench.pass(1_000, |bench| {
        bench.figures.decisions += 1;
        bench.figures.refused += 1;
        bench.shard().errors += 1;
    });
    assert_eq!(told, []);
}

#[test]
fn changes_of_rules_and_shards_are_events() {
    let mut bench = Bench::new();
    let name = |name: &'static str| move |bench: &mut Bench| name.clone_into(&mut bench.shard().name);
    bench.pass(1, |_| {});
    assert_eq!(bench.pass(1, |bench| bench.figures.rules_version = 7), [(1, "rules_changed".to_owned())]);
    assert_eq!(bench.pass(2, name("b")), [(2, "failover".to_owned())]);
    let told = bench.pass(2, |bench| {
        let more = ShardFigures { name: "c".to_owned(), ..bench.shard().clone() };
        bench.figures.store.as_mut().unwrap().shards.push(more);
    });
    assert_eq!(told, [(4, "shard_added".to_owned())]);
    let told = bench.pass(1, |bench| bench.figures.store.as_mut().unwrap().shards.truncate(1));
    assert_eq!(told, [(6, "shard_removed".to_owned())]);
    assert_eq!(bench.evaluator.events().len(), 4);
    assert_eq!(bench.evaluator.events()[0].kind, EventKind::ShardRemoved, "newest first");
}

#[test]
fn memory_is_bounded() {
    let mut bench = Bench::new();
    bench.pass(5_000, |bench| {
        bench.figures.rules_version += 1;
        bench.shard().problem = (bench.second % 80 < 10).then(|| "x".repeat(9_000));
    });
    assert_eq!(bench.evaluator.events().len(), REMEMBERED);
    assert!(bench.evaluator.resolved().len() <= REMEMBERED);
    assert!(bench.evaluator.resolved().iter().all(|fired| fired.summary.len() <= MAX_SUMMARY));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Whatever happens: an alert fires and is over in turns, and never sooner than it may.
    #[test]
    fn news_come_in_turns(steps in prop::collection::vec((1_u64..120, any::<bool>(), any::<bool>()), 1..60)) {
        let mut bench = Bench::new();
        let mut told = Vec::new();
        let mut wrong_for = 0_u64;
        for (seconds, down, open) in steps {
            let now = bench.pass(seconds, |bench| {
                bench.shard().problem = down.then(|| "gone".to_owned());
                bench.shard().breaker = if open { BreakerState::Open } else { BreakerState::Closed };
            });
            wrong_for = if open { wrong_for + seconds } else { 0 };
            for (_, what) in &now {
                prop_assert!(what != "+breaker_open" || wrong_for > 300, "{now:?} after {wrong_for}");
            }
            told.extend(now);
        }
        for name in ["store_down", "breaker_open"] {
            let signs = told.iter().filter(|(_, what)| what[1..] == *name).map(|(_, what)| &what[..1]);
            for (index, sign) in signs.enumerate() {
                prop_assert_eq!(sign, if index % 2 == 0 { "+" } else { "-" });
            }
        }
    }
}

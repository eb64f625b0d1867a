//! A scenario: everything that a seed draws before the run begins.

use std::time::Duration;

use tidegate_core::{Algorithm, Quota, Span, Tag};
use tidegate_failover::{Config, CounterKey, FailoverTiming};

use crate::fault_plan::{Fault, draw_faults};
use crate::rng::Rng;

/// Virtual time in microseconds.
pub(crate) type Micros = u64;
pub(crate) const MS: Micros = 1_000;
pub(crate) const SECOND: Micros = 1_000_000;

/// When requests begin: a fleet that starts cold has formed by then.
pub(crate) const WARM_UP: Micros = 3_600 * MS;
/// Time between the end of all faults and the check that everything is well again.
pub(crate) const RECOVERY: Micros = 5 * SECOND;

/// Limit of the counter that is used up at the end.
pub(crate) const FLOOD_LIMIT: u64 = 100;

/// One counter of the scenario.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyPlan {
    pub(crate) key: CounterKey,
    pub(crate) quota: Quota,
}

/// Everything drawn from a seed.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    pub(crate) seed: u64,
    pub(crate) nodes: usize,
    pub(crate) parts: usize,
    /// The counters; the last one is used up at the end.
    pub(crate) keys: Vec<KeyPlan>,
    pub(crate) config: Config,
    pub(crate) end: Micros,
    pub(crate) gap: Micros,
    pub(crate) ids: bool,
    pub(crate) costs: bool,
    pub(crate) policies: bool,
    pub(crate) sticky: bool,
    pub(crate) rule_changes: bool,
    /// True if some requests settle what they cost after they were admitted.
    pub(crate) holds: bool,
    /// Most that a node's wall clock is off, in milliseconds.
    pub(crate) clock_offset: u64,
    /// True if messages are lost, repeated and delayed at random.
    pub(crate) noisy: bool,
    /// Messages in a thousand that are repeated.
    pub(crate) repeats: u64,
    pub(crate) faults: Vec<Fault>,
}

impl Scenario {
    /// Draws the scenario of a seed.
    pub(crate) fn draw(seed: u64) -> Self {
        let mut rng = Rng::new(seed ^ 0x5ce0);
        let nodes = rng.pick(&[1, 2, 2, 3, 3, 3, 3, 4, 5]);
        let parts = rng.pick(&[1, 1, 2]);
        let length = rng.range(6, 14) * SECOND;
        let mut scenario = Self {
            seed,
            nodes,
            parts,
            keys: Vec::new(),
            config: draw_config(&mut rng, parts),
            end: WARM_UP + length,
            gap: rng.pick(&[6 * MS, 12 * MS, 30 * MS]),
            ids: rng.percent(35),
            costs: rng.percent(30),
            policies: rng.percent(15),
            sticky: rng.percent(30),
            rule_changes: rng.percent(15),
            holds: rng.percent(20),
            clock_offset: if rng.percent(50) { 30_000 } else { 0 },
            noisy: rng.percent(85),
            repeats: rng.pick(&[12, 12, 12, 150]),
            faults: Vec::new(),
        };
        let keys = rng.range(1, 4);
        scenario.keys = (0..keys).map(|number| draw_key(&mut rng, number, parts)).collect();
        scenario.keys.push(flood_key(&mut rng, keys, parts));
        scenario.faults = draw_faults(&scenario, &mut rng);
        scenario
    }
}

fn draw_config(rng: &mut Rng, parts: usize) -> Config {
    // Short enough to happen in a short run; the bound does not depend on it.
    let forget = rng.pick(&[None, None, None, Some(2), Some(4)]).map(Duration::from_secs);
    let timing = FailoverTiming { forget, ..FailoverTiming::default() };
    let parts = u8::try_from(parts).unwrap_or(1);
    Config { timing, parts, max_keys: 10_000, max_calls: 10_000, emergency_cap: 5, reserves: rng.percent(60) }
}

/// Returns a counter that nobody uses before all is well again.
fn flood_key(rng: &mut Rng, number: u64, parts: usize) -> KeyPlan {
    let algorithm = Algorithm::FixedWindow;
    let quota = Quota::new(algorithm, FLOOD_LIMIT, Span::from_secs(3_600)).unwrap_or(Quota::BLOCKED);
    let part = u8::try_from(rng.index(parts)).unwrap_or(0);
    let key =
        CounterKey { part, tag: Tag::from_bits([rng.next(), rng.next()]), rule: [number, algorithm as u64] };
    KeyPlan { key, quota }
}

fn draw_key(rng: &mut Rng, number: u64, parts: usize) -> KeyPlan {
    let algorithm = rng.pick(&[
        Algorithm::FixedWindow,
        Algorithm::FixedWindow,
        Algorithm::SlidingWindow,
        Algorithm::SlidingLog,
        Algorithm::TokenBucket,
    ]);
    let limit = rng.pick(&[8, 20, 60, 150]);
    let window = match algorithm {
        Algorithm::TokenBucket => rng.pick(&[5_000, 20_000, 100_000]),
        _ => rng.pick(&[2_000, 4_000, 9_000, 3_600_000, 3_600_000]),
    };
    let window = Span::from_millis(window);
    let quota = match algorithm {
        Algorithm::TokenBucket => Quota::token_bucket(limit, window, limit * rng.range(1, 3)),
        _ => Quota::new(algorithm, limit, window),
    };
    let part = u8::try_from(rng.index(parts)).unwrap_or(0);
    let tag = Tag::from_bits([rng.next(), rng.next()]);
    let key = CounterKey { part, tag, rule: [number, algorithm as u64] };
    KeyPlan { key, quota: quota.unwrap_or(Quota::BLOCKED) }
}

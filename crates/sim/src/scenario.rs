//! A scenario: everything that a seed draws before the run begins.

use std::time::Duration;

use tidegate_core::{Algorithm, Quota, Span, Tag};
use tidegate_failover::{Config, CounterKey, Timing};

use crate::rng::Rng;

/// Virtual time in microseconds.
pub(crate) type Micros = u64;
pub(crate) const MS: Micros = 1_000;
pub(crate) const SECOND: Micros = 1_000_000;

/// When requests begin: a fleet that starts cold has formed by then.
pub(crate) const WARM_UP: Micros = 3_600 * MS;
/// Time between the end of all faults and the check that everything is well again.
pub(crate) const RECOVERY: Micros = 5 * SECOND;

/// One counter of the scenario.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyPlan {
    pub(crate) key: CounterKey,
    pub(crate) quota: Quota,
}

/// Something that goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FaultKind {
    StoreDown {
        part: usize,
    },
    StorePause {
        part: usize,
    },
    StoreForgets {
        part: usize,
    },
    Pause {
        node: usize,
    },
    PauseSome {
        nodes: u64,
    },
    Kill {
        node: usize,
    },
    Terminate {
        node: usize,
    },
    StoreCut {
        node: usize,
        part: usize,
        there: bool,
        back: bool,
    },
    PeerCut {
        from: usize,
        to: usize,
    },
    /// Nodes in the set cannot talk to the others; the store is with the set, with the others, or with both.
    Split {
        nodes: u64,
        store: u64,
    },
    Slow,
    /// The store's clock is set, by so many milliseconds.
    ClockJump {
        part: usize,
        by: i64,
    },
    StoreDownAndKill {
        part: usize,
        node: usize,
    },
}

/// A fault, when it happens and for how long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fault {
    pub(crate) at: Micros,
    pub(crate) lasts: Micros,
    pub(crate) kind: FaultKind,
}

/// Everything drawn from a seed.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    pub(crate) seed: u64,
    pub(crate) nodes: usize,
    pub(crate) parts: usize,
    pub(crate) keys: Vec<KeyPlan>,
    pub(crate) config: Config,
    pub(crate) end: Micros,
    pub(crate) gap: Micros,
    pub(crate) ids: bool,
    pub(crate) costs: bool,
    pub(crate) policies: bool,
    pub(crate) sticky: bool,
    pub(crate) rule_changes: bool,
    /// Most that a node's wall clock is off, in milliseconds.
    pub(crate) clock_offset: u64,
    /// True if messages are lost, repeated and delayed at random.
    pub(crate) noisy: bool,
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
            clock_offset: if rng.percent(50) { 30_000 } else { 0 },
            noisy: rng.percent(85),
            faults: Vec::new(),
        };
        scenario.keys = (0..rng.range(1, 4)).map(|number| draw_key(&mut rng, number, parts)).collect();
        scenario.draw_faults(&mut rng);
        scenario
    }

    fn draw_faults(&mut self, rng: &mut Rng) {
        let (kills, cuts, forgets) = (rng.percent(45), rng.percent(45), rng.percent(15));
        let jumps = self.clock_offset > 0 && rng.percent(30);
        let start = if rng.percent(8) { 0 } else { WARM_UP + 200 * MS };
        let count = rng.range(1, 2 + (self.end - WARM_UP) / (2 * SECOND));
        for number in 0..count {
            let at = rng.range(start, self.end);
            let kind = if number == 0 {
                self.draw_outage(rng)
            } else {
                self.draw_kind(rng, kills, cuts, forgets, jumps)
            };
            self.faults.push(Fault { at, lasts: draw_length(rng), kind });
        }
        self.faults.sort_by_key(|fault| fault.at);
    }

    fn draw_outage(&self, rng: &mut Rng) -> FaultKind {
        let part = rng.index(self.parts);
        if rng.percent(60) { FaultKind::StoreDown { part } } else { FaultKind::StorePause { part } }
    }

    #[allow(clippy::fn_params_excessive_bools, reason = "which kinds of faults this seed has")]
    fn draw_kind(&self, rng: &mut Rng, kills: bool, cuts: bool, forgets: bool, jumps: bool) -> FaultKind {
        let (node, part) = (rng.index(self.nodes), rng.index(self.parts));
        let nodes = rng.range(1, (1 << self.nodes).max(2));
        match rng.below(14) {
            0 | 1 => FaultKind::StoreDown { part },
            2 => FaultKind::StorePause { part },
            3 => FaultKind::Pause { node },
            4 => FaultKind::PauseSome { nodes },
            5 => FaultKind::Slow,
            6 if kills => FaultKind::Kill { node },
            7 if kills => FaultKind::Terminate { node },
            8 if kills => FaultKind::StoreDownAndKill { part, node },
            9 if cuts => FaultKind::StoreCut { node, part, there: rng.percent(70), back: rng.percent(70) },
            10 if cuts => FaultKind::PeerCut { from: node, to: rng.index(self.nodes) },
            11 if cuts => FaultKind::Split { nodes, store: rng.below(3) },
            12 if forgets => FaultKind::StoreForgets { part },
            13 if jumps => {
                FaultKind::ClockJump { part, by: rng.pick(&[-8_000, -2_000, 1_500, 5_000, 25_000]) }
            }
            _ => self.draw_outage(rng),
        }
    }
}

fn draw_config(rng: &mut Rng, parts: usize) -> Config {
    let forget = rng.percent(25).then_some(Duration::from_secs(10));
    let timing = Timing { forget, ..Timing::default() };
    let parts = u8::try_from(parts).unwrap_or(1);
    Config { timing, parts, max_keys: 10_000, max_calls: 10_000, emergency_cap: 5, reserves: rng.percent(60) }
}

/// Draws how long a fault lasts: a hitch, a moment, or an outage.
fn draw_length(rng: &mut Rng) -> Micros {
    match rng.below(4) {
        0 => rng.range(4 * MS, 250 * MS),
        1 => rng.range(100 * MS, 2 * SECOND),
        2 => rng.range(SECOND, 5 * SECOND),
        _ => rng.range(3 * SECOND, 9 * SECOND),
    }
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

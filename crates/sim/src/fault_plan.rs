//! The faults of a scenario, and how they are drawn.

use crate::rng::Rng;
use crate::scenario::{MS, Micros, SECOND, Scenario, WARM_UP};

/// Time within which the faults of a cluster begin.
const CLUSTER: Micros = 2 * SECOND;

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

/// Kinds of faults that a seed has.
struct Repertoire {
    kills: bool,
    cuts: bool,
    forgets: bool,
    jumps: bool,
}

/// Draws the faults of a scenario, in order of time.
pub(crate) fn draw_faults(scenario: &Scenario, rng: &mut Rng) -> Vec<Fault> {
    let mut faults = if rng.percent(20) { draw_restarts(scenario, rng) } else { draw_mixture(scenario, rng) };
    faults.sort_by_key(|fault| fault.at);
    faults
}

/// Any faults at any time, or close together.
fn draw_mixture(scenario: &Scenario, rng: &mut Rng) -> Vec<Fault> {
    let jumps = scenario.clock_offset > 0 && rng.percent(30);
    let repertoire =
        Repertoire { kills: rng.percent(45), cuts: rng.percent(45), forgets: rng.percent(15), jumps };
    let start = if rng.percent(8) { 0 } else { WARM_UP + 200 * MS };
    let count = rng.range(1, 2 + (scenario.end - WARM_UP) / (2 * SECOND));
    let clustered = rng.percent(35);
    let cluster = rng.range(start, scenario.end - CLUSTER);
    let mut faults = Vec::new();
    for number in 0..count {
        let at = match clustered {
            true if number == 0 => cluster,
            true => rng.range(cluster, cluster + CLUSTER),
            false => rng.range(start, scenario.end),
        };
        let kind = if number == 0 { draw_outage(scenario, rng) } else { repertoire.draw(scenario, rng) };
        faults.push(Fault { at, lasts: draw_length(rng), kind });
    }
    faults
}

/// An outage of the store during which nodes restart and lose sight of each other.
fn draw_restarts(scenario: &Scenario, rng: &mut Rng) -> Vec<Fault> {
    let start = WARM_UP + rng.range(200 * MS, 2 * SECOND);
    let outage = rng.range(3 * SECOND, 8 * SECOND).min(scenario.end - start);
    let kind = FaultKind::StoreDown { part: rng.index(scenario.parts) };
    let mut faults = vec![Fault { at: start, lasts: outage, kind }];
    for _ in 0..rng.range(2, 6) {
        let (node, to) = (rng.index(scenario.nodes), rng.index(scenario.nodes));
        let kind = match rng.below(6) {
            0 | 1 => FaultKind::Terminate { node },
            2 => FaultKind::Kill { node },
            3 => FaultKind::PeerCut { from: node, to },
            4 => FaultKind::Split { nodes: 1 << node, store: 2 },
            _ => FaultKind::Pause { node },
        };
        let at = start + rng.range(600 * MS, outage.max(700 * MS));
        faults.push(Fault { at, lasts: rng.range(100 * MS, 2 * SECOND), kind });
    }
    faults
}

fn draw_outage(scenario: &Scenario, rng: &mut Rng) -> FaultKind {
    let part = rng.index(scenario.parts);
    if rng.percent(60) { FaultKind::StoreDown { part } } else { FaultKind::StorePause { part } }
}

impl Repertoire {
    fn draw(&self, scenario: &Scenario, rng: &mut Rng) -> FaultKind {
        let (node, part) = (rng.index(scenario.nodes), rng.index(scenario.parts));
        let nodes = rng.range(1, (1 << scenario.nodes).max(2));
        match rng.below(14) {
            0 | 1 => FaultKind::StoreDown { part },
            2 => FaultKind::StorePause { part },
            3 => FaultKind::Pause { node },
            4 => FaultKind::PauseSome { nodes },
            5 => FaultKind::Slow,
            6 if self.kills => FaultKind::Kill { node },
            7 if self.kills => FaultKind::Terminate { node },
            8 if self.kills => FaultKind::StoreDownAndKill { part, node },
            9 if self.cuts => {
                FaultKind::StoreCut { node, part, there: rng.percent(70), back: rng.percent(70) }
            }
            10 if self.cuts => FaultKind::PeerCut { from: node, to: rng.index(scenario.nodes) },
            11 if self.cuts => FaultKind::Split { nodes, store: rng.below(3) },
            12 if self.forgets => FaultKind::StoreForgets { part },
            13 if self.jumps => {
                FaultKind::ClockJump { part, by: rng.pick(&[-8_000, -2_000, 1_500, 5_000, 25_000]) }
            }
            _ => draw_outage(scenario, rng),
        }
    }
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

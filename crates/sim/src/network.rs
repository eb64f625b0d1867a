//! Links between nodes and to the store: delays, losses, repeats and cuts.

use crate::rng::Rng;
use crate::scenario::{MS, Micros, Scenario};

/// Most time by which a repeat comes later than any message would.
const LATE_REPEAT: Micros = 400 * MS;

/// State of all links.
pub(crate) struct Network {
    noisy: bool,
    repeats: u64,
    slow: u32,
    /// Number of faults that cut the way from one node to another.
    peers: Vec<Vec<u32>>,
    /// Likewise to a part of the store, and back.
    there: Vec<Vec<u32>>,
    back: Vec<Vec<u32>>,
}

impl Network {
    pub(crate) fn new(scenario: &Scenario) -> Self {
        let Scenario { nodes, parts, noisy, repeats, .. } = *scenario;
        let links = |width: usize| vec![vec![0; width]; nodes];
        Self { noisy, repeats, slow: 0, peers: links(nodes), there: links(parts), back: links(parts) }
    }

    pub(crate) const fn set_slow(&mut self, slow: bool) {
        self.slow = if slow { self.slow + 1 } else { self.slow.saturating_sub(1) };
    }

    pub(crate) fn cut_peer(&mut self, from: usize, to: usize, cut: bool) {
        count(&mut self.peers[from][to], cut);
    }

    pub(crate) fn cut_store(&mut self, node: usize, part: usize, (there, back): (bool, bool), cut: bool) {
        if there {
            count(&mut self.there[node][part], cut);
        }
        if back {
            count(&mut self.back[node][part], cut);
        }
    }

    /// Ends all faults of the network.
    pub(crate) fn heal(&mut self) {
        self.slow = 0;
        self.noisy = false;
        for links in [&mut self.peers, &mut self.there, &mut self.back] {
            links.iter_mut().flatten().for_each(|cuts| *cuts = 0);
        }
    }

    /// Draws the delay of one message.
    fn delay(&self, rng: &mut Rng) -> Micros {
        let slow = self.slow > 0;
        let longest = if slow { 60 * MS } else { 4 * MS };
        match rng.below(1_000) {
            0..900 if !slow => rng.range(100, 800),
            _ if !self.noisy => rng.range(100, longest),
            985..997 => rng.range(MS, 60 * MS),
            997.. => rng.range(10 * MS, 500 * MS),
            _ => rng.range(300, longest),
        }
    }

    /// Returns the delays after which a message between nodes arrives: none if it is lost, several if it is repeated.
    pub(crate) fn between(&self, rng: &mut Rng, from: usize, to: usize) -> Vec<Micros> {
        if self.peers[from][to] > 0 {
            return Vec::new();
        }
        self.deliveries(rng, 6, self.repeats)
    }

    /// Returns the delays after which a call reaches the store. Only calls that say so are ever repeated.
    pub(crate) fn to_store(&self, rng: &mut Rng, node: usize, part: usize, repeatable: bool) -> Vec<Micros> {
        if self.there[node][part] > 0 {
            return Vec::new();
        }
        self.deliveries(rng, 2, if repeatable { 30 + self.repeats } else { 0 })
    }

    /// Returns the delays after which an answer of the store arrives.
    pub(crate) fn answers(&self, rng: &mut Rng, node: usize, part: usize) -> Vec<Micros> {
        if self.back[node][part] > 0 {
            return Vec::new();
        }
        self.deliveries(rng, 2, 5)
    }

    fn deliveries(&self, rng: &mut Rng, lost: u64, repeated: u64) -> Vec<Micros> {
        let first = self.delay(rng);
        if !self.noisy {
            return vec![first];
        }
        match rng.below(1_000) {
            luck if luck < lost => Vec::new(),
            luck if luck < lost + repeated => vec![first, self.delay(rng) + rng.below(LATE_REPEAT)],
            _ => vec![first],
        }
    }
}

const fn count(cuts: &mut u32, cut: bool) {
    *cuts = if cut { *cuts + 1 } else { cuts.saturating_sub(1) };
}

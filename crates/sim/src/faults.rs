//! Faults: how they begin and how they end.

use tidegate_failover::Event;

use crate::fault_plan::{Fault, FaultKind};
use crate::scenario::{MS, Micros, SECOND};
use crate::store::StoreState;
use crate::world::{Happening, World};

impl World {
    pub(crate) fn begin_fault(&mut self, number: usize) {
        let Fault { lasts, kind, .. } = self.scenario.faults[number];
        self.trace.line(self.now, || format!("FAULT {kind:?} for {} ms", lasts / MS));
        match kind {
            FaultKind::StoreDown { part } => self.stores[part].state = StoreState::Down,
            FaultKind::StorePause { part } => self.stores[part].state = StoreState::Paused,
            FaultKind::StoreForgets { part } => self.forget(part),
            FaultKind::Pause { node } => self.pause(node, lasts),
            FaultKind::PauseSome { nodes } => self.pause_some(nodes),
            FaultKind::Kill { node } => self.kill_and_restart(node, lasts),
            FaultKind::Terminate { node } => self.terminate(node),
            FaultKind::StoreDownAndKill { part, node } => {
                self.stores[part].state = StoreState::Down;
                self.kill_and_restart(node, lasts);
            }
            FaultKind::ClockJump { part, by } => self.jump(part, by),
            FaultKind::StoreCut { .. }
            | FaultKind::PeerCut { .. }
            | FaultKind::Split { .. }
            | FaultKind::Slow => {
                self.set_links(kind, true);
            }
        }
        self.after(lasts, Happening::FaultEnds(number));
    }

    pub(crate) fn end_fault(&mut self, number: usize) {
        if self.healed {
            return;
        }
        let kind = self.scenario.faults[number].kind;
        match kind {
            FaultKind::StoreDown { part }
            | FaultKind::StorePause { part }
            | FaultKind::StoreDownAndKill { part, .. } => {
                self.trace.line(self.now, || format!("store {part} is back"));
                self.store_up(part);
            }
            _ => self.set_links(kind, false),
        }
    }

    fn set_links(&mut self, kind: FaultKind, cut: bool) {
        match kind {
            FaultKind::Slow => self.network.set_slow(cut),
            FaultKind::PeerCut { from, to } => self.network.cut_peer(from, to, cut),
            FaultKind::StoreCut { node, part, there, back } => {
                self.network.cut_store(node, part, (there, back), cut);
            }
            FaultKind::Split { nodes, store } => self.split(nodes, store, cut),
            _ => {}
        }
    }

    fn split(&mut self, nodes: u64, store: u64, cut: bool) {
        let side = |node: usize| nodes >> node & 1;
        for from in 0..self.scenario.nodes {
            for to in (0..self.scenario.nodes).filter(|to| side(*to) != side(from)) {
                self.network.cut_peer(from, to, cut);
            }
            if store < 2 && side(from) != store {
                for part in 0..self.scenario.parts {
                    self.network.cut_store(from, part, (true, true), cut);
                }
            }
        }
    }

    fn store_up(&mut self, part: usize) {
        self.stores[part].state = StoreState::Up;
        for (node, request) in std::mem::take(&mut self.stores[part].waiting) {
            self.call_store(part, node, request);
        }
    }

    fn pause(&mut self, node: usize, lasts: Micros) {
        let until = self.now + lasts;
        let state = &mut self.nodes[node];
        state.paused_until = state.paused_until.max(until);
        state.resumed = state.resumed.max(state.paused_until);
    }

    fn pause_some(&mut self, nodes: u64) {
        for node in (0..self.scenario.nodes).filter(|node| nodes >> node & 1 == 1) {
            let lasts = self.rng.range(5 * MS, 400 * MS);
            self.pause(node, lasts);
        }
    }

    fn kill_and_restart(&mut self, node: usize, lasts: Micros) {
        self.kill(node);
        let delay = self.rng.range(50 * MS, lasts.max(100 * MS));
        self.after(delay, Happening::Start { node });
    }

    fn terminate(&mut self, node: usize) {
        if self.nodes[node].paused_until <= self.now && self.nodes[node].machine.is_some() {
            self.trace.line(self.now, || format!("node {node} is asked to end"));
            self.nodes[node].leaving = Some(self.now);
            self.event(node, Event::Leave);
        }
    }

    /// Ends a process that has said goodbye. What it could not hand over in time, or to nobody because it was the only one, is
    /// lost with it as if it had been killed.
    pub(crate) fn exited(&mut self, node: usize) {
        self.trace.line(self.now, || format!("node {node} ends"));
        let handover = u64::try_from(self.scenario.config.timing.handover.as_micros()).unwrap_or(0);
        let out_of_time = self.nodes[node].leaving.is_some_and(|since| self.now - since >= handover);
        if let Some(machine) = self.nodes[node].machine.take()
            && (out_of_time || machine.roster().alive().next().is_none())
        {
            self.graves.push(machine);
        }
        self.nodes[node].pending.clear();
        let delay = self.rng.range(50 * MS, 3 * SECOND);
        self.after(delay, Happening::Start { node });
    }

    /// Ends all faults for good.
    pub(crate) fn heal(&mut self) {
        self.trace.line(self.now, || "all faults end".to_owned());
        self.healed = true;
        self.network.heal();
        for part in 0..self.scenario.parts {
            self.store_up(part);
        }
        for node in 0..self.scenario.nodes {
            self.start(node);
            self.resume(node);
        }
    }
}

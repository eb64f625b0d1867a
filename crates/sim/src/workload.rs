//! Requests of clients and rule changes of administrators.

use tidegate_core::rule::OnStoreFailure;
use tidegate_core::{Quota, RequestId};

use crate::scenario::{FLOOD_LIMIT, MS, RECOVERY, SECOND, WARM_UP};
use crate::world::{Demand, Happening, World};

impl World {
    pub(crate) fn schedule(&mut self) {
        for number in 0..self.scenario.faults.len() {
            self.at(self.scenario.faults[number].at, Happening::Fault(number));
        }
        let sticky = self.rng.index(self.scenario.nodes);
        let (mut at, end) = (WARM_UP, self.scenario.end);
        while at < end {
            let demand = self.draw_demand(sticky);
            self.at(at, Happening::Request(demand));
            at += self.rng.below(2 * self.scenario.gap);
        }
        if self.scenario.rule_changes {
            self.schedule_rules();
        }
        self.at(end, Happening::Heal);
        self.at(end + RECOVERY, Happening::Recovered);
        self.at(end + RECOVERY + 3 * SECOND, Happening::End);
    }

    fn draw_demand(&mut self, sticky: usize) -> Demand {
        let key = self.rng.index(self.scenario.keys.len() - 1);
        let any = self.rng.index(self.scenario.nodes);
        let node = if self.scenario.sticky && key == 0 { sticky } else { any };
        let cost = if self.scenario.costs { self.rng.pick(&[1, 1, 2, 3, 5]) } else { 1 };
        let policy = match self.rng.below(20) {
            0 if self.scenario.policies => OnStoreFailure::Allow,
            1 if self.scenario.policies => OnStoreFailure::Deny,
            2 if self.scenario.policies => OnStoreFailure::LocalOrDeny,
            _ => OnStoreFailure::Local,
        };
        self.ids += 1;
        let id = self.scenario.ids.then(|| RequestId::from_bits([self.ids, self.scenario.seed]));
        let hold = self.scenario.holds && id.is_none() && self.rng.percent(50);
        let cost = if hold { cost + 3 } else { cost };
        Demand { node, key, cost, id, policy, retries: if id.is_some() { 2 } else { 0 }, hold }
    }

    /// Uses up the last counter at all nodes.
    pub(crate) fn flood(&mut self) {
        self.undecided_before = self.stats.undecided;
        let (key, policy) = (self.scenario.keys.len() - 1, OnStoreFailure::Local);
        for number in 0..FLOOD_LIMIT * 3 / 2 {
            let node = self.rng.index(self.scenario.nodes);
            let demand = Demand { node, key, cost: 1, id: None, policy, retries: 0, hold: false };
            self.after(number * 10 * MS, Happening::Request(demand));
        }
    }

    /// Lets nodes learn of new limits for windows, each at its own time.
    fn schedule_rules(&mut self) {
        for key in 0..self.scenario.keys.len() - 1 {
            let quota = self.scenario.keys[key].quota;
            let limit = self.rng.pick(&[quota.limit() / 2, quota.limit() * 2]).max(1);
            if !crate::check::has_windows(&quota) || !self.rng.percent(60) {
                continue;
            }
            let Ok(changed) = Quota::new(quota.algorithm(), limit, quota.window()) else { continue };
            let changed = changed.at_version(1);
            let at = self.rng.range(WARM_UP, self.scenario.end);
            for node in 0..self.scenario.nodes {
                let later = at + self.rng.below(2 * SECOND);
                self.at(later, Happening::NewRules { node, key, quota: changed });
            }
            if limit > quota.limit() {
                self.truth[key].quota = changed;
            }
        }
    }
}

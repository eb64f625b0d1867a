//! The world: nodes, stores and links in virtual time.

use std::collections::BTreeMap;

use tidegate_core::rule::OnStoreFailure;
use tidegate_core::{Quota, RequestId, Timestamp};
use tidegate_failover::{
    Action, Answer, DecisionRequest, Envelope, Event, Machine, NodeName, Notice, Pid, StoreCall, StoreReply,
    StoreRequest,
};

use crate::fault_plan::FaultKind;
use crate::network::Network;
use crate::node::{Node, Pending};
use crate::queue::Queue;
use crate::rng::Rng;
use crate::scenario::{MS, Micros, RECOVERY, SECOND, Scenario};
use crate::stats::RunStats;
use crate::store::{EPOCH_MS, SimStore, StoreState};
use crate::trace::Trace;
use crate::truth::KeyTruth;

/// Something that happens in the world.
pub(crate) enum Happening {
    Deliver { node: usize, envelope: Envelope },
    StoreCall { part: usize, node: usize, request: StoreRequest },
    StoreReply { node: usize, reply: StoreReply },
    Wake { node: usize, generation: u64, due: Micros },
    Request(Demand),
    Settle(Settlement),
    Fault(usize),
    FaultEnds(usize),
    Start { node: usize },
    NewRules { node: usize, key: usize, quota: Quota },
    Heal,
    Recovered,
    End,
}

/// A client's request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Demand {
    pub(crate) node: usize,
    pub(crate) key: usize,
    pub(crate) cost: u64,
    pub(crate) id: Option<RequestId>,
    pub(crate) policy: OnStoreFailure,
    pub(crate) retries: u8,
    pub(crate) hold: bool,
}

/// Actual cost of a request, to be settled against its hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settlement {
    pub(crate) node: usize,
    generation: u64,
    call: u64,
    key: usize,
    slot: u64,
    held: u64,
    cost: u64,
}

/// A violation: what was promised and what happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Virtual time, in microseconds.
    pub at: u64,
    /// Description, beginning with the name of the invariant.
    pub what: String,
}

/// Everything in a run.
pub(crate) struct World {
    pub(crate) scenario: Scenario,
    pub(crate) rng: Rng,
    pub(crate) now: Micros,
    queue: Queue<Happening>,
    pub(crate) nodes: Vec<Node>,
    pub(crate) stores: Vec<SimStore>,
    pub(crate) network: Network,
    pub(crate) truth: Vec<KeyTruth>,
    /// Processes that were killed, with all they knew.
    pub(crate) graves: Vec<Machine>,
    pub(crate) splits: u64,
    /// Debts of dead processes that allowances include already, by key and slot.
    pub(crate) lost_debts: BTreeMap<(usize, u64), u64>,
    /// Units admitted within the emergency cap, by process, key and minute.
    pub(crate) emergency: BTreeMap<(Pid, usize, u64), u64>,
    starts: u64,
    calls: u64,
    pub(crate) ids: u64,
    pub(crate) healed: bool,
    /// Requests undecided by the time that all was to be well again.
    pub(crate) undecided_before: u64,
    pub(crate) violation: Option<Violation>,
    pub(crate) trace: Trace,
    pub(crate) stats: RunStats,
    pub(crate) fingerprint: u64,
}

impl World {
    pub(crate) fn new(scenario: Scenario, tracing: bool) -> Self {
        let rng = Rng::new(scenario.seed);
        let network = Network::new(&scenario);
        let mut world = Self {
            rng,
            now: 0,
            queue: Queue::new(),
            nodes: Vec::new(),
            stores: (0..scenario.parts).map(|_| SimStore::new()).collect(),
            network,
            truth: scenario.keys.iter().map(|plan| KeyTruth::new(plan.quota)).collect(),
            graves: Vec::new(),
            splits: 0,
            lost_debts: BTreeMap::new(),
            emergency: BTreeMap::new(),
            starts: 0,
            calls: 0,
            ids: 0,
            healed: false,
            undecided_before: 0,
            violation: None,
            trace: Trace::new(tracing),
            stats: RunStats::default(),
            fingerprint: 0,
            scenario,
        };
        world.populate();
        world.schedule();
        world
    }

    fn populate(&mut self) {
        for number in 0..self.scenario.nodes {
            let offset = i64::try_from(self.rng.below(2 * self.scenario.clock_offset + 1)).unwrap_or(0);
            self.nodes.push(Node {
                machine: None,
                generation: 0,
                paused_until: 0,
                resumed: 0,
                wakes_at: Micros::MAX,
                drift: self.rng.below(1_000),
                wall_offset: offset - i64::try_from(self.scenario.clock_offset).unwrap_or(0),
                quotas: self.scenario.keys.iter().map(|plan| plan.quota).collect(),
                pending: BTreeMap::new(),
                leaving: None,
            });
            let at = self.rng.below(50 * MS);
            self.queue.push(at, Happening::Start { node: number });
        }
    }

    /// Runs to the end, or to the first violation.
    pub(crate) fn run(&mut self) {
        while let Some((at, happening)) = self.queue.pop() {
            self.now = at;
            self.stats.events += 1;
            let end = matches!(happening, Happening::End);
            self.happen(happening);
            if end || self.violation.is_some() {
                break;
            }
        }
    }

    /// Schedules something at a time.
    pub(crate) fn at(&mut self, at: Micros, happening: Happening) {
        self.queue.push(at, happening);
    }

    /// Schedules something `delay` from now.
    pub(crate) fn after(&mut self, delay: Micros, happening: Happening) {
        self.queue.push(self.now + delay, happening);
    }

    fn happen(&mut self, happening: Happening) {
        if let Some(until) = self.paused_until(&happening) {
            let at = until + self.rng.below(300);
            return self.queue.push(at, happening);
        }
        match happening {
            Happening::Deliver { node, envelope } => self.event(node, Event::Message(envelope)),
            Happening::StoreReply { node, reply } => self.event(node, Event::Store(reply)),
            Happening::Wake { node, generation, due } if self.nodes[node].is_waiting(generation, due) => {
                self.nodes[node].wakes_at = Micros::MAX;
                self.event(node, Event::Tick);
            }
            Happening::Wake { .. } => {}
            Happening::StoreCall { part, node, request } => self.call_store(part, node, request),
            Happening::Request(demand) => self.request(demand),
            Happening::Settle(settlement) => self.settle(&settlement),
            Happening::Fault(number) => self.begin_fault(number),
            Happening::FaultEnds(number) => self.end_fault(number),
            Happening::Start { node } => self.start(node),
            Happening::NewRules { node, key, quota } => self.nodes[node].quotas[key] = quota,
            Happening::Heal => self.heal(),
            Happening::Recovered => {
                self.check_recovered();
                self.flood();
            }
            Happening::End => self.check_end(),
        }
    }

    /// Returns until when the process that this happens to is stopped.
    fn paused_until(&self, happening: &Happening) -> Option<Micros> {
        let node = match happening {
            Happening::Deliver { node, .. }
            | Happening::StoreReply { node, .. }
            | Happening::Wake { node, .. } => *node,
            Happening::Request(demand) => demand.node,
            Happening::Settle(settlement) => settlement.node,
            _ => return None,
        };
        Some(self.nodes[node].paused_until).filter(|until| *until > self.now)
    }

    /// Starts a process on a node that has none.
    pub(crate) fn start(&mut self, node: usize) {
        if self.nodes[node].machine.is_some() {
            return;
        }
        self.starts += 1;
        let (me, seed) = (Pid::new(name_of(node), self.starts, self.rng.next()), self.rng.next());
        let quotas = self.nodes[node].quotas.clone();
        let state = &mut self.nodes[node];
        let wall = (EPOCH_MS + self.now / MS).saturating_add_signed(state.wall_offset);
        let local = state.local(self.now);
        let machine = Machine::new(self.scenario.config, me, seed, local, Timestamp::from_millis(wall));
        state.machine = Some(machine);
        state.generation += 1;
        (state.paused_until, state.resumed, state.wakes_at, state.leaving) = (0, self.now, Micros::MAX, None);
        state.quotas = quotas;
        let contacts = (0..self.scenario.nodes).filter(|other| *other != node).map(name_of).collect();
        self.trace.line(self.now, || format!("node {node} starts as {me}"));
        self.event(node, Event::Contacts(contacts));
    }

    /// Lets a stopped process run again.
    pub(crate) fn resume(&mut self, node: usize) {
        self.nodes[node].paused_until = self.now;
        self.nodes[node].wakes_at = Micros::MAX;
        self.event(node, Event::Tick);
    }

    /// Hands an event to a node's machine and carries out what it asks for.
    pub(crate) fn event(&mut self, node: usize, event: Event) {
        let local = self.nodes[node].local(self.now);
        let Some(machine) = self.nodes[node].machine.as_mut() else { return };
        let actions = machine.handle(local, event);
        let wakeup = machine.next_wakeup();
        for action in actions {
            self.act(node, action);
        }
        let at = self.nodes[node].to_true(wakeup).max(self.now + 1);
        let state = &mut self.nodes[node];
        if state.machine.is_some() && at < state.wakes_at {
            state.wakes_at = at;
            let generation = state.generation;
            self.queue.push(at, Happening::Wake { node, generation, due: at });
        }
    }

    fn act(&mut self, node: usize, action: Action) {
        self.fingerprint =
            self.fingerprint.rotate_left(5) ^ self.now ^ (node as u64) << 40 ^ kind_of(&action);
        match action {
            Action::Send { to, envelope } => self.send(node, to, &envelope),
            Action::Ask(request) => self.ask(node, &request),
            Action::Answer { call, answer } => self.answered(node, call, &answer),
            Action::Notice(notice) => self.noticed(node, notice),
            Action::Exit => self.exited(node),
        }
    }

    fn send(&mut self, node: usize, to: NodeName, envelope: &Envelope) {
        let to = usize::try_from(to.0).unwrap_or(0).saturating_sub(1);
        if to < self.nodes.len() {
            for delay in self.network.between(&mut self.rng, node, to) {
                self.after(delay, Happening::Deliver { node: to, envelope: envelope.clone() });
            }
        }
    }

    fn ask(&mut self, node: usize, request: &StoreRequest) {
        let part = usize::from(request.part);
        let repeatable = !matches!(request.body, StoreCall::Take(_));
        for delay in self.network.to_store(&mut self.rng, node, part, repeatable) {
            self.after(delay, Happening::StoreCall { part, node, request: request.clone() });
        }
    }

    pub(crate) fn call_store(&mut self, part: usize, node: usize, request: StoreRequest) {
        match self.stores[part].state {
            StoreState::Down => return,
            StoreState::Paused => return self.stores[part].waiting.push((node, request)),
            StoreState::Up => {}
        }
        let history =
            self.scenario.faults.iter().any(|fault| matches!(fault.kind, FaultKind::StoreForgets { .. }));
        let reply = self.stores[part].apply(&request, self.now, history);
        self.watch_store(&request, &reply);
        for delay in self.network.answers(&mut self.rng, node, part) {
            self.after(delay, Happening::StoreReply { node, reply: reply.clone() });
        }
    }

    fn request(&mut self, demand: Demand) {
        let node = &self.nodes[demand.node];
        if node.machine.is_none() || node.leaving.is_some() {
            return;
        }
        self.calls += 1;
        self.stats.requests += 1;
        let (call, since) = (self.calls, self.now);
        let request = DecisionRequest {
            key: self.scenario.keys[demand.key].key,
            quota: node.quotas[demand.key],
            cost: demand.cost,
            id: demand.id,
            on_store_failure: demand.policy,
            hold: demand.hold,
        };
        self.nodes[demand.node].pending.insert(call, Pending { demand, since });
        self.event(demand.node, Event::Decide { call, request });
    }

    fn answered(&mut self, node: usize, call: u64, answer: &Answer) {
        let Some(Pending { demand, since }) = self.nodes[node].pending.remove(&call) else {
            return self.fail(format!("answers: node {node} answers call {call} twice"));
        };
        self.check_budget(node, since);
        self.check_answer(node, &demand, answer);
        if demand.hold {
            self.schedule_settlement(node, call, &demand, answer);
        }
        let retry = demand.retries > 0 && (*answer == Answer::Undecided || self.rng.percent(15));
        if retry {
            let other = self.rng.index(self.scenario.nodes);
            let delay = self.rng.range(2 * MS, 1_500 * MS);
            let demand = Demand { node: other, retries: demand.retries - 1, ..demand };
            self.after(delay, Happening::Request(demand));
        }
    }

    /// Lets an admitted request settle some time later, for no more than it held.
    fn schedule_settlement(&mut self, node: usize, call: u64, demand: &Demand, answer: &Answer) {
        let Answer::Admitted { slot, .. } = *answer else { return };
        let (held, generation) = (demand.cost, self.nodes[node].generation);
        let (cost, delay) = (self.rng.below(held + 1), self.rng.range(5 * MS, 3 * SECOND));
        let settlement = Settlement { node, generation, call, key: demand.key, slot, held, cost };
        self.after(delay, Happening::Settle(settlement));
    }

    /// Settles a request at the process that admitted it, if that still runs.
    fn settle(&mut self, settlement: &Settlement) {
        let Settlement { node, generation, call, key, slot, held, cost } = *settlement;
        // Too close to the check for debts: the estimate stays charged.
        if self.now > self.scenario.end + RECOVERY / 2 {
            return;
        }
        if self.nodes[node].generation == generation && self.nodes[node].machine.is_some() {
            self.trace.line(self.now, || {
                format!("node {node} settles {cost} of {held} of key {key} in slot {slot}")
            });
            self.truth[key].settle(slot, held - cost);
            self.event(node, Event::Settle { call, cost });
        }
    }

    fn noticed(&mut self, node: usize, notice: Notice) {
        self.trace.notice(self.now, node, &notice);
        self.check_notice(node, notice);
    }

    /// Ends a process without warning.
    pub(crate) fn kill(&mut self, node: usize) {
        if let Some(machine) = self.nodes[node].machine.take() {
            self.graves.push(machine);
        }
        self.nodes[node].pending.clear();
        self.trace.line(self.now, || format!("node {node} is killed"));
    }

    pub(crate) fn fail(&mut self, what: String) {
        let at = self.now;
        self.violation.get_or_insert(Violation { at, what });
    }
}

/// Returns the name of a node.
pub(crate) fn name_of(node: usize) -> NodeName {
    NodeName(node as u64 + 1)
}

fn kind_of(action: &Action) -> u64 {
    match action {
        Action::Send { to, .. } => to.0 << 3,
        Action::Ask(request) => request.call << 3 | 1,
        Action::Answer { call, answer } => {
            call << 3 | 2 | u64::from(matches!(answer, Answer::Undecided)) << 60
        }
        Action::Notice(_) => 3,
        Action::Exit => 4,
    }
}

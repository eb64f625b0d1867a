//! The machine: all state of one node, driven by events.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use tidegate_core::Timestamp;

use crate::announcement::Peers;
use crate::call::Calls;
use crate::departure::Departure;
use crate::emergency::EmergencyCap;
use crate::event::{Action, Answer, Event, Notice};
use crate::health::StoreHealth;
use crate::hold::Holds;
use crate::ledger::Ledger;
use crate::message::{Envelope, Message};
use crate::mistake::{self, Mistake};
use crate::note::Notes;
use crate::part::Part;
use crate::phase::Epoch;
use crate::pid::{NodeName, Pid, mix};
use crate::pool::Pool;
use crate::reserve::Demands;
use crate::roster::Roster;
use crate::timing::{FailoverTiming, Moment};

/// Settings of a machine.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Durations of the protocol.
    pub timing: FailoverTiming,
    /// Number of parts of the store.
    pub parts: u8,
    /// Most keys in each of its maps.
    pub max_keys: usize,
    /// Most calls under way.
    pub max_calls: usize,
    /// Units per key, node and minute while no book is open.
    pub emergency_cap: u64,
    /// True if reserves are asked for.
    pub reserves: bool,
}

impl Default for Config {
    fn default() -> Self {
        let (max_keys, max_calls) = (1_000_000, 100_000);
        Self {
            timing: FailoverTiming::default(),
            parts: 1,
            max_keys,
            max_calls,
            emergency_cap: 10,
            reserves: true,
        }
    }
}

/// One node of the protocol. See the crate's documentation.
#[derive(Clone, Debug)]
pub struct Machine {
    pub(crate) config: Config,
    pub(crate) me: Pid,
    /// All processes that this one has been, the present one last.
    pub(crate) mine: Vec<Pid>,
    seed: u64,
    pub(crate) now: Moment,
    pub(crate) started: Moment,
    pub(crate) contacts: BTreeSet<NodeName>,
    pub(crate) roster: Roster,
    pub(crate) alive: Vec<Pid>,
    pub(crate) fingerprint: u64,
    pub(crate) first_known: BTreeMap<Pid, Moment>,
    pub(crate) joined: bool,
    pub(crate) based: bool,
    pub(crate) departure: Option<Departure>,
    pub(crate) peers: Peers,
    pub(crate) parts: Vec<Part>,
    pub(crate) notes: Notes,
    pub(crate) ledger: Ledger,
    pub(crate) pool: Pool,
    pub(crate) demands: Demands,
    pub(crate) emergency: EmergencyCap,
    pub(crate) calls: Calls,
    pub(crate) holds: Holds,
    /// Since when this process has run without having been stopped.
    pub(crate) awake_since: Moment,
    pub(crate) next_tick: Moment,
    pub(crate) last_announced: Option<Moment>,
    pub(crate) announce_soon: bool,
    pub(crate) next_sweep: Moment,
    seq: u64,
    local: VecDeque<Envelope>,
    out: Vec<Action>,
}

impl Machine {
    /// Machine of the process `me`, started at `now`, when its own wall clock says `wall`. `seed` makes its later pids.
    pub fn new(config: Config, me: Pid, seed: u64, now: Moment, wall: Timestamp) -> Self {
        let elapsed = i64::try_from(now.as_millis()).unwrap_or(i64::MAX);
        let offset = i64::try_from(wall.as_millis()).unwrap_or(i64::MAX).saturating_sub(elapsed);
        let (parts, keys) = (usize::from(config.parts.max(1)), config.max_keys);
        let mut machine = Self {
            me,
            mine: vec![me],
            seed,
            now,
            started: now,
            contacts: BTreeSet::new(),
            roster: Roster::of(me),
            alive: Vec::new(),
            fingerprint: 0,
            first_known: BTreeMap::new(),
            joined: mistake::is(Mistake::NoJoining),
            based: mistake::is(Mistake::NoJoining),
            departure: None,
            peers: Peers::default(),
            parts: vec![Part::new(StoreHealth::new(offset), keys, now); parts],
            notes: Notes::new(keys),
            ledger: Ledger::new(keys),
            pool: Pool::new(keys),
            demands: Demands::new(keys),
            emergency: EmergencyCap::new(config.emergency_cap, keys),
            calls: Calls::default(),
            holds: Holds::new(config.max_calls),
            awake_since: now,
            next_tick: now,
            last_announced: None,
            announce_soon: false,
            next_sweep: now,
            seq: 0,
            local: VecDeque::new(),
            out: Vec::new(),
            config,
        };
        machine.roster_changed();
        machine
    }

    /// Takes in an event at `now` on the node's monotonic clock. Returns what is to be done about it, in order.
    pub fn handle(&mut self, now: Moment, event: Event) -> Vec<Action> {
        self.now = self.now.max(now);
        self.run_deadlines();
        match event {
            Event::Tick => {}
            Event::Decide { call, request } => self.decide(call, &request),
            Event::Settle { call, cost } => self.settle_hold(call, cost),
            Event::Message(envelope) => self.receive(envelope),
            Event::Store(reply) => self.store_replied(reply),
            Event::Contacts(names) => self.contacts = names.into_iter().collect(),
            Event::Leave => self.leave(),
        }
        self.run_timers();
        while let Some(envelope) = self.local.pop_front() {
            self.receive(envelope);
        }
        std::mem::take(&mut self.out)
    }

    /// Returns when the machine wants to be woken with [`Event::Tick`] at the latest.
    pub fn next_wakeup(&self) -> Moment {
        let announce = self.announce_soon.then(|| self.earliest_announcement());
        [Some(self.next_tick), self.calls.next_deadline(), announce]
            .into_iter()
            .flatten()
            .min()
            .unwrap_or(self.now)
    }

    fn run_timers(&mut self) {
        if self.now >= self.next_tick {
            if self.now.saturating_sub(self.next_tick) > self.config.timing.interval {
                self.awake_since = self.now;
            }
            self.next_tick = self.now + self.config.timing.interval;
            self.tick();
        }
        if self.announce_soon && self.now >= self.earliest_announcement() {
            self.announce();
        }
    }

    /// Does what is due in every interval.
    fn tick(&mut self) {
        self.probe();
        self.forget_silent();
        self.review();
        self.advance_phases();
        self.settle();
        self.recall_again();
        self.hand_over();
        if self.now >= self.next_sweep {
            self.next_sweep = self.now + self.config.timing.calm_interval;
            self.sweep();
        }
        if self.is_announcement_due() {
            self.announce();
        }
    }

    fn sweep(&mut self) {
        let (parts, now, roster) = (&self.parts, self.now, &self.roster);
        let time = |part: u8| parts.get(usize::from(part)).map(|part| part.health.time(now));
        self.notes.sweep(now, time);
        self.ledger.sweep(now, time);
        self.pool.sweep(|part| time(part).unwrap_or_default(), |pid| roster.is_alive(pid));
        self.calls.sweep(now.saturating_sub(self.config.timing.late * 2));
    }

    fn receive(&mut self, envelope: Envelope) {
        let Envelope { from, to, message } = envelope;
        if to.is_some_and(|to| !self.mine.contains(&to)) {
            return;
        }
        match message {
            Message::Announce(gossip) => self.heard(*gossip),
            Message::Take { call, draw } => self.take(from, call, draw),
            Message::TakeReply { call, reply, charge } => self.take_replied(call, &reply, charge),
            Message::Recall { key, epoch } => self.recall_asked(from, key, epoch),
            Message::Recalled { key, epoch, note } => self.recalled(from, key, epoch, note),
            Message::Relay(request) => self.relay(request),
            Message::Relayed { reply, stale } => self.relayed(reply, stale),
            Message::Pool(deposit) => self.deposited(from, &deposit),
            Message::Spend { call, key, quota, cost } => self.spend_asked(from, call, (key, quota), cost),
            Message::Spent { call, key, quota, slot, units } => self.spent(call, (key, quota), slot, units),
            Message::Cancel(cancel) => self.cancel_asked(&cancel),
            Message::Handover { notes, charges } => self.handed_over(from, notes, charges),
            Message::HandoverDone => self.handover_done(from),
        }
    }

    /// Sends a message to a process; to itself without leaving the machine.
    pub(crate) fn send(&mut self, to: Pid, message: Message) {
        let envelope = Envelope { from: self.me, to: Some(to), message };
        if to.name == self.me.name {
            self.local.push_back(envelope);
        } else {
            self.out.push(Action::Send { to: to.name, envelope });
        }
    }

    pub(crate) fn act(&mut self, action: Action) {
        self.out.push(action);
    }

    pub(crate) fn notice(&mut self, notice: Notice) {
        self.out.push(Action::Notice(notice));
    }

    pub(crate) fn answer(&mut self, call: u64, answer: Answer) {
        self.out.push(Action::Answer { call, answer });
    }

    /// Returns a number that this process has not used before.
    pub(crate) fn next_seq(&mut self) -> u64 {
        self.seq += 1;
        self.seq
    }

    /// Returns a random number that depends on the seed only.
    pub(crate) fn draw_nonce(&mut self) -> u64 {
        self.seed = mix(self.seed);
        self.seed
    }

    pub(crate) fn part(&self, part: u8) -> Option<&Part> {
        self.parts.get(usize::from(part))
    }

    /// Returns the epoch of a part.
    pub(crate) fn epoch(&self, part: u8) -> Epoch {
        let phase = self.part(part).map_or_else(Default::default, |part| part.phase);
        let roster = if mistake::is(Mistake::RosterIgnored) { 0 } else { self.fingerprint };
        Epoch::new(phase, roster)
    }

    /// Returns the store's time in a part, as far as it is known.
    pub(crate) fn time(&self, part: u8) -> Timestamp {
        self.part(part).map_or(Timestamp::EPOCH, |part| part.health.time(self.now))
    }

    /// Returns true if answers of a part's present book may be spent.
    pub(crate) fn may_spend(&self, part: u8) -> bool {
        self.joined && self.part(part).is_some_and(|part| part.phase.is_owned() || part.store_open)
    }
}

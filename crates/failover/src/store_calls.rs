//! Calls to the store: directly, or by way of a member that has it.

use crate::event::{Action, AdmissionSource};
use crate::machine::Machine;
use crate::message::{Message, StoreCall, StoreReply, StoreRequest, StoreResult};
use crate::mistake::{self, Mistake};
use crate::note::Note;
use crate::pid::Pid;

/// Most ledger entries in one call.
const MAX_CHARGES: usize = 128;

impl Machine {
    /// Calls the store, or a member that has it if this node does not.
    pub(crate) fn ask_store(&mut self, part: u8, call: u64, body: StoreCall) {
        let epoch = self.epoch(part);
        let request = StoreRequest { part, origin: self.me, call, sent: self.now, epoch, body };
        match self.relay_for(part) {
            Some(relay) => self.send(relay, Message::Relay(request)),
            None => self.act(Action::Ask(request)),
        }
    }

    /// Returns the member to ask for a part of the store that does not answer this node.
    pub(crate) fn relay_for(&self, part: u8) -> Option<Pid> {
        let timing = &self.config.timing;
        if self.part(part)?.health.is_ok(self.now, timing.relay_after) {
            return None;
        }
        let has_store = |report: &crate::announcement::PartReport| report.store_ok;
        self.peers
            .within(timing.recent, self.now)
            .filter(|heard| heard.announcement.parts.get(usize::from(part)).is_some_and(has_store))
            .map(|heard| heard.announcement.pid)
            .next()
    }

    /// Asks every part that has not answered of late whether it is there.
    pub(crate) fn probe(&mut self) {
        for part in 0..self.config.parts {
            let (now, interval, epoch) = (self.now, self.config.timing.interval, self.epoch(part));
            if self.part(part).is_some_and(|state| !state.health.is_ok(now, interval)) {
                let body = StoreCall::Probe;
                self.act(Action::Ask(StoreRequest {
                    part,
                    origin: self.me,
                    call: 0,
                    sent: now,
                    epoch,
                    body,
                }));
            }
        }
    }

    /// Passes on a member's call to the store. A take only while this node may use the store itself, in the same phase.
    pub(crate) fn relay(&mut self, request: StoreRequest) {
        let is_take = matches!(request.body, StoreCall::Take(_));
        let open = self.joined && self.part(request.part).is_some_and(|part| part.store_open);
        if !is_take || open && request.epoch == self.epoch(request.part) {
            self.act(Action::Ask(request));
        }
    }

    /// Takes in an answer of the store, to this node or to a member that it relays for.
    pub(crate) fn store_replied(&mut self, reply: StoreReply) {
        let (now, down) = (self.now, self.config.timing.store_down);
        let Some(part) = self.parts.get_mut(usize::from(reply.part)) else { return };
        if self.mine.contains(&reply.origin) {
            part.health.answered(reply.sent, now, reply.time, down);
            return self.store_answered(reply, false);
        }
        let stale = !(self.joined && part.store_open);
        if let StoreResult::Taken { key, reply: taken } = &reply.body
            && !stale
            && let crate::BookReply::Granted { statement, .. } | crate::BookReply::Refused { statement } =
                taken
        {
            self.notes.learn(*key, Note::new(part.phase, statement), now);
        }
        self.send(reply.origin, Message::Relayed { reply, stale });
    }

    /// Takes in an answer of the store that another member passed on.
    pub(crate) fn relayed(&mut self, reply: StoreReply, stale: bool) {
        let now = self.now;
        if let Some(part) = self.parts.get_mut(usize::from(reply.part)) {
            part.health.adopt_clock(Some(reply.time), now, true);
        }
        self.store_answered(reply, stale);
    }

    fn store_answered(&mut self, reply: StoreReply, stale: bool) {
        match reply.body {
            StoreResult::Taken { reply: taken, .. } => {
                self.book_replied(reply.call, &taken, AdmissionSource::Store, stale);
            }
            StoreResult::Charged(ids) => {
                ids.into_iter().for_each(|(id, seq)| self.ledger.ack(id, seq));
                self.review();
            }
            StoreResult::Done => {}
        }
    }

    /// Returns true if entries of this process are for this node to settle: its own, and those of members that are gone.
    fn is_to_settle(&self, by: Pid) -> bool {
        let dead = !self.roster.is_alive(by) && !mistake::is(Mistake::NoDebtsOfTheDead);
        self.mine.contains(&by) || dead
    }

    /// Returns true if the store knows of everything that this node has to settle in a part.
    pub(crate) fn is_settled(&self, part: u8) -> bool {
        self.ledger.unsettled(part, |by| self.is_to_settle(by), self.now).next().is_none()
    }

    /// Sends what the store does not know of, in every phase.
    pub(crate) fn settle(&mut self) {
        for part in 0..self.config.parts {
            let down = self.config.timing.store_down;
            let reachable = self.part(part).is_some_and(|part| part.health.is_ok(self.now, down));
            if !reachable && self.relay_for(part).is_none() {
                continue;
            }
            let due = self.ledger.unsettled(part, |by| self.is_to_settle(by), self.now);
            let charges: Vec<_> = due.take(MAX_CHARGES).collect();
            if !charges.is_empty() {
                self.ask_store(part, 0, StoreCall::Charge(charges));
            }
        }
    }
}

//! Leaving: hand over all knowledge, say goodbye, end.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::call::Settled;
use crate::event::{Action, Answer};
use crate::key::CounterKey;
use crate::ledger::{Charge, ChargeId};
use crate::machine::Machine;
use crate::message::Message;
use crate::mistake::{self, Mistake};
use crate::note::Note;
use crate::pid::Pid;
use crate::timing::Moment;

/// State of a departure.
#[derive(Clone, Debug)]
pub(crate) struct Departure {
    since: Moment,
    done: BTreeSet<Pid>,
    said_goodbye: bool,
}

impl Departure {
    fn is_done(&self, pid: Pid) -> bool {
        self.done.contains(&pid)
    }
}

/// Interval between attempts to hand over.
const RETRY: Duration = Duration::from_millis(20);

impl Machine {
    /// Starts to leave: answers what is under way, stops counting, gives pooled units back.
    pub(crate) fn leave(&mut self) {
        if self.departure.is_some() {
            return;
        }
        for number in self.calls.unanswered() {
            self.settle_call(number, Settled::Turned, Answer::Undecided);
        }
        self.departure = Some(Departure { since: self.now, done: BTreeSet::new(), said_goodbye: false });
        for (key, quota, slot, units) in self.pool.drain() {
            let id = ChargeId { key, slot, by: self.me };
            self.ledger.add(id, quota, -i64::try_from(units).unwrap_or(0), self.now);
        }
        self.hand_over();
    }

    /// Hands over to all members that have not acknowledged; says goodbye when all have, or when time is up.
    pub(crate) fn hand_over(&mut self) {
        let Some(departure) = &self.departure else { return };
        let waiting: Vec<Pid> = self.others().filter(|pid| !departure.is_done(*pid)).collect();
        let given_up = self.now.saturating_sub(departure.since) > self.config.timing.handover;
        if self.handed_over_to_all() || given_up || mistake::is(Mistake::NoHandover) {
            return self.say_goodbye();
        }
        let (notes, charges) = (self.notes.all(self.now), self.ledger.all_unsettled(self.now));
        for pid in waiting {
            self.send(pid, Message::Handover { notes: notes.clone(), charges: charges.clone() });
        }
        self.next_tick = self.next_tick.min(self.now + RETRY);
    }

    fn say_goodbye(&mut self) {
        let Some(departure) = self.departure.as_mut() else { return };
        if !departure.said_goodbye {
            departure.said_goodbye = true;
            self.roster.remove(self.me);
            self.roster_changed();
            self.announce();
            self.act(Action::Exit);
        }
    }

    /// Takes over what a leaving member knows.
    pub(crate) fn handed_over(&mut self, from: Pid, notes: Vec<(CounterKey, Note)>, charges: Vec<Charge>) {
        let behind =
            notes.iter().any(|(key, note)| self.part(key.part).is_some_and(|part| note.phase > part.phase));
        self.learn_notes(notes);
        charges.into_iter().for_each(|charge| self.learn_charge(charge));
        if !behind {
            self.send(from, Message::HandoverDone);
        }
        self.review();
    }

    /// Notes that a member has taken over.
    pub(crate) fn handover_done(&mut self, from: Pid) {
        if let Some(departure) = self.departure.as_mut() {
            departure.done.insert(from);
            if self.handed_over_to_all() {
                self.say_goodbye();
            }
        }
    }

    /// Returns true if this node is leaving and nothing that it knows is lost with it: every other member has acknowledged, or
    /// there is none and the store knows of everything.
    pub fn handed_over_to_all(&self) -> bool {
        let Some(departure) = &self.departure else { return false };
        let alone = self.others().next().is_none();
        let settled = (0..self.config.parts).all(|part| self.is_settled(part));
        self.others().all(|pid| departure.is_done(pid)) && (!alone || settled)
    }
}

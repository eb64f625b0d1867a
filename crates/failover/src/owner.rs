//! Counting keys that this node owns while the store is away.

use tidegate_core::Algorithm;
use tidegate_core::algorithm::AnyCounter;

use crate::book::{BookReply, Draw, Statement};
use crate::event::Notice;
use crate::key::CounterKey;
use crate::ledger::{Amount, Charge, ChargeId};
use crate::machine::Machine;
use crate::message::{Cancellation, Message};
use crate::mistake::{self, Mistake};
use crate::note::Note;
use crate::part::Opening;
use crate::phase::Epoch;
use crate::pid::Pid;
use crate::rendezvous;

/// Most takes that wait for one key to be opened.
const MAX_QUEUE: usize = 64;

impl Machine {
    /// Returns the owner of a key among the members.
    pub(crate) fn owner_of(&self, key: CounterKey) -> Option<Pid> {
        rendezvous::owner(key.tag, &self.alive)
    }

    /// Returns true if this node keeps the one open book of a key.
    pub fn is_counting(&self, key: CounterKey) -> bool {
        let agreed = self.part(key.part).is_some_and(|part| part.phase.is_owned() && part.agreed);
        agreed && self.joined && self.departure.is_none() && self.owner_of(key) == Some(self.me)
    }

    /// Answers a take from a member's request, now or once the key is open.
    pub(crate) fn take(&mut self, from: Pid, call: u64, draw: Draw) {
        let epoch = self.epoch(draw.key.part);
        let full = self.ledger.is_full();
        if draw.epoch != epoch || !self.is_counting(draw.key) || full {
            return self.send(from, Message::TakeReply { call, reply: BookReply::NotNow, charge: None });
        }
        let Some(part) = self.parts.get_mut(usize::from(draw.key.part)) else { return };
        part.keep_book_of(epoch);
        if part.book.contains(draw.key) {
            return self.count(from, call, &draw);
        }
        self.queue_take(from, call, draw);
        self.try_open(draw.key);
    }

    fn queue_take(&mut self, from: Pid, call: u64, draw: Draw) {
        let recalled = if mistake::is(Mistake::NoRecall) { Vec::new() } else { self.others().collect() };
        let (best, now) = (self.notes.get(draw.key, self.now), self.now);
        let Some(part) = self.parts.get_mut(usize::from(draw.key.part)) else { return };
        let new = !part.openings.contains_key(&draw.key);
        let opening = part.openings.entry(draw.key).or_insert_with(|| Opening {
            waiting: recalled.into_iter().collect(),
            best,
            queue: Vec::new(),
            asked: now,
        });
        if opening.queue.len() < MAX_QUEUE {
            opening.queue.push((from, call, draw));
        }
        if new || now.saturating_sub(opening.asked) > self.config.timing.soft_deadline {
            self.recall(draw.key);
        }
    }

    /// Asks all members that have not answered for their notes about a key.
    fn recall(&mut self, key: CounterKey) {
        let (epoch, now) = (self.epoch(key.part), self.now);
        let Some(part) = self.parts.get_mut(usize::from(key.part)) else { return };
        let Some(opening) = part.openings.get_mut(&key) else { return };
        opening.asked = now;
        for pid in opening.waiting.clone() {
            self.send(pid, Message::Recall { key, epoch });
        }
    }

    /// Repeats recalls that were not answered.
    pub(crate) fn recall_again(&mut self) {
        for part in 0..self.config.parts {
            let epoch = self.epoch(part);
            let Some(state) = self.parts.get_mut(usize::from(part)) else { continue };
            state.keep_book_of(epoch);
            for key in state.openings.keys().copied().collect::<Vec<_>>() {
                self.recall(key);
            }
        }
    }

    /// Answers a recall with this node's note. Nothing of an earlier epoch is spent here any more.
    pub(crate) fn recall_asked(&mut self, from: Pid, key: CounterKey, epoch: Epoch) {
        if epoch == self.epoch(key.part) {
            let note = self.notes.get(key, self.now);
            self.send(from, Message::Recalled { key, epoch, note });
        }
    }

    /// Takes in a member's note about a key that is being opened.
    pub(crate) fn recalled(&mut self, from: Pid, key: CounterKey, epoch: Epoch, note: Option<Note>) {
        let current = self.epoch(key.part);
        let Some(part) = self.parts.get_mut(usize::from(key.part)) else { return };
        part.keep_book_of(current);
        let Some(opening) = part.openings.get_mut(&key).filter(|_| epoch == current) else { return };
        if opening.waiting.remove(&from)
            && note.is_some_and(|note| opening.best.is_none_or(|best| note.outranks(&best)))
        {
            opening.best = note;
        }
        self.try_open(key);
    }

    /// Opens a key once all notes are here, and answers the takes that waited.
    fn try_open(&mut self, key: CounterKey) {
        let (counting, now) = (self.is_counting(key), self.now);
        let Some(part) = self.parts.get_mut(usize::from(key.part)).filter(|_| counting) else { return };
        let Some(opening) = part.openings.get(&key).filter(|opening| opening.waiting.is_empty()) else {
            return;
        };
        let Some(quota) =
            opening.best.map(|note| note.quota).or_else(|| Some(opening.queue.first()?.2.quota))
        else {
            return;
        };
        let (balance, time) = (opening.best.map(|note| note.balance), part.book_time(&quota, now));
        if !part.book.open(key, quota, balance, time) {
            return;
        }
        let queue = part.openings.remove(&key).map(|opening| opening.queue).unwrap_or_default();
        if let Some((quota, balance)) = part.book.balance(key, time) {
            let note = Note { phase: part.phase, at: time, quota, balance };
            self.notes.learn(key, note, self.now);
            self.notice(Notice::BookOpened { key, quota, balance });
        }
        queue.iter().for_each(|(from, call, draw)| self.count(*from, *call, draw));
    }

    /// Decides a take in this node's own book.
    fn count(&mut self, from: Pid, call: u64, draw: &Draw) {
        let now = self.now;
        let Some(part) = self.parts.get_mut(usize::from(draw.key.part)) else { return };
        let time = part.book_time(&draw.quota, now);
        let (reply, phase) = (part.book.take(draw, time), part.phase);
        let charge = match &reply {
            BookReply::Granted { units, statement, .. } => {
                self.notes.learn(draw.key, Note::new(phase, statement), self.now);
                self.record(draw.key, *units, statement)
            }
            BookReply::Refused { statement } => {
                self.notes.learn(draw.key, Note::new(phase, statement), self.now);
                None
            }
            BookReply::NotNow => None,
        };
        self.send(from, Message::TakeReply { call, reply, charge });
    }

    /// Enters what this node's book granted into its ledger.
    fn record(&mut self, key: CounterKey, units: u64, statement: &Statement) -> Option<Charge> {
        let quota = statement.verdict.quota;
        let id = ChargeId { key, slot: statement.slot, by: self.me };
        if units > 0 {
            self.notice(Notice::Debited { key, slot: statement.slot, units });
        }
        match units {
            0 => self.ledger.get(id, self.now),
            _ if quota.algorithm() == Algorithm::TokenBucket => {
                Some(self.ledger.put(id, quota, Amount::Level(statement.balance), self.now))
            }
            _ => Some(self.ledger.add(id, quota, i64::try_from(units).unwrap_or(i64::MAX), self.now)),
        }
    }

    /// Takes back what was debited here under a request id, unless it was replayed meanwhile.
    pub(crate) fn cancel_asked(&mut self, cancel: &Cancellation) {
        let time = self.time(cancel.key.part);
        let Some(part) = self.parts.get_mut(usize::from(cancel.key.part)) else { return };
        let undone = part.book.cancel(cancel, time);
        let Some(((slot, units), (quota, _))) = undone.zip(part.book.balance(cancel.key, time)) else {
            return;
        };
        if crate::ledger::takes_back(quota.algorithm()) {
            let id = ChargeId { key: cancel.key, slot, by: self.me };
            self.ledger.add(id, quota, -i64::try_from(units).unwrap_or(i64::MAX), self.now);
        }
    }

    /// Returns the slot that a key's units can be spent in: that of the clock, or of the newest window that any book told.
    pub(crate) fn current_slot(&self, key: CounterKey, quota: &tidegate_core::Quota) -> u64 {
        let slot = AnyCounter::slot_at(quota, self.time(key.part));
        let noted = self.notes.get(key, self.now).filter(|note| note.quota.window() == quota.window());
        noted.map_or(slot, |note| slot.max(AnyCounter::slot_at(quota, note.at)))
    }

    /// Learns notes that others sent, as far as their phases are not ahead of this node's.
    pub(crate) fn learn_notes(&mut self, notes: Vec<(CounterKey, Note)>) {
        for (key, note) in notes {
            if self.part(key.part).is_some_and(|part| note.phase <= part.phase) {
                self.notes.learn(key, note, self.now);
            }
        }
    }

    /// Learns a ledger entry of another process.
    pub(crate) fn learn_charge(&mut self, charge: Charge) {
        if !self.mine.contains(&charge.by) {
            self.ledger.learn(charge, self.now);
        }
    }
}

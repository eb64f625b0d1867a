//! The decision on one request: ask the open book, spend a reserve, or say in time that nobody knows.

use tidegate_core::rule::OnStoreFailure;
use tidegate_core::{Timestamp, Verdict};

use crate::book::{BookReply, CallName, Draw, Statement};
use crate::call::{Call, Due, Settled, SpendState};
use crate::event::{AdmissionSource, Answer, DecisionRequest};
use crate::ledger::{Charge, ChargeId, takes_back};
use crate::machine::Machine;
use crate::message::{Cancellation, Message, StoreCall};
use crate::mistake::{self, Mistake};
use crate::note::Note;

impl Machine {
    /// Starts deciding a request.
    pub(crate) fn decide(&mut self, number: u64, request: &DecisionRequest) {
        let DecisionRequest { key, quota, cost, id, on_store_failure, hold } = *request;
        if self.departure.is_some() || self.calls.len() >= self.config.max_calls {
            return self.answer(number, Answer::Undecided);
        }
        if self.is_shut_for_long(request) {
            return self.decide_in_emergency(number, request);
        }
        let want = self.wanted_reserve(key, &quota);
        let name = CallName { by: self.me, number };
        let draw = Draw { key, quota, cost, want, id, epoch: self.epoch(key.part), name };
        let (timing, now) = (self.config.timing, self.now);
        let call = Call {
            draw,
            on_store_failure,
            hold,
            sent: now,
            soft: now + timing.soft_deadline,
            budget: now + timing.budget,
            settled: None,
            refused: None,
            granted: false,
            spend: SpendState::Unasked,
        };
        self.calls.insert(number, call);
        self.ask_book(number, draw);
    }

    /// Sends a take to the open book of its key.
    fn ask_book(&mut self, call: u64, draw: Draw) {
        if !self.joined {
            return;
        }
        if !draw.epoch.phase.is_owned() {
            if self.part(draw.key.part).is_some_and(|part| part.store_open) {
                self.ask_store(draw.key.part, call, StoreCall::Take(draw));
            }
        } else if let Some(owner) = self.owner_of(draw.key) {
            self.send(owner, Message::Take { call, draw });
        }
    }

    /// Returns true if no book of the key has been open, or its owner silent, for so long that the emergency cap applies.
    fn is_shut_for_long(&self, request: &DecisionRequest) -> bool {
        let Some(part) = self.part(request.key.part) else { return true };
        let limit = self.config.timing.emergency_after;
        if let Some(since) = part.shut_since {
            return self.now.saturating_sub(since) >= limit;
        }
        let owner = self.owner_of(request.key).filter(|owner| part.phase.is_owned() && *owner != self.me);
        let heard = owner.and_then(|owner| self.peers.get(owner));
        owner.is_some() && heard.is_none_or(|heard| self.now.saturating_sub(heard.at) >= limit)
    }

    fn decide_in_emergency(&mut self, number: u64, request: &DecisionRequest) {
        let admitted = match request.on_store_failure {
            OnStoreFailure::Local => self.emergency.admits(request.key, request.cost, self.now),
            OnStoreFailure::Allow => true,
            OnStoreFailure::LocalOrDeny | OnStoreFailure::Deny => false,
        };
        let source = match request.on_store_failure {
            OnStoreFailure::Allow => AdmissionSource::Policy,
            _ => AdmissionSource::Emergency,
        };
        let at = Timestamp::EPOCH;
        let admission = Answer::Admitted { source, slot: 0, at, verdict: None };
        self.answer(number, if admitted { admission } else { Answer::Undecided });
    }

    /// Carries out all deadlines that have passed.
    pub(crate) fn run_deadlines(&mut self) {
        while let Some((number, due)) = self.calls.pop_due(self.now) {
            let Some(call) = self.calls.get(number).filter(|call| call.settled.is_none()).copied() else {
                continue;
            };
            match due {
                Due::Soft => self.soft_deadline(number, &call),
                Due::Budget => self.settle_call(
                    number,
                    Settled::Turned,
                    match call.refused {
                        Some(verdict) => Answer::Refused(verdict),
                        None => Answer::Undecided,
                    },
                ),
            }
        }
    }

    fn soft_deadline(&mut self, number: u64, call: &Call) {
        let admission = |source| Answer::Admitted { source, slot: 0, at: Timestamp::EPOCH, verdict: None };
        match call.on_store_failure {
            OnStoreFailure::Allow => {
                self.settle_call(number, Settled::ByPolicy, admission(AdmissionSource::Policy));
            }
            OnStoreFailure::Deny => self.settle_call(number, Settled::Turned, Answer::Undecided),
            OnStoreFailure::Local | OnStoreFailure::LocalOrDeny if mistake::is(Mistake::Bridge) => {
                let slot = self.current_slot(call.draw.key, &call.draw.quota);
                let at = self.time(call.draw.key.part);
                let bridged = Answer::Admitted { source: AdmissionSource::Reserve, slot, at, verdict: None };
                self.settle_call(number, Settled::Turned, bridged);
            }
            OnStoreFailure::Local | OnStoreFailure::LocalOrDeny => {
                self.ask_pool(number);
            }
        }
    }

    /// Answers a request and remembers how, for replies that are still to come.
    pub(crate) fn settle_call(&mut self, number: u64, settled: Settled, answer: Answer) {
        if let Answer::Admitted { slot, .. } = answer {
            self.remember_hold(number, settled, slot);
        }
        self.calls.settle(number, settled);
        self.answer(number, answer);
    }

    /// Takes in an owner's reply.
    pub(crate) fn take_replied(&mut self, number: u64, reply: &BookReply, charge: Option<Charge>) {
        charge.into_iter().for_each(|charge| self.learn_charge(charge));
        self.book_replied(number, reply, AdmissionSource::Owner, false);
    }

    /// Takes in a book's reply to one of this node's requests. `stale`: a relay has closed the phase meanwhile.
    pub(crate) fn book_replied(
        &mut self,
        number: u64,
        reply: &BookReply,
        source: AdmissionSource,
        stale: bool,
    ) {
        let Some(call) = self.calls.get(number).filter(|call| !call.granted).copied() else { return };
        let part = call.draw.key.part;
        let current = call.draw.epoch == self.epoch(part) || mistake::is(Mistake::EpochUnchecked);
        let valid = current && !stale && self.may_spend(part);
        if let (BookReply::Granted { statement, .. } | BookReply::Refused { statement }, true) =
            (reply, valid)
        {
            self.notes.learn(call.draw.key, Note::new(call.draw.epoch.phase, statement), self.now);
        }
        match *reply {
            BookReply::NotNow => {}
            BookReply::Granted { units, replay, statement } => {
                self.granted(number, &call, &Grant { units, replay, statement, source, valid });
            }
            BookReply::Refused { statement } if valid && call.settled.is_none() => {
                self.refused(number, &call, statement.verdict);
            }
            BookReply::Refused { .. } => {}
        }
    }

    fn refused(&mut self, number: u64, call: &Call, verdict: Verdict) {
        if let Some(call) = self.calls.get_mut(number) {
            call.refused = Some(verdict);
        }
        if !self.ask_pool(number) && call.spend != SpendState::Asked {
            self.settle_call(number, Settled::Turned, Answer::Refused(verdict));
        }
    }

    /// Spends, keeps, cancels or gives back the units of a grant.
    fn granted(&mut self, number: u64, call: &Call, grant: &Grant) {
        let young = self.now.saturating_sub(call.sent) < self.config.timing.late;
        let usable = grant.valid && young;
        let spoken_for = match call.settled {
            None if usable => {
                let Statement { slot, at, verdict, .. } = grant.statement;
                let answer = Answer::Admitted { source: grant.source, slot, at, verdict: Some(verdict) };
                self.settle_call(number, Settled::ByBook, answer);
                true
            }
            // Admitted by its rule: the unit is its own.
            Some(Settled::ByPolicy) => true,
            _ => !grant.replay && self.cancel(call),
        };
        let spare = grant.units.saturating_sub(if spoken_for { call.draw.cost } else { 0 });
        self.calls.granted(number);
        if usable {
            self.keep_spare(call, &grant.statement, spare);
        } else {
            self.give_back(call, &grant.statement, spare);
        }
    }

    /// Cancels a grant under a request id that this node did not admit by other means. Returns true if there is such an id.
    fn cancel(&mut self, call: &Call) -> bool {
        let Some(id) = call.draw.id.filter(|_| call.settled != Some(Settled::ByReserve)) else {
            return false;
        };
        if mistake::is(Mistake::LateIdPooled) {
            return false;
        }
        let Draw { key, cost, epoch, name, .. } = call.draw;
        let cancel = Cancellation { key, id, cost, epoch, name };
        if !epoch.phase.is_owned() {
            self.ask_store(key.part, 0, StoreCall::Cancel(cancel));
        } else if let Some(owner) = self.owner_of(key) {
            self.send(owner, Message::Cancel(cancel));
        }
        true
    }

    /// Gives back units of a grant that came too late to be spent, by way of the ledger. Nothing is spent from it.
    fn give_back(&mut self, call: &Call, statement: &Statement, units: u64) {
        if mistake::is(Mistake::LateGrantSpent) {
            return self.keep_spare(call, statement, units);
        }
        let quota = statement.verdict.quota;
        if units > 0 && takes_back(quota.algorithm()) && !self.ledger.is_full() {
            let id = ChargeId { key: call.draw.key, slot: statement.slot, by: self.me };
            self.ledger.add(id, quota, -i64::try_from(units).unwrap_or(i64::MAX), self.now);
        }
    }
}

/// A grant as it arrives.
struct Grant {
    units: u64,
    replay: bool,
    statement: Statement,
    source: AdmissionSource,
    valid: bool,
}

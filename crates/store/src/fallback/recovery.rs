//! Settling with a store that is back, and handing its keys back to it.

use std::sync::atomic::Ordering;
use std::time::Instant;

use futures_util::future::join_all;
use smallvec::SmallVec;
use tidegate_core::{Group, Secret, Timestamp};

use super::Fallback;
use super::ledger::{Bill, Ledger, Paid};
use crate::peers::{Call, Reply, Standing};
use crate::{Deadline, Outcome, Store};

/// How often all other nodes are asked whether they owe anything.
const GREET_MS: u64 = 1_000;

impl<S: Store> Fallback<S> {
    /// Does what has to be done however few requests there are: to be called some ten times a second.
    ///
    /// Tells other nodes how this one is doing, finds out whether those have settled that may have counted in the store's
    /// place, and settles with the store itself, at a pace that it hardly feels.
    pub async fn tend(&self) {
        let now = self.clock.now();
        let unwell = self.inner.unwell();
        let knows_keys = self.inner.secret().is_some();
        let (well, owing) = (unwell == 0 && knows_keys, self.ledger.len() > 0);
        if well {
            self.troubled.store(false, Ordering::Relaxed);
        } else {
            self.note_trouble();
        }
        // Also with the store of another node, if that is all there is.
        let lent = self.settings.peers.as_ref().is_some_and(|peers| peers.any_has_store());
        self.pace.look(well || lent, owing, now);
        if let Some(peers) = &self.settings.peers {
            peers.announce(Standing { has_store: well, owes: self.ledger.parts() });
            let others = peers.others();
            for (node, standing) in &others {
                self.suspects.add(*node, unwell | standing.owes);
            }
            let live = |node| others.iter().any(|(other, _)| *other == node);
            let mut asked = self.suspects.among(live);
            if self.is_time_to_greet(now) {
                asked = others.iter().map(|(node, _)| *node).collect();
            }
            let deadline = Deadline::after(Instant::now(), self.settings.patience * 2);
            let calls = asked.iter().map(|node| peers.call(*node, Call::Owes, deadline));
            for (node, reply) in asked.iter().zip(join_all(calls).await) {
                if let Ok(Reply::Owes(parts)) = reply {
                    self.suspects.set(*node, parts | unwell);
                }
            }
            if !knows_keys && self.told_secret.lock().is_none() {
                self.ask_for_secret().await;
            }
        }
        if well && owing {
            // As much again is left for keys that are asked about.
            let most = (0..self.pace.left().div_ceil(2)).take_while(|_| self.pace.may_settle()).count();
            self.settle_some(most, Deadline::after(Instant::now(), self.settings.patience * 2)).await;
        }
    }

    /// Every now and then all others are asked, so that there is a connection to each when it is needed.
    fn is_time_to_greet(&self, now: Timestamp) -> bool {
        let greeted = self.greeted.load(Ordering::Relaxed);
        let is_time = now.as_millis().abs_diff(greeted) >= GREET_MS;
        if is_time {
            self.greeted.store(now.as_millis(), Ordering::Relaxed);
        }
        is_time
    }

    /// What keys are hashed with, if another node knows.
    pub fn told_secret(&self) -> Option<Secret> {
        *self.told_secret.lock()
    }

    async fn ask_for_secret(&self) {
        let Some(peers) = &self.settings.peers else { return };
        let deadline = Deadline::after(Instant::now(), self.settings.patience * 2);
        let others = peers.others();
        let calls = others.iter().map(|(node, _)| peers.call(*node, Call::Secret, deadline));
        for reply in join_all(calls).await {
            if let Ok(Reply::Secret(Some(bytes))) = reply {
                *self.told_secret.lock() = Some(Secret::new(bytes));
                return;
            }
        }
    }

    /// Settles with the store for some keys, at most so many, whether or not anybody asks for them.
    pub async fn settle_some(&self, most: usize, deadline: Deadline) {
        let now = self.clock.now();
        let keys = self.ledger.some(most.saturating_mul(2));
        let mut bills = Vec::new();
        for fingerprint in keys {
            if bills.len() == most {
                break;
            }
            // What time has paid costs the store nothing.
            bills.extend(self.bill(fingerprint, now));
        }
        if bills.is_empty() {
            return;
        }
        let groups: Vec<Group<'_>> = bills.iter().map(|bill| bill.operations().collect()).collect();
        let trip = Trip::new(&self.ledger, bills.iter().collect());
        let answer = self.inner.apply(&groups, deadline);
        let answers = trip.follow(answer).await;
        for (bill, outcomes) in bills.iter().zip(&answers) {
            self.ledger.resolve(bill, outcomes.iter().map(paid));
        }
        trip.end();
    }
}

/// Bills on their way. Whoever gives up waiting before it is told what became of them leaves them to others.
pub(super) struct Trip<'t> {
    ledger: &'t Ledger,
    bills: SmallVec<[&'t Bill; 2]>,
}

impl<'t> Trip<'t> {
    pub(super) fn new(ledger: &'t Ledger, bills: SmallVec<[&'t Bill; 2]>) -> Self {
        Self { ledger, bills }
    }

    /// Waits for what the bills are part of, and says when they have left.
    pub(super) async fn follow<T>(&self, answer: impl Future<Output = T> + Unpin) -> T {
        let (mut answer, mut has_left) = (answer, false);
        std::future::poll_fn(move |context| {
            let polled = std::pin::Pin::new(&mut answer).poll(context);
            if !has_left {
                has_left = true;
                self.bills.iter().for_each(|bill| self.ledger.has_left(bill));
            }
            polled
        })
        .await
    }

    /// It is known what became of them.
    pub(super) fn end(mut self) {
        self.bills.clear();
    }
}

impl Drop for Trip<'_> {
    fn drop(&mut self) {
        self.bills.iter().for_each(|bill| self.ledger.resolve(bill, std::iter::empty()));
    }
}

/// Whether a payment was made.
pub(super) fn paid(outcome: &Outcome) -> Paid {
    match outcome {
        Outcome::Verdict(_) | Outcome::Local(_) => Paid::Yes,
        Outcome::Unavailable(_) | Outcome::Unasked => Paid::No,
        Outcome::Unknown(_) => Paid::Perhaps,
    }
}

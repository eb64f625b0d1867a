//! What this node answers when other nodes ask.

use std::time::Instant;

use smallvec::SmallVec;
use tidegate_core::{Group, Operation};

use super::owners::settles;
use super::{By, Fallback};
use crate::peers::{Answers, Asked, Call, NodeId, Replied, Reply, Seen};
use crate::{Deadline, Failure, Outcome, Outcomes, Store};

impl<S: Store> Answers for Fallback<S> {
    fn answer<'a>(&'a self, call: &'a Call, deadline: Deadline) -> Replied<'a> {
        Box::pin(async move {
            match call {
                Call::Decide(asked) => Reply::Outcomes(self.decide_for_another(asked, deadline).await),
                Call::Store(asked) => Reply::Outcomes(self.lend_store(asked, deadline).await),
                Call::Recall { node, asked } => {
                    Reply::Known(asked.iter().map(|asked| self.recall(*node, asked)).collect())
                }
                Call::Owes => Reply::Owes(self.ledger.parts()),
                Call::Secret => Reply::Secret(self.inner.secret().map(|secret| secret.bytes())),
                // Whoever has more to show than counters answers it before.
                Call::Look => Reply::Look(Vec::new()),
            }
        })
    }
}

impl<S: Store> Fallback<S> {
    async fn decide_for_another(&self, asked: &[Asked], deadline: Deadline) -> Outcomes {
        let now = self.clock.now();
        let group: Group<'_> = Asked::group(asked);
        for (op, asked) in group.iter().zip(asked) {
            if let Some(seen) = asked.seen {
                self.known.merge(op.take.key.fingerprint(), seen, now);
            }
        }
        // Of the holds of one group some may be here and others in the store: while it comes back, each key is handed back by itself.
        let here: SmallVec<[Option<Outcome>; 4]> = if group.iter().all(settles) {
            group.iter().map(|op| self.settle_here(&[*op])?.first().copied()).collect()
        } else {
            group.iter().map(|_| None).collect()
        };
        let elsewhere = group.iter().zip(&here).filter(|(_, here)| here.is_none()).map(|(op, _)| *op);
        let groups: [Group<'_>; 1] = [elsewhere.collect()];
        let mut said = Outcomes::new();
        if !groups[0].is_empty() {
            let left = deadline.at().saturating_duration_since(Instant::now());
            // Whoever asked waits for what comes after the store as well.
            let deadline = Deadline::after(Instant::now(), left / 2);
            said = self.decide(&groups, deadline, By::Node).await.pop().unwrap_or_default();
        }
        let mut said = said.into_iter().chain(std::iter::repeat(Outcome::Unknown(Failure::Other)));
        here.into_iter().filter_map(|here| here.or_else(|| said.next())).collect()
    }

    /// Asks this node's own store and nobody else, if it is even with it.
    async fn lend_store(&self, asked: &[Asked], deadline: Deadline) -> Outcomes {
        let group: Group<'_> = Asked::group(asked);
        let owing = |op: &Operation<'_>| self.ledger.owes(op.take.key.fingerprint());
        let unreachable = group.iter().find_map(|op| self.inner.reach(op.take.key.tag).err());
        let failure = unreachable.or_else(|| group.iter().any(owing).then_some(Failure::NotReady));
        if let Some(failure) = failure {
            return group.iter().map(|_| Outcome::Unavailable(failure)).collect();
        }
        let groups = [group];
        // In time to say so if it does not answer: that is not the same as saying nothing.
        let left = deadline.at().saturating_duration_since(Instant::now());
        let mut answers = self.inner.apply(&groups, Deadline::after(Instant::now(), left / 2)).await;
        let outcomes = answers.pop().unwrap_or_default();
        self.learn(&groups[0], &outcomes, None);
        outcomes
    }

    /// What is known here of a counter, and not from `node`: what was counted here, or what was last heard if that is worse.
    fn recall(&self, node: NodeId, asked: &Asked) -> Option<Seen> {
        let (op, now) = (asked.operation(), self.clock.now());
        let heard = self.known.news_to(node, op.take.key.fingerprint(), now);
        let counted = match self.ledger.counted_by(op.take.key.fingerprint()) {
            Some(share) => self.local.seen_by(&op, share, now),
            None => self.local.seen(&op, now),
        };
        match (heard, counted) {
            (Some(heard), Some(counted)) => Some(if counted.used >= heard.used { counted } else { heard }),
            (heard, counted) => counted.or(heard),
        }
    }
}

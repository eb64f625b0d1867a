//! All or nothing over places that each decide by themselves.
//!
//! Operations of one place are decided by it at once. For a group that spans several, the coordinator holds what is
//! asked for at every place, and only if all allow it turns the holds into takes; otherwise it lets them go.
//!
//! What is promised: no limit is ever exceeded by a group, whoever fails in between. A coordinator that dies leaves
//! its holds charged until they expire, [`MAX_HOLD`] at most; until then others may be refused who would have been
//! allowed. So may those who meet a hold of a group that will be refused elsewhere.

use std::future::Future;
use std::time::Instant;

use smallvec::SmallVec;
use tidegate_core::rule::OnStoreFailure;
use tidegate_core::{Action, Group, HoldId, Operation, Retry, Span, Verdict};

use crate::{Deadline, Outcome, Outcomes};

/// How long a group may hold what it asks for. No refusal outlives its cause by more.
pub const MAX_HOLD: Span = Span::from_secs(1);

/// Short holds let go soon of what a dead node held; long enough ones survive a slow round trip.
const MIN_HOLD: Span = Span::from_millis(250);

/// A store made of places that each decide by themselves.
pub trait Places: Send + Sync {
    /// The answer of a place, by the deadline. Dropping it cancels nothing.
    type Pending: Future<Output = Outcomes> + Send;

    /// Which place has the counter of an operation.
    fn place_of(&self, op: &Operation<'_>) -> u16;

    /// Hands operations to their place, to be applied all or nothing.
    fn submit(&self, place: u16, ops: &[Operation<'_>], deadline: Deadline) -> Self::Pending;

    /// A name nobody else gives to a hold.
    fn hold_id(&self) -> HoldId;

    /// Whether a refused group waits until it has let go of what it held. Nobody who is in a hurry wants that, but
    /// where time stands still meanwhile, what comes next should not meet it.
    fn waits_for_release(&self) -> bool {
        false
    }
}

/// The operations of a group at one place, and where in the group they are.
struct Part<'r> {
    place: u16,
    ops: Group<'r>,
    indices: SmallVec<[usize; 4]>,
}

/// Applies a group, wherever its counters live.
pub async fn apply_group<P: Places>(places: &P, group: &[Operation<'_>], deadline: Deadline) -> Outcomes {
    let Some(first) = group.first() else { return Outcomes::new() };
    let place = places.place_of(first);
    if group.iter().all(|op| places.place_of(op) == place) {
        return places.submit(place, group, deadline).await;
    }
    let id = places.hold_id();
    let mut outcomes = hold(places, group, id, deadline).await;
    if group.iter().zip(&outcomes).all(|(op, outcome)| lets_pass(op, outcome)) {
        settle(places, group, id, &mut outcomes, deadline).await;
        if !group.iter().zip(&outcomes).all(|(op, outcome)| lets_pass(op, outcome)) {
            let_go(places, group, &outcomes);
        }
    } else {
        release(places, group, id, &mut outcomes).await;
    }
    outcomes
}

/// Whether the request can go ahead as far as this operation is concerned.
fn lets_pass(op: &Operation<'_>, outcome: &Outcome) -> bool {
    let refusable = matches!(op.action, Action::Peek | Action::Take | Action::Hold { .. });
    if op.take.shadow || !refusable {
        return true;
    }
    match outcome {
        Outcome::Verdict(verdict) | Outcome::Local(verdict) => verdict.allowed,
        Outcome::Unavailable(_) | Outcome::Unknown(_) => op.take.on_store_failure != OnStoreFailure::Deny,
        Outcome::Unasked => false,
    }
}

/// Whether the place of this operation has therefore done nothing.
fn is_refused(op: &Operation<'_>, outcome: &Outcome) -> bool {
    outcome.verdict().is_some() && !lets_pass(op, outcome)
}

/// Asks every place at once, holding what is to be taken.
async fn hold<P: Places>(places: &P, group: &[Operation<'_>], id: HoldId, deadline: Deadline) -> Outcomes {
    let patience = deadline.at().saturating_duration_since(Instant::now()).saturating_mul(4);
    let patience = Span::from_millis(u64::try_from(patience.as_millis()).unwrap_or(u64::MAX));
    let ttl = patience.clamp(MIN_HOLD, MAX_HOLD);
    let parts = split(places, group, |op| match op.action {
        Action::Take => Some(Operation { action: Action::Hold { id, ttl }, ..*op }),
        _ => Some(*op),
    });
    ask(places, &parts, group.len(), deadline).await
}

/// Turns holds into takes. What was held stays charged meanwhile, so nothing can be refused any more; but a place
/// that does not answer may let the hold expire.
async fn settle<P: Places>(
    places: &P,
    group: &[Operation<'_>],
    id: HoldId,
    held: &mut Outcomes,
    deadline: Deadline,
) {
    let granted = |index: usize| held[index].verdict().is_some_and(|verdict| verdict.allowed);
    let mut index = 0;
    let parts = split(places, group, |op| {
        let settles = matches!(op.action, Action::Take) && granted(index);
        index += 1;
        settles.then_some(Operation { action: Action::Settle { id }, ..*op })
    });
    let settled = ask(places, &parts, group.len(), deadline).await;
    for index in parts.iter().flat_map(|part| part.indices.iter().copied()) {
        match settled[index] {
            // The figures of the hold are those of the take.
            Outcome::Verdict(verdict) | Outcome::Local(verdict) if verdict.allowed => {}
            Outcome::Verdict(gone) => held[index] = Outcome::Verdict(too_late(gone)),
            Outcome::Local(gone) => held[index] = Outcome::Local(too_late(gone)),
            failed => held[index] = failed,
        }
    }
}

/// Lets go of what is held at the caller's own wish, which may last for long, for a group that is refused after all.
fn let_go<P: Places>(places: &P, group: &[Operation<'_>], outcomes: &Outcomes) {
    let mut outcomes = outcomes.iter();
    let parts = split(places, group, |op| {
        let granted = outcomes.next().and_then(Outcome::verdict).is_some_and(|verdict| verdict.allowed);
        op.let_go().filter(|_| granted)
    });
    let deadline = release_deadline();
    parts.iter().for_each(|part| drop(places.submit(part.place, &part.ops, deadline)));
}

fn release_deadline() -> Deadline {
    Deadline::after(Instant::now(), std::time::Duration::from_millis(MAX_HOLD.as_millis()))
}

/// What is told if a hold is gone: it came too late, and is welcome to try again.
fn too_late(gone: Verdict) -> Verdict {
    Verdict { held: true, retry: Retry::After(MAX_HOLD), reset_after: MAX_HOLD, ..gone }
}

/// Lets go of what was held, and tells each what it would have been told alone.
async fn release<P: Places>(places: &P, group: &[Operation<'_>], id: HoldId, held: &mut Outcomes) {
    // A place that refuses one operation has held none of the others either.
    let refusing = group.iter().zip(held.iter()).filter(|(op, outcome)| is_refused(op, outcome));
    let refusing: SmallVec<[u16; 4]> = refusing.map(|(op, _)| places.place_of(op)).collect();
    let mut index = 0;
    let parts = split(places, group, |op| {
        let granted = match &mut held[index] {
            _ if refusing.contains(&places.place_of(op)) => false,
            Outcome::Verdict(verdict) | Outcome::Local(verdict) => {
                let granted = verdict.allowed;
                if granted && matches!(op.action, Action::Take | Action::Hold { .. }) {
                    untake(verdict, op.take.cost);
                }
                granted
            }
            // It may have been applied.
            Outcome::Unknown(_) => true,
            Outcome::Unavailable(_) | Outcome::Unasked => false,
        };
        index += 1;
        let id = match op.action {
            Action::Take => id,
            Action::Hold { id, .. } => id,
            Action::Peek | Action::Settle { .. } | Action::Return { .. } | Action::Charge => return None,
        };
        let mut op = Operation { action: Action::Settle { id }, ..*op };
        op.take.cost = 0;
        granted.then_some(op)
    });
    let deadline = release_deadline();
    if !places.waits_for_release() {
        return parts.iter().for_each(|part| drop(places.submit(part.place, &part.ops, deadline)));
    }
    let released = ask(places, &parts, group.len(), deadline).await;
    for (held, released) in held.iter_mut().zip(released) {
        if let (Outcome::Verdict(held), Outcome::Verdict(released)) = (held, released)
            && held.allowed
            && released.allowed
        {
            *held = released;
        }
    }
}

/// The verdict before `cost` was taken.
fn untake(verdict: &mut Verdict, cost: u64) {
    let capacity = verdict.quota.capacity();
    verdict.remaining = verdict.remaining.saturating_add(cost).min(capacity);
    if verdict.remaining == capacity {
        verdict.reset_after = Span::ZERO;
    }
}

/// The operations that `what` makes of those of the group, by place.
fn split<'r, P: Places>(
    places: &P,
    group: &[Operation<'r>],
    mut what: impl FnMut(&Operation<'r>) -> Option<Operation<'r>>,
) -> SmallVec<[Part<'r>; 4]> {
    let mut parts: SmallVec<[Part<'r>; 4]> = SmallVec::new();
    for (index, op) in group.iter().enumerate() {
        let Some(op) = what(op) else { continue };
        let place = places.place_of(&op);
        let at = parts.iter().position(|part| part.place == place).unwrap_or_else(|| {
            parts.push(Part { place, ops: Group::new(), indices: SmallVec::new() });
            parts.len() - 1
        });
        parts[at].ops.push(op);
        parts[at].indices.push(index);
    }
    parts
}

/// Hands every part to its place, then waits for all of them.
async fn ask<P: Places>(places: &P, parts: &[Part<'_>], count: usize, deadline: Deadline) -> Outcomes {
    let pending: SmallVec<[P::Pending; 4]> =
        parts.iter().map(|part| places.submit(part.place, &part.ops, deadline)).collect();
    let mut outcomes: Outcomes = std::iter::repeat_n(Outcome::Unasked, count).collect();
    for (part, pending) in parts.iter().zip(pending) {
        for (index, outcome) in part.indices.iter().zip(pending.await) {
            outcomes[*index] = outcome;
        }
    }
    outcomes
}

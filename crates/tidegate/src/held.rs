//! Quota that is held until the answer to a request says what it takes.
//!
//! Rules with a [charge](tidegate_core::cost::Charge) hold what a request costs if the request [says](tidegate_core::Request::hold)
//! that its answer will be told; what is held is gone for others. The answer then settles it. If none is told in time, because
//! whoever should have is gone, it is given back.
//!
//! Rules that limit how many requests are [in flight](tidegate_core::Algorithm::InFlight) hold a slot of every request that they admit,
//! whether or not it says so. Settling gives the slot back, and so does the time that the rule gives requests.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use smallvec::SmallVec;
use tidegate_core::cost::DEFAULT_CHARGE_WITHIN;
use tidegate_core::rule::OnStoreFailure;
use tidegate_core::{Action, Algorithm, Group, HoldId, Key, Operation, Quota, RuleSet, Span, Tag, Take};
use tidegate_store::{Deadline, Outcome};

use crate::checked::{Checked, RequestError};
use crate::limiter::{Backend, Limiter};

/// How long a shared store may take to settle something. Nobody waits for it, so it may be slow.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(1);

/// What a request holds until its [answer](Self::answered) is told to [`Limiter::settle`].
///
/// It stands by itself: the request may be gone, and the rules may be others. Who drops it leaves what is held to expire.
pub struct Held {
    rules: Arc<RuleSet>,
    holding: Box<Holding>,
}

/// What is held, without the rules that say what for.
pub(crate) struct Holding {
    id: HoldId,
    takes: SmallVec<[HeldTake; 2]>,
}

/// What is held of one rule's quota.
#[derive(Clone, Copy)]
struct HeldTake {
    rule: u32,
    tag: Tag,
    quota: Quota,
    cost: u64,
    shadow: bool,
    on_store_failure: OnStoreFailure,
    /// Whether it is held without the shared store.
    local: bool,
}

impl HeldTake {
    /// Returns true if it is a slot of a rule that limits requests in flight.
    fn is_slot(&self) -> bool {
        self.quota.algorithm() == Algorithm::InFlight
    }
}

impl Holding {
    /// What a request holds under this name if it is `allowed`, given what its rules ask for and what became of that.
    pub(crate) fn of(
        id: Option<HoldId>,
        allowed: bool,
        asked: (&[u32], &[Operation<'_>]),
        outcomes: impl Iterator<Item = Outcome>,
    ) -> Option<Box<Self>> {
        let id = id.filter(|_| allowed)?;
        let mut takes = SmallVec::new();
        for ((&rule, op), outcome) in asked.0.iter().zip(asked.1).zip(outcomes) {
            if is_hold(op) && outcome.verdict().is_some_and(|verdict| verdict.allowed) {
                let Take { key, quota, cost, shadow, on_store_failure, .. } = op.take;
                let local = matches!(outcome, Outcome::Local(_));
                takes.push(HeldTake { rule, tag: key.tag, quota, cost, shadow, on_store_failure, local });
            }
        }
        (!takes.is_empty()).then(|| Box::new(Self { id, takes }))
    }
}

impl Held {
    /// What is to become of it, now that the request is answered: what each rule's charge says about an answer with this
    /// status, of which `header` gives what a header (its name in lower case) says. Slots of requests in flight are given back; if the
    /// request goes on after its answer has begun, [take](Checked::take_slots) them first.
    #[must_use = "nothing is settled until the limiter is told"]
    pub fn answered<'h>(mut self, status: u16, header: impl Fn(&str) -> Option<&'h str>) -> Settlement {
        for take in &mut self.holding.takes {
            if take.is_slot() {
                take.cost = 0;
            } else if let Some(charge) = &self.rules.rule(take.rule).charge {
                take.cost = charge.of(status, &header, take.cost);
            }
        }
        Settlement(self)
    }

    /// What is to become of it if the request did not go ahead: it costs nothing.
    #[must_use = "nothing is released until the limiter is told"]
    pub fn unanswered(mut self) -> Settlement {
        self.holding.takes.iter_mut().for_each(|take| take.cost = 0);
        Settlement(self)
    }

    /// Returns the settlement of a request that went ahead and whose response nobody saw: all that is held is charged, except slots of
    /// requests in flight, which are given back.
    #[must_use = "nothing is charged until the limiter is told"]
    pub fn charged(mut self) -> Settlement {
        self.holding.takes.iter_mut().filter(|take| take.is_slot()).for_each(|take| take.cost = 0);
        Settlement(self)
    }

    /// Returns how long it is held: the shortest [`within`](tidegate_core::cost::Charge::within) of its rules, or the time that they
    /// give requests in flight. After that it is given back, and settling it does nothing.
    pub fn within(&self) -> Span {
        let within = |take: &HeldTake| match take.is_slot() {
            true => Some(take.quota.window()),
            false => self.rules.rule(take.rule).charge.as_ref().map(|charge| charge.within),
        };
        self.holding.takes.iter().filter_map(within).min().unwrap_or(DEFAULT_CHARGE_WITHIN)
    }

    /// What is held of each rule's quota: the rule's id and how much.
    pub fn costs(&self) -> impl Iterator<Item = (&str, u64)> {
        self.holding.takes.iter().map(|take| (&*self.rules.rule(take.rule).id, take.cost))
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.costs()).finish()
    }
}

/// What an answer makes of what was held for its request, to be told to [`Limiter::settle`].
///
/// It borrows nothing, so that the answer need not wait for it.
pub struct Settlement(Held);

impl Settlement {
    /// What is charged to each rule: its id and how much.
    pub fn costs(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.costs()
    }

    /// The operations that settle it, and whether what they settle is held without the shared store.
    fn operations(&self) -> impl Iterator<Item = (Operation<'_>, bool)> {
        let Held { rules, holding } = &self.0;
        holding.takes.iter().map(|held| {
            let key = Key::new(&rules.rule(held.rule).id, held.quota.algorithm(), held.tag);
            let (shadow, on_store_failure) = (held.shadow, held.on_store_failure);
            let take = Take { shadow, on_store_failure, ..Take::new(key, held.quota, held.cost) };
            (Operation { take, action: Action::Settle { id: holding.id } }, held.local)
        })
    }
}

impl fmt::Debug for Settlement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.costs()).finish()
    }
}

impl Checked {
    /// What the request holds, if it may go ahead and anything is held for it: once, to whoever will tell the answer.
    pub fn take_held(&mut self) -> Option<Held> {
        let holding = self.holding.take()?;
        Some(Held { rules: Arc::clone(&self.rules), holding })
    }

    /// Returns the slots that the request holds of rules that limit how many are [in flight](tidegate_core::Algorithm::InFlight), to be
    /// [given back](Held::unanswered) when the request is over. The rest stays to be [taken](Self::take_held).
    ///
    /// A slot that is not given back is lost for as long as its rule gives requests.
    pub fn take_slots(&mut self) -> Option<Held> {
        let holding = self.holding.as_mut()?;
        let (slots, rest): (SmallVec<[HeldTake; 2]>, SmallVec<[HeldTake; 2]>) =
            holding.takes.iter().copied().partition(HeldTake::is_slot);
        if rest.is_empty() {
            return self.take_held();
        }
        holding.takes = rest;
        let id = holding.id;
        (!slots.is_empty())
            .then(|| Held { rules: Arc::clone(&self.rules), holding: Box::new(Holding { id, takes: slots }) })
    }
}

impl Limiter {
    /// A name for what a [request](tidegate_core::Request::hold) may hold that nobody else gives.
    pub fn hold_id(&self) -> HoldId {
        static EPOCH: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one(std::process::id()));
        static HOLDS: AtomicU64 = AtomicU64::new(0);
        HoldId([*EPOCH, HOLDS.fetch_add(1, Ordering::Relaxed)])
    }

    /// Replaces what was held for a request by what its answer says it takes: less is given back, more is taken as far as
    /// it is there. Says whether all of it was still held; what was not has expired, or will, and costs nothing.
    ///
    /// Settling twice does nothing the second time. A shared store has a second for it.
    pub async fn settle(&self, settlement: &Settlement) -> bool {
        match &self.backend {
            Backend::Memory(_) => self.try_settle(settlement).unwrap_or_default(),
            Backend::Shared(shared) => {
                let mut settled = true;
                let mut groups: Vec<Group<'_>> = Vec::new();
                for (op, local) in settlement.operations() {
                    match shared.settle_alone(&op, local) {
                        Some(outcome) => settled &= is_settled(&outcome),
                        None => groups.push(Group::from_elem(op, 1)),
                    }
                }
                let deadline = Deadline::after(Instant::now(), SETTLE_TIMEOUT);
                let said = Box::pin(shared.ask(&groups, shared.secret(), deadline)).await;
                settled && said.len() == groups.len() && said.iter().flatten().all(is_settled)
            }
        }
    }

    /// The same at once, which a shared store cannot do.
    pub fn try_settle(&self, settlement: &Settlement) -> Result<bool, RequestError> {
        let memory = self.at_once("settle")?;
        let (now, mut settled) = (self.clock.now(), true);
        for (op, _) in settlement.operations() {
            memory.store.apply_each(&[op], now, |outcome| settled &= is_settled(&outcome));
        }
        Ok(settled)
    }
}

fn is_settled(outcome: &Outcome) -> bool {
    outcome.verdict().is_some_and(|verdict| verdict.allowed)
}

pub(crate) fn is_hold(op: &Operation<'_>) -> bool {
    matches!(op.action, Action::Hold { .. })
}

/// Takes what was to be held: for want of room to keep track of it, the answer will not be asked. What is in flight can only be held.
pub(crate) fn take_at_once(group: &mut [Operation<'_>]) {
    let held = group.iter_mut().filter(|op| is_hold(op) && !is_in_flight(op));
    held.for_each(|op| op.action = Action::Take);
}

/// Holds under the name `id` what is to be taken of quotas in flight.
pub(crate) fn hold_in_flight(group: &mut [Operation<'_>], id: HoldId) {
    for op in group.iter_mut().filter(|op| op.action == Action::Take && is_in_flight(op)) {
        op.action = Action::Hold { id, ttl: op.take.quota.window() };
        // A retry is in flight beside the request that it repeats.
        op.take.request_id = None;
    }
}

fn is_in_flight(op: &Operation<'_>) -> bool {
    op.take.quota.algorithm() == Algorithm::InFlight
}

//! Requests that wait for their turn instead of being refused, where rules [let them](tidegate_core::rule::OnLimit::Delay).
//!
//! There is one line per counter, first come, first served: whoever comes while others wait for a counter goes behind
//! them, also if some of it has just come back. Only the head of a line asks the store, when it was told to come back;
//! then the next. Each asks by the rules that are in force then. A place in a line is left by dropping it: whoever goes away
//! leaves nothing behind and has taken nothing.
//!
//! Lines belong to one limiter. Those of several programs that share a store are each fair, and the store is to all of them
//! together.

mod goal;
mod lines;
mod shares;
#[cfg(test)]
mod tests;
mod turn;
mod visit;

use std::time::{Duration, Instant};

use tidegate_core::{Delay, Request, Span, Status};

use crate::checked::{Checked, RequestError};
use crate::limiter::{Limiter, look, take};
use crate::spans;
use goal::{Counter, Goal};
pub use lines::Waiting;
pub(crate) use lines::{DEFAULT_MAX_WAITING, Lines};
pub use shares::TurnedAway;
use turn::earliest;
use visit::Visit;

/// What became of a request that was willing to wait.
#[derive(Debug)]
pub struct Waited {
    /// The last decision on it, which is the one that counts.
    pub checked: Checked,
    /// How long it waited for its turn; zero if it did not have to, or would have in vain.
    pub waited: Duration,
}

impl Waited {
    fn not_at_all(checked: Checked) -> Self {
        Self { checked, waited: Duration::ZERO }
    }
}

impl Limiter {
    /// Decides `request`, which arrived at `arrived`, like [`check_since`](Self::check_since); but if all rules that refuse
    /// it let it [wait](tidegate_core::rule::OnLimit::Delay), it waits for its turn, as long as they let it and no longer than
    /// `patience`. If its turn cannot come in time, or [too many](crate::Builder::max_waiting) wait already, it is refused
    /// at once.
    ///
    /// Dropping the future gives up the place in the line at once; nothing has been taken then, unless a shared store was
    /// just being asked. Those without patience do not queue: they ask at once, as all other checks do.
    /// Waiting needs a Tokio runtime with time enabled; without a runtime nobody waits.
    pub async fn check_or_wait(
        &self,
        request: &Request<'_>,
        arrived: Instant,
        patience: Duration,
    ) -> Result<Waited, RequestError> {
        let may_wait =
            !patience.is_zero() && self.may_delay() && tokio::runtime::Handle::try_current().is_ok();
        let mut first = None;
        if !may_wait || self.lines.is_empty() {
            let checked = self.check_since(request, arrived).await?;
            if !may_wait || delay(&checked).is_none() {
                return Ok(Waited::not_at_all(checked));
            }
            first = Some(checked);
        }
        // In a box, so that those who need not wait need not carry around what it takes.
        Box::pin(self.wait_in_line(request, arrived, patience, first)).await
    }

    /// Whether the rules in force may have requests wait for their turn.
    pub fn may_delay(&self) -> bool {
        self.rules.load().delays()
    }

    /// How many requests wait for their turn, and what became of those that did.
    pub fn waiting(&self) -> Waiting {
        self.lines.figures()
    }

    /// Returns how many requests were refused because there was no place for them to wait.
    pub fn turned_away(&self) -> TurnedAway {
        self.lines.turned_away()
    }

    /// Decides a request that was just refused, or else may have others before it.
    async fn wait_in_line(
        &self,
        request: &Request<'_>,
        mut arrived: Instant,
        patience: Duration,
        mut refused: Option<Checked>,
    ) -> Result<Waited, RequestError> {
        let mut visit = Visit::new(&self.lines, patience);
        let mut span = None;
        let found = self.find_tiers(request, arrived).await;
        let request = &found.add_to(request);
        loop {
            // From here on no change of the rules is missed.
            let changed = self.lines.rules_changed();
            let step = match refused.take() {
                Some(refused) => self.queue(refused, request, &mut visit)?,
                None => self.step(request, arrived, &mut visit).await?,
            };
            let (mut checked, goal) = match step {
                Step::End(checked) => return Ok(visit.end(checked)),
                Step::Wait(checked, goal) => (checked, goal),
                Step::Again => continue,
            };
            let longest = delay(&checked).map_or(goal.longest, |delay| delay.longest.min(goal.longest));
            let said = checked.verdicts.iter().find(|said| said.rule == goal.rule);
            let ahead = visit.ahead(&goal);
            let turn = said.map_or(Span::ZERO, |said| earliest(&said.verdict, goal.cost, ahead));
            let Some(left) = visit.left(longest).filter(|left| duration(turn) <= *left) else {
                checked.decision.turn_away(goal.rule, turn);
                return Ok(visit.end(checked));
            };
            drop(checked);
            // One span from here to the end, however often it has to ask again.
            span.get_or_insert_with(spans::wait);
            visit.wait(duration(turn), left, changed).await;
            arrived = Instant::now();
        }
    }

    /// Asks for what the request wants if it is its turn; otherwise only looks.
    async fn step(
        &self,
        request: &Request<'_>,
        arrived: Instant,
        visit: &mut Visit<'_>,
    ) -> Result<Step, RequestError> {
        let behind = visit.behind(&self.goals(&self.rules.load(), request)?);
        if let Some(counter) = behind {
            let seen = self.decide_told(request, arrived, look).await?;
            // What cannot be known is not waited for.
            if matches!(seen.status, Status::Enforced | Status::Local) {
                return self.stay(seen, request, counter);
            }
        }
        let checked = self.decide_told(request, arrived, take).await?;
        self.queue(checked, request, visit)
    }

    /// What becomes of a request in the line of `counter`, now that it has `seen` what it would be told.
    fn stay(&self, seen: Checked, request: &Request<'_>, counter: Counter) -> Result<Step, RequestError> {
        if !seen.allowed && delay(&seen).is_none() {
            return Ok(Step::End(seen));
        }
        let goals = self.goals(seen.rules(), request)?;
        let goal = goals.into_iter().find(|goal| goal.counter == counter);
        Ok(goal.map_or(Step::Again, |goal| Step::Wait(seen, goal)))
    }

    /// What becomes of a request that has been decided: if it may wait, it goes to the line of the rule that binds it.
    fn queue(
        &self,
        checked: Checked,
        request: &Request<'_>,
        visit: &mut Visit<'_>,
    ) -> Result<Step, RequestError> {
        let Some(delay) = delay(&checked) else { return Ok(Step::End(checked)) };
        let goals = self.goals(checked.rules(), request)?;
        let Some(goal) = goals.into_iter().find(|goal| goal.rule == delay.rule) else {
            return Ok(Step::End(checked));
        };
        visit.stand_in_line(&goal);
        Ok(Step::Wait(checked, goal))
    }
}

/// How a request goes on.
enum Step {
    /// Not at all: this is the decision.
    End(Checked),
    /// It waits, if its turn comes in time. The decision is what it will be told otherwise.
    Wait(Checked, Goal),
    /// Other rules have come, which count otherwise: from the start.
    Again,
}

/// Whether a refused request may wait by the rules it was refused by.
fn delay(checked: &Checked) -> Option<Delay> {
    checked.delay(checked.rules())
}

fn duration(span: Span) -> Duration {
    Duration::from_millis(span.as_millis())
}

//! The suite every store runs: one behaviour, however many implementations.
//!
//! A store under test is wrapped in a [`Subject`] whose time the suite sets. Each check uses rules of its own, so
//! that all of them can run on one shared server. Call [`run`] from a test; it panics with the name of the check
//! that failed.
//!
//! One thing is left open: whether a look or a refused take, which writes nothing, moves a counter's time on. It
//! shows only if the clock then steps back by less than
//! [`MAX_AHEAD`](tidegate_core::algorithm::MAX_AHEAD), which no check does.
#![allow(clippy::panic, reason = "this is how a check fails")]

mod charges;
mod groups;
mod holds;
mod limits;
mod replays;
mod returns;
mod versions;

use std::future::ready;
use std::time::{Duration, Instant};

use futures_util::future::LocalBoxFuture;
use futures_util::{StreamExt, stream};
use tidegate_core::{Algorithm, Key, Quota, Secret, Span, Take, Timestamp, Verdict};

use crate::{Action, Deadline, Group, Operation, Outcomes, Store};

/// A store under test and its time.
pub trait Subject {
    /// The store.
    fn store(&self) -> &dyn Store;

    /// Makes it this time for the store.
    fn set_time(&self, now: Timestamp);
}

impl<S: Subject> Subject for &S {
    fn store(&self) -> &dyn Store {
        (**self).store()
    }

    fn set_time(&self, now: Timestamp) {
        (**self).set_time(now);
    }
}

/// Checks that run at the same time: most of the time is spent waiting for a store's answers.
const AT_ONCE: usize = 8;

/// Takes that are sent together.
const TOGETHER: usize = 100;

/// Longest wait for an answer. It only guards against hanging.
const PATIENCE: Duration = Duration::from_secs(120);

/// Makes a list of checks, each on a fresh subject.
macro_rules! checks {
    ($fresh:ident: $($name:literal => $check:path,)*) => {{
        let checks: Vec<LocalBoxFuture<'_, ()>> =
            vec![$(Box::pin(async { $check(&$fresh($name).await).await })),*];
        checks
    }};
}

/// Runs every check; `fresh` gives a store with a time of its own, in which the rules named by its argument have no state.
pub async fn run<S: Subject>(fresh: impl AsyncFn(&'static str) -> S) {
    let checks = checks! { fresh:
        "limits" => limits::admits_exactly_the_limit,
        "core" => limits::agrees_with_the_core,
        "look" => limits::a_look_takes_nothing,
        "zero" => limits::zero_blocks,
        "never" => limits::too_much_never_fits,
        "groups" => groups::all_or_nothing,
        "shadow" => groups::a_shadow_holds_up_nobody,
        "twice" => groups::one_counter_named_twice,
        "independent" => groups::groups_are_independent,
        "late" => groups::too_late_is_not_applied,
        "less" => holds::settled_for_less,
        "more" => holds::settled_for_more,
        "released" => holds::released,
        "forgotten" => holds::forgotten,
        "waiting" => holds::never_more_than_waiting,
        "beside" => holds::beside_takes,
        "pending" => holds::a_refusal_while_held_says_so,
        "returned" => returns::returned,
        "latest" => returns::returned_of_the_latest,
        "unknown" => returns::nothing_to_return_to,
        "same-call" => returns::returned_in_the_same_call,
        "outwaited" => returns::too_late_to_return,
        "regardless" => returns::returned_whatever_the_group,
        "charged" => charges::charged_as_far_as_it_fits,
        "paid" => charges::waiting_pays_back,
        "block" => charges::charged_to_a_block,
        "once" => charges::charged_once,
        "apart" => charges::charges_are_no_admissions,
        "lapsed" => charges::charges_are_forgotten,
        "bounds" => charges::remembered_within_bounds,
        "anyway" => charges::charged_whatever_the_group,
        "both" => charges::charged_and_taken_at_once,
        "charges" => charges::charged_by_other_rules,
        "retry" => replays::a_retry_is_free,
        "around" => replays::an_id_is_no_way_around,
        "yet" => replays::a_hold_admits_nobody_yet,
        "ids" => replays::ids_are_forgotten,
        "newer" => versions::newer_rules_reshape,
        "older" => versions::older_rules_do_not,
        "clock" => versions::clocks_may_step_back,
    };
    stream::iter(checks).buffer_unordered(AT_ONCE).for_each(|()| ready(())).await;
}

/// When the checks begin: on the hour, so that windows begin with them.
const START: Timestamp = Timestamp::from_millis(1_704_067_200_000);

const SECRET: Secret = Secret::new([1; 16]);

/// A subject with keys to try it with.
struct Bench<'s, S> {
    subject: &'s S,
    rules: [String; 3],
}

impl<'s, S: Subject> Bench<'s, S> {
    fn new(name: &str, subject: &'s S) -> Self {
        subject.set_time(START);
        Self { subject, rules: ["a", "b", "c"].map(|letter| format!("{name}-{letter}")) }
    }

    /// A take by `user` under one of the rules 0, 1 and 2.
    fn take(&self, rule: usize, user: &str, quota: Quota, cost: u64) -> Take<'_> {
        let key =
            Key::new(&self.rules[rule], quota.algorithm(), SECRET.encode().part(2, user.as_bytes()).tag());
        Take::new(key, quota, cost)
    }

    fn at(&self, ms: u64) {
        self.subject.set_time(START + Span::from_millis(ms));
    }

    async fn apply(&self, group: &[Operation<'_>]) -> Outcomes {
        let groups: [Group<'_>; 1] = [group.iter().copied().collect()];
        let deadline = Deadline::after(Instant::now(), PATIENCE);
        let mut outcomes = self.subject.store().apply(&groups, deadline).await;
        assert_eq!(outcomes.len(), 1);
        assert_eq!(outcomes[0].len(), group.len());
        outcomes.remove(0)
    }

    async fn verdicts(&self, group: &[Operation<'_>]) -> Vec<Verdict> {
        let outcomes = self.apply(group).await;
        outcomes
            .iter()
            .map(|outcome| *outcome.verdict().unwrap_or_else(|| panic!("no verdict: {outcome:?}")))
            .collect()
    }

    /// Carries out many takes one after the other, each by itself, without waiting for each: a store decides in the order in which it
    /// is asked.
    async fn in_order<'r>(&self, takes: impl IntoIterator<Item = Take<'r>>, action: Action) -> Vec<Verdict> {
        let mut verdicts = Vec::new();
        let groups: Vec<Group<'_>> =
            takes.into_iter().map(|take| [Operation { take, action }].into_iter().collect()).collect();
        for some in groups.chunks(TOGETHER) {
            let deadline = Deadline::after(Instant::now(), PATIENCE);
            let outcomes = self.subject.store().apply(some, deadline).await;
            assert_eq!(outcomes.len(), some.len());
            let verdict = |outcomes: &Outcomes| {
                *outcomes[0].verdict().unwrap_or_else(|| panic!("no verdict: {outcomes:?}"))
            };
            verdicts.extend(outcomes.iter().map(verdict));
        }
        verdicts
    }

    async fn one(&self, take: Take<'_>, action: Action) -> Verdict {
        self.verdicts(&[Operation { take, action }]).await[0]
    }

    /// Whether a take of `cost` goes through.
    async fn takes(&self, rule: usize, user: &str, quota: Quota, cost: u64) -> bool {
        self.one(self.take(rule, user, quota, cost), Action::Take).await.allowed
    }

    /// What is left, found out without taking any.
    async fn left(&self, rule: usize, user: &str, quota: Quota) -> u64 {
        self.one(self.take(rule, user, quota, 0), Action::Peek).await.remaining
    }
}

fn quota(algorithm: Algorithm, limit: u64, seconds: u64) -> Quota {
    Quota::new(algorithm, limit, Span::from_secs(seconds)).expect("in range")
}

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

use std::time::{Duration, Instant};

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

/// Runs every check; `fresh` gives a store in which the rules named by its argument have no state.
pub async fn run<S: Subject>(fresh: impl Fn(&'static str) -> S) {
    limits::admits_exactly_the_limit(&fresh("limits")).await;
    limits::agrees_with_the_core(&fresh("core")).await;
    limits::a_look_takes_nothing(&fresh("look")).await;
    limits::zero_blocks(&fresh("zero")).await;
    limits::too_much_never_fits(&fresh("never")).await;
    groups::all_or_nothing(&fresh("groups")).await;
    groups::a_shadow_holds_up_nobody(&fresh("shadow")).await;
    groups::one_counter_named_twice(&fresh("twice")).await;
    groups::groups_are_independent(&fresh("independent")).await;
    groups::too_late_is_not_applied(&fresh("late")).await;
    holds::settled_for_less(&fresh("less")).await;
    holds::settled_for_more(&fresh("more")).await;
    holds::released(&fresh("released")).await;
    holds::forgotten(&fresh("forgotten")).await;
    holds::never_more_than_waiting(&fresh("waiting")).await;
    holds::beside_takes(&fresh("beside")).await;
    holds::a_refusal_while_held_says_so(&fresh("pending")).await;
    returns::returned(&fresh("returned")).await;
    returns::returned_of_the_latest(&fresh("latest")).await;
    returns::nothing_to_return_to(&fresh("unknown")).await;
    returns::returned_in_the_same_call(&fresh("same-call")).await;
    returns::too_late_to_return(&fresh("outwaited")).await;
    returns::returned_whatever_the_group(&fresh("regardless")).await;
    charges::charged_as_far_as_it_fits(&fresh("charged")).await;
    charges::waiting_pays_back(&fresh("paid")).await;
    charges::charged_to_a_block(&fresh("block")).await;
    charges::charged_once(&fresh("once")).await;
    charges::charges_are_no_admissions(&fresh("apart")).await;
    charges::charges_are_forgotten(&fresh("lapsed")).await;
    charges::remembered_within_bounds(&fresh("bounds")).await;
    charges::charged_whatever_the_group(&fresh("anyway")).await;
    charges::charged_and_taken_at_once(&fresh("both")).await;
    charges::charged_by_other_rules(&fresh("charges")).await;
    replays::a_retry_is_free(&fresh("retry")).await;
    replays::an_id_is_no_way_around(&fresh("around")).await;
    replays::a_hold_admits_nobody_yet(&fresh("yet")).await;
    replays::ids_are_forgotten(&fresh("ids")).await;
    versions::newer_rules_reshape(&fresh("newer")).await;
    versions::older_rules_do_not(&fresh("older")).await;
    versions::clocks_may_step_back(&fresh("clock")).await;
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
        let deadline = Deadline::after(Instant::now(), Duration::from_secs(10));
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

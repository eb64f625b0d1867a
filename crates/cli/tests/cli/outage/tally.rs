//! What callers were told, added up.

use std::collections::BTreeMap;
use std::time::Duration;

use super::LIMIT;
use super::crowd::Answer;

/// All answers, of which each is a decision.
pub(super) struct Tally {
    pub(super) answers: Vec<Answer>,
}

impl Tally {
    /// Fails if anything is no decision.
    pub(super) fn new(answers: Vec<Answer>) -> Self {
        for answer in &answers {
            let decided = ["enforced", "local"].contains(&answer.status());
            assert!(answer.http == 200 && decided, "a failed decision: {answer:?}");
        }
        Self { answers }
    }

    /// Those of one phase.
    pub(super) fn of_phase(&self, phase: usize) -> impl Iterator<Item = &Answer> {
        self.answers.iter().filter(move |answer| answer.phase == phase)
    }

    /// How often each user was admitted, in these phases.
    pub(super) fn admitted(&self, phases: &[usize]) -> BTreeMap<usize, u64> {
        let mut admitted = BTreeMap::new();
        for answer in self.answers.iter().filter(|answer| phases.contains(&answer.phase)) {
            *admitted.entry(answer.user).or_default() += u64::from(answer.allowed());
        }
        admitted
    }

    /// Nobody was admitted more often than the limit allows in these phases. Says how often the one was who was most often.
    pub(super) fn within_limit(&self, phases: &[usize]) -> u64 {
        let admitted = self.admitted(phases);
        let (user, most) = admitted.iter().max_by_key(|(_, admitted)| **admitted).unwrap();
        let total: u64 = admitted.values().sum();
        println!("phases {phases:?}: {total} admitted; most to user {user}: {most} of {LIMIT}");
        let over: Vec<_> = admitted.iter().filter(|(_, admitted)| **admitted > LIMIT).collect();
        assert!(over.is_empty(), "users with more than {LIMIT}: {over:?}; {}", self.of_user(*over[0].0));
        *most
    }

    /// Users who stay below their limit are refused by nothing but being told to come again. Says how often that was.
    pub(super) fn spares(&self, is_below: impl Fn(usize) -> bool) -> usize {
        let below = || self.answers.iter().filter(|answer| is_below(answer.user));
        let wrong = below().find(|answer| !answer.allowed() && !answer.come_again());
        assert!(wrong.is_none(), "refused below the limit: {wrong:?}");
        let (again, all) = (below().filter(|answer| answer.come_again()).count(), below().count());
        println!("users below their limit: {again} of {all} requests were told to come again in a second");
        again
    }

    /// Prints figures of each phase.
    pub(super) fn print(&self, names: &[&str]) {
        for (phase, name) in names.iter().enumerate() {
            let count =
                |is: &dyn Fn(&Answer) -> bool| self.of_phase(phase).filter(|answer| is(answer)).count();
            let (all, admitted) = (count(&|_| true), count(&Answer::allowed));
            let (local, again) = (count(&|answer| answer.status() == "local"), count(&Answer::come_again));
            let [median, high, most] = self.times(|answer| answer.phase == phase);
            println!(
                "{name:>8}: {all:>6} decisions, {admitted:>6} admitted, {local:>6} local, {again:>4} told to come again; \
                 p50 {median:.1?}, p99 {high:.1?}, longest {most:.1?}"
            );
        }
    }

    /// The median, the 99th percentile and the longest of times to an answer.
    pub(super) fn times(&self, which: impl Fn(&Answer) -> bool) -> [Duration; 3] {
        let mut times: Vec<_> =
            self.answers.iter().filter(|answer| which(answer)).map(|answer| answer.took).collect();
        times.sort_unstable();
        let at =
            |part: usize| times.get(times.len().saturating_sub(1) * part / 100).copied().unwrap_or_default();
        [at(50), at(99), at(100)]
    }

    /// What one user was told, for messages.
    fn of_user(&self, user: usize) -> String {
        let mut told = BTreeMap::<_, u64>::new();
        for answer in self.answers.iter().filter(|answer| answer.user == user && answer.allowed()) {
            *told.entry((answer.phase, answer.node, answer.status())).or_default() += 1;
        }
        format!("admitted by phase, node and status: {told:?}")
    }
}

//! Who was refused by what, counted in bounded memory.

use std::collections::HashMap;
use std::fmt::Write as _;

use tidegate::Checked;
use tidegate_core::{Path, Request, RuleSet, Timestamp};

use super::chart::Chart;

/// The most identities that are told apart; a log may have more than there is memory.
const MAX_IDENTITIES: usize = 100_000;

/// The most bytes of an identity that are kept, and told apart by.
const MAX_NAME_BYTES: usize = 256;

/// What became of all requests.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) requests: u64,
    pub(crate) refused: u64,
    /// To how many no rule applied.
    pub(crate) unlimited: u64,
    /// How many came, by the log, before the one that precedes them.
    pub(crate) backwards: u64,
    /// The earliest and the latest.
    pub(crate) period: Option<(Timestamp, Timestamp)>,
    pub(crate) rules: Vec<RuleTally>,
    pub(crate) chart: Chart,
    identities: usize,
    last: Timestamp,
    name: String,
}

/// What one rule did.
#[derive(Debug, Default)]
pub(crate) struct RuleTally {
    /// To how many requests it applied.
    pub(crate) applied: u64,
    /// How many it refused, or would have if it did more than watch.
    pub(crate) refused: u64,
    /// Those by identity.
    pub(crate) by_identity: HashMap<Box<str>, Refusals>,
}

/// What one rule refused to one identity.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refusals {
    pub(crate) count: u64,
    pub(crate) first: Timestamp,
    pub(crate) last: Timestamp,
}

impl Tally {
    /// A tally for decisions by `rules`.
    pub(crate) fn new(rules: &RuleSet) -> Self {
        Self { rules: rules.rules().map(|_| RuleTally::default()).collect(), ..Self::default() }
    }

    /// Counts a decision about `request`.
    pub(crate) fn add(&mut self, checked: &Checked, request: &Request<'_>) {
        let at = checked.at;
        self.requests += 1;
        self.refused += u64::from(!checked.allowed);
        self.unlimited += u64::from(checked.verdicts.is_empty());
        self.backwards += u64::from(at < self.last);
        self.last = at;
        self.period = Some(self.period.map_or((at, at), |(first, last)| (first.min(at), last.max(at))));
        self.chart.add(at, checked.allowed);
        for said in &checked.verdicts {
            let Some(rule) = self.rules.get_mut(said.rule as usize) else { continue };
            rule.applied += 1;
            if !said.verdict.allowed {
                rule.refused += 1;
                self.refusal(checked, said.rule, request);
            }
        }
    }

    fn refusal(&mut self, checked: &Checked, rule: u32, request: &Request<'_>) {
        let Ok(path) = Path::parse(request.path) else { return };
        let at = checked.at;
        self.name.clear();
        match checked.rules().identity(rule, request, &path) {
            Some(identity) => _ = write!(self.name, "{identity}"),
            None => self.name.push_str("(no identity)"),
        }
        self.name.truncate(self.name.floor_char_boundary(MAX_NAME_BYTES));
        let known = &mut self.rules[rule as usize].by_identity;
        if let Some(refusals) = known.get_mut(self.name.as_str()) {
            refusals.count += 1;
            refusals.first = refusals.first.min(at);
            refusals.last = refusals.last.max(at);
        } else {
            if self.identities < MAX_IDENTITIES {
                known.insert(self.name.as_str().into(), Refusals { count: 1, first: at, last: at });
            }
            self.identities += 1;
        }
    }

    /// The identities that were refused most: with the rule's position, most first.
    pub(crate) fn top(&self, most: usize) -> Vec<(u32, &str, Refusals)> {
        let refused = (0u32..).zip(&self.rules).flat_map(|(index, rule)| {
            rule.by_identity.iter().map(move |(name, refusals)| (index, &**name, *refusals))
        });
        let mut all: Vec<_> = refused.collect();
        all.sort_unstable_by(|a, b| b.2.count.cmp(&a.2.count).then_with(|| (a.0, a.1).cmp(&(b.0, b.1))));
        all.truncate(most);
        all
    }

    /// How many were refused, an identity once per rule; `None` if there are more than could be told apart.
    pub(crate) fn identities(&self) -> Option<usize> {
        (self.identities <= MAX_IDENTITIES).then_some(self.identities)
    }
}

#[cfg(test)]
mod tests {
    use tidegate::Limiter;
    use tidegate_rules::{Source, load};

    use super::*;

    fn tally(users: impl Iterator<Item = usize>) -> Tally {
        let text = "rules: [{rule_id: r, identifier_type: user_id, limit: 0, window: 1s}]";
        let limiter = Limiter::new(load(&[Source { name: "rules", text }], 1).unwrap()).unwrap();
        let mut tally = Tally::new(&limiter.rules());
        for user in users {
            let user = user.to_string();
            let request = Request { user: Some(&user), ..Request::new("/") };
            tally.add(&limiter.try_check(&request).unwrap(), &request);
        }
        tally
    }

    #[test]
    fn those_refused_most_come_first() {
        let tally = tally([7, 8, 7, 9, 7, 9].into_iter());
        let top: Vec<_> =
            tally.top(2).iter().map(|(_, name, refusals)| (name.to_string(), refusals.count)).collect();
        assert_eq!(top, [("7".to_owned(), 3), ("9".to_owned(), 2)]);
        assert_eq!((tally.requests, tally.refused, tally.identities()), (6, 6, Some(3)));
    }

    #[test]
    fn more_identities_than_can_be_kept_are_counted_but_not_told_apart() {
        let tally = tally((0..MAX_IDENTITIES + 5).chain([0]));
        assert_eq!(tally.rules[0].refused, MAX_IDENTITIES as u64 + 6);
        assert_eq!(tally.rules[0].by_identity.len(), MAX_IDENTITIES);
        assert_eq!((tally.identities(), tally.top(1)[0].1), (None, "0"));
    }
}

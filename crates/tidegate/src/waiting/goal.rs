//! What a request may wait for.

use std::net::IpAddr;

use smallvec::SmallVec;
use tidegate_core::request::counted_ip;
use tidegate_core::ruleset::DEFAULT_IPV6_PREFIX;
use tidegate_core::{Request, RuleSet, Span};

use super::shares::RuleKey;

use crate::checked::RequestError;
use crate::limiter::{Backend, Limiter, parse_path};

/// A counter: rule, algorithm and tag in 128 bits.
pub(super) type Counter = [u64; 2];

/// A counter that a request may wait for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Goal {
    /// The rule's position in its rule set.
    pub(super) rule: u32,
    pub(super) rule_key: RuleKey,
    pub(super) counter: Counter,
    /// Where the request comes from, if that is known.
    pub(super) address: Option<IpAddr>,
    /// What the request takes from it.
    pub(super) cost: u64,
    /// How long it may wait for it.
    pub(super) longest: Span,
}

pub(super) type Goals = SmallVec<[Goal; 4]>;

impl Limiter {
    /// What `request` may wait for by `rules`: what can ever be had, of rules that let requests wait.
    pub(super) fn goals(&self, rules: &RuleSet, request: &Request<'_>) -> Result<Goals, RequestError> {
        let path = parse_path(request)?;
        let secret = match &self.backend {
            Backend::Memory(memory) => memory.secret,
            Backend::Shared(shared) => shared.hashed_with(shared.secret()),
        };
        let demand = rules.demand(request, &path, &secret, self.clock.now());
        let address = request.ip.map(|ip| counted_ip(ip, DEFAULT_IPV6_PREFIX));
        let goal = |(&rule, op): (&u32, &tidegate_core::Operation<'_>)| {
            let longest = rules.rule(rule).on_limit.longest()?;
            let take = &op.take;
            let waits = !take.shadow && (1..=take.quota.capacity()).contains(&take.cost);
            let (rule_key, counter) = (take.key.rule_fingerprint(), take.key.fingerprint());
            waits.then_some(Goal { rule, rule_key, counter, address, cost: take.cost, longest })
        };
        Ok(demand.rules.iter().zip(&demand.group).filter_map(goal).collect())
    }
}

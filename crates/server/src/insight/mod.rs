//! What traffic is like: which keys are hot, and who is refused.
//!
//! Fed by every decision, so nearly nothing may happen here per decision: see [`sampling`]. Memory is bounded whatever clients send,
//! and their names are for administrators only: never part of a metric.

mod countries;
mod heavy_hitters;
mod hot_board;
mod hot_keys;
mod name;
mod ranking;
mod refusals;
mod rings;
mod sampling;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use tidegate::{CheckedDescriptors, Decision, Request, RuleSet, Status};
use tidegate_core::descriptor::Descriptor;
use tidegate_core::tier::TierIndex;
use tidegate_core::{Secret, Timestamp};
use tokio::time::sleep;

use crate::config::Config;
use crate::node::Node;

use countries::Countries;
pub use hot_board::{HotKey, HotKeyEvent};
pub(crate) use hot_keys::HotKeys;
pub(crate) use ranking::{Ranking, Refused};
use refusals::Refusal;
pub(crate) use refusals::{By, Refusals};
pub(crate) use rings::Period;

/// What Envoy calls the entry with the address of a client.
const REMOTE_ADDRESS: &str = "remote_address";

/// How often to look whether keys have become hot.
const LOOK: Duration = Duration::from_millis(50);

/// What is known of a node's traffic.
#[derive(Debug)]
pub(crate) struct Insight {
    pub(crate) hot_keys: HotKeys,
    pub(crate) refusals: Refusals,
}

impl Insight {
    pub(crate) fn new(config: &Config, now: Timestamp) -> std::io::Result<Self> {
        let countries = config.geoip.as_deref().map(Countries::open).transpose()?;
        let mut secret = [0; 16];
        aws_lc_rs::rand::fill(&mut secret).map_err(std::io::Error::other)?;
        let secret = Secret::new(secret);
        Ok(Self {
            hot_keys: HotKeys::new(config.hot_key_rate, secret, now),
            refusals: Refusals::new(secret, countries),
        })
    }

    /// Takes note of the decision on a request.
    #[inline]
    pub(crate) fn see(&self, request: &Request<'_>, decision: &Decision, rules: &RuleSet) {
        self.hot_keys.see(request, decision, rules);
        if !decision.allowed {
            self.see_refused(request, decision, rules);
        }
    }

    /// By itself, so that decisions that pass need not carry it along.
    #[inline(never)]
    fn see_refused(&self, request: &Request<'_>, decision: &Decision, rules: &RuleSet) {
        let Request { user, tenant, ip, .. } = *request;
        self.see_refusal(decision, rules, || Refusal { user, tenant, ip, ..Refusal::default() });
    }

    /// Takes note of the decision on what a proxy says about a request.
    pub(crate) fn see_descriptors(
        &self,
        domain: &str,
        descriptors: &[Descriptor<'_>],
        checked: &CheckedDescriptors,
    ) {
        self.hot_keys.see_descriptors(domain, descriptors, checked);
        if !checked.decision.allowed {
            let rules = checked.rules();
            self.see_refusal(&checked.decision, rules, || {
                let over = checked.said.iter().zip(descriptors).find(|(said, _)| said.is_over(rules));
                let described = over.map(|(_, descriptor)| (domain, &*descriptor.entries));
                let entries = descriptors.iter().flat_map(|descriptor| &descriptor.entries);
                let mut addresses = entries.filter(|entry| entry.key == REMOTE_ADDRESS);
                let ip = addresses.find_map(|entry| entry.value.parse().ok());
                Refusal { ip, described, ..Refusal::default() }
            });
        }
    }

    fn see_refusal<'a>(&self, decision: &Decision, rules: &'a RuleSet, who: impl FnOnce() -> Refusal<'a>) {
        // That limits could not be checked is nobody's doing.
        if decision.status == Status::Unavailable {
            return;
        }
        self.refusals.see(decision.at, || {
            let rule = decision.cause().map(|rule| &*rules.rule(rule).id);
            let tier = decision.tier.map(TierIndex::get).and_then(|tier| rules.tiers().get(tier));
            Refusal { rule, tier: tier.map(|tier| &*tier.name), ..who() }
        });
    }
}

/// Looks for hot keys, for as long as this runs.
pub(crate) async fn watch(node: Arc<Node>) {
    loop {
        sleep(LOOK).await;
        node.insight.hot_keys.tick(node.now());
    }
}

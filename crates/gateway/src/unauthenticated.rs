//! Requests whose credentials are not accepted, as rules see them.
//!
//! A rule whose charge names status 401 counts the gateway's own 401 as it counts those of back ends: as a request without user,
//! by the address and the other facts that are known of it. Once such a rule refuses, it does so before the next credentials are
//! looked at: otherwise what a refusal says would differ between a good guess and a bad one.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::StatusCode;
use tidegate::{Checked, Facet, Request, Rule, Span};
use tidegate_core::Timestamp;
use tidegate_core::request::counted_ip;
use tidegate_core::rule::OnMissingIdentity;
use tidegate_server::traces::check_within;
use tracing::Instrument as _;

use crate::answer::Own;
use crate::finish::Record;
use crate::identity::{NotAdmitted, Who};
use crate::metrics::LIMITED;
use crate::proxy::{Asked, Proxy, Seen};

/// Addresses are told apart by this many hashes. Those that share one are only looked up more often than need be.
const SLOTS: usize = 16_384;

/// Whose failures rules have counted lately, so that no other client is looked up.
#[derive(Debug)]
pub(crate) struct RecentFailures {
    /// Time at which the last failure is forgotten, in milliseconds, by the hash of the network that it came from.
    networks: Box<[AtomicU64]>,
    /// Time at which the last failure is forgotten that counts for clients at other addresses, too.
    everywhere: AtomicU64,
    hasher: RandomState,
}

impl Default for RecentFailures {
    fn default() -> Self {
        let networks = std::iter::repeat_with(AtomicU64::default).take(SLOTS).collect();
        Self { networks, everywhere: AtomicU64::new(0), hasher: RandomState::new() }
    }
}

impl RecentFailures {
    /// Returns true if a rule may know of a failure that counts for `network`.
    pub(crate) fn concern(&self, network: IpAddr, now: Timestamp) -> bool {
        let is_over = |until: &AtomicU64| until.load(Ordering::Relaxed) <= now.as_millis();
        !is_over(&self.everywhere) || !is_over(self.slot(network))
    }

    /// Notes that failures of `network`, or of all, are counted `until` then.
    fn note(&self, network: Option<IpAddr>, until: Timestamp) {
        let slot = network.map_or(&self.everywhere, |network| self.slot(network));
        slot.fetch_max(until.as_millis(), Ordering::Relaxed);
    }

    #[expect(clippy::cast_possible_truncation, reason = "any bits of a hash will do")]
    fn slot(&self, network: IpAddr) -> &AtomicU64 {
        &self.networks[self.hasher.hash_one(network) as usize % SLOTS]
    }
}

impl Proxy {
    /// Refuses a request that shows credentials if a rule would refuse its client another failure.
    pub(crate) async fn admit(
        &self,
        asked: &Asked<'_>,
        record: &mut Option<Box<Record>>,
    ) -> Result<(), Own<'_>> {
        let prefix = {
            let rules = self.node.limiter().in_force();
            if !rules.charges_unauthorized() || !self.identify.shows_something(asked.head) {
                return Ok(());
            }
            rules.ipv6_prefix()
        };
        let client = self.identify.client(asked.peer, asked.head);
        if !self.failures.concern(counted_ip(client, prefix), self.node.now()) {
            return Ok(());
        }
        Box::pin(self.look(asked, client, record)).await
    }

    async fn look(
        &self,
        asked: &Asked<'_>,
        client: IpAddr,
        record: &mut Option<Box<Record>>,
    ) -> Result<(), Own<'_>> {
        let (who, host, attributes) =
            (Who::nobody(client), asked.target.plain_host(), asked.attributes().unauthenticated());
        let fields = Seen::of(self, asked, host.as_deref());
        let request = failed(asked.describe(&who, &fields, &attributes));
        let looked = self.node.preview(&request, asked.arrived).instrument(check_within()).await;
        match looked {
            Ok(checked) if !checked.allowed => {
                self.metrics.not_authenticated(LIMITED);
                Err(self.refuse(asked, &who, &checked, record))
            }
            // What rules cannot decide about is refused in the usual way, if at all.
            _ => Ok(()),
        }
    }

    /// Has rules count a request that is not admitted, if it is for its credentials, and says what to answer.
    pub(crate) async fn turn_back(
        &self,
        refused: NotAdmitted,
        asked: &Asked<'_>,
        record: &mut Option<Box<Record>>,
    ) -> Own<'_> {
        self.metrics.not_authenticated(refused.error);
        if refused.status != StatusCode::UNAUTHORIZED {
            return refused.into();
        }
        let who = Who::nobody(self.identify.client(asked.peer, asked.head));
        if let Some(record) = record {
            record.client = who.ip;
        }
        if !self.node.limiter().in_force().charges_unauthorized() {
            return refused.into();
        }
        let (host, attributes) = (asked.target.plain_host(), asked.attributes().unauthenticated());
        let fields = Seen::of(self, asked, host.as_deref());
        let request = failed(asked.describe(&who, &fields, &attributes));
        let Ok(checked) = self.node.ask(&request, asked.arrived).instrument(check_within()).await else {
            return refused.into();
        };
        self.note_failure(who.ip, &checked);
        if !checked.allowed {
            return self.refuse(asked, &who, &checked, record);
        }
        Own::from(refused).with(self.limits(&checked))
    }

    /// Has the next request that the rules of `checked` may refuse be looked up before its credentials are.
    fn note_failure(&self, client: IpAddr, checked: &Checked) {
        let rules = checked.rules();
        let network = counted_ip(client, rules.ipv6_prefix());
        for said in checked.verdicts.iter().filter(|said| !said.shadow) {
            let until = checked.at + said.verdict.reset_after.max(Span::from_millis(1));
            let by_address = is_by_address(rules.rule(said.rule));
            self.failures.note(by_address.then_some(network), until);
        }
    }

    fn refuse(
        &self,
        asked: &Asked<'_>,
        who: &Who<'_>,
        checked: &Checked,
        record: &mut Option<Box<Record>>,
    ) -> Own<'_> {
        if let Some(record) = record {
            record.identify(who, asked.route);
            record.decided(checked, asked.arrived.elapsed(), Duration::ZERO);
        }
        self.refusal(checked)
    }
}

/// Returns `request` as one that is answered with 401.
fn failed(request: Request<'_>) -> Request<'_> {
    Request { answered: Some(StatusCode::UNAUTHORIZED.as_u16()), ..request }
}

/// Returns true if `rule` counts a client that is nobody apart from those with other addresses.
fn is_by_address(rule: &Rule) -> bool {
    let facets = rule.identifier.facets();
    let names = |facet: &Facet| matches!(facet, Facet::User | Facet::Tenant | Facet::ApiKey);
    if facets.iter().any(names) {
        return rule.on_missing_identity == OnMissingIdentity::Ip;
    }
    facets.contains(&Facet::Ip)
}

#[cfg(test)]
mod tests {
    use tidegate::{Algorithm, Identifier, Quota};

    use super::*;

    #[test]
    fn a_failure_concerns_its_network_until_it_is_forgotten() {
        let failures = RecentFailures::default();
        let (one, other) = (IpAddr::from([192, 0, 2, 1]), IpAddr::from([192, 0, 2, 2]));
        let at = Timestamp::from_millis;
        assert!(!failures.concern(one, Timestamp::EPOCH));
        failures.note(Some(one), at(20));
        failures.note(Some(one), at(10));
        assert!(failures.concern(one, at(19)));
        assert!(!failures.concern(one, at(20)));
        failures.note(None, at(30));
        assert!(failures.concern(one, at(29)) && failures.concern(other, at(29)));
        assert!(!failures.concern(other, at(30)));
    }

    #[test]
    fn rules_count_failures_by_address_or_for_all() {
        let quota = Quota::new(Algorithm::FixedWindow, 1, Span::from_secs(1)).unwrap();
        let rule = |facets: &[Facet], on_missing_identity| Rule {
            on_missing_identity,
            ..Rule::new("rule", Identifier::new(facets.to_vec()).unwrap(), quota)
        };
        for (facets, on_missing, expected) in [
            (&[Facet::Ip][..], OnMissingIdentity::Skip, true),
            (&[Facet::Ip, Facet::Path], OnMissingIdentity::Shared, true),
            (&[Facet::User], OnMissingIdentity::Ip, true),
            (&[Facet::User], OnMissingIdentity::Shared, false),
            (&[Facet::User, Facet::Ip], OnMissingIdentity::Shared, false),
            (&[Facet::Global], OnMissingIdentity::Ip, false),
            (&[Facet::Header("x-app".into())], OnMissingIdentity::Ip, false),
        ] {
            assert_eq!(is_by_address(&rule(facets, on_missing)), expected, "{facets:?} {on_missing:?}");
        }
    }
}

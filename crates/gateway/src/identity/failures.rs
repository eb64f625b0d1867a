//! How often an address may fail to prove who it is.
//!
//! A rule like any other, in a limiter of its own: it has to work while a shared store is away, and it is asked before anything is
//! known of a request but where it comes from.

use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate::{Algorithm, Facet, Limiter, Quota, Request, Retry, Rule, RuleSet, RuleSetParts, Span};
use tidegate_store::Clock;

use super::who::NotAdmitted;

/// What an address gets back within this is as much as it may have.
const WINDOW: Span = Span::from_secs(60);

/// Addresses that are counted at once: some megabytes. Beyond them, those that have failed least make room.
const MAX_ADDRESSES: usize = 100_000;

/// Counts failures by address.
pub(super) struct Failures {
    limiter: Limiter,
    clock: Arc<dyn Clock>,
    /// By when the last failure is forgotten, in milliseconds; 0 before the first. Until then, nobody need be looked up.
    busy_until: AtomicU64,
}

impl Failures {
    /// Lets each address fail so often a minute, all at once or spread over it.
    pub(super) fn new(per_minute: NonZeroU32, clock: Arc<dyn Clock>) -> Result<Self, String> {
        let limit = u64::from(per_minute.get());
        let quota = Quota::new(Algorithm::TokenBucket, limit, WINDOW).map_err(|error| error.to_string())?;
        let rules = vec![Rule::new("failed_authentication", Facet::Ip, quota)];
        let rules = RuleSet::new(RuleSetParts { rules, ..RuleSetParts::default() });
        let limiter = Limiter::builder(rules.map_err(|error| error.to_string())?)
            .max_keys(MAX_ADDRESSES)
            .clock(Arc::clone(&clock))
            .build()
            .map_err(|error| error.to_string())?;
        Ok(Self { limiter, clock, busy_until: AtomicU64::new(0) })
    }

    /// Whether nobody has failed for so long that everybody may try.
    pub(super) fn is_quiet(&self) -> bool {
        let until = self.busy_until.load(Ordering::Relaxed);
        until == 0 || self.clock.now().as_millis() >= until
    }

    /// Fails if `ip` has failed too often to try again now.
    pub(super) fn admit(&self, ip: IpAddr) -> Result<(), NotAdmitted> {
        let Ok(checked) = self.limiter.try_explain(&by(ip)) else { return Ok(()) };
        if checked.allowed {
            return Ok(());
        }
        let retry = match checked.binding().map(|binding| binding.verdict.retry) {
            Some(Retry::After(span)) => span.as_secs_ceil().max(1),
            _ => 1,
        };
        Err(NotAdmitted::too_many_failures(retry))
    }

    /// Takes note that `ip` has failed.
    pub(super) fn note(&self, ip: IpAddr) {
        // It cannot be decided otherwise than by taking what is there.
        drop(self.limiter.try_check(&by(ip)));
        let until = (self.clock.now() + WINDOW).as_millis();
        self.busy_until.fetch_max(until, Ordering::Relaxed);
    }
}

fn by(ip: IpAddr) -> Request<'static> {
    Request { ip: Some(ip), ..Request::new("/") }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use tidegate_core::Timestamp;
    use tidegate_store::ManualClock;

    use super::*;

    fn failures(per_minute: u32) -> (Failures, Arc<ManualClock>) {
        let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_800_000_000_000)));
        (Failures::new(NonZeroU32::new(per_minute).unwrap(), clock.clone()).unwrap(), clock)
    }

    fn retry(failures: &Failures, ip: IpAddr) -> Option<u64> {
        failures.admit(ip).err().and_then(|refused| refused.retry_after)
    }

    #[test]
    fn each_address_may_fail_so_often() {
        let (failures, clock) = failures(3);
        let (one, other) = (IpAddr::from([192, 0, 2, 1]), IpAddr::from([192, 0, 2, 2]));
        assert!(failures.is_quiet());
        for _ in 0..3 {
            assert_eq!(retry(&failures, one), None);
            failures.note(one);
        }
        assert!(!failures.is_quiet());
        assert_eq!((retry(&failures, one), retry(&failures, other)), (Some(20), None));
        clock.advance(Span::from_secs(20));
        assert_eq!(retry(&failures, one), None, "one more");
        failures.note(one);
        assert_eq!(retry(&failures, one), Some(20));
        clock.advance(Span::from_secs(60));
        assert!(failures.is_quiet());
    }

    #[test]
    fn a_network_is_one_client() {
        let (failures, _) = failures(1);
        failures.note("2001:db8::1".parse().unwrap());
        assert!(retry(&failures, "2001:db8::2".parse().unwrap()).is_some());
        assert!(retry(&failures, "2001:db8:0:1::1".parse().unwrap()).is_none());
    }

    /// More addresses fail than can be counted.
    #[test]
    fn nobody_is_refused_for_others() {
        let (failures, _) = failures(60);
        for network in 0..2 * MAX_ADDRESSES as u128 {
            failures.note(Ipv6Addr::from_bits(0x2001_0db8 << 96 | network << 64).into());
        }
        assert!(failures.limiter.memory().unwrap().keys() <= MAX_ADDRESSES);
        for last in 0..100 {
            assert_eq!(retry(&failures, Ipv4Addr::new(192, 0, 2, last).into()), None);
        }
    }
}

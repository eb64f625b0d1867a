//! Who is refused, by what, and when.
//!
//! Every refusal is counted while there are few; of a flood one in 256, which stands for those before it. The lock is tried and never
//! waited for: what is not counted for it is counted as not counted.

use std::iter;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tidegate_core::descriptor::Entry;
use tidegate_core::request::counted_ip;
use tidegate_core::{Secret, Timestamp};

use super::countries::Countries;
use super::heavy_hitters::Fingerprint;
use super::name::{self, Described, Plain};
use super::ranking::Ranking;
use super::rings::{Period, Rings};
use super::sampling::{Effort, REFUSALS};

/// More refusals than these by a thread in a tenth of a second are a flood.
const EFFORT: Effort = Effort { few: 100, mean: 256 };

/// Addresses of IPv6 are counted by network: whoever has one has all of it.
const IPV6_PREFIX: u8 = 64;

const HOUR_MS: u64 = 3_600_000;

/// What refusals are counted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    User,
    Address,
    Tenant,
    Rule,
    Tier,
    Country,
    Descriptor,
}

const KINDS: usize = 7;

/// A request that was refused.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Refusal<'a> {
    pub(crate) user: Option<&'a str>,
    pub(crate) tenant: Option<&'a str>,
    pub(crate) ip: Option<IpAddr>,
    /// What a proxy said about it that is over a limit, and in which domain.
    pub(crate) described: Option<(&'a str, &'a [Entry<'a>])>,
    /// The id of the rule it is put down to.
    pub(crate) rule: Option<&'a str>,
    pub(crate) tier: Option<&'a str>,
}

/// Counts refusals.
#[derive(Debug)]
pub(crate) struct Refusals {
    secret: Secret,
    countries: Option<Countries>,
    book: Mutex<Book>,
    not_counted: AtomicU64,
}

#[derive(Debug, Default)]
struct Book {
    by: [Rings; KINDS],
    /// By hour of the day (UTC), with the number of the hour since the epoch.
    hours: [(u64, u64); 24],
}

impl Refusals {
    pub(crate) fn new(secret: Secret, countries: Option<Countries>) -> Self {
        let (book, not_counted) = Default::default();
        Self { secret, countries, book, not_counted }
    }

    /// Takes note of a refusal.
    #[inline]
    pub(crate) fn see<'a>(&self, at: Timestamp, refusal: impl FnOnce() -> Refusal<'a>) {
        if let Some(weight) = REFUSALS.with(|sampler| sampler.pass(at, EFFORT)) {
            self.look_at(&refusal(), weight, at);
        }
    }

    #[inline(never)]
    fn look_at(&self, refusal: &Refusal<'_>, weight: u64, at: Timestamp) {
        let Some(mut book) = self.book.try_lock() else {
            self.not_counted.fetch_add(weight, Ordering::Relaxed);
            return;
        };
        book.count_hour(at, weight);
        self.count(&mut book, refusal, weight, at);
    }

    fn count(&self, book: &mut Book, refusal: &Refusal<'_>, weight: u64, at: Timestamp) {
        let Refusal { user, tenant, ip, described, rule, tier } = *refusal;
        let mut add = |by: By, parts: &[&[u8]], name: &dyn Fn() -> String| {
            let mut encoding = self.secret.encode();
            for part in parts {
                encoding.part(0, part);
            }
            book.by[by as usize].add(Fingerprint(encoding.tag().bits()), weight, at, name);
        };
        let plain = |text: &str| name::shown(Plain(text));
        match (tenant, user) {
            (Some(tenant), Some(user)) => add(By::User, &[tenant.as_bytes(), user.as_bytes()], &|| {
                name::shown(format_args!("{}/{}", Plain(tenant), Plain(user)))
            }),
            (None, Some(user)) => add(By::User, &[user.as_bytes()], &|| plain(user)),
            (_, None) => {}
        }
        for (by, text) in [(By::Tenant, tenant), (By::Rule, rule), (By::Tier, tier)] {
            if let Some(text) = text {
                add(by, &[text.as_bytes()], &|| plain(text));
            }
        }
        match ip.map(|ip| counted_ip(ip, IPV6_PREFIX)) {
            Some(IpAddr::V4(v4)) => add(By::Address, &[&v4.octets()], &|| v4.to_string()),
            Some(IpAddr::V6(v6)) => add(By::Address, &[&v6.octets()], &|| format!("{v6}/{IPV6_PREFIX}")),
            None => {}
        }
        if let Some((domain, entries)) = described {
            let texts = entries.iter().flat_map(|entry| [entry.key, entry.value]);
            let parts: Vec<&[u8]> = iter::once(domain).chain(texts).map(str::as_bytes).collect();
            add(By::Descriptor, &parts, &|| name::shown(Described(entries)));
        }
        if let Some(code) = self.countries.as_ref().zip(ip).and_then(|(countries, ip)| countries.of(ip)) {
            add(By::Country, &[code.as_bytes()], &|| plain(code));
        }
    }

    /// So many of those who were refused most.
    pub(crate) fn most(&self, by: By, period: Period, now: Timestamp, many: usize) -> Ranking {
        // The lock is held while slots are copied, and not while they are merged.
        let slots = self.book.lock().by[by as usize].read(period, now);
        Ranking::of(slots, many)
    }

    /// How many there were at each hour of the day (UTC) within the last 24, this one included.
    pub(crate) fn by_hour(&self, now: Timestamp) -> [u64; 24] {
        let current = now.as_millis() / HOUR_MS;
        let hours = self.book.lock().hours;
        hours.map(|(hour, count)| if hour <= current && current - hour < 24 { count } else { 0 })
    }

    /// Whether countries are known.
    pub(crate) fn knows_countries(&self) -> bool {
        self.countries.is_some()
    }

    /// How many refusals were not counted, because somebody else was counting or reading.
    pub(crate) fn not_counted(&self) -> u64 {
        self.not_counted.load(Ordering::Relaxed)
    }
}

impl Book {
    fn count_hour(&mut self, at: Timestamp, weight: u64) {
        let hour = at.as_millis() / HOUR_MS;
        let Some(slot) = usize::try_from(hour % 24).ok().and_then(|hour| self.hours.get_mut(hour)) else {
            return;
        };
        if slot.0 != hour {
            *slot = (hour, 0);
        }
        slot.1 += weight;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: u64 = 1_704_067_200_000;

    fn refusals() -> Refusals {
        Refusals::new(Secret::new([7; 16]), None)
    }

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(START + seconds * 1000)
    }

    fn most(refusals: &Refusals, by: By, period: Period, now: Timestamp) -> Vec<(String, u64, u64)> {
        let most = refusals.most(by, period, now, 10).refused.into_iter();
        most.map(|refused| (refused.name.to_string(), refused.count, refused.error)).collect()
    }

    #[test]
    fn refusals_are_counted_by_everything() {
        let refusals = refusals();
        let alice = Refusal {
            user: Some("alice"),
            tenant: Some("acme"),
            ip: Some("2001:db8:1:2:3::4".parse().unwrap()),
            rule: Some("orders"),
            tier: Some("free"),
            described: None,
        };
        let bob = Refusal {
            user: Some("bob"),
            tenant: None,
            ip: Some("2001:db8:1:2::9".parse().unwrap()),
            ..alice
        };
        for (refusal, seconds) in [(alice, 0), (bob, 10), (alice, 20), (Refusal::default(), 30)] {
            refusals.see(at(seconds), || refusal);
        }
        let now = at(60);
        let of = |by| most(&refusals, by, Period::FiveMinutes, now);
        assert_eq!(of(By::User), [("acme/alice".into(), 2, 0), ("bob".into(), 1, 0)]);
        assert_eq!(of(By::Address), [("2001:db8:1:2::/64".into(), 3, 0)]);
        assert_eq!(of(By::Tenant), [("acme".into(), 2, 0)]);
        assert_eq!(of(By::Rule), [("orders".into(), 3, 0)]);
        assert_eq!(of(By::Tier), [("free".into(), 3, 0)]);
        assert_eq!(of(By::Country), []);
        assert_eq!(refusals.by_hour(now)[0], 4);
        assert_eq!(refusals.by_hour(at(24 * 3600)), [0; 24]);
        let later = at(600);
        assert_eq!(most(&refusals, By::User, Period::FiveMinutes, later), []);
        assert_eq!(most(&refusals, By::User, Period::Hour, later).len(), 2);
        assert_eq!(most(&refusals, By::User, Period::Day, at(23 * 3600)).len(), 2);
        assert_eq!(refusals.not_counted(), 0);
    }

    #[test]
    fn a_tenants_user_is_nobody_elses() {
        let refusals = refusals();
        for (tenant, user) in [(Some("a"), "b/c"), (Some("a/b"), "c"), (None, "a/b/c")] {
            refusals.see(at(0), || Refusal { user: Some(user), tenant, ..Refusal::default() });
        }
        assert_eq!(most(&refusals, By::User, Period::Day, at(0)).len(), 3, "though they look alike");
    }

    #[test]
    fn hostile_names_stay_short() {
        let refusals = refusals();
        let (long, script) = ("x".repeat(10_240), "<script>alert(1)</script>\u{7}");
        for user in [&*long, script] {
            refusals.see(at(0), || Refusal { user: Some(user), tenant: Some(user), ..Refusal::default() });
        }
        let shown = most(&refusals, By::Tenant, Period::Hour, at(1));
        assert!(
            shown.iter().all(|(name, ..)| name.len() <= name::LONGEST && !name.contains('\u{7}')),
            "{shown:?}"
        );
        assert!(
            shown.iter().any(|(name, ..)| name.starts_with("<script>")),
            "not for us to change: {shown:?}"
        );
    }

    /// A hundred thousand users, for a day, and one among them who is refused more than others.
    #[test]
    fn memory_is_bounded_and_the_worst_is_found() {
        let refusals = refusals();
        let users = 100_000u64;
        for number in 0..users {
            let user = number.to_string();
            let now = at(number * 86_000 / users);
            refusals.see(now, || Refusal { user: Some(&user), rule: Some("r"), ..Refusal::default() });
            if number % 20 == 0 {
                refusals.see(now, || Refusal {
                    user: Some("mallory"),
                    rule: Some("r"),
                    ..Refusal::default()
                });
            }
        }
        let kept = refusals.book.lock().by.iter().map(Rings::keys).sum::<usize>();
        assert!(kept <= 2 * Rings::room(), "{kept}");
        for (period, least) in [(Period::FiveMinutes, 10), (Period::Hour, 150), (Period::Day, users / 20)] {
            let most = most(&refusals, By::User, period, at(86_000));
            let (name, count, error) = &most[0];
            assert_eq!(name, "mallory", "{most:?}");
            assert!(*count >= least && count - error <= users / 20, "{most:?}");
        }
        let rules = most(&refusals, By::Rule, Period::Day, at(86_000));
        assert_eq!(rules, [("r".to_owned(), users + users / 20, 0)], "few are counted exactly");
        assert_eq!(refusals.by_hour(at(86_000)).iter().sum::<u64>(), users + users / 20);
    }

    /// What a flood is made of is known roughly, and what comes after it exactly.
    #[test]
    fn a_flood_is_sampled() {
        let refusals = refusals();
        let flood = 200_000u64;
        let refusal = Refusal { rule: Some("r"), ..Refusal::default() };
        (0..flood).for_each(|_| refusals.see(at(0), || refusal));
        let counted = most(&refusals, By::Rule, Period::Day, at(0))[0].1;
        assert!(counted.abs_diff(flood) < flood / 5, "{counted}");
        let calm = Refusal { rule: Some("s"), ..Refusal::default() };
        (0..7).for_each(|_| refusals.see(at(5), || calm));
        assert!(most(&refusals, By::Rule, Period::Day, at(5)).contains(&("s".into(), 7, 0)));
        let before = Timestamp::from_millis(START - 60_000);
        (0..7).for_each(|_| refusals.see(before, || calm));
        assert_eq!(refusals.by_hour(before)[23], 7, "nor is it a flood before it began");
    }

    #[test]
    fn what_is_not_counted_is_counted() {
        let refusals = refusals();
        let reading = refusals.book.lock();
        refusals.see(at(0), Refusal::default);
        drop(reading);
        assert_eq!(refusals.not_counted(), 1);
        assert_eq!(refusals.by_hour(at(0)), [0; 24]);
    }
}

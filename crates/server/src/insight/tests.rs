//! From decisions to what is shown.

use std::num::NonZeroU32;
use std::sync::Arc;

use tidegate::{Limiter, ManualClock, RuleSet};
use tidegate_core::rule::{OnMissingIdentity, Rule};
use tidegate_core::{Facet, Quota, RuleSetParts};

use super::hot_board::WINDOW;
use super::*;

fn rules(limit: u32) -> RuleSet {
    let quota = Quota::per_minute(limit);
    let rule =
        |id: &str, by| Rule { on_missing_identity: OnMissingIdentity::Skip, ..Rule::new(id, by, quota) };
    let rules = vec![rule("users", Facet::User), rule("keys", Facet::ApiKey)];
    RuleSet::new(RuleSetParts { rules, ..RuleSetParts::default() }).unwrap()
}

struct Stand {
    limiter: Limiter,
    clock: Arc<ManualClock>,
    insight: Insight,
}

impl Stand {
    fn new(hot_key_rate: u32, limit: u32) -> Self {
        let start = Timestamp::from_millis(1_704_067_200_000);
        let clock = Arc::new(ManualClock::new(start));
        let limiter = Limiter::builder(rules(limit)).clock(clock.clone()).build().unwrap();
        let config = Config { hot_key_rate: NonZeroU32::new(hot_key_rate).unwrap(), ..Config::default() };
        Self { limiter, clock, insight: Insight::new(&config, start).unwrap() }
    }

    fn decide(&self, request: &Request<'_>) {
        let checked = self.limiter.try_check(request).unwrap();
        self.insight.see(request, &checked, checked.rules());
    }

    fn end_window(&self) {
        self.clock.advance(WINDOW);
        self.insight.hot_keys.tick(self.limiter.try_check(&Request::new("/")).unwrap().at);
    }
}

fn user(name: &str) -> Request<'_> {
    Request { user: Some(name), ..Request::new("/") }
}

#[test]
fn a_hammered_key_is_hot_after_a_window_and_told_of_once() {
    let stand = Stand::new(100, 1_000_000);
    let mut events = stand.insight.hot_keys.subscribe();
    (0..40).for_each(|_| stand.decide(&user("alice")));
    (0..39).for_each(|_| stand.decide(&user("bob")));
    stand.insight.hot_keys.tick(Timestamp::from_millis(1_704_067_200_000));
    assert!(events.try_recv().is_err(), "not yet");
    stand.end_window();
    let HotKeyEvent::Hot(hot) = events.try_recv().unwrap() else { panic!("hot first") };
    assert_eq!((&*hot.rule, &*hot.identity, hot.rate), ("users", "alice", 100));
    assert!(events.try_recv().is_err());
    let top = stand.insight.hot_keys.top();
    let top: Vec<_> = top.iter().map(|key| (&*key.identity, key.rate, key.since.is_some())).collect();
    assert_eq!(top, [("alice", 100, true), ("bob", 97, false)]);
    (0..5).for_each(|_| stand.end_window());
    assert!(matches!(events.try_recv(), Ok(HotKeyEvent::Cooled(_))));
    assert_eq!((stand.insight.hot_keys.hot(), stand.insight.hot_keys.top().len()), (0, 0));
}

/// With little traffic nothing is hot, and yet it is known what there is most of.
#[test]
fn few_requests_are_all_seen() {
    let stand = Stand::new(10_000, 1_000_000);
    for (name, times) in [("alice", 6), ("bob", 4), ("carol", 1)] {
        (0..times).for_each(|_| stand.decide(&user(name)));
    }
    stand.end_window();
    let top = stand.insight.hot_keys.top();
    let top: Vec<_> = top.iter().map(|key| (&*key.identity, key.rate, key.since)).collect();
    assert_eq!(top, [("alice", 15, None), ("bob", 10, None)], "names are made for keys that come twice");
}

#[test]
fn an_estimated_rate_is_near_the_true_one() {
    let stand = Stand::new(10_000, 1_000_000);
    // 80,000 a second of one, among as many that each come once.
    for number in 0..32_000 {
        stand.decide(&user("alice"));
        stand.decide(&user(&number.to_string()));
    }
    stand.end_window();
    let top = stand.insight.hot_keys.top();
    assert_eq!(&*top[0].identity, "alice");
    assert!(top[0].rate.abs_diff(80_000) < 16_000, "{top:?}");
    assert_eq!(stand.insight.hot_keys.hot(), 1);
}

#[test]
fn neither_keys_nor_names_take_up_more_than_their_room() {
    let stand = Stand::new(1, 1_000_000);
    for round in 0..3 {
        for number in 0..20_000 {
            let name = format!("{number}{}", "x".repeat(1_000));
            (0..2).for_each(|_| stand.decide(&user(&name)));
        }
        stand.end_window();
        assert!(stand.insight.hot_keys.keys() <= 2 * 8 * 128, "round {round}");
        assert!(stand.insight.hot_keys.hot() <= 1_000);
        assert!(stand.insight.hot_keys.top().iter().all(|key| key.identity.len() <= name::LONGEST));
    }
}

#[test]
fn api_keys_stay_secret() {
    let stand = Stand::new(1, 1);
    let request = Request { api_key: Some("hunter2"), ..user("alice") };
    (0..10).for_each(|_| stand.decide(&request));
    stand.end_window();
    let top = stand.insight.hot_keys.top();
    assert!(top.iter().any(|key| &*key.identity == "(api key)"), "{top:?}");
    assert!(!format!("{:?}", stand.insight).contains("hunter2"));
}

#[test]
fn refusals_are_seen_and_allowed_requests_are_not() {
    let stand = Stand::new(10_000, 3);
    (0..5).for_each(|_| stand.decide(&user("alice")));
    stand.decide(&user("bob"));
    let now = Timestamp::from_millis(1_704_067_200_000);
    let most = |by| stand.insight.refusals.most(by, Period::FiveMinutes, now, 10).refused;
    assert_eq!(most(By::User), [Refused { name: "alice".into(), count: 2, error: 0 }]);
    assert_eq!(most(By::Rule), [Refused { name: "users".into(), count: 2, error: 0 }]);
    assert_eq!(most(By::Tier), []);
}

#[test]
fn countries_are_counted_if_they_are_known() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("countries.mmdb");
    std::fs::write(&file, countries::tests::file("SE")).unwrap();
    let countries = Countries::open(&file).unwrap();
    let refusals = Refusals::new(Secret::new([1; 16]), Some(countries));
    let now = Timestamp::from_millis(1_704_067_200_000);
    for ip in ["203.0.113.7", "203.0.113.8", "198.51.100.1"] {
        refusals.see(now, || Refusal { ip: Some(ip.parse().unwrap()), ..Refusal::default() });
    }
    let most = refusals.most(By::Country, Period::Day, now, 10);
    assert_eq!(most.refused, [Refused { name: "SE".into(), count: 2, error: 0 }]);
}

//! Decisions by tiers that are kept elsewhere.
#![cfg(feature = "documents")]
#![allow(clippy::unwrap_used, reason = "a test")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tidegate::documents::{Source, compile, read};
use tidegate::store::{Answer, Deadline, Group, Outcome, Store};
use tidegate::{Checked, Limiter, Request, RuleSet, TierAnswer, TierLookup, TierOptions};
use tokio::time::{Instant, sleep};

const RULES: &str = "
tiers: {free: {limit: 1, window: 1h}, gold: {limit: 10, window: 1h}}
users: {eve: free}
rules: [{rule_id: each, identifier_type: user_id, tiered: true}]
";

fn rules() -> RuleSet {
    compile(vec![read(&Source { name: "rules.yaml", text: RULES }).unwrap()], 1).unwrap()
}

/// Users are what their names say, which takes some time to find out.
#[derive(Default)]
struct Elsewhere {
    takes: Duration,
    asked: AtomicUsize,
}

impl TierLookup for Elsewhere {
    fn tier_of<'a>(&'a self, _: Option<&'a str>, user: &'a str) -> TierAnswer<'a> {
        Box::pin(async move {
            self.asked.fetch_add(1, Ordering::Relaxed);
            sleep(self.takes).await;
            Ok(user.split_once('-').map(|(tier, _)| tier.to_owned()))
        })
    }
}

fn limiter(takes: Duration) -> (Limiter, Arc<Elsewhere>) {
    let elsewhere = Arc::new(Elsewhere { takes, ..Elsewhere::default() });
    let builder = Limiter::builder(rules()).tiers(elsewhere.clone(), TierOptions::default());
    (builder.build().unwrap(), elsewhere)
}

fn by(user: &str) -> Request<'_> {
    Request { user: Some(user), ..Request::new("/") }
}

fn limit(checked: &Checked) -> u64 {
    checked.binding().map(|rule| rule.verdict.quota.limit()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_tier_that_nobody_names_is_looked_up() {
    let (limiter, elsewhere) = limiter(Duration::from_millis(1));
    for (user, expected) in [("gold-1", 10), ("free-1", 1), ("silver-1", 1), ("nobody", 1), ("eve", 1)] {
        assert_eq!(limit(&limiter.check(&by(user)).await.unwrap()), expected, "{user}");
        assert_eq!(limit(&limiter.explain(&by(user)).await.unwrap()), expected, "{user}");
    }
    let claimed = Request { tier: Some("gold"), ..by("free-2") };
    assert_eq!(limit(&limiter.check(&claimed).await.unwrap()), 10, "the request's word comes first");
    let unknown = Request { tier: Some("silver"), ..by("gold-2") };
    assert_eq!(limit(&limiter.check(&unknown).await.unwrap()), 10, "unless it means nothing");
    assert_eq!(elsewhere.asked.load(Ordering::Relaxed), 5);
}

#[tokio::test(start_paused = true)]
async fn those_of_a_batch_are_looked_up_together() {
    let (limiter, elsewhere) = limiter(Duration::from_millis(3));
    let users: Vec<String> = (0..100).map(|number| format!("gold-{}", number % 50)).collect();
    let requests: Vec<_> = users.iter().map(|user| by(user)).collect();
    let begun = Instant::now();
    let checked = limiter.check_all(&requests).await;
    assert!(checked.iter().all(|checked| limit(checked.as_ref().unwrap()) == 10));
    assert_eq!(elsewhere.asked.load(Ordering::Relaxed), 50);
    assert!(begun.elapsed() < Duration::from_millis(5), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn what_is_known_needs_no_waiting() {
    let (limiter, _) = limiter(Duration::ZERO);
    assert!(limiter.may_wait());
    for error in
        [limiter.try_check(&by("gold-1")).unwrap_err(), limiter.try_explain(&by("gold-1")).unwrap_err()]
    {
        assert_eq!(error.field, "tier");
    }
    limiter.check(&by("gold-1")).await.unwrap();
    assert_eq!(limit(&limiter.try_check(&by("gold-1")).unwrap()), 10);
    assert_eq!(limit(&limiter.try_explain(&by("gold-1")).unwrap()), 10);
    assert_eq!(limit(&limiter.try_check(&by("eve")).unwrap()), 1);
    assert!(limiter.try_check(&Request::new("/")).is_ok());
}

/// A store that remembers how much time it was left.
#[derive(Default)]
struct Patient(std::sync::Mutex<Vec<Duration>>);

impl Store for Patient {
    fn apply<'a, 'r: 'a>(&'a self, groups: &'a [Group<'r>], deadline: Deadline) -> Answer<'a> {
        let left = deadline.at().saturating_duration_since(Instant::now().into_std());
        self.0.lock().unwrap().push(left);
        let unasked = groups.iter().map(|group| group.iter().map(|_| Outcome::Unasked).collect());
        Box::pin(std::future::ready(unasked.collect()))
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_look_up_leaves_a_shared_store_its_time() {
    let elsewhere = Arc::new(Elsewhere { takes: Duration::from_secs(1), ..Elsewhere::default() });
    let store = Arc::new(Patient::default());
    let limiter = Limiter::builder(rules()).store(store.clone()).store_timeout(Duration::from_millis(100));
    let limiter = limiter.secret(tidegate::core::Secret::new([1; 16]));
    let options = TierOptions { timeout: Duration::from_secs(1), ..TierOptions::default() };
    let limiter = limiter.tiers(elsewhere, options).build().unwrap();
    let arrived = Instant::now().into_std();
    limiter.check_since(&by("gold-1"), arrived).await.unwrap();
    let left = store.0.lock().unwrap()[0];
    assert!((45..=50).contains(&left.as_millis()), "{left:?}");
}

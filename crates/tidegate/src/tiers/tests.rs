//! Tiers looked up, in time that passes when the test says so.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tidegate_core::{Algorithm, Facet, Quota, Request, Rule, RuleSet, RuleSetParts, Secret, Span};
use tokio::task::{JoinSet, yield_now};
use tokio::time::{Instant, advance, sleep, timeout};

use super::cache::Asked;
use super::{Found, Tier, TierAnswer, TierCache, TierLookup, TierOptions};

/// Somewhere tiers are kept, which is slow or gone at will.
#[derive(Default)]
struct Elsewhere {
    tiers: Mutex<HashMap<String, &'static str>>,
    takes: Mutex<Duration>,
    gone: Mutex<bool>,
    asked: AtomicUsize,
    asked_plans: AtomicUsize,
}

impl Elsewhere {
    fn set(&self, user: &str, tier: &'static str) {
        self.tiers.lock().insert(user.to_owned(), tier);
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }
}

impl TierLookup for Elsewhere {
    fn tier_of<'a>(&'a self, tenant: Option<&'a str>, user: &'a str) -> TierAnswer<'a> {
        let name = tenant.map_or_else(|| user.to_owned(), |tenant| format!("{tenant}/{user}"));
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.look_up(name, user)
    }

    fn plan_of<'a>(&'a self, tenant: &'a str) -> TierAnswer<'a> {
        self.asked_plans.fetch_add(1, Ordering::Relaxed);
        self.look_up(format!("plan of {tenant}"), tenant)
    }
}

impl Elsewhere {
    fn look_up<'a>(&'a self, name: String, who: &'a str) -> TierAnswer<'a> {
        Box::pin(async move {
            // Answered as soon as asked; it is the way back that takes time.
            let tier = self.tiers.lock().get(&name).map(|&tier| tier.to_owned());
            let (takes, gone) = (*self.takes.lock(), *self.gone.lock());
            sleep(takes).await;
            assert!(who != "panic", "as wished");
            if gone { Err("it is gone".to_owned()) } else { Ok(tier) }
        })
    }
}

const OPTIONS: fn() -> TierOptions = || TierOptions {
    capacity: NonZeroUsize::new(10).unwrap(),
    ttl: Duration::from_secs(300),
    timeout: Duration::from_millis(5),
};

/// A cache, what it asks, and rules that want tiers.
struct Scene {
    elsewhere: Arc<Elsewhere>,
    cache: Arc<TierCache>,
    rules: RuleSet,
}

impl Scene {
    fn new() -> Self {
        let elsewhere = Arc::new(Elsewhere::default());
        elsewhere.set("ann", "gold");
        let cache = TierCache::new(elsewhere.clone(), OPTIONS(), Secret::new([3; 16]));
        Self { elsewhere, cache: Arc::new(cache), rules: tiered() }
    }

    fn ask(&self, tenant: Option<&str>, user: &str) -> Asked {
        self.cache.ask(&self.rules, &Request { tenant, user: Some(user), ..Request::new("/") }).tier
    }

    async fn tier_in(&self, tenant: Option<&str>, user: &str) -> Tier {
        let arrived = Instant::now().into_std();
        match self.ask(tenant, user) {
            Asked::Told(tier) => tier,
            Asked::Waiting(waiting) => waiting.tier(arrived, self.cache.patience(1)).await,
        }
    }

    async fn found(&self, tenant: &str, user: &str) -> Found {
        let request = Request { tenant: Some(tenant), user: Some(user), ..Request::new("/") };
        let arrived = Instant::now().into_std();
        self.cache.ask(&self.rules, &request).found(arrived, self.cache.patience(1)).await
    }

    async fn tier(&self, user: &str) -> Option<String> {
        self.tier_in(None, user).await.map(|tier| tier.to_string())
    }

    /// How often each outcome was met; those that were not are left out.
    fn outcomes(&self) -> String {
        let met = self.cache.stats().outcomes().filter(|(_, count)| *count > 0);
        met.map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>().join(", ")
    }
}

fn tiered() -> RuleSet {
    let quota = |limit| Quota::new(Algorithm::FixedWindow, limit, Span::from_secs(60)).unwrap();
    let tier = |name: &str, limit| tidegate_core::tier::Tier { name: name.into(), quota: quota(limit) };
    let tiers = tidegate_core::tier::Tiers {
        list: vec![tier("free", 1), tier("gold", 10)],
        users: vec![("known".into(), "gold".into())],
        ..Default::default()
    };
    let rule = Rule {
        allowance: tidegate_core::rule::Allowance::Tiered,
        ..Rule::new("each", Facet::User, quota(1))
    };
    RuleSet::new(RuleSetParts { rules: vec![rule], tiers, ..RuleSetParts::default() }).unwrap()
}

async fn settle() {
    for _ in 0..20 {
        yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_tier_is_looked_up_once_until_it_expires() {
    let scene = Scene::new();
    assert_eq!(scene.tier("ann").await.as_deref(), Some("gold"));
    scene.elsewhere.set("ann", "free");
    advance(Duration::from_secs(299)).await;
    assert_eq!(scene.tier("ann").await.as_deref(), Some("gold"));
    assert_eq!((scene.elsewhere.asked(), scene.outcomes()), (1, "hit 1, miss 1".to_owned()));
    advance(Duration::from_secs(1)).await;
    assert_eq!(scene.tier("ann").await.as_deref(), Some("free"));
    assert_eq!(scene.cache.stats().seconds.read().count, 2);
}

#[tokio::test(start_paused = true)]
async fn that_there_is_none_is_remembered_too() {
    let scene = Scene::new();
    assert_eq!((scene.tier("bob").await, scene.tier("bob").await), (None, None));
    assert_eq!((scene.elsewhere.asked(), scene.outcomes()), (1, "hit 1, absent 1".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn plans_of_tenants_are_looked_up_beside_tiers_of_users() {
    let scene = Scene::new();
    // A user and a tenant of one name have nothing to do with each other.
    scene.elsewhere.set("acme/ann", "free");
    scene.elsewhere.set("plan of acme", "gold");
    scene.elsewhere.set("plan of ann", "free");
    *scene.elsewhere.takes.lock() = Duration::from_millis(3);
    let begun = Instant::now();
    let Found { tier, plan } = scene.found("acme", "ann").await;
    assert_eq!((tier.as_deref(), plan.as_deref()), (Some("free"), Some("gold")));
    assert!(begun.elapsed().as_millis() <= 4, "side by side: {:?}", begun.elapsed());
    let plans = || scene.elsewhere.asked_plans.load(Ordering::Relaxed);
    assert_eq!((scene.elsewhere.asked(), plans(), scene.outcomes()), (1, 1, "miss 2".to_owned()));
    scene.elsewhere.set("plan of acme", "free");
    assert_eq!(scene.found("acme", "bob").await.plan.as_deref(), Some("gold"), "known for all its users");
    assert_eq!((scene.elsewhere.asked(), plans()), (2, 1));
    scene.cache.forget(Some("acme"), "ann");
    scene.cache.forget(None, "acme");
    assert_eq!(scene.found("acme", "ann").await.plan.as_deref(), Some("gold"), "only users were forgotten");
    scene.cache.forget_plan("acme");
    assert_eq!(scene.found("acme", "ann").await.plan.as_deref(), Some("free"));
    assert_eq!(scene.found("zed", "known").await.plan, None, "the tier of the user is listed");
}

#[tokio::test(start_paused = true)]
async fn nobody_is_looked_up_without_need() {
    let scene = Scene::new();
    scene.tier("known").await;
    scene.tier("").await;
    let asked = scene
        .cache
        .ask(&scene.rules, &Request { user: Some("ann"), tier: Some("free"), ..Request::new("/") });
    assert!(matches!(asked.tier, Asked::Told(None)));
    assert_eq!((scene.elsewhere.asked(), scene.outcomes()), (0, String::new()));
    scene.tier(&"long".repeat(300)).await;
    assert!(scene.tier_in(Some(&"long".repeat(300)), "ann").await.is_none());
    assert_eq!((scene.elsewhere.asked(), scene.outcomes()), (0, "absent 3".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn there_is_room_for_so_many_and_no_more() {
    let scene = Scene::new();
    for user in 0..10 {
        scene.tier(&user.to_string()).await;
    }
    scene.tier("0").await;
    scene.tier("10").await;
    assert_eq!((scene.cache.entries(), scene.elsewhere.asked()), (10, 11));
    scene.tier("0").await;
    assert_eq!(scene.elsewhere.asked(), 11, "asked for not long ago");
    scene.tier("1").await;
    assert_eq!(scene.elsewhere.asked(), 12, "not asked for longest");
}

#[tokio::test(start_paused = true)]
async fn however_many_wait_one_asks() {
    let scene = Arc::new(Scene::new());
    *scene.elsewhere.takes.lock() = Duration::from_millis(3);
    let mut waiting = JoinSet::new();
    for _ in 0..1_000 {
        let scene = Arc::clone(&scene);
        waiting.spawn(async move { scene.tier("ann").await });
    }
    let tiers = waiting.join_all().await;
    assert!(tiers.iter().all(|tier| tier.as_deref() == Some("gold")));
    assert_eq!((scene.elsewhere.asked(), scene.outcomes()), (1, "miss 1000".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn whoever_gives_up_stops_nobody() {
    let scene = Scene::new();
    *scene.elsewhere.takes.lock() = Duration::from_millis(3);
    assert!(timeout(Duration::from_millis(1), scene.tier("ann")).await.is_err());
    assert_eq!(scene.tier("ann").await.as_deref(), Some("gold"));
    assert_eq!(scene.elsewhere.asked(), 1);
    drop(scene.ask(None, "bob"));
    sleep(Duration::from_millis(4)).await;
    scene.tier("bob").await;
    assert_eq!((scene.elsewhere.asked(), scene.outcomes()), (2, "hit 1, miss 1".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn what_is_slow_is_waited_for_once_and_known_afterwards() {
    let scene = Scene::new();
    *scene.elsewhere.takes.lock() = Duration::from_millis(50);
    let begun = Instant::now();
    assert_eq!(scene.tier("ann").await, None);
    // Timers are exact to the millisecond.
    assert!((5..=7).contains(&begun.elapsed().as_millis()), "{:?}", begun.elapsed());
    let begun = Instant::now();
    assert_eq!(scene.tier("ann").await, None);
    assert!(begun.elapsed().as_millis() <= 1, "the look-up has had its time: {:?}", begun.elapsed());
    sleep(Duration::from_millis(50)).await;
    assert_eq!(scene.tier("ann").await.as_deref(), Some("gold"));
    assert_eq!((scene.elsewhere.asked(), scene.outcomes()), (1, "hit 1, late 2".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn time_that_has_passed_since_the_arrival_counts() {
    let scene = Scene::new();
    *scene.elsewhere.takes.lock() = Duration::from_millis(3);
    let arrived = Instant::now().into_std();
    advance(Duration::from_millis(4)).await;
    let Asked::Waiting(waiting) = scene.ask(None, "ann") else { panic!("it is not known yet") };
    assert_eq!(waiting.tier(arrived, scene.cache.patience(1)).await, None);
    assert_eq!(scene.outcomes(), "late 1");
}

#[tokio::test(start_paused = true)]
async fn what_was_asked_before_a_change_is_not_remembered() {
    for everybody in [false, true] {
        let scene = Scene::new();
        *scene.elsewhere.takes.lock() = Duration::from_millis(3);
        let first = scene.ask(None, "ann");
        settle().await;
        scene.elsewhere.set("ann", "free");
        if everybody {
            scene.cache.doubt_all();
        } else {
            scene.cache.forget(None, "ann");
        }
        let second = scene.ask(None, "ann");
        assert!(matches!((first, second), (Asked::Waiting(_), Asked::Waiting(_))));
        sleep(Duration::from_millis(4)).await;
        assert_eq!(scene.tier("ann").await.as_deref(), Some("free"));
        assert_eq!((scene.elsewhere.asked(), scene.outcomes()), (2, "hit 1".to_owned()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_in_one_tenant_or_in_all() {
    let scene = Scene::new();
    let look = async || {
        for tenant in [None, Some("acme"), Some("zed")] {
            scene.tier_in(tenant, "ann").await;
        }
        scene.elsewhere.asked()
    };
    assert_eq!((look().await, look().await), (3, 3));
    scene.cache.forget(Some("acme"), "ann");
    assert_eq!((look().await, look().await), (4, 4));
    scene.cache.forget(None, "ann");
    assert_eq!((look().await, look().await), (7, 7));
    scene.cache.forget(Some(""), "ann");
    scene.cache.forget(None, "acme");
    assert_eq!((look().await, look().await), (10, 10));
    scene.cache.doubt_all();
    assert_eq!((look().await, look().await), (13, 13));
}

#[tokio::test(start_paused = true)]
async fn what_is_doubted_still_counts_while_nobody_can_be_asked() {
    let scene = Scene::new();
    scene.tier("ann").await;
    *scene.elsewhere.gone.lock() = true;
    scene.cache.doubt_all();
    assert_eq!(scene.tier("ann").await.as_deref(), Some("gold"));
    assert_eq!(scene.tier("ann").await.as_deref(), Some("gold"));
    assert_eq!((scene.elsewhere.asked(), scene.outcomes()), (2, "miss 1, failed 2".to_owned()));
    scene.elsewhere.set("ann", "free");
    *scene.elsewhere.gone.lock() = false;
    advance(Duration::from_secs(1)).await;
    assert_eq!(scene.tier("ann").await.as_deref(), Some("free"));
    *scene.elsewhere.gone.lock() = true;
    scene.cache.doubt_all();
    advance(Duration::from_secs(300)).await;
    assert_eq!(scene.tier("ann").await, None, "but not for longer than anything");
}

#[tokio::test(start_paused = true)]
async fn whoever_keeps_failing_is_asked_once_a_second() {
    let scene = Scene::new();
    scene.tier("ann").await;
    *scene.elsewhere.gone.lock() = true;
    for _ in 0..3 {
        scene.tier("0").await;
    }
    assert_eq!((scene.elsewhere.asked(), scene.outcomes()), (2, "miss 1, failed 3".to_owned()));
    assert_eq!(scene.cache.problem().as_deref(), Some("it is gone"));
    for user in 1..100 {
        scene.tier(&user.to_string()).await;
    }
    assert_eq!((scene.elsewhere.asked(), scene.outcomes()), (6, "miss 1, failed 7, paused 95".to_owned()));
    assert_eq!(scene.tier("ann").await.as_deref(), Some("gold"), "known");
    advance(Duration::from_secs(1)).await;
    for user in 100..200 {
        scene.tier(&user.to_string()).await;
    }
    assert_eq!(scene.elsewhere.asked(), 7, "one finds out whether it is over");
    *scene.elsewhere.gone.lock() = false;
    advance(Duration::from_secs(1)).await;
    scene.tier("200").await;
    scene.tier("201").await;
    assert_eq!((scene.elsewhere.asked(), scene.cache.problem()), (9, None));
}

#[tokio::test(start_paused = true)]
async fn news_from_elsewhere_ends_the_pause() {
    let scene = Scene::new();
    *scene.elsewhere.gone.lock() = true;
    for user in 0..5 {
        scene.tier(&user.to_string()).await;
    }
    *scene.elsewhere.gone.lock() = false;
    assert_eq!(scene.tier("ann").await, None);
    scene.cache.doubt_all();
    assert_eq!(scene.cache.problem(), None);
    assert_eq!(scene.tier("ann").await.as_deref(), Some("gold"));
}

#[tokio::test(start_paused = true)]
async fn what_failed_before_such_news_is_no_news() {
    let scene = Scene::new();
    *scene.elsewhere.gone.lock() = true;
    *scene.elsewhere.takes.lock() = Duration::from_secs(2);
    let asked: Vec<Asked> = (0..9).map(|user| scene.ask(None, &user.to_string())).collect();
    settle().await;
    *scene.elsewhere.gone.lock() = false;
    *scene.elsewhere.takes.lock() = Duration::ZERO;
    scene.cache.doubt_all();
    sleep(Duration::from_secs(3)).await;
    assert_eq!((asked.len(), scene.elsewhere.asked()), (9, 9));
    assert_eq!(scene.cache.problem(), None);
    assert_eq!(scene.tier("ann").await.as_deref(), Some("gold"));
}

#[tokio::test(start_paused = true)]
async fn a_look_up_that_panics_or_never_ends_is_over_some_time() {
    let scene = Scene::new();
    assert_eq!(scene.tier("panic").await, None);
    assert!(scene.cache.problem().is_some_and(|problem| problem.contains("interrupted")));
    *scene.elsewhere.takes.lock() = Duration::MAX;
    assert_eq!(scene.tier("ann").await, None);
    *scene.elsewhere.takes.lock() = Duration::ZERO;
    sleep(Duration::from_secs(12)).await;
    assert_eq!(scene.tier("ann").await.as_deref(), Some("gold"));
    assert_eq!(scene.outcomes(), "miss 1, late 1, failed 1");
}

#[tokio::test(start_paused = true)]
async fn a_failure_that_comes_after_a_later_answer_is_no_problem() {
    let scene = Scene::new();
    (*scene.elsewhere.takes.lock(), *scene.elsewhere.gone.lock()) = (Duration::from_secs(2), true);
    for stranger in ["bob", "carol", "dave", "erin", "frank", "grace"] {
        assert_eq!(scene.tier(stranger).await, None);
    }
    (*scene.elsewhere.takes.lock(), *scene.elsewhere.gone.lock()) = (Duration::ZERO, false);
    assert_eq!(scene.tier("ann").await.as_deref(), Some("gold"));
    sleep(Duration::from_secs(3)).await;
    assert_eq!(scene.cache.problem(), None);
    scene.elsewhere.set("henry", "gold");
    assert_eq!(scene.tier("henry").await.as_deref(), Some("gold"), "look-ups are not paused");
}

#[test]
fn without_a_runtime_there_is_the_default() {
    let scene = Scene::new();
    assert!(matches!(scene.ask(None, "ann"), Asked::Told(None)));
    assert_eq!((scene.elsewhere.asked(), scene.outcomes()), (0, "paused 1".to_owned()));
}

#[test]
fn a_runtime_that_ends_takes_its_look_ups_along() {
    let scene = Scene::new();
    *scene.elsewhere.takes.lock() = Duration::from_secs(1);
    let runtime =
        || tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime().block_on(async { assert_eq!(scene.tier("ann").await, None) });
    *scene.elsewhere.takes.lock() = Duration::ZERO;
    scene.cache.doubt_all();
    scene.cache.forget(None, "ann");
    runtime().block_on(async { assert_eq!(scene.tier("ann").await.as_deref(), Some("gold")) });
}

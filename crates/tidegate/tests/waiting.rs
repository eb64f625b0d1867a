//! Requests that wait for their turn, as programs see them.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use http::{Response, StatusCode};
use tidegate::core::rule::OnLimit;
use tidegate::redis::RedisStore;
use tidegate::{
    Clock, Facet, Limiter, Quota, RateLimitLayer, Request, Rule, RuleSet, RuleSetParts, Span, Status,
    Timestamp, Waiting,
};
use tidegate_testkit::Redis;
use tokio::task::JoinSet;
use tower::{Layer as _, ServiceExt as _};

/// Ten a second, and as many at once; the others wait.
fn rules(longest: Span) -> RuleSet {
    let quota = Quota::token_bucket(10, Span::from_secs(1), 10).unwrap();
    let rule = Rule { on_limit: OnLimit::Delay { longest }, ..Rule::new("each", Facet::User, quota) };
    RuleSet::new(RuleSetParts { rules: vec![rule], ..RuleSetParts::default() }).unwrap()
}

/// Long enough for a busy machine.
const DEADLINE: Duration = tidegate_testkit::wait::HANG_LIMIT;

async fn on(redis: &Redis) -> Arc<Limiter> {
    let store = RedisStore::builder(redis.url().parse().unwrap()).timeout(DEADLINE).start().unwrap();
    tokio::time::timeout(DEADLINE, store.ready()).await.unwrap();
    let limiter = Limiter::builder(rules(Span::from_secs(10)));
    Arc::new(limiter.store(Arc::new(store)).store_timeout(DEADLINE).build().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_programs_share_what_there_is_and_all_have_their_turn() {
    let redis = Redis::start();
    let limiters = [on(&redis).await, on(&redis).await];
    let start = Instant::now();
    let mut tasks = JoinSet::new();
    for limiter in limiters.iter().cycle().take(40).map(Arc::clone) {
        tasks.spawn(async move {
            let request = Request { user: Some("alice"), ..Request::new("/") };
            let waited = limiter.check_or_wait(&request, Instant::now(), DEADLINE).await.unwrap();
            (waited.checked.allowed, waited.checked.status, start.elapsed())
        });
    }
    let mut ends = Vec::new();
    for (allowed, status, took) in tasks.join_all().await {
        assert!(allowed, "{status:?} after {took:?}");
        assert_eq!(status, Status::Enforced);
        ends.push(took);
    }
    ends.sort_unstable();
    for (before, took) in ends.iter().enumerate() {
        // The store's clock has whole milliseconds, of which the first may have been all but over.
        let most = 10 + (took.as_millis() + 1) / 100;
        assert!((before as u128) < most, "{before} before {took:?}");
    }
    let figures = limiters.map(|limiter| limiter.waiting());
    assert_eq!(figures.iter().map(|waiting| waiting.allowed).sum::<u64>(), 30);
    assert!(
        figures.iter().all(|waiting| (waiting.now, waiting.refused, waiting.gone) == (0, 0, 0)),
        "{figures:?}"
    );
}

/// The time of Tokio, which tests can stop.
struct TokioClock(tokio::time::Instant);

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(1_704_067_200_000 + u64::try_from(self.0.elapsed().as_millis()).unwrap())
    }
}

#[tokio::test(start_paused = true)]
async fn the_layer_waits_too() {
    let clock = Arc::new(TokioClock(tokio::time::Instant::now()));
    let limiter = Arc::new(Limiter::builder(rules(Span::from_millis(250))).clock(clock).build().unwrap());
    let served = tower::service_fn(async |_: http::Request<()>| {
        Ok::<_, Infallible>(Response::new(Body::from("served".to_owned())))
    });
    let layer =
        RateLimitLayer::new(Arc::clone(&limiter), |head| Request { user: Some("alice"), ..head.request() });
    let service = layer.layer(served);
    let start = tokio::time::Instant::now();
    let mut tasks = JoinSet::new();
    for who in 0..14 {
        let service = service.clone();
        tasks.spawn(async move {
            let response = service.oneshot(http::Request::new(())).await.unwrap();
            (who, response.status(), start.elapsed())
        });
    }
    let mut answers = tasks.join_all().await;
    answers.sort_unstable_by_key(|(who, ..)| *who);
    for (who, status, took) in answers {
        let (expected, wait) = match who {
            0..10 => (StatusCode::OK, 0),
            10 => (StatusCode::OK, 100),
            11 => (StatusCode::OK, 200),
            _ => (StatusCode::TOO_MANY_REQUESTS, 0),
        };
        assert_eq!((status, took), (expected, Duration::from_millis(wait)), "{who}");
    }
    assert_eq!(limiter.waiting(), Waiting { now: 0, allowed: 2, refused: 0, gone: 0 });
}

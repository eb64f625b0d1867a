//! Tidegate, embedded: the engine of the `tidegate` server inside your own program.
//!
//! # A guide
//!
//! **Rules** say what matches, who is counted and how much they may have. All rules that match a request apply, and
//! a request that one of them refuses takes nothing from the others.
//!
//! ```
//! use tidegate::{Algorithm, Condition, Facet, Quota, Rule, RuleSet, RuleSetParts, Span};
//!
//! let per_user = Rule {
//!     condition: Condition { path: Some("/orders/*".parse()?), ..Condition::default() },
//!     ..Rule::new("orders_per_user", Facet::User, Quota::new(Algorithm::SlidingWindow, 50, Span::from_secs(60))?)
//! };
//! // 1,000 a second for everybody together, in bursts of up to 2,000.
//! let overall = Rule::new("overall", Facet::Global, Quota::token_bucket(1_000, Span::from_secs(1), 2_000)?);
//! let rules = RuleSet::new(RuleSetParts { rules: vec![per_user, overall], ..RuleSetParts::default() })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! With the feature `documents` the same rules can be read from YAML or JSON, as the server reads them:
//!
//! ```
//! # #[cfg(feature = "documents")] {
//! use tidegate::documents::{Source, compile, read};
//!
//! let text = "
//! rules:
//!   - rule_id: orders_per_user
//!     identifier_type: user_id
//!     algorithm: sliding_window
//!     limit: 50
//!     window: 60s
//!     match: { path_pattern: /orders/* }
//! ";
//! let document = read(&Source { name: "rules.yaml", text })?;
//! let rules = compile(vec![document], 1)?;
//! assert_eq!(rules.len(), 1);
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! **A limiter** applies them. It is made once, shared, and asked with borrowed facts about each request. Counters in
//! memory are decided at once ([`Limiter::try_check`]); [`Limiter::check`] is the same for programs that keep their
//! counters elsewhere, or may come to.
//!
//! ```
//! use tidegate::{Limiter, Request, Retry};
//! # use tidegate::{Algorithm, Facet, Quota, Rule, RuleSet, RuleSetParts, Span};
//! # let rule = Rule::new("two", Facet::User, Quota::new(Algorithm::FixedWindow, 2, Span::from_secs(3_600))?);
//! # let rules = RuleSet::new(RuleSetParts { rules: vec![rule], ..RuleSetParts::default() })?;
//!
//! let limiter = Limiter::new(rules)?;
//! let request = Request { user: Some("alice"), method: Some("GET"), ..Request::new("/orders/7") };
//! assert!(limiter.try_check(&request)?.allowed);
//! assert!(limiter.try_check(&request)?.allowed);
//!
//! let third = limiter.try_check(&request)?;
//! assert!(!third.allowed);
//! assert_eq!(third.rule_id(), Some("two"));
//! let wait = third.binding().map(|rule| rule.verdict.retry);
//! assert!(matches!(wait, Some(Retry::After(_))));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! **Answers can say what requests cost**, by rules with a [charge](core::cost::Charge): what a request costs otherwise is
//! held until its answer is told, and given back if none is.
//!
//! ```
//! use tidegate::core::cost::{Charge, Cost, DEFAULT_CHARGE_WITHIN};
//! use tidegate::{Limiter, Request};
//! # use tidegate::{Algorithm, Facet, Quota, Rule, RuleSet, RuleSetParts, Span};
//!
//! let charge = Charge { header: Some("x-tokens-used".into()), statuses: Vec::new(), within: DEFAULT_CHARGE_WITHIN };
//! let tokens = Rule {
//!     cost: Cost::Fixed(500),
//!     charge: Some(Box::new(charge)),
//!     ..Rule::new("tokens", Facet::User, Quota::new(Algorithm::FixedWindow, 10_000, Span::from_secs(60))?)
//! };
//! # let rules = RuleSet::new(RuleSetParts { rules: vec![tokens], ..RuleSetParts::default() })?;
//! # let limiter = Limiter::new(rules)?;
//! let request = Request { user: Some("alice"), hold: Some(limiter.hold_id()), ..Request::new("/v1/chat") };
//! let mut checked = limiter.try_check(&request)?;
//! assert_eq!(checked.verdicts[0].verdict.remaining, 9_500);
//! // The request goes ahead; later, when it is answered:
//! if let Some(held) = checked.take_held() {
//!     let settlement = held.answered(200, |name| (name == "x-tokens-used").then_some("812"));
//!     limiter.try_settle(&settlement)?;
//! }
//! let looks = Request { cost: 0, ..request };
//! assert_eq!(limiter.try_check(&looks)?.verdicts[0].verdict.remaining, 9_188);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! **Rules change while requests flow**: [`Limiter::set_rules`] puts others in force at once, and counters keep what
//! they have counted.
//!
//! **Rules can have requests wait** instead of refusing them: [`OnLimit::Delay`](core::rule::OnLimit::Delay). Whoever asks by
//! [`Limiter::check_or_wait`] then waits for its turn, first come, first served, as long as the rules let it and it has patience.
//!
//! ```
//! use std::time::{Duration, Instant};
//! use tidegate::core::rule::OnLimit;
//! use tidegate::{Facet, Limiter, Quota, Request, Rule, RuleSet, RuleSetParts, Span};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let on_limit = OnLimit::Delay { longest: Span::from_secs(2) };
//! let quota = Quota::token_bucket(100, Span::from_secs(1), 100)?;
//! let rules = vec![Rule { on_limit, ..Rule::new("paced", Facet::Global, quota) }];
//! let limiter = Limiter::new(RuleSet::new(RuleSetParts { rules, ..RuleSetParts::default() })?)?;
//! assert!(limiter.check(&Request { cost: 100, ..Request::new("/") }).await?.allowed);
//! // All is gone; some is back after 10 ms.
//! let waited = limiter.check_or_wait(&Request::new("/"), Instant::now(), Duration::from_secs(1)).await?;
//! assert!(waited.checked.allowed);
//! # Ok(())
//! # }
//! ```
//!
//! **Several programs can share their counters** in Redis or Valkey (feature `redis`), or in any other
//! [`Store`](store::Store). Every decision then waits for it, 5 ms at most; what becomes of a request that it says
//! nothing to in time is for [each rule](core::rule::OnStoreFailure) to decide, and the [`Status`] of the decision
//! tells. One store, and so one connection, is enough for a program.
//!
//! ```no_run
//! # #[cfg(feature = "redis")]
//! # async fn share(rules: tidegate::RuleSet) -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::Arc;
//! use tidegate::redis::RedisStore;
//! use tidegate::{Limiter, Request, Status};
//!
//! let store = RedisStore::builder("redis://127.0.0.1:6379".parse()?).start()?;
//! let limiter = Limiter::builder(rules).store(Arc::new(store)).build()?;
//! let checked = limiter.check(&Request { user: Some("alice"), ..Request::new("/orders/7") }).await?;
//! match (checked.allowed, checked.status) {
//!     (true, Status::Disabled) => println!("allowed, but nobody counted it"),
//!     (true, _) => println!("allowed"),
//!     (false, Status::Unavailable) => println!("turned away: the store cannot be asked"),
//!     (false, _) => println!("refused by {:?}", checked.rule_id()),
//! }
//! # Ok(())
//! # }
//! ```
//!
//! While the store is away, rules say what becomes of requests; by default the program counts by itself and settles with the store
//! afterwards, for which [`Limiter::tend`] has to be called some ten times a second. Programs that know each other
//! ([`Builder::peers`]) let one of them count each key.
//!
//! **Users' tiers can be kept elsewhere**, such as in a database: give the [`Builder`] a [`TierLookup`]. A tier is looked
//! up once, remembered for five minutes, and waited for 5 ms at most; then the rules' default counts.
//!
//! **Time can be had by the hand** in tests: give the [`Builder`] a [`ManualClock`] and move it.
//!
//! ```
//! use std::sync::Arc;
//! use tidegate::{Limiter, ManualClock, Request, Span, Timestamp};
//! # use tidegate::{Algorithm, Facet, Quota, Rule, RuleSet, RuleSetParts};
//! # let rule = Rule::new("one", Facet::Global, Quota::new(Algorithm::TokenBucket, 1, Span::from_secs(10))?);
//! # let rules = RuleSet::new(RuleSetParts { rules: vec![rule], ..RuleSetParts::default() })?;
//!
//! let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_700_000_000_000)));
//! let limiter = Limiter::builder(rules).clock(clock.clone()).build()?;
//! assert!(limiter.try_check(&Request::new("/"))?.allowed);
//! assert!(!limiter.try_check(&Request::new("/"))?.allowed);
//! clock.advance(Span::from_secs(10));
//! assert!(limiter.try_check(&Request::new("/"))?.allowed);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! **An HTTP service** is limited by a layer (feature `tower`): see `RateLimitLayer`, and the examples `axum` and
//! `custom_extractor`. It does not tell answers, so rules with a charge take at once what they would have held.
//!
//! **A service that gets more requests than it can serve** sheds some by a second layer, `LoadShedLayer`: as many are in flight as it can
//! serve at full throughput, and requests of higher tiers go first. See [`overload`] for how the limit is found.

mod builder;
mod checked;
mod descriptors;
mod held;
#[cfg(feature = "tower")]
mod layer;
mod limiter;
#[cfg(feature = "tower")]
mod load_shed;
mod shared;
mod spans;
mod tiers;
mod waiting;

pub use builder::{Builder, DEFAULT_EMERGENCY_CAP, DEFAULT_STORE_TIMEOUT};
pub use checked::{Checked, RequestError, UnsupportedRules};
pub use descriptors::CheckedDescriptors;
pub use held::{Held, Settlement};
#[cfg(feature = "tower")]
pub use layer::{Head, LimitedFuture, RateLimitLayer, RateLimited};
pub use limiter::Limiter;
#[cfg(feature = "tower")]
pub use load_shed::{LoadShed, LoadShedFuture, LoadShedLayer};
#[cfg(feature = "cluster")]
pub use tidegate_cluster as cluster;
pub use tidegate_core as core;
pub use tidegate_core::{
    Algorithm, Condition, Decision, Facet, Fields, Identifier, Quota, Request, Retry, Rule, RuleSet,
    RuleSetParts, Span, Status, Timestamp, Verdict,
};
pub use tidegate_overload as overload;
#[cfg(feature = "redis")]
pub use tidegate_redis as redis;
#[cfg(feature = "documents")]
pub use tidegate_rules as documents;
pub use tidegate_store as store;
pub use tidegate_store::{Clock, ManualClock, SystemClock};
#[cfg(feature = "tower")]
pub use tidegate_wire::HeaderStyle;
pub use tiers::{TierAnswer, TierCache, TierLookup, TierOptions, TierStats};
pub use waiting::{TurnedAway, Waited, Waiting};

//! Counters in this process, by a clock that is moved by hand.

use std::sync::Arc;

use proptest::prelude::*;
use tidegate::core::cost::Cost;
use tidegate::core::{Action, HoldId, Key, Operation, Secret, Take};
use tidegate::{Algorithm, Facet, Limiter, ManualClock, Quota, Request, Rule, Span, Timestamp};

use crate::story::{
    WITHIN, answers_say_what_is_used, ask, hold, left, log_ins, many_balance, only_failures_count,
    refused_by_one_held_by_none, requests, rule_set, somebody, tell, tokens,
};

fn limiter(rules: Vec<Rule>) -> (Limiter, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_704_067_200_000)));
    let limiter = Limiter::builder(rule_set(rules, 1)).clock(clock.clone()).build().unwrap();
    (limiter, clock)
}

#[tokio::test]
async fn failed_log_ins_only() {
    let (limiter, clock) = limiter(vec![log_ins()]);
    only_failures_count(&limiter).await;
    clock.advance(Span::from_secs(900));
    assert!(ask(&limiter, &somebody()).await.allowed, "a quarter of an hour later");
}

/// Attempts under way count until they turn out well, or nobody could be kept from trying many at once.
#[tokio::test]
async fn attempts_at_the_same_time_count() {
    let (limiter, _) = limiter(vec![log_ins()]);
    let mut attempts = Vec::new();
    for _ in 0..5 {
        attempts.push(hold(&limiter, &somebody()).await);
    }
    assert!(!ask(&limiter, &somebody()).await.allowed);
    for held in attempts {
        assert!(tell(&limiter, held, 200, None).await);
    }
    assert_eq!(left(&limiter).await, [5]);
}

#[tokio::test]
async fn tokens_as_answers_say() {
    answers_say_what_is_used(&limiter(vec![tokens(10_000)]).0).await;
}

#[tokio::test]
async fn one_rule_charged_the_other_not() {
    refused_by_one_held_by_none(&limiter(vec![tokens(999), requests(3)]).0).await;
}

#[tokio::test]
async fn without_an_answer_it_is_given_back_in_time_and_not_before() {
    let (limiter, clock) = limiter(vec![tokens(500)]);
    let held = hold(&limiter, &somebody()).await;
    clock.advance(Span::from_millis(WITHIN.as_millis() - 1));
    assert!(!ask(&limiter, &somebody()).await.allowed);
    clock.advance(Span::from_millis(1));
    assert_eq!(left(&limiter).await, [500]);
    let again = hold(&limiter, &somebody()).await;
    assert!(!tell(&limiter, held, 200, Some("200")).await, "too late");
    assert_eq!(left(&limiter).await, [0], "and no harm to whoever holds it now");
    assert!(tell(&limiter, again, 200, Some("200")).await);
    assert_eq!(left(&limiter).await, [300]);
}

/// The request was sent to a server that never answered: it is for good what it was held for.
#[tokio::test]
async fn without_an_answer_it_can_be_charged() {
    let (limiter, clock) = limiter(vec![tokens(1_000)]);
    let held = hold(&limiter, &somebody()).await;
    let settlement = held.charged();
    assert_eq!(settlement.costs().collect::<Vec<_>>(), [("tokens", 500)]);
    assert!(limiter.settle(&settlement).await);
    clock.advance(WITHIN);
    assert_eq!(left(&limiter).await, [500]);
}

#[tokio::test]
async fn it_is_held_for_as_long_as_the_strictest_rule_says() {
    let mut strict = tokens(1_000);
    strict.id = "strict".into();
    strict.charge.as_mut().unwrap().within = Span::from_secs(5);
    let (limiter, _) = limiter(vec![tokens(1_000), strict]);
    assert_eq!(hold(&limiter, &somebody()).await.within(), Span::from_secs(5));
}

#[tokio::test]
async fn whoever_does_not_tell_answers_is_charged_at_once() {
    let (limiter, clock) = limiter(vec![tokens(1_000)]);
    let mut checked = limiter.check(&somebody()).await.unwrap();
    assert!(checked.allowed && checked.take_held().is_none());
    clock.advance(WITHIN);
    assert_eq!(left(&limiter).await, [500], "for good");
}

/// A retry must be known to be free before it is answered.
#[tokio::test]
async fn whoever_has_an_id_is_charged_at_once_and_only_once() {
    let (limiter, clock) = limiter(vec![tokens(1_000)]);
    let request = Request { request_id: Some("r-1"), ..somebody() };
    for _ in 0..2 {
        let mut checked = ask(&limiter, &request).await;
        assert!(checked.allowed && checked.take_held().is_none());
        assert_eq!(left(&limiter).await, [500]);
    }
    clock.advance(WITHIN);
    assert_eq!(left(&limiter).await, [500]);
}

#[tokio::test]
async fn whoever_only_looks_holds_nothing() {
    let (limiter, _) = limiter(vec![tokens(1_000)]);
    let request = Request { hold: Some(limiter.hold_id()), ..somebody() };
    assert!(limiter.explain(&request).await.unwrap().take_held().is_none());
    assert!(limiter.check(&Request { cost: 0, ..request }).await.unwrap().take_held().is_none());
    assert_eq!(left(&limiter).await, [1_000]);
}

#[tokio::test]
async fn what_a_shadow_holds_is_settled_too() {
    let (limiter, _) = limiter(vec![Rule { shadow: true, ..tokens(600) }]);
    let held = hold(&limiter, &somebody()).await;
    let mut beyond = ask(&limiter, &somebody()).await;
    assert!(beyond.allowed && beyond.take_held().is_none(), "let pass, and nothing to hold");
    assert!(tell(&limiter, held, 200, Some("1")).await);
    assert_eq!(left(&limiter).await, [599]);
}

#[tokio::test]
async fn rules_may_change_before_the_answer() {
    let (limiter, _) = limiter(vec![tokens(1_000)]);
    let held = hold(&limiter, &somebody()).await;
    limiter.set_rules(rule_set(vec![tokens(2_000)], 2)).unwrap();
    assert_eq!(left(&limiter).await, [1_500]);
    assert!(tell(&limiter, held, 200, Some("100")).await);
    assert_eq!(left(&limiter).await, [1_900], "by the new figures");

    let held = hold(&limiter, &somebody()).await;
    limiter.set_rules(rule_set(vec![requests(9)], 3)).unwrap();
    assert!(tell(&limiter, held, 200, Some("300")).await, "by the charge of a rule that is gone");
    limiter.set_rules(rule_set(vec![tokens(2_000)], 4)).unwrap();
    assert_eq!(left(&limiter).await, [1_600]);
}

#[test]
fn all_at_once_without_a_runtime() {
    let (limiter, _) = limiter(vec![tokens(1_000)]);
    let request = Request { hold: Some(limiter.hold_id()), ..somebody() };
    let held = limiter.try_check(&request).unwrap().take_held().unwrap();
    let settlement = held.answered(200, |_| Some("7"));
    assert_eq!(settlement.costs().collect::<Vec<_>>(), [("tokens", 7)]);
    assert_eq!(limiter.try_settle(&settlement), Ok(true));
    assert_eq!(limiter.try_settle(&settlement), Ok(false), "once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_at_the_same_time() {
    many_balance(limiter(vec![tokens(20_000), requests(10_000)]).0, 200).await;
}

/// What cannot be kept track of is charged as if nobody told the answer: no limit is lifted for it.
#[tokio::test]
async fn without_room_for_another_hold_it_is_charged_at_once() {
    let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_704_067_200_000)));
    let rules = rule_set(vec![tokens(1_000)], 1);
    let limiter = Limiter::builder(rules).clock(clock.clone()).max_keys(1).build().unwrap();
    let elsewhere = Quota::new(Algorithm::FixedWindow, 9, Span::from_secs(1)).unwrap();
    let tag = Secret::new([1; 16]).encode().part(1, b"other").tag();
    let key = Key::new("other", elsewhere.algorithm(), tag);
    let ttl = Span::from_secs(3_600);
    let fill =
        Operation { take: Take::new(key, elsewhere, 1), action: Action::Hold { id: HoldId([1, 1]), ttl } };
    let filled = limiter.memory().unwrap().apply_at(&[fill], tidegate::Clock::now(&*clock));
    assert!(filled[0].verdict().unwrap().allowed);
    for _ in 0..2 {
        let mut checked = ask(&limiter, &somebody()).await;
        assert!(checked.allowed && checked.take_held().is_none());
    }
    assert!(!ask(&limiter, &somebody()).await.allowed);
}

#[test]
fn rules_have_costs_of_their_own() {
    let quota = Quota::new(Algorithm::FixedWindow, 10, Span::from_secs(60)).unwrap();
    let rule = |id: &str, cost| Rule { cost, ..Rule::new(id, Facet::Global, quota) };
    let header = Cost::Header { name: "x-cost".into(), otherwise: 1, most: 9 };
    let (limiter, _) = limiter(vec![rule("one", Cost::default()), rule("header", header)]);
    let headers = [("X-Cost", "4")];
    let request = Request { headers: &headers, ..Request::new("/") };
    let remaining = |request: &Request<'_>| {
        let checked = limiter.try_check(request).unwrap();
        (checked.allowed, checked.verdicts.iter().map(|said| said.verdict.remaining).collect::<Vec<_>>())
    };
    assert_eq!(remaining(&request), (true, vec![9, 6]));
    assert_eq!(remaining(&request), (true, vec![8, 2]));
    assert_eq!(remaining(&request), (false, vec![8, 2]), "all or nothing");
    assert_eq!(remaining(&Request::new("/")), (true, vec![7, 1]));
}

/// One thing that may happen.
#[derive(Clone, Debug)]
enum Event {
    Ask,
    /// One of those asked is answered, however long ago, and says so much.
    Answer(prop::sample::Index, u64),
    NoAnswer(prop::sample::Index),
    Wait(Span),
}

fn events() -> impl Strategy<Value = Event> {
    prop_oneof![
        3 => Just(Event::Ask),
        2 => (any::<prop::sample::Index>(), 0..1_500u64).prop_map(|(which, said)| Event::Answer(which, said)),
        1 => any::<prop::sample::Index>().prop_map(Event::NoAnswer),
        1 => (0..40_000u64).prop_map(|ms| Event::Wait(Span::from_millis(ms))),
    ]
}

proptest! {
    /// Whatever happens in whatever order: what is gone is what answers said and what is held, to the last token.
    #[test]
    fn the_books_balance(events in prop::collection::vec(events(), 1..80)) {
        const LIMIT: u64 = 3_000;
        let (limiter, clock) = limiter(vec![tokens(LIMIT)]);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let end = Timestamp::from_millis(1_704_067_200_000) + Span::from_secs(3_600);
        let (mut used, mut asked) = (0, Vec::new());
        for event in events {
            let now = tidegate::Clock::now(&*clock);
            asked.retain(|(_, until)| *until > now);
            let held = 500 * asked.len() as u64;
            let settlement = match event {
                Event::Ask => {
                    let taken = runtime.block_on(ask(&limiter, &somebody())).take_held();
                    prop_assert_eq!(taken.is_some(), used + held + 500 <= LIMIT);
                    asked.extend(taken.map(|taken| (taken, now + WITHIN)));
                    None
                }
                Event::Answer(which, said) if !asked.is_empty() => {
                    let (held, _) = asked.remove(which.index(asked.len()));
                    let said_by = said.to_string();
                    Some((held.answered(200, |_| Some(&said_by)), said))
                }
                Event::NoAnswer(which) if !asked.is_empty() => {
                    Some((asked.remove(which.index(asked.len())).0.unanswered(), 0))
                }
                // The window must not end: what is left would be as if new.
                Event::Wait(span) if now + span < end => {
                    clock.advance(span);
                    None
                }
                _ => None,
            };
            if let Some((settlement, said)) = settlement {
                prop_assert!(runtime.block_on(limiter.settle(&settlement)));
                used += said.min(500 + LIMIT - used - held);
            }
            let now = tidegate::Clock::now(&*clock);
            let held = 500 * asked.iter().filter(|(_, until)| *until > now).count() as u64;
            prop_assert_eq!(runtime.block_on(left(&limiter)), [LIMIT - used - held]);
        }
    }
}

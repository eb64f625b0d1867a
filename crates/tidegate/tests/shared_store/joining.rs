//! From the outcomes of a store to a decision.

use std::sync::Arc;

use tidegate::core::rule::OnStoreFailure::{self, Allow, Deny, Local};
use tidegate::store::Store;
use tidegate::{Limiter, Request, Rule, Status};

use crate::fake::Say::{self, No, Unasked, Unavailable, Unknown, Yes};
use crate::fake::{Fake, limiter, rule, rule_set};

const ALICE: Request<'static> = Request {
    path: "/",
    tenant: None,
    user: Some("alice"),
    tier: None,
    plan: None,
    method: None,
    ip: None,
    api_key: None,
    headers: &(),
    attributes: &(),
    cost: 1,
    request_id: None,
    body_bytes: None,
    hold: None,
    answered: None,
};

/// What is made of outcomes: allowed, status, the rule it is told to be about, and whose verdicts are told.
async fn decide(policies: &[OnStoreFailure], says: &[Say]) -> (bool, Status, Option<String>, Vec<u32>) {
    let checked = limiter(&Fake::new(says), policies).check(&ALICE).await.unwrap();
    let told = checked.verdicts.iter().map(|said| said.rule).collect();
    (checked.allowed, checked.status, checked.rule_id().map(str::to_owned), told)
}

#[tokio::test]
async fn outcomes_become_a_decision() {
    let enforced = |allowed| (allowed, Status::Enforced);
    let (open, closed) = ((true, Status::Disabled), (false, Status::Unavailable));
    let local = (true, Status::Local);
    for (policies, says, (allowed, status), rule, told) in [
        (&[Deny, Deny][..], &[Yes, Yes][..], enforced(true), "r0", &[0, 1][..]),
        (&[Deny, Deny], &[Yes, No], enforced(false), "r1", &[0, 1]),
        (&[Allow], &[Unavailable], open, "r0", &[]),
        (&[Local], &[Unknown], local, "r0", &[0]),
        (&[Local], &[], local, "r0", &[0]),
        (&[Local, Deny], &[Unavailable, Unknown], closed, "r1", &[]),
        (&[Local, Deny], &[Unavailable, No], enforced(false), "r1", &[1]),
        (&[Local, Allow], &[Unavailable, Unavailable], open, "r0", &[0]),
        (&[Deny], &[Unavailable], closed, "r0", &[]),
        (&[Deny], &[Unknown], closed, "r0", &[]),
        (&[Allow, Deny, Deny], &[Unknown, Unavailable, Unknown], closed, "r1", &[]),
        (&[Allow, Allow], &[Unavailable, Yes], open, "r1", &[1]),
        (&[Deny, Allow], &[Unavailable, Yes], closed, "r0", &[1]),
        (&[Deny, Deny], &[Unavailable, No], enforced(false), "r1", &[1]),
        (&[Allow, Deny], &[Unknown, No], enforced(false), "r1", &[1]),
        (&[Deny, Deny, Deny], &[Unasked, No, Unasked], enforced(false), "r1", &[1]),
        // Nobody is let through because a store keeps silent.
        (&[Deny, Deny], &[Unasked, Yes], closed, "r0", &[1]),
        (&[Allow, Deny], &[Yes], closed, "r1", &[0]),
        (&[Deny, Allow], &[], closed, "r0", &[]),
    ] {
        let expected = (allowed, status, Some(rule.to_owned()), told.to_vec());
        assert_eq!(decide(policies, says).await, expected, "{policies:?} {says:?}");
    }
}

#[tokio::test]
async fn a_shadow_fails_nobody() {
    let rules = rule_set(vec![Rule { shadow: true, ..rule(0, Deny) }, rule(1, Deny)]);
    let store: Arc<dyn Store> = Fake::new(&[Unavailable, Yes]);
    let checked = Limiter::builder(rules).store(store).build().unwrap().check(&ALICE).await.unwrap();
    assert_eq!((checked.allowed, checked.status, checked.rule_id()), (true, Status::Enforced, Some("r1")));
}

#[tokio::test]
async fn without_the_secret_nobody_is_asked() {
    let store = Fake::new(&[Yes]);
    let secret = store.secret.lock().unwrap().take();
    for (policy, status) in [(Allow, Status::Disabled), (Local, Status::Local), (Deny, Status::Unavailable)] {
        let limiter = limiter(&store, &[policy]);
        assert_eq!(limiter.check(&ALICE).await.unwrap().status, status);
        assert_eq!(limiter.check_all(&[ALICE]).await[0].as_ref().unwrap().status, status);
    }
    assert_eq!(store.calls(), 0);
    *store.secret.lock().unwrap() = secret;
    assert_eq!(limiter(&store, &[Deny]).check(&ALICE).await.unwrap().status, Status::Enforced);
    assert_eq!(store.calls(), 1);
}

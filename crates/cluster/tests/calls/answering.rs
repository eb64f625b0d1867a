//! What is asked is answered: all of it, by few requests, and exactly once.

use std::sync::Arc;

use futures_util::future::join_all;
use tidegate_core::{Action, Algorithm, HoldId, Quota, Span};
use tidegate_store::Failure;
use tidegate_store::peers::{Asked, Call, NodeId, Reply};

use crate::node::{Node, OURS, PATIENT, caller, outcomes, rule, seen, take, take_of, verdict, within};

#[tokio::test]
async fn every_kind_of_call_is_answered() {
    let (node, caller) = (Node::start().await, caller(OURS));
    let ask = async |call| node.ask(&caller, call).await;
    assert_eq!(verdict(ask(Call::Decide(vec![take(1, 10)])).await), (true, 999_990));
    assert_eq!(verdict(ask(Call::Store(vec![take(1, 5)])).await), (true, 999_985));
    let id = HoldId([3, 4]);
    let hold = Asked { action: Action::Hold { id, ttl: Span::from_secs(60) }, ..take(1, 100) };
    assert_eq!(verdict(ask(Call::Store(vec![hold])).await), (true, 999_885));
    let settle = Asked { action: Action::Settle { id }, ..take(1, 1) };
    assert_eq!(verdict(ask(Call::Store(vec![settle])).await), (true, 999_984));
    let known = vec![take(1, 0), Asked { seen: Some(seen(3)), ..take(2, 0) }];
    assert_eq!(
        ask(Call::Recall { node: NodeId(9), asked: known }).await,
        Ok(Reply::Known(vec![None, Some(seen(3))]))
    );
    assert_eq!(ask(Call::Owes).await, Ok(Reply::Owes(7)));
    assert_eq!(ask(Call::Secret).await, Ok(Reply::Secret(Some([9; 16]))));
    assert_eq!(ask(Call::Look).await, Ok(Reply::Look(b"well".to_vec())));
}

#[tokio::test]
async fn a_group_is_decided_as_one() {
    let (node, caller) = (Node::start().await, caller(OURS));
    let group = || vec![take_of(10, 1, 3), take_of(5, 2, 3)];
    let allowed = async || {
        let outcomes = outcomes(node.ask(&caller, Call::Decide(group())).await);
        outcomes.iter().map(|outcome| outcome.verdict().unwrap().allowed).collect::<Vec<_>>()
    };
    assert_eq!(allowed().await, [true, true]);
    assert_eq!(allowed().await, [true, false]);
    assert_eq!(node.left(&take_of(10, 1, 0)).await, 7, "nothing was taken from the first");
}

#[tokio::test]
async fn many_callers_share_few_requests_and_each_gets_its_own_answer() {
    let (node, caller) = (Node::start().await, caller(OURS));
    let asked = |n: u64| node.ask(&caller, Call::Decide(vec![take(n, n + 1)]));
    let answers = join_all((0..1_000).map(asked)).await;
    for (n, answer) in (0..).zip(answers) {
        assert_eq!(verdict(answer), (true, 1_000_000 - n - 1));
    }
    assert_eq!(node.figures.calls(), 1_000);
    assert!(node.figures.requests() < 100, "{} requests", node.figures.requests());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn exactly_as_many_are_admitted_as_the_limit_says() {
    let node = Arc::new(Node::start().await);
    let callers = (0..5).map(|_| {
        let node = Arc::clone(&node);
        tokio::spawn(async move {
            let caller = caller(OURS);
            let asked = (0..100).map(|_| node.ask(&caller, Call::Decide(vec![take_of(100, 1, 1)])));
            join_all(asked).await.into_iter().filter(|answer| verdict(answer.clone()).0).count()
        })
    });
    let admitted: usize = join_all(callers).await.into_iter().map(Result::unwrap).sum();
    assert_eq!(admitted, 100);
    assert_eq!(node.figures.calls(), 500);
}

#[tokio::test]
async fn long_calls_are_spread_over_several_requests() {
    let (node, caller) = (Node::start().await, caller(OURS));
    let quota = Quota::token_bucket(1 << 20, Span::from_secs(3_600), 1 << 21).unwrap().at_version(u64::MAX);
    let long = Asked { quota, seen: Some(seen(u64::MAX)), ..rule(&"x".repeat(128)) };
    let asked = (0..10)
        .map(|_| node.ask(&caller, Call::Recall { node: NodeId(9), asked: vec![long.clone(); 4_096] }));
    for answer in join_all(asked).await {
        assert_eq!(answer, Ok(Reply::Known(vec![Some(seen(u64::MAX)); 4_096])));
    }
    assert!(node.figures.requests() > 2, "more than fits into two");
}

#[tokio::test]
async fn what_no_node_would_read_is_not_sent() {
    let (node, caller) = (Node::start().await, caller(OURS));
    let long = Call::Decide(vec![rule(&"x".repeat(129))]);
    let many = Call::Decide(vec![take(1, 1); 65]);
    let fine = node.ask(&caller, Call::Decide(vec![take(1, 1); 64]));
    let (long, many, fine) = tokio::join!(node.ask(&caller, long), node.ask(&caller, many), fine);
    assert_eq!((long, many), (Err(Failure::Other), Err(Failure::Other)));
    assert_eq!(outcomes(fine).len(), 64);
    assert_eq!(node.figures.calls(), 1);
}

#[tokio::test]
async fn one_call_that_goes_wrong_takes_no_other_along() {
    let (node, caller) = (Node::start().await, caller(OURS));
    let patience = std::time::Duration::from_millis(100);
    let hangs = caller.call(node.id, node.address, Call::Decide(vec![rule("hang")]), within(patience));
    let panics = caller.call(node.id, node.address, Call::Decide(vec![rule("panic")]), within(PATIENT));
    let works = caller.call(node.id, node.address, Call::Decide(vec![take(1, 1)]), within(PATIENT));
    let (hangs, panics, works) = tokio::join!(hangs, panics, works);
    assert_eq!((hangs, panics), (Err(Failure::Deadline), Err(Failure::Other)));
    assert_eq!(verdict(works), (true, 999_999));
    assert_eq!(verdict(node.ask(&caller, Call::Decide(vec![take(1, 1)])).await), (true, 999_998));
}

#[tokio::test]
async fn other_rules_make_other_counters() {
    let (node, caller) = (Node::start().await, caller(OURS));
    let bucket = Quota::token_bucket(1, Span::from_secs(3_600), 3).unwrap();
    let fixed = Quota::new(Algorithm::FixedWindow, 2, Span::from_secs(3_600)).unwrap();
    let mut admitted = [0; 2];
    for _ in 0..5 {
        for (quota, admitted) in [bucket, fixed].into_iter().zip(&mut admitted) {
            let asked = Call::Decide(vec![Asked { quota, ..take(1, 1) }]);
            *admitted += usize::from(verdict(node.ask(&caller, asked).await).0);
        }
    }
    // The fixed window may have turned over once meanwhile.
    assert!(admitted[0] == 3 && (2..=4).contains(&admitted[1]), "{admitted:?}");
}

#[tokio::test]
async fn nodes_that_are_gone_are_forgotten() {
    let (node, caller) = (Node::start().await, caller(OURS));
    assert_eq!(node.ask(&caller, Call::Owes).await, Ok(Reply::Owes(7)));
    assert!(format!("{caller:?}").contains("peers: 1"));
    caller.retain(&[NodeId(1)]);
    assert!(format!("{caller:?}").contains("peers: 0"));
    assert_eq!(node.ask(&caller, Call::Owes).await, Ok(Reply::Owes(7)), "and met again");
}

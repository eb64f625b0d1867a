//! Nodes that hang, go and come back.

use std::net::SocketAddr;
use std::time::Duration;

use tidegate_store::Failure;
use tidegate_store::peers::{Call, NodeId, Reply};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::node::{Node, OURS, PATIENT, caller, rule, take, until, verdict, within};

const SHORT: Duration = Duration::from_millis(20);

/// Accepts connections and never says a word.
async fn silent() -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let task = tokio::spawn(async move {
        let mut open = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            open.push(stream);
        }
    });
    (address, task)
}

#[tokio::test]
async fn a_node_that_hangs_costs_patience_only_until_it_is_left_alone() {
    let (address, silent) = silent().await;
    let caller = caller(OURS);
    let call = || caller.call(NodeId(1), address, Call::Owes, within(SHORT));
    assert_eq!(call().await, Err(Failure::Deadline));
    until(async || match call().await {
        Err(Failure::LeftAlone) => true,
        Err(Failure::Deadline) => false,
        other => panic!("{other:?}"),
    })
    .await;
    caller.retain(&[]);
    assert_eq!(call().await, Err(Failure::Deadline), "a node that was forgotten is another");
    silent.abort();
}

#[tokio::test]
async fn nobody_waits_long_on_a_connection_that_is_dead() {
    let (address, silent) = silent().await;
    let call = caller(OURS).call(NodeId(1), address, Call::Owes, within(PATIENT * 10));
    let ended = tokio::time::timeout(PATIENT, call).await;
    assert_eq!(ended, Ok(Err(Failure::Connection)));
    silent.abort();
}

/// An address that nobody listens at.
async fn nowhere() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap()
}

#[tokio::test]
async fn a_node_that_is_not_there_cannot_be_reached_and_is_left_alone_soon() {
    let (caller, address) = (caller(OURS), nowhere().await);
    let call = || caller.call(NodeId(1), address, Call::Owes, within(PATIENT));
    assert_eq!(call().await, Err(Failure::Connection));
    until(async || match call().await {
        Err(Failure::LeftAlone) => true,
        Err(Failure::Connection) => false,
        other => panic!("{other:?}"),
    })
    .await;
}

#[tokio::test]
async fn a_node_that_is_back_is_asked_again() {
    let caller = caller(OURS);
    let node = Node::start().await;
    let (id, address) = (node.id, node.address);
    assert_eq!(node.ask(&caller, Call::Owes).await, Ok(Reply::Owes(7)));
    node.stop().await;
    for _ in 0..2 {
        let call = || caller.call(id, address, Call::Owes, within(PATIENT));
        until(async || call().await == Err(Failure::LeftAlone)).await;
        let node = Node::start_at(address).await;
        until(async || call().await == Ok(Reply::Owes(7))).await;
        node.stop().await;
    }
}

#[tokio::test]
async fn who_gives_up_cancels_nothing() {
    let (node, caller) = (Node::start().await, caller(OURS));
    let call = caller.call(node.id, node.address, Call::Decide(vec![rule("gate")]), within(SHORT));
    assert_eq!(call.await, Err(Failure::Deadline));
    // It may have been too late to leave at all on a busy machine; then nothing is there to be finished.
    drop(caller.call(node.id, node.address, Call::Decide(vec![rule("gate")]), within(PATIENT)));
    until(async || {
        node.desk.gate.notify_waiters();
        node.left(&rule("gate")).await < 1_000_000
    })
    .await;
}

#[tokio::test]
async fn what_is_late_already_is_not_sent() {
    let (node, caller) = (Node::start().await, caller(OURS));
    let late = caller.call(node.id, node.address, Call::Decide(vec![take(1, 1)]), within(Duration::ZERO));
    assert_eq!(late.await, Err(Failure::Deadline));
    assert_eq!(verdict(node.ask(&caller, Call::Decide(vec![take(1, 1)])).await), (true, 999_999));
}

#[tokio::test]
async fn a_node_that_stops_finishes_what_has_begun() {
    let (node, caller) = (Node::start().await, caller(OURS));
    let gated = caller.call(node.id, node.address, Call::Decide(vec![rule("gate")]), within(PATIENT));
    until(async || node.figures.calls() == 1).await;
    let desk = std::sync::Arc::clone(&node.desk);
    let stop = tokio::spawn(node.stop());
    // Kept for whoever comes, should it not wait yet.
    desk.gate.notify_one();
    assert_eq!(verdict(gated.await), (true, 999_999));
    stop.await.unwrap();
}

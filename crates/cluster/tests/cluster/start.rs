//! What is wrong at the start, and how it is found again.

use std::net::SocketAddr;

use tidegate_cluster::Cluster;

use crate::fleet::{fleet, met, settings, start, start_again, until};

#[tokio::test]
async fn wrong_peers_are_named_and_right_ones_found_later() {
    let mut all = fleet(1).await;
    // Nobody is there, and nothing is called that.
    let nobody = start("nobody", &[]).await;
    let nowhere = nobody.local_addr();
    drop(nobody);
    let mut lost = settings("lost", &[nowhere]);
    lost.peers.push("no-such-host.invalid:7000".parse().unwrap());
    let node = Cluster::start(lost).await.unwrap();
    let says = |what: &str| node.problem().is_some_and(|problem| problem.contains(what));
    until("it cannot be looked up", || says("no-such-host.invalid:7000 cannot be looked up")).await;
    until("it never answered", || says(&format!("peer {nowhere} has never answered"))).await;

    node.set_peers(vec![all[0].local_addr().into()]);
    all.push(std::sync::Arc::clone(&node));
    met(&all).await;
    until("nothing is wrong", || node.problem().is_none()).await;
}

/// All are told the same list, in which each finds itself, before anybody is there.
#[tokio::test]
async fn all_may_have_the_same_list_with_themselves_on_it() {
    let mut addresses = Vec::new();
    let held: Vec<_> = fleet(3).await;
    addresses.extend(held.iter().map(|node| node.local_addr()));
    drop(held);
    let mut all = Vec::new();
    for (n, &listen) in addresses.iter().enumerate() {
        let mut settings = settings(&format!("again-{n}"), &addresses);
        settings.listen = listen;
        all.push(start_again(settings).await);
    }
    met(&all).await;
    until("nothing is wrong", || all.iter().all(|node| node.problem().is_none())).await;
    assert!(all.iter().all(|node| node.view().count() == 3));
}

#[tokio::test]
async fn a_name_stands_for_all_its_addresses() {
    let mut all = fleet(1).await;
    let mut named = settings("named", &[]);
    named.peers.push(format!("dns:localhost:{}", all[0].local_addr().port()).parse().unwrap());
    all.push(Cluster::start(named).await.unwrap());
    met(&all).await;
}

#[tokio::test]
async fn what_cannot_work_is_refused_with_the_fix() {
    let refused = |settings| async { Cluster::start(settings).await.unwrap_err().to_string() };
    for everywhere in ["0.0.0.0:0", "[::]:0"] {
        let mut bad = settings("node", &[]);
        bad.listen = everywhere.parse().unwrap();
        assert!(refused(bad.clone()).await.contains("by advertising it"));
        bad.advertise = Some("127.0.0.1:0".parse::<SocketAddr>().unwrap());
        let node = Cluster::start(bad).await.unwrap();
        assert_eq!(node.me().address.port(), node.local_addr().port());
    }
    for name in ["", "two words", "line\nbreak", &"x".repeat(129)] {
        assert!(refused(settings(name, &[])).await.contains("no name for a node"));
    }
    let node = start("node", &[]).await;
    let mut taken = settings("taken", &[]);
    taken.listen = node.local_addr();
    assert!(refused(taken).await.contains("cannot listen on 127.0.0.1:"));
    let mut unnamed = settings("", &[]);
    unnamed.name = None;
    let unnamed = Cluster::start(unnamed).await.unwrap();
    assert_eq!(*unnamed.me().name, unnamed.local_addr().to_string());
    assert!(unnamed.take_listener().is_some() && unnamed.take_listener().is_none());
}

//! Strangers, and secrets that change.

use std::sync::Arc;

use tidegate_cluster::{Cluster, Purpose, Sealer};
use tidegate_core::Timestamp;
use tidegate_store::clock::{Clock, SystemClock};
use tokio::net::UdpSocket;

use crate::fleet::{
    OTHER, SECRET, fleet, fleet_with, keyring, know_each_other, met, patient, settings, until,
};
use crate::relay::Relay;

#[tokio::test]
async fn strangers_change_nothing() {
    let all = fleet_with(2, patient).await;
    let at = all[0].local_addr();
    let mut stranger = settings("stranger", &[at]);
    stranger.keyring = keyring(&[OTHER]);
    let stranger = Cluster::start(stranger).await.unwrap();
    until("it has knocked", || all[0].refused().strangers > 3).await;

    let before = all[0].refused().strangers;
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    for length in [0, 1, 10, 37, 53, 100, 1400, 9000] {
        socket.send_to(&vec![1; length], at).await.unwrap();
    }
    until("all are refused", || all[0].refused().strangers >= before + 8).await;
    let problem = stranger.problem().unwrap();
    assert!(problem.contains("has never answered") && problem.contains("secret"), "{problem}");
    assert_eq!(stranger.view().count(), 1);
    assert!(know_each_other(&all));
    assert!(all.iter().all(|node| node.view().count() == 2));
}

/// Whoever listens can repeat what was said, to the one it was said to or to another. Nothing comes of it.
#[tokio::test]
async fn what_was_caught_and_is_repeated_changes_nothing() {
    let mut all = fleet_with(2, patient).await;
    let relay = Relay::start().await;
    let mut caught = settings("caught", &[all[0].local_addr()]);
    caught.advertise = Some(relay.address);
    patient(&mut caught);
    let node = Cluster::start(caught).await.unwrap();
    relay.pass_to(node.local_addr());
    all.push(Arc::clone(&node));
    met(&all).await;
    until("much was said", || relay.caught().len() > 30).await;

    let packets = relay.caught();
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let before = node.refused().replays;
    for packet in &packets {
        for node in &all {
            socket.send_to(packet, node.local_addr()).await.unwrap();
        }
    }
    until("they are refused", || node.refused().replays > before).await;
    assert!(know_each_other(&all));

    // The node says goodbye; what was said to it does not bring it back.
    all.pop().unwrap().leave().await;
    met(&all).await;
    let mut newcomer = settings("newcomer", &[all[0].local_addr()]);
    patient(&mut newcomer);
    all.push(Cluster::start(newcomer).await.unwrap());
    met(&all).await;
    for packet in &packets {
        for node in &all {
            socket.send_to(packet, node.local_addr()).await.unwrap();
        }
    }
    until("they have come", || all[0].refused().replays > 0).await;
    assert!(know_each_other(&all));
    assert!(all.iter().all(|node| node.view().count() == 3));
}

#[tokio::test]
async fn old_packets_are_told_from_strangers() {
    let all = fleet(1).await;
    let sealer = Sealer::new(keyring(&[SECRET]).shared()).unwrap();
    let old = Timestamp::from_millis(SystemClock.now().as_millis() - 60_000);
    let packet = sealer.seal(Purpose::Gossip, &[], b"old", old);
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    socket.send_to(&packet, all[0].local_addr()).await.unwrap();
    until("it is refused", || all[0].refused().stale == 1).await;
    assert!(all[0].problem().unwrap().contains("clocks"));
    assert_eq!(all[0].last_heard(), None);
}

/// First all know the new one, then all seal with it, then the old one goes; nobody is lost on the way.
#[tokio::test]
async fn secrets_are_exchanged_under_way() {
    let mut all = fleet_with(3, patient).await;
    for ring in [&[SECRET, OTHER][..], &[OTHER, SECRET], &[OTHER]] {
        for node in &all {
            node.set_keyring(keyring(ring));
            // Some have it and some do not, for a while.
            let heard = node.last_heard();
            until("it hears others", || node.last_heard() > heard).await;
            assert!(all.iter().all(|node| node.view().count() == 3));
        }
    }
    let mut late = settings("late", &[all[0].local_addr()]);
    late.keyring = keyring(&[OTHER]);
    all.push(Cluster::start(late).await.unwrap());
    met(&all).await;
    assert!(all.iter().all(|node| node.refused().strangers == 0));
}

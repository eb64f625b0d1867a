//! Nodes on loopback, and what is true of all of them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_cluster::{Cluster, Keyring, Member, Settings, StartError, Timing};
use tidegate_core::{Secret, Tag};
use tidegate_store::peers::{NodeId, Part};
use tidegate_testkit::wait::HANG_LIMIT;

pub(crate) const SECRET: &str = "a-secret-that-all-nodes-of-the-fleet-share";
pub(crate) const OTHER: &str = "another-secret-that-is-long-enough-as-well";

pub(crate) fn keyring(secrets: &[&str]) -> Keyring {
    Keyring::parse(&secrets.join("\n")).unwrap()
}

/// Any port, the fleet's secret, and lookups that tests need not wait for.
pub(crate) fn settings(name: &str, peers: &[SocketAddr]) -> Settings {
    Settings {
        listen: ([127, 0, 0, 1], 0).into(),
        advertise: None,
        name: Some(name.to_owned()),
        peers: peers.iter().map(|&peer| peer.into()).collect(),
        keyring: keyring(&[SECRET]),
        timing: Timing {
            hello_every: Duration::from_millis(200),
            resolve_every: Duration::from_millis(500),
            ..Timing::default()
        },
    }
}

pub(crate) async fn start(name: &str, peers: &[SocketAddr]) -> Arc<Cluster> {
    Cluster::start(settings(name, peers)).await.unwrap()
}

/// Starts a node where another was whose sockets may be open for a moment.
pub(crate) async fn start_again(settings: Settings) -> Arc<Cluster> {
    let deadline = Instant::now() + HANG_LIMIT;
    loop {
        match Cluster::start(settings.clone()).await {
            Ok(node) => return node,
            Err(StartError::Bind { .. }) if Instant::now() < deadline => tokio::task::yield_now().await,
            Err(error) => panic!("{error}"),
        }
    }
}

/// So many nodes that all look for the first, and have found each other.
pub(crate) async fn fleet(count: usize) -> Vec<Arc<Cluster>> {
    fleet_with(count, |_| ()).await
}

/// The same with other settings.
pub(crate) async fn fleet_with(count: usize, adjust: impl Fn(&mut Settings)) -> Vec<Arc<Cluster>> {
    let mut all: Vec<Arc<Cluster>> = Vec::new();
    for n in 0..count {
        let seed: Vec<_> = all.first().map(|seed| seed.local_addr()).into_iter().collect();
        let mut settings = settings(&format!("node-{n}"), &seed);
        adjust(&mut settings);
        all.push(Cluster::start(settings).await.unwrap());
    }
    met(&all).await;
    all
}

/// Gives nobody up: for tests in which nobody goes, on machines that have other things to do.
pub(crate) fn patient(settings: &mut Settings) {
    settings.timing.suspect_for = Duration::from_secs(60);
}

/// Waits until it is so.
pub(crate) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + HANG_LIMIT;
    while !holds() {
        assert!(Instant::now() < deadline, "not within a minute: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Whether each of these knows all of these, as they are, and nobody else.
pub(crate) fn know_each_other(all: &[Arc<Cluster>]) -> bool {
    let each: Vec<Member> = all.iter().map(|node| node.me()).collect();
    all.iter().all(|node| {
        let view = node.view();
        let known = view.others().all(|(other, _)| each.contains(other));
        known && view.others().count() + 1 == all.len()
    })
}

pub(crate) async fn met(all: &[Arc<Cluster>]) {
    until("all know all", || know_each_other(all)).await;
}

fn tag(n: u64) -> Tag {
    Secret::new([7; 16]).encode().part(1, &n.to_le_bytes()).tag()
}

/// Who counts each of some keys. All must say the same.
pub(crate) fn owners(all: &[Arc<Cluster>]) -> Vec<(NodeId, Part)> {
    let said_by = |node: &Arc<Cluster>| -> Vec<(NodeId, Part)> {
        let view = node.view();
        let owner = |key| view.owner(tag(key));
        (0..200).map(owner).map(|owner| (owner.node.unwrap_or(view.me().node), owner.part)).collect()
    };
    let said = said_by(&all[0]);
    all.iter().for_each(|node| assert_eq!(said_by(node), said));
    said
}

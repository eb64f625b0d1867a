//! Nodes come, stay, go and return.

use std::sync::Arc;

use tidegate_cluster::{Cluster, State};
use tidegate_store::peers::{Part, Standing};

use crate::fleet::{fleet, know_each_other, met, owners, settings, start, start_again, until};
use crate::relay::Relay;

#[tokio::test]
async fn all_find_each_other_from_one_seed_and_agree() {
    let all = fleet(5).await;
    let owners = owners(&all);
    assert!(owners.iter().all(|(_, part)| *part == Part::WHOLE));
    for node in &all {
        assert!(owners.iter().any(|(owner, _)| *owner == node.me().node));
        assert!(node.last_heard().is_some());
        assert_eq!(node.problem(), None);
    }
}

#[tokio::test]
async fn who_crashes_is_lost_and_only_its_keys_move() {
    let mut all = fleet(4).await;
    let before = owners(&all);
    let crashed = all.remove(0).me().node;
    met(&all).await;
    for ((was, _), (is, part)) in before.into_iter().zip(owners(&all)) {
        if was == crashed {
            assert_eq!(part, Part { of_us: 3, of_all: 4 });
        } else {
            assert_eq!((is, part), (was, Part::WHOLE));
        }
    }
    let lost = all[0].members().into_iter().find(|info| info.state == State::Lost).unwrap();
    assert_eq!((lost.member.node, &*lost.member.name), (crashed, "node-0"));
}

#[tokio::test]
async fn who_leaves_is_gone_and_not_lost() {
    let mut all = fleet(3).await;
    let mut changed = all[0].changed();
    changed.mark_unchanged();
    all.pop().unwrap().leave().await;
    changed.changed().await.unwrap();
    met(&all).await;
    assert!(all.iter().all(|node| node.view().count() == 2 && node.members().len() == 1));
    assert!(owners(&all).iter().all(|(_, part)| *part == Part::WHOLE));
}

#[tokio::test]
async fn who_is_started_again_counts_what_it_counted() {
    let mut all = fleet(3).await;
    let before = owners(&all);
    let (old, address) = (all[0].me().node, all[0].local_addr());
    all.remove(0);
    let mut again = settings("node-0", &[all[0].local_addr()]);
    again.listen = address;
    all.push(start_again(again).await);
    met(&all).await;
    let new = all[2].me().node;
    assert_ne!(new, old);
    let expected: Vec<_> =
        before.into_iter().map(|(was, _)| (if was == old { new } else { was }, Part::WHOLE)).collect();
    assert_eq!(owners(&all), expected);
}

#[tokio::test]
async fn what_a_node_says_of_itself_reaches_all_and_late_comers() {
    let mut all = fleet(3).await;
    let well = Standing { has_store: true, owes: 0 };
    let of = all[1].me().node;
    all[1].announce(well);
    let knows = |node: &Arc<Cluster>| node.view().others().any(|(other, s)| other.node == of && s == well);
    until("the others know", || knows(&all[0]) && knows(&all[2])).await;
    let seed = all[2].local_addr();
    all.push(start("late", &[seed]).await);
    until("late-comers know", || knows(&all[3])).await;
}

/// A node whose every tenth packet is lost stays; one that is cut off is lost; and it is back when the cut heals.
#[tokio::test]
async fn a_cut_heals() {
    let mut all = fleet(2).await;
    let relay = Relay::start().await;
    let mut behind = settings("behind", &[all[0].local_addr()]);
    behind.advertise = Some(relay.address);
    let behind = Cluster::start(behind).await.unwrap();
    relay.pass_to(behind.local_addr());
    relay.lose_one_in(10);
    all.push(Arc::clone(&behind));
    met(&all).await;

    relay.lose_one_in(1);
    let (side, alone) = all.split_at(2);
    // It is heard and does not hear: it gives up the others, and they give it up.
    until("it is lost", || know_each_other(side) && alone[0].view().others().count() == 0).await;
    assert!(side.iter().all(|node| node.view().count() == 3));
    let part = Part { of_us: 1, of_all: 3 };
    assert!(owners(alone).iter().all(|(_, given)| *given == part || *given == Part::WHOLE));
    assert!(owners(alone).iter().any(|(_, given)| *given == part));

    relay.lose_one_in(0);
    met(&all).await;
    assert!(owners(&all).iter().all(|(_, part)| *part == Part::WHOLE));
}

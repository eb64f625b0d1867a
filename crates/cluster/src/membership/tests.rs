//! Fleets in virtual time: the same machine that runs over UDP, with a network that loses, delays and cuts.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::net::SocketAddr;

use proptest::prelude::*;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use tidegate_core::{Secret, Tag, Timestamp};
use tidegate_store::peers::{NodeId, Part, Standing};

use super::{Machine, Timing};
use crate::member::{Member, State};

const START: u64 = 1_700_000_000_000;

/// A packet on its way: when it arrives, a number to keep the order, from whom, to whom, what.
type Packet = (u64, u64, SocketAddr, SocketAddr, Vec<u8>);

/// Machines and the network between them.
struct Fleet {
    now: u64,
    rng: SmallRng,
    nodes: BTreeMap<SocketAddr, Machine>,
    packets: BinaryHeap<Reverse<Packet>>,
    sent: u64,
    /// Of a hundred packets, how many are lost.
    loss: u32,
    /// Whom nobody on the other side hears.
    cut: Vec<SocketAddr>,
}

fn at(n: u64) -> SocketAddr {
    ([10, 0, 0, u8::try_from(n).unwrap()], 7000).into()
}

fn tag(n: u64) -> Tag {
    Secret::new([7; 16]).encode().part(1, &n.to_le_bytes()).tag()
}

impl Fleet {
    /// So many nodes, which all look for the first.
    fn new(count: u64, seed: u64) -> Self {
        let mut fleet = Self {
            now: START,
            rng: SmallRng::seed_from_u64(seed),
            nodes: BTreeMap::new(),
            packets: BinaryHeap::new(),
            sent: 0,
            loss: 0,
            cut: Vec::new(),
        };
        (1..=count).for_each(|n| fleet.start(n, &format!("node-{n}")));
        fleet
    }

    fn start(&mut self, n: u64, name: &str) {
        self.start_by(n, name, self.now);
    }

    /// Starts a node by a clock that may be wrong.
    fn start_by(&mut self, n: u64, name: &str, clock: u64) {
        let node = NodeId(self.rng.random());
        let me = Member { name: name.into(), address: at(n), node, incarnation: clock };
        let now = Timestamp::from_millis(self.now);
        let mut machine = Machine::new(me, Timing::default(), self.rng.random(), now);
        machine.set_seeds([at(1)], now);
        self.nodes.insert(at(n), machine);
        self.post(at(n));
    }

    fn crash(&mut self, n: u64) {
        self.nodes.remove(&at(n)).unwrap();
    }

    fn with(&mut self, n: u64, act: impl FnOnce(&mut Machine, Timestamp)) {
        let now = Timestamp::from_millis(self.now);
        act(self.nodes.get_mut(&at(n)).unwrap(), now);
        self.post(at(n));
    }

    /// Puts on their way what a node wants sent.
    fn post(&mut self, from: SocketAddr) {
        for (to, plain) in self.nodes.get_mut(&from).unwrap().packets() {
            let apart = self.cut.contains(&from) != self.cut.contains(&to);
            if apart || self.rng.random_range(0..100) < self.loss {
                continue;
            }
            self.sent += 1;
            let arrives = self.now + self.rng.random_range(1..=5);
            self.packets.push(Reverse((arrives, self.sent, from, to, plain)));
        }
    }

    /// Lets so many milliseconds pass.
    fn pass(&mut self, ms: u64) {
        let end = self.now + ms;
        while self.now < end {
            let ticks = self.nodes.values().map(|machine| machine.next_tick().as_millis()).min();
            let arrival = self.packets.peek().map(|Reverse(packet)| packet.0);
            let next = ticks.into_iter().chain(arrival).min().unwrap_or(end);
            self.now = next.clamp(self.now + 1, end);
            let now = Timestamp::from_millis(self.now);
            while self.packets.peek().is_some_and(|Reverse(packet)| packet.0 <= self.now) {
                let Some(Reverse((_, _, from, to, plain))) = self.packets.pop() else { break };
                let apart = self.cut.contains(&from) != self.cut.contains(&to);
                if let Some(machine) = self.nodes.get_mut(&to).filter(|_| !apart) {
                    machine.receive(&plain, now);
                    self.post(to);
                }
            }
            let due = self.nodes.iter().filter(|(_, machine)| machine.next_tick() <= now);
            for address in due.map(|(address, _)| *address).collect::<Vec<_>>() {
                self.nodes.get_mut(&address).unwrap().tick(now);
                self.post(address);
            }
        }
    }

    /// Lets time pass until it is so, and says how long that took.
    fn until(&mut self, what: &str, holds: impl Fn(&Self) -> bool) -> u64 {
        let start = self.now;
        while !holds(self) {
            assert!(self.now < start + 60_000, "not within a minute: {what}\n{:#?}", self.rosters());
            self.pass(10);
        }
        self.now - start
    }

    fn live(&self, n: u64) -> Vec<String> {
        self.nodes[&at(n)].view().others().map(|(other, _)| other.name.to_string()).collect()
    }

    fn rosters(&self) -> BTreeMap<SocketAddr, Vec<String>> {
        let infos = |machine: &Machine| {
            machine.members().iter().map(|info| format!("{} {:?}", info.member.name, info.state)).collect()
        };
        self.nodes.iter().map(|(at, machine)| (*at, infos(machine))).collect()
    }

    /// Everybody who runs knows everybody who runs, and nobody else.
    fn is_unanimous(&self) -> bool {
        let count = self.nodes.len();
        let all = |machine: &Machine| {
            let view = machine.view();
            let found = view.others().all(|(other, _)| {
                self.nodes.get(&other.address).is_some_and(|machine| machine.me() == *other)
            });
            found && view.others().count() + 1 == count
        };
        self.nodes.values().all(all)
    }

    fn meet(&mut self) {
        self.until("all know all", Self::is_unanimous);
    }

    /// Who counts a key, if all say the same.
    fn owner(&self, key: u64) -> Option<(NodeId, Part)> {
        let owners = self.nodes.values().map(|machine| {
            let owner = machine.view().owner(tag(key));
            (owner.node.unwrap_or(machine.me().node), owner.part)
        });
        let owners: Vec<_> = owners.collect();
        owners.windows(2).all(|two| two[0] == two[1]).then(|| owners[0])
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn all_find_each_other_from_one_seed_and_say_the_same(count in 1_u64..12, seed: u64) {
        let mut fleet = Fleet::new(count, seed);
        fleet.meet();
        for key in 0..50 {
            prop_assert!(fleet.owner(key).is_some_and(|(_, part)| part == Part::WHOLE));
        }
    }

    /// Whoever crashes is given up by all some 2 to 3 s later; only its keys move, and not all of each limit goes with them.
    #[test]
    fn a_crash_is_noticed_and_only_its_keys_move(count in 2_u64..9, seed: u64) {
        let mut fleet = Fleet::new(count, seed);
        fleet.meet();
        fleet.pass(3_000);
        let crashed = fleet.nodes[&at(count)].me().node;
        let before: Vec<_> = (0..50).map(|key| fleet.owner(key).unwrap().0).collect();
        fleet.crash(count);
        let took = fleet.until("it is given up", Fleet::is_unanimous);
        prop_assert!((1_500..5_000).contains(&took), "{took} ms");
        let of_us = u32::try_from(count - 1).unwrap();
        for (key, was) in (0..).zip(before) {
            let (is, part) = fleet.owner(key).unwrap();
            let lost = Part { of_us, of_all: of_us + 1 };
            prop_assert_eq!(part, if was == crashed { lost } else { Part::WHOLE });
            prop_assert!(was == crashed || is == was);
        }
    }

    /// Every tenth packet is lost: nobody is given up for long.
    #[test]
    fn a_bad_network_parts_nobody_for_long(seed: u64) {
        let mut fleet = Fleet::new(5, seed);
        fleet.loss = 10;
        fleet.meet();
        let (mut apart, mut longest) = (0, 0);
        for _ in 0..1_200 {
            fleet.pass(50);
            apart = if fleet.is_unanimous() { 0 } else { apart + 50 };
            longest = longest.max(apart);
        }
        prop_assert!(longest < 5_000, "apart for {longest} ms");
    }

    /// Both sides of a cut count on, each with its part; afterwards all find each other, whoever was cut off.
    #[test]
    fn a_cut_heals(count in 2_u64..7, sides in 1_u8..127, seed: u64) {
        let mut fleet = Fleet::new(count, seed);
        fleet.meet();
        fleet.cut = (1..=count).filter(|n| sides & 1 << n != 0).map(at).collect();
        fleet.pass(15_000);
        let cut = fleet.cut.len();
        for (address, machine) in &fleet.nodes {
            let side = if fleet.cut.contains(address) { cut } else { fleet.nodes.len() - cut };
            prop_assert_eq!(machine.view().others().count() + 1, side);
            prop_assert_eq!(u64::from(machine.view().count()), count);
        }
        fleet.cut.clear();
        let took = fleet.until("all know all again", Fleet::is_unanimous);
        prop_assert!(took < 10_000, "{took} ms");
        prop_assert!((0..50).all(|key| fleet.owner(key).unwrap().1 == Part::WHOLE));
    }

    /// Whatever comes, the machine goes on, and knows nobody for it.
    #[test]
    fn garbage_changes_nothing(packets in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 1..50)) {
        let mut fleet = Fleet::new(1, 1);
        for plain in &packets {
            fleet.with(1, |machine, now| _ = machine.receive(plain, now));
        }
        prop_assert_eq!(fleet.nodes[&at(1)].view().count(), 1);
    }
}

#[test]
fn in_the_end_nobody_waits_for_who_is_lost() {
    let mut fleet = Fleet::new(2, 1);
    fleet.meet();
    fleet.crash(2);
    fleet.until("it is given up", Fleet::is_unanimous);
    fleet.pass(590_000);
    assert_eq!(fleet.nodes[&at(1)].view().count(), 2);
    fleet.pass(20_000);
    assert_eq!(fleet.nodes[&at(1)].view().count(), 1);
    assert!(fleet.nodes[&at(1)].members().is_empty());
}

/// Whoever comes later counts as all others do.
#[test]
fn newcomers_hear_who_is_lost() {
    let mut fleet = Fleet::new(4, 1);
    fleet.meet();
    fleet.crash(4);
    fleet.until("it is given up", Fleet::is_unanimous);
    fleet.pass(60_000);
    fleet.start(5, "node-5");
    fleet.crash(2);
    fleet.start(2, "node-2");
    fleet.meet();
    fleet.pass(1_000);
    assert!(fleet.nodes.values().all(|machine| machine.view().count() == 5), "{:?}", fleet.rosters());
    assert!((0..50).all(|key| fleet.owner(key).is_some()));
    // It was lost a minute before they came, and they forget it when the others do.
    fleet.pass(530_000);
    assert!(fleet.nodes.values().all(|machine| machine.view().count() == 5), "{:?}", fleet.rosters());
    fleet.pass(15_000);
    assert!(fleet.nodes.values().all(|machine| machine.view().count() == 4), "{:?}", fleet.rosters());
}

#[test]
fn who_says_goodbye_is_gone_at_once_and_not_lost() {
    let mut fleet = Fleet::new(4, 1);
    fleet.meet();
    fleet.with(4, Machine::leave);
    let left = fleet.nodes.remove(&at(4)).unwrap();
    assert!(left.next_tick().as_millis() > fleet.now && left.view().count() == 1);
    fleet.pass(10);
    assert!(fleet.is_unanimous(), "{:?}", fleet.rosters());
    assert!(fleet.nodes.values().all(|machine| machine.view().count() == 3));
    fleet.pass(5_000);
    assert!(fleet.nodes.values().all(|machine| machine.view().count() == 3));
}

#[test]
fn goodbye_is_passed_on_to_those_who_did_not_hear_it() {
    let mut fleet = Fleet::new(5, 1);
    fleet.meet();
    // Only one is left to hear it.
    fleet.cut = vec![at(2), at(5)];
    fleet.with(5, Machine::leave);
    fleet.nodes.remove(&at(5));
    fleet.pass(10);
    fleet.cut.clear();
    fleet.until("all heard of it", Fleet::is_unanimous);
    assert!(fleet.nodes.values().all(|machine| machine.view().count() == 4), "{:?}", fleet.rosters());
}

#[test]
fn who_is_started_again_replaces_its_old_self_wherever_it_is() {
    let mut fleet = Fleet::new(3, 1);
    fleet.meet();
    let before: Vec<_> = (0..50).map(|key| fleet.owner(key).unwrap().0).collect();
    let (old, old_first) = (fleet.nodes[&at(3)].me().node, fleet.nodes[&at(1)].me().node);
    fleet.crash(3);
    fleet.start(9, "node-3");
    fleet.meet();
    let new = fleet.nodes[&at(9)].me().node;
    for (key, was) in (0..).zip(before) {
        assert_eq!(fleet.owner(key), Some((if was == old { new } else { was }, Part::WHOLE)));
    }
    // The one that all look for, at its old place, by a clock that went back.
    fleet.crash(1);
    fleet.start_by(1, "node-1", START - 86_400_000);
    fleet.until("it is another", |fleet| fleet.is_unanimous() && fleet.nodes[&at(1)].me().node != old_first);
    assert!(fleet.nodes[&at(1)].taken().is_none());
}

#[test]
fn what_a_node_says_of_itself_reaches_all_and_late_comers() {
    let mut fleet = Fleet::new(5, 1);
    fleet.meet();
    let standing = |fleet: &Fleet, by: u64, of: u64| {
        fleet.nodes[&at(by)].view().others().find(|(other, _)| other.address == at(of)).map(|(_, s)| s)
    };
    let (well, owes) = (Standing { has_store: true, owes: 0 }, Standing { has_store: false, owes: 1 });
    fleet.with(2, |machine, now| machine.announce(well, now));
    fleet.until("all know", |fleet| [1, 3, 4, 5].iter().all(|&by| standing(fleet, by, 2) == Some(well)));
    fleet.with(2, |machine, now| machine.announce(owes, now));
    fleet.with(2, |machine, now| machine.announce(well, now));
    fleet.with(2, |machine, now| machine.announce(owes, now));
    fleet.until("all know", |fleet| [1, 3, 4, 5].iter().all(|&by| standing(fleet, by, 2) == Some(owes)));
    fleet.pass(60_000);
    fleet.start(6, "node-6");
    fleet.until("it knows", |fleet| standing(fleet, 6, 2) == Some(owes));
}

#[test]
fn the_view_changes_only_when_it_does() {
    let mut fleet = Fleet::new(3, 1);
    fleet.meet();
    fleet.pass(3_000);
    fleet.with(1, |machine, _| _ = machine.changed());
    fleet.pass(20_000);
    fleet.with(1, |machine, _| assert!(!machine.changed()));
    fleet.crash(3);
    fleet.until("it is lost", |fleet| fleet.live(1) == ["node-2"]);
    fleet.with(1, |machine, _| assert!(machine.changed()));
    let lost = fleet.nodes[&at(1)].members().into_iter().find(|info| info.state == State::Lost).unwrap();
    assert_eq!(&*lost.member.name, "node-3");
}

/// Two of one name: the later one is the node, the other hears who has its name, and the rest is not disturbed.
#[test]
fn a_name_is_one_node() {
    let mut fleet = Fleet::new(3, 1);
    fleet.meet();
    fleet.pass(2_000);
    fleet.start(4, "node-3");
    fleet.until("the old one hears of it", |fleet| {
        fleet.nodes[&at(3)].taken().is_some_and(|by| by.address == at(4))
    });
    let sent = fleet.sent;
    for _ in 0..100 {
        fleet.pass(100);
        for n in [1, 2] {
            let view = fleet.nodes[&at(n)].view();
            let named = view.others().find(|(other, _)| &*other.name == "node-3");
            assert_eq!(named.map(|(other, _)| other.address), Some(at(4)));
        }
    }
    assert!(fleet.sent - sent < 3_000, "{} packets in 10 s", fleet.sent - sent);
}

/// Our own address among the seeds is nobody else's.
#[test]
fn nobody_meets_itself() {
    let mut fleet = Fleet::new(1, 1);
    fleet.pass(5_000);
    assert_eq!(fleet.nodes[&at(1)].view().count(), 1);
    assert!(fleet.nodes[&at(1)].has_answered(at(1)));
}

//! Who is picked, in made-up time.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use proptest::prelude::*;

use crate::upstream::*;

fn group(weights: &[u32], settings: Settings) -> Group {
    let member = |(index, weight): (usize, &u32)| Member {
        origin: format!("http://s{index}").parse().unwrap(),
        weight: NonZeroU32::new(*weight).unwrap(),
    };
    Group::new("test", weights.iter().enumerate().map(member).collect(), settings).unwrap()
}

fn least() -> Settings {
    Settings { balance: Balance::LeastRequests, ..Settings::default() }
}

fn passive(failures: u32) -> Settings {
    let failures = NonZeroU32::new(failures).unwrap();
    let statuses = Statuses::new(vec!["503".parse().unwrap()]);
    let check = PassiveCheck { failures, aside: Duration::from_secs(10), statuses };
    Settings { passive: Some(check), ..Settings::default() }
}

fn url(ticket: &Ticket) -> String {
    ticket.origin().to_string()
}

#[test]
fn weights_are_shares() {
    let group = group(&[5, 1, 2], Settings::default());
    let mut got = BTreeMap::new();
    for _ in 0..800 {
        *got.entry(url(&group.pick(Instant::now(), &[]).unwrap())).or_insert(0) += 1;
    }
    assert_eq!(got.into_values().collect::<Vec<_>>(), [500, 100, 200]);
}

#[test]
fn what_was_tried_is_not_tried_again() {
    for settings in [Settings::default(), least()] {
        let group = group(&[1, 1, 9], settings);
        let mut tried = Vec::new();
        while let Some(ticket) = group.pick(Instant::now(), &tried) {
            assert!(!tried.contains(&ticket.id()));
            tried.push(ticket.id());
        }
        assert_eq!(tried.len(), 3);
        assert_eq!(group.desperate_picks(), 0);
    }
}

#[test]
fn requests_are_under_way_until_their_tickets_are_dropped() {
    let group = group(&[1, 1], least());
    let now = Instant::now();
    let tickets: Vec<_> = (0..10).map(|_| group.pick(now, &[]).unwrap()).collect();
    assert_eq!(group.servers(now).iter().map(|s| s.in_flight).collect::<Vec<_>>(), [5, 5]);
    let (first, second): (Vec<_>, Vec<_>) = tickets.into_iter().partition(|t| url(t) == "http://s0");
    drop(first);
    for _ in 0..3 {
        assert_eq!(url(&group.pick(now, &[]).unwrap()), "http://s0");
    }
    drop(second);
    assert!(group.servers(now).iter().all(|s| s.in_flight == 0));
    assert_eq!(group.servers(now).iter().map(|s| s.requests).sum::<u64>(), 13);
}

#[test]
fn who_fails_is_put_aside_and_let_back_by_one_request() {
    let group = group(&[1, 1], passive(2));
    let start = Instant::now();
    let fail = |now| {
        let mut ticket = group.pick(now, &[ServerId(1)]).unwrap();
        assert_eq!(ticket.id(), ServerId(0));
        ticket.failed(Failure::Connect, now);
        ticket.succeeded();
    };
    fail(start);
    fail(start);
    let status = &group.servers(start)[0];
    assert!(status.aside_until.is_some() && status.failures == 2, "{status:?}");
    assert_eq!(status.last_problem.as_ref().unwrap().what, "no connection");
    for _ in 0..5 {
        assert_eq!(url(&group.pick(start, &[]).unwrap()), "http://s1");
    }
    // Its time is over: one request, and no other before that one is back.
    let later = start + Duration::from_secs(10);
    let mut tickets: Vec<_> = (0..6).map(|_| group.pick(later, &[]).unwrap()).collect();
    assert_eq!(tickets.iter().filter(|t| t.id() == ServerId(0)).count(), 1);
    let trial = tickets.iter_mut().find(|t| t.id() == ServerId(0)).unwrap();
    trial.failed(Failure::Timeout, later);
    assert!((0..6).all(|_| group.pick(later, &[]).unwrap().id() == ServerId(1)));
    // The next one is dropped without a word, and the one after it succeeds.
    let later = later + Duration::from_secs(10);
    while group.pick(later, &[]).unwrap().id() != ServerId(0) {}
    let mut picks: Vec<_> = (0..6).map(|_| group.pick(later, &[]).unwrap()).collect();
    let back = picks.iter_mut().find(|t| t.id() == ServerId(0)).unwrap();
    back.succeeded();
    assert_eq!(group.servers(later)[0].aside_until, None);
    assert_eq!((0..6).filter(|_| group.pick(later, &[]).unwrap().id() == ServerId(0)).count(), 3);
    assert_eq!(group.desperate_picks(), 0);
}

#[test]
fn statuses_count_only_if_named() {
    let group = group(&[1], passive(1));
    let now = Instant::now();
    group.pick(now, &[]).unwrap().failed(Failure::Status(500), now);
    assert_eq!((group.servers(now)[0].failures, group.servers(now)[0].aside_until), (0, None));
    group.pick(now, &[]).unwrap().failed(Failure::Status(503), now);
    assert!(group.servers(now)[0].aside_until.is_some());
}

#[test]
fn where_nobody_is_well_everybody_is_tried() {
    let group = group(&[1, 1], passive(1));
    let now = Instant::now();
    for _ in 0..2 {
        group.pick(now, &[]).unwrap().failed(Failure::Reset, now);
    }
    let mut attempt = group.pick(now, &[]).unwrap();
    assert!(attempt.is_desperate());
    let other = group.pick(now, &[attempt.id()]).unwrap();
    assert_ne!(other.id(), attempt.id());
    assert_eq!(group.desperate_picks(), 2);
    // An answer is an answer.
    attempt.succeeded();
    let id = attempt.id();
    assert!((0..4).all(|_| group.pick(now, &[]).unwrap().id() == id));
    assert_eq!(group.desperate_picks(), 2);
}

#[test]
fn late_answers_do_not_bring_a_server_back() {
    let group = group(&[1, 1], passive(1));
    let now = Instant::now();
    let mut late = group.pick(now, &[ServerId(1)]).unwrap();
    group.pick(now, &[ServerId(1)]).unwrap().failed(Failure::Connect, now);
    late.succeeded();
    assert!(group.servers(now)[0].aside_until.is_some());
}

#[test]
fn of_many_at_once_one_is_the_trial() {
    for balance in [Balance::RoundRobin, Balance::LeastRequests] {
        let group = group(&[1, 1], Settings { balance, ..passive(1) });
        let now = Instant::now();
        group.pick(now, &[ServerId(1)]).unwrap().failed(Failure::Connect, now);
        let later = now + Duration::from_secs(10);
        let start = Barrier::new(8);
        let tickets: Vec<Ticket> = thread::scope(|scope| {
            let pick = || {
                start.wait();
                (0..50).map(|_| group.pick(later, &[]).unwrap()).collect::<Vec<_>>()
            };
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(pick)).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(tickets.iter().filter(|ticket| ticket.id() == ServerId(0)).count(), 1);
        assert_eq!(group.servers(later).iter().map(|s| s.in_flight).collect::<Vec<_>>(), [1, 399]);
        drop(tickets);
        assert_eq!(group.servers(later).iter().map(|s| s.in_flight).sum::<usize>(), 0);
        assert_eq!(group.desperate_picks(), 0);
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Pick,
    Succeed(usize),
    Fail(usize),
    Drop(usize),
    Wait(u64),
}

proptest! {
    /// Whatever happens in whatever order: somebody is picked, counts add up, and nobody gets more than one request at a
    /// time while it is being tried out.
    #[test]
    fn groups_stay_sound(
        steps in prop::collection::vec(prop_oneof![
            4 => Just(Step::Pick),
            2 => any::<usize>().prop_map(Step::Succeed),
            3 => any::<usize>().prop_map(Step::Fail),
            2 => any::<usize>().prop_map(Step::Drop),
            1 => (0..8_000u64).prop_map(Step::Wait),
        ], 0..200),
        by_least: bool,
    ) {
        let balance = if by_least { Balance::LeastRequests } else { Balance::RoundRobin };
        let group = group(&[1, 2, 3], Settings { balance, ..passive(2) });
        let mut now = Instant::now();
        let mut tickets: Vec<Ticket> = Vec::new();
        for step in steps {
            let index = |n: usize| n % tickets.len().max(1);
            match step {
                Step::Pick => {
                    let before = group.servers(now);
                    let ticket = group.pick(now, &[]).unwrap();
                    let well = before.iter().any(|s| s.aside_until.is_none());
                    prop_assert_eq!(ticket.is_desperate(), !well);
                    let place = before.iter().position(|s| s.url == url(&ticket)).unwrap();
                    prop_assert!(!well || before[place].aside_until.is_none());
                    tickets.push(ticket);
                }
                Step::Succeed(n) => { let n = index(n); if let Some(t) = tickets.get_mut(n) { t.succeeded() } }
                Step::Fail(n) => { let n = index(n); if let Some(t) = tickets.get_mut(n) { t.failed(Failure::Reset, now) } }
                Step::Drop(n) => { let n = index(n); if !tickets.is_empty() { tickets.swap_remove(n); } }
                Step::Wait(ms) => now += Duration::from_millis(ms),
            }
            let under_way: usize = group.servers(now).iter().map(|s| s.in_flight).sum();
            prop_assert_eq!(under_way, tickets.len());
        }
    }
}

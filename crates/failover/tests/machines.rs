//! Single machines, step by step.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::time::Duration;

use tidegate_core::rule::OnStoreFailure;
use tidegate_core::{Algorithm, Quota, Span, Tag, Timestamp};
use tidegate_failover::{
    Action, AdmissionSource, Answer, Book, Config, CounterKey, DecisionRequest, Event, Machine, NodeName, Pid,
};

const WALL: Timestamp = Timestamp::from_millis(1_000_000);

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A node on its own, and a store that answers at once while it is up.
struct Single {
    machine: Machine,
    store: Book,
    up: bool,
    now: u64,
    calls: u64,
    exited: bool,
}

impl Single {
    fn new() -> Self {
        let pid = Pid::new(NodeName(1), 1, 1);
        let machine = Machine::new(Config { reserves: false, ..Config::default() }, pid, 1, ms(0), WALL);
        Self { machine, store: Book::new(10), up: true, now: 0, calls: 0, exited: false }
    }

    fn event(&mut self, event: Event) -> Vec<Answer> {
        let mut answers = Vec::new();
        let mut events = vec![event];
        while let Some(event) = events.pop() {
            for action in self.machine.handle(ms(self.now), event) {
                match action {
                    Action::Ask(request) if self.up => {
                        events.push(Event::Store(
                            request.apply(&mut self.store, WALL + Span::from_millis(self.now)),
                        ));
                    }
                    Action::Answer { answer, .. } => answers.push(answer),
                    Action::Exit => self.exited = true,
                    _ => {}
                }
            }
        }
        answers
    }

    fn pass(&mut self, millis: u64) -> Vec<Answer> {
        let end = self.now + millis;
        let mut answers = Vec::new();
        while self.now < end {
            self.now += 1;
            answers.extend(self.event(Event::Tick));
        }
        answers
    }

    fn request(&mut self, on_store_failure: OnStoreFailure) -> Vec<Answer> {
        self.calls += 1;
        let quota = Quota::new(Algorithm::FixedWindow, 5, Span::from_secs(3_600)).unwrap();
        let key = CounterKey { part: 0, tag: Tag::from_bits([1, 2]), rule: [3, 4] };
        let request = DecisionRequest { key, quota, cost: 1, id: None, on_store_failure, hold: false };
        let call = self.calls;
        self.event(Event::Decide { call, request })
    }

    fn used(&self) -> u64 {
        let key = CounterKey { part: 0, tag: Tag::from_bits([1, 2]), rule: [3, 4] };
        self.store.balance(key, WALL).map_or(0, |(quota, balance)| balance.used(&quota))
    }
}

fn source(answers: &[Answer]) -> Option<AdmissionSource> {
    match answers {
        [Answer::Admitted { source, .. }] => Some(*source),
        _ => None,
    }
}

#[test]
fn a_single_node_counts_exactly_through_an_outage() {
    let mut node = Single::new();
    node.pass(200);
    for _ in 0..2 {
        assert_eq!(source(&node.request(OnStoreFailure::Local)), Some(AdmissionSource::Store));
    }
    node.up = false;
    node.pass(700);
    for _ in 0..3 {
        assert_eq!(source(&node.request(OnStoreFailure::Local)), Some(AdmissionSource::Owner));
    }
    assert!(matches!(node.request(OnStoreFailure::Local)[..], [Answer::Refused(_)]));
    node.up = true;
    node.pass(1_000);
    assert_eq!(node.used(), 5, "the owner's three are in the store");
    assert!(matches!(node.request(OnStoreFailure::Local)[..], [Answer::Refused(_)]));
}

#[test]
fn a_request_is_answered_within_its_budget_by_what_its_rule_says() {
    let mut node = Single::new();
    node.pass(200);
    node.up = false;
    for (policy, soft, answer) in [
        (OnStoreFailure::Allow, 5, None),
        (OnStoreFailure::Deny, 5, Some(Answer::Undecided)),
        (OnStoreFailure::Local, 15, Some(Answer::Undecided)),
    ] {
        assert!(node.request(policy).is_empty());
        assert!(node.pass(soft - 1).is_empty(), "{policy:?}");
        let answers = node.pass(1);
        match answer {
            Some(answer) => assert_eq!(answers, [answer], "{policy:?}"),
            None => assert_eq!(source(&answers), Some(AdmissionSource::Policy)),
        }
    }
}

#[test]
fn a_node_that_never_saw_the_store_has_only_the_emergency_cap() {
    let mut node = Single::new();
    node.up = false;
    node.pass(5_000);
    let cap = usize::try_from(Config::default().emergency_cap).unwrap();
    let answers: Vec<_> = (0..cap + 3).flat_map(|_| node.request(OnStoreFailure::Local)).collect();
    let admitted = answers.iter().filter(|answer| matches!(answer, Answer::Admitted { .. })).count();
    assert_eq!((admitted, answers.len()), (cap, cap + 3));
    assert_eq!(node.request(OnStoreFailure::LocalOrDeny), [Answer::Undecided]);
}

#[test]
fn a_single_node_settles_before_it_leaves() {
    let mut node = Single::new();
    node.pass(200);
    node.up = false;
    node.pass(700);
    node.request(OnStoreFailure::Local);
    node.event(Event::Leave);
    node.pass(100);
    assert!(!node.exited, "nobody else knows what it owes");
    node.up = true;
    node.pass(300);
    assert!(node.exited);
    assert_eq!(node.used(), 1);
}

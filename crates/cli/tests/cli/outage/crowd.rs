//! Callers: threads that ask over connections that stay open.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::Fleet;
use super::tally::Tally;
use crate::support::{PATIENCE, wait_for};

/// How many phases a story has at most.
pub(super) const PHASES: usize = 5;

/// One answer.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) user: usize,
    pub(super) node: usize,
    pub(super) phase: usize,
    pub(super) http: u16,
    pub(super) decision: Value,
    pub(super) took: Duration,
}

impl Answer {
    pub(super) fn allowed(&self) -> bool {
        self.decision["allowed"] == true
    }

    pub(super) fn status(&self) -> &str {
        self.decision["status"].as_str().unwrap_or("no decision")
    }

    /// Whether it says no more than to come again in a second.
    pub(super) fn come_again(&self) -> bool {
        !self.allowed() && self.decision["retry_after"] == 1
    }
}

/// Who asks what, and how often.
pub(super) struct Plan {
    /// What each user asks.
    pub(super) bodies: Vec<String>,
    /// How often a user asks at most in a phase.
    pub(super) most: fn(user: usize, phase: usize) -> usize,
    /// How many callers each node has.
    pub(super) callers: usize,
    /// How long each of them pauses between two requests.
    pub(super) pause: Duration,
}

/// Callers at work.
pub(super) struct Crowd {
    shared: Arc<Shared>,
    callers: Vec<JoinHandle<Vec<Answer>>>,
}

struct Shared {
    plan: Plan,
    asked: Vec<[AtomicUsize; PHASES]>,
    answered: Vec<[AtomicUsize; PHASES]>,
    phase: AtomicUsize,
    done: AtomicBool,
}

impl Crowd {
    /// Begins with phase 0, at all nodes.
    pub(super) fn start(fleet: &Fleet, plan: Plan) -> Self {
        let none = || plan.bodies.iter().map(|_| Default::default()).collect();
        let (asked, answered) = (none(), none());
        let (callers, users) = (fleet.nodes.len() * plan.callers, plan.bodies.len());
        let (phase, done) = (AtomicUsize::new(0), AtomicBool::new(false));
        let shared = Arc::new(Shared { plan, asked, answered, phase, done });
        let callers = (0..callers).map(|caller| {
            let (shared, node) = (Arc::clone(&shared), caller % fleet.nodes.len());
            let to = fleet.nodes[node].http.clone();
            // Each begins elsewhere, so that everybody asks everywhere.
            thread::spawn(move || shared.keep_asking(node, &to, users * caller / callers))
        });
        let callers = callers.collect();
        Self { shared, callers }
    }

    /// Begins another phase.
    pub(super) fn enter(&self, phase: usize) {
        self.shared.phase.store(phase, Relaxed);
    }

    /// Waits until every user has had so many answers in the present phase, or as many as it asks for.
    pub(super) fn each_has_had(&self, answers: usize) {
        let phase = self.shared.phase.load(Relaxed);
        for (user, answered) in self.shared.answered.iter().enumerate() {
            let wanted = answers.min((self.shared.plan.most)(user, phase));
            wait_for(&format!("user {user} to have {wanted} answers in phase {phase}"), || {
                assert!(!self.callers.iter().any(JoinHandle::is_finished), "a caller got no answer");
                (answered[phase].load(Relaxed) >= wanted).then_some(())
            });
        }
    }

    /// Sends everybody home, and tells what they were told: every one of them a decision.
    pub(super) fn end(self) -> Tally {
        self.shared.done.store(true, Relaxed);
        let answers =
            self.callers.into_iter().flat_map(|caller| caller.join().expect("an answer to everything"));
        Tally::new(answers.collect())
    }
}

impl Shared {
    fn keep_asking(&self, node: usize, to: &str, first: usize) -> Vec<Answer> {
        let (mut line, mut next, mut answers) = (Line::open(to), first, Vec::new());
        while !self.done.load(Relaxed) {
            let phase = self.phase.load(Relaxed);
            if let Some(user) = self.whose_turn(&mut next, phase) {
                let begun = Instant::now();
                let (http, decision) = line.ask(&self.plan.bodies[user]);
                answers.push(Answer { user, node, phase, http, decision, took: begun.elapsed() });
                self.answered[user][phase].fetch_add(1, Relaxed);
            }
            // Load that has a rate, so that nodes and their store get something of the machine, too.
            thread::sleep(self.plan.pause);
        }
        answers
    }

    /// The next user who still has something to ask in this phase.
    fn whose_turn(&self, next: &mut usize, phase: usize) -> Option<usize> {
        let users = self.plan.bodies.len();
        let turn = (0..users).map(|more| (*next + more) % users).find(|&user| {
            let most = (self.plan.most)(user, phase);
            self.asked[user][phase]
                .fetch_update(Relaxed, Relaxed, |asked| (asked < most).then_some(asked + 1))
                .is_ok()
        });
        *next = turn.map_or(0, |user| user + 1);
        turn
    }
}

/// A connection that stays open.
pub(super) struct Line {
    to: String,
    stream: TcpStream,
    reader: BufReader<TcpStream>,
}

impl Line {
    pub(super) fn open(to: &str) -> Self {
        let stream = TcpStream::connect(to).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        let reader = BufReader::new(stream.try_clone().unwrap());
        Self { to: to.to_owned(), stream, reader }
    }

    /// Has a request decided.
    pub(super) fn ask(&mut self, body: &str) -> (u16, Value) {
        let (to, length) = (&self.to, body.len());
        let request =
            format!("POST /v1/check HTTP/1.1\r\nhost: {to}\r\ncontent-length: {length}\r\n\r\n{body}");
        self.stream.write_all(request.as_bytes()).unwrap();
        let (mut line, mut length) = (String::new(), 0);
        self.reader.read_line(&mut line).unwrap();
        let http =
            line.split(' ').nth(1).unwrap_or_else(|| panic!("no answer but {line:?}")).parse().unwrap();
        while line != "\r\n" {
            line.clear();
            self.reader.read_line(&mut line).unwrap();
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
        }
        let mut body = vec![0; length];
        self.reader.read_exact(&mut body).unwrap();
        (http, serde_json::from_slice(&body).unwrap_or_default())
    }
}

//! The same question many times over.

use std::io;
use std::time::Duration;

use tidegate_wire::grpc::protobuf::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
use tokio::task::JoinSet;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval};

use super::progress::Progress;
use super::rate::Rate;
use super::service::{Problem, RateLimitService};
use super::summary::{Summary, Tally};
use crate::signals::Signals;

/// The most requests that wait for their answers at a time, when they are sent without waiting for each other.
const MAX_WAITING: usize = 256;

/// Asks `times` times, or until told to end; what is not answered by then is not counted.
///
/// With a rate, requests leave at their times whether or not earlier ones are answered: a server that slows down is
/// asked as often as before, as it would be in earnest. Without one, each waits for the one before it.
pub(super) async fn repeat(
    service: &RateLimitService,
    question: &RateLimitRequest,
    times: u64,
    rate: Option<Rate>,
) -> io::Result<Summary> {
    let told = Signals::listen()?.told(1);
    tokio::pin!(told);
    let progress = Progress::new(times);
    let mut pace = Pace::new(rate);
    let mut tally = Tally::default();
    let mut waiting = JoinSet::new();
    let mut left = times;
    let began = Instant::now();
    while left > 0 || !waiting.is_empty() {
        tokio::select! {
            biased;
            () = &mut told => break,
            Some(ended) = waiting.join_next() => {
                let (answer, took) = ended?;
                tally.add(answer, took);
                progress.step(&tally);
            }
            () = pace.next(), if left > 0 && waiting.len() < pace.at_once() => {
                left -= 1;
                waiting.spawn(ask(service.clone(), question.clone()));
            }
        }
    }
    Ok(tally.finish(times, began.elapsed()))
}

async fn ask(
    service: RateLimitService,
    question: RateLimitRequest,
) -> (Result<RateLimitResponse, Problem>, Duration) {
    let began = Instant::now();
    let answer = service.ask(question).await;
    (answer, began.elapsed())
}

/// When the next request may leave.
enum Pace {
    /// When the one before it has been answered.
    InTurn,
    /// At its time.
    Timed(Interval),
}

impl Pace {
    fn new(rate: Option<Rate>) -> Self {
        rate.map_or(Self::InTurn, |rate| {
            let mut times = interval(rate.distance);
            // Timers are coarser than some rates; what is late is made up for.
            times.set_missed_tick_behavior(MissedTickBehavior::Burst);
            Self::Timed(times)
        })
    }

    /// How many may wait for their answers.
    fn at_once(&self) -> usize {
        match self {
            Self::InTurn => 1,
            Self::Timed(_) => MAX_WAITING,
        }
    }

    async fn next(&mut self) {
        if let Self::Timed(times) = self {
            times.tick().await;
        }
    }
}

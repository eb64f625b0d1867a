//! A service of some workers with one queue, open-loop clients of several tiers, and virtual time.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "times and rates of a model are small and positive"
)]

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_overload::{Headroom, InFlightLimiter, Permit};

/// SplitMix64: the same numbers for the same seed, everywhere.
pub(crate) struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Above 0, at most 1.
    fn unit(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    fn exponential(&mut self, mean: f64) -> f64 {
        -mean * self.unit().ln()
    }
}

/// Distribution of service times.
#[derive(Clone, Copy)]
pub(crate) enum Service {
    /// All the same.
    Constant,
    /// Exponentially distributed.
    Exponential,
}

/// Requests per second of a tier at a time, in seconds.
pub(crate) type Rate = fn(f64) -> f64;

pub(crate) struct Scenario {
    pub(crate) seed: u64,
    pub(crate) workers: usize,
    pub(crate) service: Service,
    /// Mean service time at a time, both in seconds.
    pub(crate) service_time: fn(f64) -> f64,
    pub(crate) tiers: Vec<(&'static str, Rate)>,
    pub(crate) seconds: u64,
    /// No limiter: every request goes on.
    pub(crate) limiter: Option<Arc<InFlightLimiter>>,
    pub(crate) start: Instant,
}

/// Outcomes of the requests that arrived in one second.
#[derive(Clone, Debug, Default)]
pub(crate) struct Second {
    pub(crate) arrived: u32,
    pub(crate) shed: u32,
    pub(crate) late: u32,
    /// Response times of those served in time, in seconds.
    pub(crate) served: Vec<f64>,
}

pub(crate) struct Report {
    /// By tier, then second of arrival.
    pub(crate) tiers: BTreeMap<&'static str, Vec<Second>>,
    /// The limit at the end of each second.
    pub(crate) limits: Vec<u32>,
    /// Requests shed while a tier with a larger share would not have been admitted either, and the reverse.
    pub(crate) inversions: u32,
}

impl Report {
    pub(crate) fn served_share(&self, tier: &str, from: usize, to: usize) -> f64 {
        let seconds = &self.tiers[tier][from..to];
        let arrived: u32 = seconds.iter().map(|it| it.arrived).sum();
        let served: usize = seconds.iter().map(|it| it.served.len()).sum();
        served as f64 / f64::from(arrived.max(1))
    }

    pub(crate) fn shed_share(&self, from: usize, to: usize) -> f64 {
        let seconds = self.tiers.values().flat_map(|seconds| &seconds[from..to]);
        let (shed, arrived) = seconds.fold((0, 0), |sum, it| (sum.0 + it.shed, sum.1 + it.arrived));
        f64::from(shed) / f64::from(arrived.max(1))
    }

    /// Requests served in time per second, on average.
    pub(crate) fn goodput(&self, from: usize, to: usize) -> f64 {
        let served: usize = self.tiers.values().flat_map(|it| &it[from..to]).map(|it| it.served.len()).sum();
        served as f64 / (to - from) as f64
    }

    /// Response time in seconds.
    pub(crate) fn percentile(&self, tier: &str, percent: f64, from: usize, to: usize) -> f64 {
        let mut times: Vec<f64> =
            self.tiers[tier][from..to].iter().flat_map(|it| it.served.iter().copied()).collect();
        times.sort_by(f64::total_cmp);
        times[((times.len() - 1) as f64 * percent / 100.0).round() as usize]
    }

    /// Coefficient of variation of the requests served per second.
    pub(crate) fn variation(&self, from: usize, to: usize) -> f64 {
        let counts: Vec<f64> = (from..to).map(|second| self.goodput(second, second + 1)).collect();
        let mean = counts.iter().sum::<f64>() / counts.len() as f64;
        let variance = counts.iter().map(|it| (it - mean).powi(2)).sum::<f64>() / counts.len() as f64;
        variance.sqrt() / mean
    }
}

/// Clients give up after this time, in seconds.
const PATIENCE: f64 = 1.0;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Arrival(usize),
    Served(usize),
    GivenUp(usize),
}

struct Request {
    tier: usize,
    arrived: f64,
    permit: Option<Permit>,
    is_over: bool,
}

/// In nanoseconds, so that times can be ordered.
fn nanos(seconds: f64) -> u64 {
    (seconds * 1e9) as u64
}

pub(crate) fn run(scenario: &Scenario) -> Report {
    let mut rng = Rng(scenario.seed);
    let headroom = Headroom::default();
    let mut events = BinaryHeap::new();
    let mut requests: Vec<Request> = Vec::new();
    let (mut busy, mut queue) = (0, VecDeque::new());
    let mut seconds: Vec<Vec<Second>> =
        vec![vec![Second::default(); scenario.seconds as usize]; scenario.tiers.len()];
    let mut limits = Vec::new();
    let mut inversions = 0;
    let next_arrival = |now: f64, tier: usize, rng: &mut Rng| {
        // Rates change; in a pause, look again soon.
        let rate = (scenario.tiers[tier].1)(now);
        let wait = if rate > 0.0 { rng.exponential(1.0 / rate) } else { 0.01 };
        (nanos(now + wait.min(0.5)), wait <= 0.5 && rate > 0.0)
    };
    let mut skip: Vec<bool> = Vec::new();
    for tier in 0..scenario.tiers.len() {
        let (at, real) = next_arrival(0.0, tier, &mut rng);
        skip.push(!real);
        events.push(Reverse((at, Event::Arrival(tier))));
    }
    while let Some(Reverse((at, event))) = events.pop() {
        let now = at as f64 / 1e9;
        if now >= scenario.seconds as f64 {
            break;
        }
        if let Some(limiter) = &scenario.limiter {
            while limits.len() < now as usize {
                limits.push(limiter.stats().limit);
            }
        }
        let instant = scenario.start + Duration::from_nanos(at);
        let serve = |id: usize, rng: &mut Rng, events: &mut BinaryHeap<_>| {
            let mean = (scenario.service_time)(now);
            let takes = match scenario.service {
                Service::Constant => mean,
                Service::Exponential => rng.exponential(mean),
            };
            events.push(Reverse((nanos(now + takes), Event::Served(id))));
        };
        match event {
            Event::Arrival(tier) => {
                let is_real = !skip[tier];
                let (next, real) = next_arrival(now, tier, &mut rng);
                skip[tier] = !real;
                events.push(Reverse((next, Event::Arrival(tier))));
                if !is_real {
                    continue;
                }
                let second = &mut seconds[tier][now as usize];
                second.arrived += 1;
                let share = headroom.class(Some(scenario.tiers[tier].0)).share;
                let permit = match &scenario.limiter {
                    None => None,
                    Some(limiter) => {
                        let before = limiter.stats();
                        match limiter.acquire(share, instant) {
                            Ok(permit) => Some(permit),
                            Err(_) => {
                                second.shed += 1;
                                let lower =
                                    scenario.tiers.iter().map(|(name, _)| headroom.class(Some(name)).share);
                                let admits_lower = lower
                                    .filter(|it| *it < share)
                                    .any(|it| before.in_flight < it.of(before.limit));
                                inversions += u32::from(admits_lower);
                                continue;
                            }
                        }
                    }
                };
                let id = requests.len();
                requests.push(Request { tier, arrived: now, permit, is_over: false });
                events.push(Reverse((nanos(now + PATIENCE), Event::GivenUp(id))));
                if busy < scenario.workers {
                    busy += 1;
                    serve(id, &mut rng, &mut events);
                } else {
                    queue.push_back(id);
                }
            }
            Event::Served(id) => {
                let request = &mut requests[id];
                if !std::mem::replace(&mut request.is_over, true) {
                    if let Some(mut permit) = request.permit.take() {
                        permit.responded(instant);
                    }
                    seconds[request.tier][request.arrived as usize].served.push(now - request.arrived);
                }
                match queue.pop_front() {
                    Some(next) => serve(next, &mut rng, &mut events),
                    None => busy -= 1,
                }
            }
            // The service does not notice, and serves it all the same.
            Event::GivenUp(id) => {
                let request = &mut requests[id];
                if !std::mem::replace(&mut request.is_over, true) {
                    if let Some(mut permit) = request.permit.take() {
                        permit.abandoned(instant);
                    }
                    seconds[request.tier][request.arrived as usize].late += 1;
                }
            }
        }
    }
    let tiers = scenario.tiers.iter().map(|(name, _)| *name).zip(seconds).collect();
    Report { tiers, limits, inversions }
}

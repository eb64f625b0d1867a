//! Adaptive limits against load of all shapes, in virtual time.
//!
//! The service has 20 workers and takes 20 ms for a request: 1,000 requests per second. Until second 20, and from second 50 on, it has
//! 80 % of that to do, half of it from the tier free.

mod model;

use std::time::Instant;

use model::{Rate, Report, Scenario, Service, run};
use tidegate_overload::{InFlightLimiter, LimitBounds};

const SEEDS: [u64; 3] = [1, 2, 3];
const SERVICES: [Service; 2] = [Service::Constant, Service::Exponential];

fn scenario(seed: u64, service: Service, free: Rate) -> Scenario {
    let start = Instant::now();
    Scenario {
        seed,
        workers: 20,
        service,
        service_time: |_| 0.02,
        tiers: vec![("free", free), ("standard", |_| 200.0), ("premium", |_| 200.0)],
        seconds: 80,
        limiter: Some(InFlightLimiter::adaptive(LimitBounds::default(), start)),
        start,
    }
}

fn in_spike(time: f64) -> bool {
    (20.0..50.0).contains(&time)
}

/// Holds a report to what is promised; `goodput` is what may be expected of the service during the spike.
fn check(name: &str, seed: u64, report: &Report, goodput: f64) {
    let at = format!("{name}, seed {seed}, limits {:?}", report.limits);
    let premium = report.served_share("premium", 20, 50);
    assert!(premium >= 0.999, "premium served {premium}: {at}");
    let (usual, spike) =
        (report.percentile("premium", 99.0, 5, 20), report.percentile("premium", 99.0, 20, 50));
    assert!(spike <= 2.0 * usual, "p99 of premium {spike} s instead of {usual} s: {at}");
    let served = report.goodput(21, 50);
    assert!(served >= goodput, "{served} requests served per second: {at}");
    let before = report.shed_share(5, 20);
    assert!(before < 0.001, "{before} of the requests shed before: {at}");
    let after = report.shed_share(55, 80);
    assert!(after < 0.002, "{after} of the requests shed 5 s after: {at}");
    assert_eq!(report.inversions, 0, "a lower tier went before a higher one: {at}");
}

/// Runs a spike of requests of the tier free with all seeds and services.
fn spike(name: &str, free: Rate, goodput: f64) -> Vec<Report> {
    let runs = SEEDS.into_iter().flat_map(|seed| SERVICES.map(|service| (seed, service)));
    let report = |(seed, service)| {
        let report = run(&scenario(seed, service, free));
        check(name, seed, &report, goodput);
        report
    };
    runs.map(report).collect()
}

#[test]
fn a_step_of_ten_times() {
    for report in spike("10x", |t| if in_spike(t) { 8_000.0 } else { 400.0 }, 950.0) {
        let variation = report.variation(21, 50);
        assert!(variation <= 0.1, "requests served per second vary by {variation}");
        let limits = &report.limits[22..50];
        let (least, most) = (limits.iter().min().unwrap(), limits.iter().max().unwrap());
        assert!(*most <= least * 2, "the limit wanders from {least} to {most}");
    }
}

#[test]
fn a_step_of_twenty_times() {
    for report in spike("20x", |t| if in_spike(t) { 16_000.0 } else { 400.0 }, 950.0) {
        let variation = report.variation(21, 50);
        assert!(variation <= 0.1, "requests served per second vary by {variation}");
    }
}

#[test]
fn a_ramp() {
    spike("ramp", |t| if in_spike(t) { 400.0 + (t - 20.0) * 200.0 } else { 400.0 }, 900.0);
}

#[test]
fn a_load_that_comes_and_goes() {
    // A second on, a second off: 1,000 and 800 requests per second can be served.
    let free: Rate = |t| if in_spike(t) && (t * 0.5).fract() < 0.5 { 8_000.0 } else { 400.0 };
    spike("oscillating", free, 860.0);
}

#[test]
fn without_a_limit_nobody_is_served() {
    let free: Rate = |t| if in_spike(t) { 8_000.0 } else { 400.0 };
    let report = run(&Scenario { limiter: None, ..scenario(1, Service::Constant, free) });
    assert!(report.served_share("premium", 22, 50) < 0.05);
}

#[test]
fn a_service_that_becomes_slower_is_learned_anew() {
    for (slower, least) in [(2.0, 400.0), (10.0, 60.0)] {
        for service in SERVICES {
            let mut scenario = scenario(1, service, |_| 400.0);
            scenario.service_time = match slower {
                2.0 => |t| if in_spike(t) { 0.04 } else { 0.02 },
                _ => |t| if in_spike(t) { 0.2 } else { 0.02 },
            };
            let report = run(&scenario);
            let limits = &report.limits;
            let served = report.goodput(35, 50);
            assert!(served >= least, "{slower} times slower, {served} per second: {limits:?}");
            let (premium, standard, free) = (
                report.served_share("premium", 25, 50),
                report.served_share("standard", 25, 50),
                report.served_share("free", 25, 50),
            );
            assert!(premium > standard && standard > free, "{premium} {standard} {free}: {limits:?}");
            let after = report.shed_share(65, 80);
            assert!(after < 0.002, "{after} shed after: {limits:?}");
            assert_eq!(report.inversions, 0);
        }
    }
}

#[test]
fn a_service_that_dies_and_comes_back_is_used_again() {
    let mut scenario = scenario(1, Service::Constant, |_| 400.0);
    // Every request that is begun within these seconds takes longer than clients wait.
    scenario.service_time = |t| if (20.0..25.0).contains(&t) { 5.0 } else { 0.02 };
    let report = run(&scenario);
    assert!(report.goodput(22, 25) < 50.0);
    let after = report.served_share("premium", 40, 80);
    assert!(after > 0.999, "premium served {after} afterwards: {:?}", report.limits);
    assert!(report.shed_share(50, 80) < 0.002, "{:?}", report.limits);
}

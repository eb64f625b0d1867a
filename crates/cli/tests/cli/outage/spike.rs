//! Ten times the traffic, and one tenant that sends whatever it can: nobody else notices.

use std::thread;
use std::time::Duration;

use tidegate_testkit::Redis;

use super::Fleet;
use super::crowd::{Answer, Crowd, Plan};

const RULES: &str = "
rules:
  - { rule_id: tenant, identifier_type: tenant_id, algorithm: token_bucket, limit: 2000, window: 10s }
  - { rule_id: user, identifier_type: user_id, algorithm: sliding_window, limit: 1500, window: 10s }
";

/// Tenants that send steadily.
const TENANTS: usize = 20;

const CALM: usize = 0;
const SPIKE: usize = 1;
const FLOOD: usize = 2;

/// What a tenant asks.
fn body(tenant: usize) -> String {
    format!(r#"{{"tenant":"tenant-{tenant}","user":"somebody","resource":"/"}}"#)
}

/// Far below what each tenant may send.
fn most(_: usize, phase: usize) -> usize {
    [20, 2_000, 20][phase]
}

#[test]
fn a_spike_and_a_flood_are_felt_by_nobody_else() {
    let redis = Redis::start();
    // Every answer of the store is waited for: what becomes of those that come too late is another story.
    let fleet = Fleet::ready(&vec![redis.url(); 3], RULES, &["--store-timeout", "1s"]);
    let bodies = || (0..TENANTS).map(body).collect();
    let steady = |pause| Plan { bodies: bodies(), most, callers: 2, pause: Duration::from_millis(pause) };
    // Time is part of these stories: 4 s of calm, 30 s of a spike of ten times as much, 6 s of a flood.
    let seconds = |seconds| thread::sleep(Duration::from_secs(seconds));
    let calm = || Crowd::start(&fleet, steady(60));

    let crowd = calm();
    seconds(4);
    let before = crowd.end();

    let crowd = Crowd::start(&fleet, steady(6));
    crowd.enter(SPIKE);
    seconds(30);
    let during = crowd.end();

    let crowd = calm();
    crowd.enter(FLOOD);
    let (bodies, most) = (vec![body(TENANTS)], |_, _| usize::MAX);
    let flood = Crowd::start(&fleet, Plan { bodies, most, callers: 1, pause: Duration::ZERO });
    seconds(6);
    let (flooding, others) = (flood.end(), crowd.end());

    for (name, tally, phase) in
        [("calm", &before, CALM), ("spike", &during, SPIKE), ("beside a flood", &others, FLOOD)]
    {
        let [median, high, most] = tally.times(|answer| answer.phase == phase);
        let all = tally.answers.len();
        let local = tally.answers.iter().filter(|answer| answer.status() == "local").count();
        println!(
            "{name}: {all} requests, {local} decided locally; p50 {median:.1?}, p99 {high:.1?}, longest {most:.1?}"
        );
        let refused: Vec<&Answer> = tally.answers.iter().filter(|answer| !answer.allowed()).collect();
        assert!(
            all > 10 * TENANTS && refused.is_empty(),
            "{} of {all}: {:?}",
            refused.len(),
            refused.first()
        );
    }
    let admitted = flooding.answers.iter().filter(|answer| answer.allowed()).count();
    println!("the flood: {admitted} of {} admitted", flooding.answers.len());
    assert!(admitted < flooding.answers.len() && admitted > 0);
}

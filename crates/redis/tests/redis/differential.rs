//! Every algorithm in Redis against the same in the core: the same history, the same verdicts to the last figure.

use futures_util::future::join_all;
use tidegate_core::algorithm::{Counter, FixedWindow, SlidingLog, SlidingWindow, TokenBucket};
use tidegate_core::{Action, Algorithm, Operation, Quota, Span, Timestamp, Verdict};
use tidegate_store::conformance::Subject;
use tidegate_testkit::{Program, Redis};

use crate::support::{Dice, Explicit, apply, one, take};

const STEPS: u64 = 12_000;

/// Histories that the steps are divided among. They run side by side, because each of them waits for a server most of the time.
const HISTORIES: u64 = 4;

/// A counter of the core, kept as a store keeps it: what only looks is forgotten, unless the clock or the rules have
/// moved it.
struct Kept<C> {
    counter: C,
    quota: Option<Quota>,
}

impl<C: Counter> Kept<C> {
    fn new() -> Self {
        Self { counter: C::default(), quota: None }
    }

    fn apply(&mut self, asked: Quota, cost: u64, action: Action, now: Timestamp) -> Verdict {
        let mut counter = self.counter.clone();
        let stored = self.quota.unwrap_or(asked);
        let rebased = self.quota.is_some() && counter.at().since(now) > Span::from_secs(10);
        counter.advance(&stored, now);
        let quota = Quota::in_force(stored, asked);
        let reshaped = quota != stored;
        if !quota.same_figures(&stored) {
            counter.rescale(&stored, &quota);
            counter.advance(&quota, now);
        }
        // A log that has let go of requests does not get them back.
        let forgot = counter.entries() < self.counter.entries();
        let taken = match action {
            Action::Take if counter.fits(&quota, cost) => cost,
            Action::Charge => most_that_fits(&counter, &quota, cost),
            _ => 0,
        };
        let takes = taken > 0;
        if takes {
            counter.charge(&quota, taken);
        }
        if let Action::Return { since } = action {
            counter.credit(&quota, cost, since);
        }
        let returns = matches!(action, Action::Return { .. });
        let refusable = !takes && is_refusable(action);
        let verdict = counter.look(&quota, if refusable { cost } else { 0 }, now);
        let known = self.quota.is_some();
        if takes || (known && (rebased || reshaped || returns || forgot)) {
            *self = Self { counter, quota: Some(quota) };
        }
        verdict
    }
}

fn is_refusable(action: Action) -> bool {
    matches!(action, Action::Peek | Action::Take)
}

/// As much of `cost` as fits, found by halving.
fn most_that_fits<C: Counter>(counter: &C, quota: &Quota, cost: u64) -> u64 {
    let (mut fits, mut does_not) = (0, cost + 1);
    while does_not - fits > 1 {
        let half = fits.midpoint(does_not);
        if counter.fits(quota, half) { fits = half } else { does_not = half }
    }
    fits
}

/// Quotas of every size up to the largest that can be counted exactly.
fn any_quota(dice: &mut Dice, algorithm: Algorithm) -> Quota {
    loop {
        let window = Span::from_millis(1 + dice.scale(Span::from_secs(366 * 86_400).as_millis() - 1));
        let limit = 1 + dice.scale(if algorithm == Algorithm::SlidingLog { 300 } else { 1 << 40 });
        let quota = match algorithm {
            Algorithm::TokenBucket => Quota::token_bucket(limit, window, 1 + dice.scale(1 << 40)),
            other => Quota::new(other, limit, window),
        };
        if let Ok(quota) = quota {
            return quota;
        }
    }
}

async fn one_agrees<C: Counter>(url: &str, algorithm: Algorithm, seed: u64) {
    let subject = Explicit::new(url).await;
    let mut dice = Dice(seed | 1);
    let (mut kept, mut quota, mut version) = (Kept::<C>::new(), any_quota(&mut dice, algorithm), 1);
    let mut now = 1_704_067_200_000 + dice.roll(1 << 36);
    let (mut key, mut keys) = (format!("differential-{algorithm}-{seed}-0"), 0);
    for step in 0..STEPS / HISTORIES {
        if dice.roll(150) == 0 {
            keys += 1;
            key = format!("differential-{algorithm}-{seed}-{keys}");
            (kept, quota) = (Kept::new(), any_quota(&mut dice, algorithm));
        } else if dice.roll(60) == 0 {
            quota = any_quota(&mut dice, algorithm);
        }
        if dice.roll(80) == 0 {
            version = dice.roll(5);
        }
        let window = quota.window().as_millis();
        now = match dice.roll(40) {
            0 => now - dice.roll(9_000),
            1 => now - dice.roll(60_000),
            2 => now + dice.scale(3 * window),
            _ => now + dice.scale(window / 4 + 2),
        };
        let asked = quota.at_version(version);
        let cost = dice.scale(quota.capacity().saturating_mul(2).min(1 << 50));
        let action = match dice.roll(20) {
            0 => Action::Peek,
            1 => Action::Return { since: Timestamp::from_millis(now - dice.scale(2 * window).min(now)) },
            2..=4 => Action::Charge,
            _ => Operation::from(take(&key, "alice", asked, cost).take).action,
        };
        let at = Timestamp::from_millis(now);
        subject.set_time(at);
        let op = Operation { action, ..take(&key, "alice", asked, cost) };
        // In company a take goes the long way, by another script.
        let verdict = match dice.roll(3) {
            0 => {
                let company = Operation { action: Action::Peek, ..take("company", "bob", quota, 0) };
                *apply(&subject.store, &[op, company]).await[0].verdict().unwrap()
            }
            _ => one(&subject.store, op).await,
        };
        let mut wanted = kept.apply(asked, cost, action, at);
        if !is_refusable(action) {
            wanted = Verdict { allowed: true, retry: tidegate_core::Retry::Now, ..wanted };
        }
        assert_eq!(
            verdict, wanted,
            "{algorithm}, seed {seed}, step {step}: {action:?} {cost} of {asked:?} at {now}"
        );
    }
}

async fn agree<C: Counter>(url: &str, algorithm: Algorithm, seed: u64) {
    let histories =
        (0..HISTORIES).map(|history| one_agrees::<C>(url, algorithm, seed.rotate_left(8) + 2 * history));
    join_all(histories).await;
}

async fn all_agree(redis: &Redis, seed: u64) {
    let url = redis.url();
    tokio::join!(
        agree::<TokenBucket>(&url, Algorithm::TokenBucket, seed),
        agree::<FixedWindow>(&url, Algorithm::FixedWindow, seed),
        agree::<SlidingWindow>(&url, Algorithm::SlidingWindow, seed),
        agree::<SlidingLog>(&url, Algorithm::SlidingLog, seed),
    );
    assert_eq!(redis.keys_without_ttl(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_decides_as_the_core_does() {
    all_agree(&Redis::start(), 0x2545_f491_4f6c_dd1d).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn valkey_decides_as_the_core_does() {
    all_agree(&Redis::options().program(Program::Valkey).start(), 0x9e37_79b9_7f4a_7c15).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_6_2_decides_as_the_core_does() {
    all_agree(&Redis::options().program(Program::Redis62).start(), 0xd1b5_4a32_d192_ed03).await;
}

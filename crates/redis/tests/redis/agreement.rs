//! Groups in Redis against the same groups in memory: the same history, the same verdicts to the last figure.

use std::sync::Arc;

use futures_util::future::join_all;
use tidegate_core::{Action, Algorithm, HoldId, Operation, Quota, Secret, Span, Take, Timestamp};
use tidegate_store::conformance::Subject;
use tidegate_store::{ManualClock, MemoryStore};
use tidegate_testkit::{Program, Redis};

use crate::support::{Dice, Explicit, apply, quota, take};

const STEPS: u64 = 4_000;

/// Operations on few counters by few names, so that they meet.
fn any_operation<'r>(
    dice: &mut Dice,
    rules: &'r [String; 2],
    quotas: &[Quota; 2],
    now: u64,
) -> Operation<'r> {
    let mut pick = |count| usize::try_from(dice.roll(count)).unwrap();
    let rule = pick(2);
    let op = take(&rules[rule], ["alice", "bob"][pick(2)], quotas[rule], 0);
    let name = ["a", "b", "c"][pick(3)];
    let id = HoldId([1, dice.roll(3)]);
    let action = match dice.roll(12) {
        0 => Action::Peek,
        1 => Action::Hold { id, ttl: Span::from_secs(2) },
        2 => Action::Settle { id },
        3 => Action::Return { since: Timestamp::from_millis(now - dice.scale(5_000)) },
        4 => Action::Return { since: Timestamp::LATEST },
        5..=8 => Action::Charge,
        _ => Action::Take,
    };
    let request_id = (dice.roll(2) == 0).then(|| Secret::new([1; 16]).request_id(name));
    let blocked = quota(op.take.quota.algorithm(), 0, op.take.quota.window());
    let settles = matches!(action, Action::Settle { .. });
    let quota = if dice.roll(15) == 0 && !settles { blocked } else { op.take.quota };
    let (cost, shadow) = (1 + dice.scale(7), dice.roll(8) == 0);
    Operation { take: Take { cost, quota, request_id, shadow, ..op.take }, action }
}

async fn agree(subject: &Explicit, algorithm: Algorithm, seed: u64) {
    let mut dice = Dice(seed | 1);
    let memory = MemoryStore::new(1_000, Arc::new(ManualClock::default()));
    let rules = ["a", "b"].map(|letter| format!("agreement-{algorithm}-{seed}-{letter}"));
    let (mut now, mut version) = (1_704_067_200_000 + dice.roll(1 << 36), 1);
    let mut quotas = [quota(algorithm, 20, Span::from_secs(10)), quota(algorithm, 7, Span::from_secs(10))];
    for step in 0..STEPS {
        if dice.roll(100) == 0 {
            version += 1;
            let limit = 5 + dice.roll(30);
            quotas[0] = quota(algorithm, limit, Span::from_secs(10)).at_version(version);
        }
        now += dice.scale(4_000);
        subject.set_time(Timestamp::from_millis(now));
        let group: Vec<Operation<'_>> =
            (0..=dice.roll(4)).map(|_| any_operation(&mut dice, &rules, &quotas, now)).collect();
        let found = apply(&subject.store, &group).await;
        let wanted = memory.apply_at(&group, Timestamp::from_millis(now)).to_vec();
        assert_eq!(found, wanted, "{algorithm}, seed {seed}, step {step} at {now}: {group:?}");
    }
}

async fn all_agree(redis: &Redis, seed: u64) {
    let url = redis.url();
    let agreements =
        Algorithm::REFILLING.map(async |algorithm| agree(&Explicit::new(&url).await, algorithm, seed).await);
    join_all(agreements).await;
    assert_eq!(redis.keys_without_ttl(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_decides_as_memory_does() {
    all_agree(&Redis::start(), 0x5851_f42d_4c95_7f2d).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn valkey_decides_as_memory_does() {
    all_agree(&Redis::options().program(Program::Valkey).start(), 0x1405_7b7e_f767_814f).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_6_2_decides_as_memory_does() {
    all_agree(&Redis::options().program(Program::Redis62).start(), 0xda3e_39cb_94b9_5bdb).await;
}

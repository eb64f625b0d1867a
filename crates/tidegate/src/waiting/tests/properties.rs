//! What holds for any figures.

use proptest::collection::vec;
use proptest::prelude::*;
use tidegate_store::ManualClock;

use super::*;

/// Runs `test` in a time of its own.
fn in_paused_time(test: impl Future<Output = ()>) {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_time().start_paused(true).build().unwrap().block_on(test);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// As many as come at once go ahead at the rate of the bucket; those whose turn is too late for them do not.
    #[test]
    fn a_token_bucket_shapes(limit in 1..3_000u64, burst in 1..50u64, many in 1..150u64, longest in 1..2_000u64) {
        let burst = burst.max(limit);
        in_paused_time(async {
            let limiter = limiter(vec![delaying("r", bucket(limit, burst), longest)]);
            let log = Log::default();
            assert!(ask(&limiter, "alice", burst, PATIENT).await.checked.allowed);
            let tasks: Vec<_> = (1..=many).map(|who| log.ask(&limiter, who, 1)).collect();
            for task in tasks {
                task.await.unwrap();
            }
            let turn = |who: u64| (who * 1_000).div_ceil(limit);
            let expected: Vec<_> =
                (1..=many).filter(|who| turn(*who) <= longest).map(|who| (who, true, turn(who))).collect();
            let mut served = log.list();
            served.retain(|(_, allowed, _)| *allowed);
            assert_eq!(served, expected);
            assert!(limiter.lines.holds_nothing());
        });
    }

    /// However it is counted and whatever the costs: nobody is told a later turn than they have.
    #[test]
    fn a_turn_never_comes_before_it_was_foretold(
        which in 0..4usize,
        limit in 1..40u64,
        window in 1..300u64,
        offset in 0..300u64,
        arrivals in vec((0..60u64, 1..40u64), 1..25),
    ) {
        let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_704_067_200_000 + offset)));
        let list = rules(vec![delaying("r", quota(Algorithm::ALL[which], limit, window), 1)], 1);
        let limiter = Limiter::builder(list).clock(clock.clone()).build().unwrap();
        let request = |cost| Request { user: Some("alice"), cost, ..Request::new("/") };
        let mut arrivals: Vec<_> = arrivals.into_iter().map(|(at, cost)| (at * window / 20, cost.min(limit))).collect();
        arrivals.sort_unstable();
        let mut arrivals = arrivals.into_iter().peekable();
        let mut line: std::collections::VecDeque<(u64, u64)> = std::collections::VecDeque::new();
        let mut now = 0;
        while arrivals.peek().is_some() || !line.is_empty() {
            while let Some((foretold, cost)) = line.front().copied() {
                if !limiter.try_check(&request(cost)).unwrap().allowed {
                    break;
                }
                prop_assert!(foretold <= now, "foretold for {foretold}, but it is {now}");
                line.pop_front();
            }
            while let Some((_, cost)) = arrivals.next_if(|(at, _)| *at <= now) {
                let seen = limiter.try_explain(&request(cost)).unwrap();
                let ahead = line.iter().map(|(_, cost)| u128::from(*cost)).sum();
                let turn = earliest(&seen.verdicts[0].verdict, cost, ahead).as_millis();
                line.push_back((now + turn, cost));
            }
            now += 1;
            clock.advance(Span::from_millis(1));
            prop_assert!(now < 1_000_000, "somebody waits for ever");
        }
    }
}

//! When it can be a request's turn at the earliest.

use tidegate_core::{Algorithm, Retry, Span, Verdict};

/// When it can be the turn of a request of `cost` that `verdict` was just said to, if those before it are to have `ahead` first
/// and nothing is given back.
///
/// Never too late, so that nobody is turned away who would have made it; but where costs differ or others ask elsewhere, it may
/// well turn out to be later.
pub(super) fn earliest(verdict: &Verdict, cost: u64, ahead: u128) -> Span {
    let quota = &verdict.quota;
    let (limit, window) = (u128::from(quota.limit().max(1)), u128::from(quota.window().as_millis()));
    let own = match verdict.retry {
        Retry::Now => 0,
        // Nobody asks again at once who was just refused.
        Retry::After(span) => u128::from(span.as_millis().max(1)),
        Retry::Never => return Span::from_millis(u64::MAX),
    };
    // How long it takes at least for so much to come back steadily.
    let steadily = |amount: u128| amount.saturating_mul(window) / limit;
    // What is there already was rounded down.
    let there = u128::from(verdict.remaining) + 1;
    let turn = match quota.algorithm() {
        Algorithm::TokenBucket if verdict.allowed => steadily(ahead.saturating_sub(there)),
        Algorithm::TokenBucket => own.saturating_add(steadily(ahead)),
        // What others take meanwhile has it come back sooner, but never sooner than this.
        Algorithm::SlidingWindow => own.max(steadily((ahead + u128::from(cost)).saturating_sub(there))),
        // Nobody can tell when one of them ends.
        Algorithm::InFlight => own,
        // All may come back at once, and then nothing for a window; the present one may be all but over.
        Algorithm::FixedWindow | Algorithm::SlidingLog => {
            let windows = (ahead / limit).saturating_sub(u128::from(verdict.allowed));
            own.saturating_add(windows.saturating_mul(window))
        }
    };
    Span::from_millis(u64::try_from(turn).unwrap_or(u64::MAX))
}

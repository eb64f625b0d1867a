//! What fuzz targets call: readers of bytes that the store sends.

use tidegate_core::{Algorithm, Quota, Span};
use tidegate_store::Outcome;

use crate::encode::{OwnedOp, Reply, Way};

/// Takes the bytes for the replies of both scripts about one operation per algorithm.
pub fn reply(bytes: &[u8]) {
    let quotas =
        [Algorithm::FixedWindow, Algorithm::SlidingWindow, Algorithm::TokenBucket, Algorithm::SlidingLog];
    let quotas =
        quotas.into_iter().filter_map(|algorithm| Quota::new(algorithm, 10, Span::from_secs(60)).ok());
    let ops: Vec<OwnedOp> = quotas.map(OwnedOp::take_one).collect();
    for way in [Way::Short, Way::Long] {
        let Some(mut reply) = Reply::new(way, bytes) else { continue };
        while let Some(outcomes) = reply.next(&ops)
            && !outcomes.is_empty()
        {
            for outcome in outcomes {
                if let Outcome::Verdict(verdict) = outcome {
                    assert!(verdict.remaining <= verdict.quota.capacity(), "{verdict:?}");
                }
            }
        }
    }
}

//! A quota's figures as nodes send them to each other, checked again where they arrive.

use serde::{Deserialize, Serialize};

use super::{Algorithm, Quota, QuotaError};
use crate::time::Span;

/// Figures of a quota that nobody has checked yet.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct QuotaTerms {
    algorithm: Algorithm,
    limit: u64,
    window: Span,
    capacity: u64,
    version: u64,
}

impl From<Quota> for QuotaTerms {
    fn from(quota: Quota) -> Self {
        let Quota { limit, window, capacity, version, algorithm } = quota;
        Self { algorithm, limit, window, capacity, version }
    }
}

impl TryFrom<QuotaTerms> for Quota {
    type Error = QuotaError;

    fn try_from(terms: QuotaTerms) -> Result<Self, QuotaError> {
        let quota = Self::with_burst(terms.algorithm, terms.limit, terms.window, terms.capacity)?;
        Ok(quota.at_version(terms.version))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quota_survives_the_way_and_nonsense_does_not() {
        let quota = Quota::token_bucket(5, Span::from_secs(1), 9).unwrap().at_version(7);
        let text = serde_json::to_string(&quota).unwrap();
        assert_eq!(serde_json::from_str::<Quota>(&text).unwrap(), quota);
        let endless = text.replace("1000", "0");
        assert!(serde_json::from_str::<Quota>(&endless).is_err());
    }
}

//! Tidegate, embedded.

mod limiter;

pub use limiter::{Builder, Checked, Limiter, RequestError};
pub use tidegate_core as core;
pub use tidegate_core::{
    Algorithm, Decision, Facet, Fields, Identifier, Quota, Request, Retry, Rule, RuleSet, RuleSetParts, Span,
    Status, Timestamp, Verdict,
};
#[cfg(feature = "documents")]
pub use tidegate_rules as documents;
pub use tidegate_store as store;
pub use tidegate_store::{Clock, ManualClock, SystemClock};

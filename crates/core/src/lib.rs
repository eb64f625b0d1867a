//! The pure flow of a rate limit decision.
//!
//! ```text
//! request → identity → rules → takes → (store) → verdicts → decision
//! ```
//!
//! Data goes one way. Nothing in this crate does I/O, reads a clock, waits, or rolls dice: time and secrets are
//! arguments. The one arrow that is not here is the store, which runs the [`algorithm`]s of this crate (in memory)
//! or a second implementation of them (in Redis) on the [`Take`]s of a request.

pub mod algorithm;
pub mod cost;
pub mod decision;
pub mod demand;
pub mod descriptor;
pub mod header_names;
pub mod identity;
pub mod key;
mod matcher;
pub mod mode;
mod overrides;
pub mod path;
pub mod pattern;
pub mod plan;
pub mod quota;
pub mod request;
pub mod rule;
pub mod ruleset;
pub mod take;
pub mod tier;
pub mod time;
pub mod verdict;

pub use cost::{Charge, Cost};
pub use decision::{Decision, Delay, RuleVerdict, Status};
pub use demand::Demand;
pub use descriptor::{Descriptor, DescriptorDecision, DescriptorDemand};
pub use header_names::HeaderNames;
pub use identity::{Facet, Identifier, Identity};
pub use key::{Key, RequestId, Secret, Tag};
pub use mode::Mode;
pub use path::Path;
pub use quota::{Algorithm, Quota};
pub use request::{Fields, Request};
pub use rule::{Condition, Rule};
pub use ruleset::{RuleSet, RuleSetParts};
pub use take::{Action, Group, HoldId, Operation, Take};
pub use time::{Span, Timestamp};
pub use verdict::{Retry, Verdict};

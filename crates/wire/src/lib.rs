//! What Tidegate says and hears, as JSON bodies and HTTP headers.
//!
//! Everything here is a translation between the core's words and those of a protocol; nothing here decides.

pub mod check;
pub mod error;
pub mod explain;
#[cfg(feature = "grpc")]
pub mod grpc;
pub mod headers;
pub mod refusal;

pub use check::{CheckBody, DecisionBody};
pub use error::ErrorBody;
pub use explain::ExplanationBody;
pub use headers::HeaderStyle;
pub use refusal::RefusalBody;

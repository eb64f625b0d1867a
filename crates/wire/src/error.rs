//! The answer to a request that cannot be understood.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::Serialize;

/// What was wrong with a request; nothing was consumed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ErrorBody {
    /// A short name for the kind of mistake.
    pub error: Cow<'static, str>,
    /// What is wrong and what to do about it.
    pub message: String,
    /// The field it is about, if it is about one.
    pub field: Option<String>,
}

impl ErrorBody {
    /// A request that is wrong as a whole.
    pub fn new(error: &'static str, message: impl Into<String>) -> Self {
        Self { error: error.into(), message: message.into(), field: None }
    }

    /// A request that is wrong in one field.
    pub fn field(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { error: "invalid_request".into(), message: message.into(), field: Some(field.into()) }
    }
}

//! What requests cost, and what their answers change about that.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;

use super::{Duration, OneOrMany};

/// How much of a rule's quota a request takes.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(inline)]
pub enum Cost {
    /// Always so much.
    Fixed(#[schemars(range(min = 1, max = 1_000_000_000))] u64),
    /// What the request says.
    Said(CostSaid),
}

/// Where a request says how much it takes: in a header, or by the length of its body.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend(
    "oneOf" = [{"required": ["header"]}, {"required": ["body"], "not": {"required": ["default"]}}]
))]
pub struct CostSaid {
    /// The header that says how much, at least 1. Only name one that clients gain nothing by setting low.
    pub header: Option<String>,
    /// What a request takes whose header is missing or no number. Default 1.
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub default: Option<u64>,
    /// One for each so many bytes of the body that are begun, and one for none. Instead of `header`.
    #[schemars(range(min = 1))]
    pub body: Option<u64>,
    /// What is more counts as this, and so does a body whose length is not known beforehand. Default 1000.
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub max: Option<u64>,
}

/// Has the answer say what the request takes; what it costs otherwise is held until then. Needs a `header`, `statuses`, or
/// both.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("anyOf" = [{"required": ["header"]}, {"required": ["statuses"]}]))]
pub struct Charge {
    /// The header of the answer that says how much; without it, or if it is no number, it is what was held.
    pub header: Option<String>,
    /// Answers with any other status cost nothing: numbers, classes such as `4xx` and ranges such as `400-499`, one or a
    /// list. Without it: all are charged.
    pub statuses: Option<OneOrMany<Status>>,
    /// How long the answer may take, 1s to 1h; after that, what was held is given back. Default 60s.
    pub within: Option<Duration>,
}

/// One status, or several in a row.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum Status {
    /// One.
    One(u16),
    /// A class or a range.
    Many(String),
}

impl JsonSchema for Status {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Status".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let pattern = "^[1-5]([xX]{2}|[0-9]{2}(-[1-5][0-9]{2})?)$";
        json_schema!({"anyOf": [
            {"type": "integer", "minimum": 100, "maximum": 599},
            {"type": "string", "pattern": pattern, "examples": ["5xx"]}
        ]})
    }
}

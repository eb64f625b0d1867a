//! Multipliers in documents.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};
use tidegate_core::plan::Multiplier;

/// What base limits are multiplied by.
#[derive(Clone, Copy, Debug)]
pub struct Times(pub Multiplier);

impl Serialize for Times {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let thousandths = self.0.thousandths();
        if thousandths.is_multiple_of(1_000) {
            return serializer.serialize_u32(thousandths / 1_000);
        }
        // Written with as few digits as it takes, which are the three that were read.
        serializer.serialize_f64(f64::from(thousandths) / 1_000.0)
    }
}

impl JsonSchema for Times {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Times".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "number", "minimum": 0, "maximum": 1_000_000})
    }
}

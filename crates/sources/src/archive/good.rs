//! What was last good as JSON, where a source has no better place for it.

use serde::{Deserialize, Serialize};

use crate::GoodText;

#[derive(Debug, Serialize, Deserialize)]
struct Good {
    /// Left out where the place of it says it.
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<u64>,
    text: String,
}

/// Writes it; `version` if nothing else will tell it.
pub(crate) fn write(text: &str, version: Option<u64>) -> String {
    // Nothing in it cannot be written.
    serde_json::to_string(&Good { version, text: text.to_owned() }).unwrap_or_default()
}

/// Reads it; `version` is what the place of it says. Nothing if it is none: anybody can write there.
pub(crate) fn read(bytes: &[u8], version: u64) -> Option<GoodText> {
    let good: Good = serde_json::from_slice(bytes).ok()?;
    Some(GoodText { version: good.version.unwrap_or(version), text: good.text })
}

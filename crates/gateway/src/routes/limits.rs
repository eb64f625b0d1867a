//! How large documents of routes may get while they are read.

use serde_saphyr::Error;
use serde_saphyr::budget::BudgetBreach;
use serde_saphyr::options::{DuplicateKeyPolicy, Options};

use super::document::MAX_DOCUMENT_BYTES;

const MAX_VALUES: usize = 500_000;
const MAX_DEPTH: usize = 32;
const MAX_ANCHORS: usize = 1_000;
const MAX_ALIASES: usize = 10_000;
const MAX_REPLAY_DEPTH: usize = 8;

/// Limits for one document. Those on aliases grow with its size: ten thousand routes may share what they have in
/// common, and a short text cannot stand for a long one.
pub(super) struct Limits {
    /// Bytes of all texts, with those that aliases stand for.
    text_bytes: usize,
    /// Values that aliases stand for.
    aliased: usize,
    /// Bytes and values that are kept because aliases may stand for them.
    kept_bytes: usize,
    kept: usize,
}

impl Limits {
    /// Returns the limits for a document of `bytes`.
    pub(super) fn of(bytes: usize) -> Self {
        Self {
            text_bytes: (8 * bytes + 64 * 1024).min(4 * MAX_DOCUMENT_BYTES),
            aliased: (bytes / 4 + 10_000).min(200_000),
            kept_bytes: 2 * bytes + 64 * 1024,
            kept: (bytes / 2 + 10_000).min(200_000),
        }
    }

    /// Returns how the reader keeps within them.
    pub(super) fn options(&self) -> Options {
        serde_saphyr::options! {
            budget: serde_saphyr::budget! {
                max_events: 2 * MAX_VALUES,
                max_nodes: MAX_VALUES,
                max_depth: MAX_DEPTH,
                max_documents: 1,
                max_anchors: MAX_ANCHORS,
                max_aliases: MAX_ALIASES,
                max_recorded_anchor_events: self.kept,
                max_recorded_anchor_bytes: self.kept_bytes,
                max_merge_keys: 10_000,
                max_total_scalar_bytes: self.text_bytes,
                // Many routes may share one anchor: what aliases stand for is bounded instead.
                enforce_alias_anchor_ratio: false,
            },
            alias_limits: serde_saphyr::alias_limits! {
                max_total_replayed_events: self.aliased,
                max_replay_stack_depth: MAX_REPLAY_DEPTH,
            },
            duplicate_keys: DuplicateKeyPolicy::Error,
            with_snippet: false,
        }
    }

    /// Returns which limit an error is about, and the way out; `None` if it is about none.
    pub(super) fn explain(&self, error: &Error) -> Option<String> {
        const SPLIT: &str = "split the document into several";
        let breach = match error {
            Error::AliasError { error, .. } => return self.explain(error),
            Error::AliasReplayLimitExceeded { .. } => {
                let aliased = self.aliased;
                return Some(format!(
                    "aliases stand for more than {aliased} values; use fewer of them, or {SPLIT}"
                ));
            }
            Error::AliasReplayStackDepthExceeded { .. } => {
                return Some(format!(
                    "aliases lead to aliases more than {MAX_REPLAY_DEPTH} deep; write the values out"
                ));
            }
            Error::Budget { breach, .. } => breach,
            _ => return None,
        };
        Some(match breach {
            BudgetBreach::ScalarBytes { .. } => format!(
                "all texts, with those that aliases stand for, have more than {} bytes; use fewer aliases, or {SPLIT}",
                self.text_bytes
            ),
            BudgetBreach::RecordedAnchorEvents { .. } => {
                format!("anchors hold more than {} values; use fewer of them, or {SPLIT}", self.kept)
            }
            BudgetBreach::RecordedAnchorBytes { .. } => {
                format!("anchors hold more than {} bytes; use fewer of them, or {SPLIT}", self.kept_bytes)
            }
            BudgetBreach::Nodes { .. } | BudgetBreach::Events { .. } => {
                format!("more than {MAX_VALUES} values, with those that aliases stand for; {SPLIT}")
            }
            BudgetBreach::Aliases { .. } => {
                format!("more than {MAX_ALIASES} aliases; use fewer of them, or {SPLIT}")
            }
            BudgetBreach::Anchors { .. } => {
                format!("more than {MAX_ANCHORS} anchors; use fewer of them, or {SPLIT}")
            }
            BudgetBreach::Depth { .. } => format!("nested more than {MAX_DEPTH} levels deep; flatten it"),
            BudgetBreach::Documents { .. } => {
                "there is more than one document; remove the lines `---`".to_owned()
            }
            breach => format!("too much for one document ({breach:?}); {SPLIT}"),
        })
    }
}

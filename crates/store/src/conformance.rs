//! The suite every store runs.

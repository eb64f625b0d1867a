//! One file per target.

pub(crate) mod access_logs;
pub(crate) mod cluster_packets;
pub(crate) mod rate_limit_messages;
pub(crate) mod redis_replies;
pub(crate) mod request_heads;
pub(crate) mod rule_documents;

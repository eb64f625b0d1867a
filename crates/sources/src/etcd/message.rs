//! The messages of etcd's API v3 that reading and changing keys take, with only the fields that are used.

use prost::{Message, Oneof};

/// How many keys to ask for at once.
const PAGE: i64 = 1000;

#[derive(Clone, PartialEq, Message)]
pub(super) struct Header {
    #[prost(int64, tag = "3")]
    pub(super) revision: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct KeyValue {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) key: Vec<u8>,
    #[prost(int64, tag = "3")]
    pub(super) mod_revision: i64,
    #[prost(bytes = "vec", tag = "5")]
    pub(super) value: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct AuthenticateRequest {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) password: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct AuthenticateResponse {
    #[prost(string, tag = "2")]
    pub(super) token: String,
}

/// Asks for the keys from `key` up to, not including, `range_end`; for one key if that is empty.
#[derive(Clone, PartialEq, Message)]
pub(super) struct RangeRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) range_end: Vec<u8>,
    #[prost(int64, tag = "3")]
    pub(super) limit: i64,
    /// 0: the latest.
    #[prost(int64, tag = "4")]
    pub(super) revision: i64,
    #[prost(bool, tag = "8")]
    pub(super) keys_only: bool,
}

impl RangeRequest {
    /// The first of all keys that begin with `folder`, which ends with a slash.
    pub(super) fn of_all(folder: &str, revision: i64) -> Self {
        let (key, range_end) = (folder.as_bytes().to_vec(), end_of(folder));
        Self { key, range_end, limit: PAGE, revision, keys_only: false }
    }

    /// What comes after an answer that does not have all.
    pub(super) fn after(self, answer: &RangeResponse) -> Option<Self> {
        let last = answer.kvs.last().filter(|_| answer.more)?;
        Some(Self { key: [&*last.key, &[0]].concat(), ..self })
    }
}

/// The first key after all that begin with `folder`, which ends with a slash.
pub(super) fn end_of(folder: &str) -> Vec<u8> {
    let mut end = folder.as_bytes().to_vec();
    if let Some(slash) = end.last_mut() {
        *slash += 1;
    }
    end
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct RangeResponse {
    #[prost(message, optional, tag = "1")]
    pub(super) header: Option<Header>,
    #[prost(message, repeated, tag = "2")]
    pub(super) kvs: Vec<KeyValue>,
    #[prost(bool, tag = "3")]
    pub(super) more: bool,
    /// How many keys there are in the range, whatever the limit.
    #[prost(int64, tag = "4")]
    pub(super) count: i64,
}

/// Does all of `success` if all of `compare` holds, else nothing.
#[derive(Clone, PartialEq, Message)]
pub(super) struct TxnRequest {
    #[prost(message, repeated, tag = "1")]
    pub(super) compare: Vec<Compare>,
    #[prost(message, repeated, tag = "2")]
    pub(super) success: Vec<Op>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TxnResponse {
    #[prost(message, optional, tag = "1")]
    pub(super) header: Option<Header>,
    #[prost(bool, tag = "2")]
    pub(super) succeeded: bool,
}

/// That a key was last changed at a revision; 0 if it is not to be there.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Compare {
    #[prost(int32, tag = "2")]
    target: i32,
    #[prost(bytes = "vec", tag = "3")]
    key: Vec<u8>,
    #[prost(int64, optional, tag = "6")]
    mod_revision: Option<i64>,
}

impl Compare {
    pub(super) fn changed_at(key: &str, revision: i64) -> Self {
        // Of what can be compared, the revision of the last change is number 2.
        Self { target: 2, key: key.into(), mod_revision: Some(revision) }
    }
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Op {
    #[prost(oneof = "Doing", tags = "2, 3")]
    doing: Option<Doing>,
}

#[derive(Clone, PartialEq, Oneof)]
enum Doing {
    #[prost(message, tag = "2")]
    Put(PutRequest),
    #[prost(message, tag = "3")]
    Delete(DeleteRequest),
}

impl Op {
    pub(super) fn put(key: &str, value: String) -> Self {
        Self { doing: Some(Doing::Put(PutRequest { key: key.into(), value: value.into() })) }
    }

    pub(super) fn delete(key: &str) -> Self {
        Self { doing: Some(Doing::Delete(DeleteRequest { key: key.into(), range_end: Vec::new() })) }
    }

    /// Deletes the keys from `key` up to, not including, `range_end`.
    pub(super) fn delete_range(key: Vec<u8>, range_end: Vec<u8>) -> Self {
        Self { doing: Some(Doing::Delete(DeleteRequest { key, range_end })) }
    }
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct PutRequest {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct DeleteRequest {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    range_end: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct WatchRequest {
    #[prost(oneof = "Ask", tags = "1, 3")]
    pub(super) ask: Option<Ask>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum Ask {
    #[prost(message, tag = "1")]
    Create(WatchCreate),
    /// To be told how far the watch is, by a message without events.
    #[prost(message, tag = "3")]
    Progress(WatchProgress),
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct WatchCreate {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) range_end: Vec<u8>,
    #[prost(int64, tag = "3")]
    pub(super) start_revision: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct WatchProgress {}

#[derive(Clone, PartialEq, Message)]
pub(super) struct WatchResponse {
    #[prost(bool, tag = "3")]
    pub(super) created: bool,
    #[prost(bool, tag = "4")]
    pub(super) canceled: bool,
    /// Not 0: canceled because what happened before this revision is forgotten.
    #[prost(int64, tag = "5")]
    pub(super) compact_revision: i64,
    #[prost(string, tag = "6")]
    pub(super) cancel_reason: String,
    #[prost(message, repeated, tag = "11")]
    pub(super) events: Vec<Change>,
}

/// One key's change.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Change {
    /// 0: put; 1: deleted.
    #[prost(int32, tag = "1")]
    pub(super) kind: i32,
    #[prost(message, optional, tag = "2")]
    pub(super) kv: Option<KeyValue>,
}

impl Change {
    pub(super) fn is_put(&self) -> bool {
        self.kind == 0
    }
}

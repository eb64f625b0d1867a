//! What a request asks of the store.

use smallvec::SmallVec;

use crate::key::{Key, RequestId};
use crate::quota::Quota;

/// One rule's demand for one request.
#[derive(Clone, Copy, Debug)]
pub struct Take<'r> {
    /// The counter to take from.
    pub key: Key<'r>,
    /// How much that counter allows, and which version of the rules says so.
    pub quota: Quota,
    /// How much to take; 0 only looks.
    pub cost: u64,
    /// The request's id, if its caller is trusted to give one.
    pub request_id: Option<RequestId>,
    /// Whether this take may be refused without holding up the others.
    pub shadow: bool,
}

/// The takes of one request, in the order of their rules: all or nothing.
pub type Takes<'r> = SmallVec<[Take<'r>; 4]>;

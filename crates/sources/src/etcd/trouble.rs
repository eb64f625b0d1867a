//! What etcd says when something goes wrong, and what to do about it.

use std::error::Error;

pub(super) use crate::trouble::Trouble;

impl Trouble {
    /// An error of the server at `address`, which was asked for keys that begin with `prefix`.
    pub(super) fn of(address: &str, prefix: &str, error: &dyn Error) -> Self {
        Self::said(address, prefix, &chain(error))
    }

    /// The same by its text, in which etcd's own words are the only thing to go by.
    pub(super) fn said(address: &str, prefix: &str, text: &str) -> Self {
        let has = |words: &str| text.contains(words);
        if has("authentication failed") {
            Self::refused(format!("etcd at {address} refuses user and password; correct them in the URL"))
        } else if has("user name is empty") {
            Self::refused(format!(
                "etcd at {address} wants to know who asks; write user:password@ before the host in the URL"
            ))
        } else if has("authentication is not enabled") {
            Self::refused(format!(
                "etcd at {address} knows no users; leave user and password out of the URL, or enable authentication"
            ))
        } else if has("permission denied") {
            Self::refused(format!(
                "etcd at {address} does not let this user read {prefix}, or not change it; \
                 etcdctl role grant-permission ROLE read {prefix} --prefix=true (readwrite for who changes rules)"
            ))
        } else if has("too many operations") || has("request is too large") {
            Self::refused(format!(
                "etcd at {address} does not take that much in one step ({text}); change fewer or shorter rules at once"
            ))
        } else if has("message length too large") {
            super::keys::too_large(prefix)
        } else {
            Self::away(format!(
                "cannot reach the rules in etcd at {address}: {text}; see that it runs there and answers"
            ))
        }
    }
}

/// An error and what caused it: the reason is often the last of them.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let words = error.to_string();
        if !text.contains(&words) {
            text = format!("{text}: {words}");
        }
        cause = error.source();
    }
    text
}

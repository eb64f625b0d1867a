//! What every recipe must do.

mod away;
mod identity;
mod limits;
mod unreadable;

use crate::ask::Answer;
use crate::stand::Stand;

pub(crate) use self::{away::*, identity::*, limits::*, unreadable::*};

/// Takes all there is for this machine.
async fn use_up(stand: &Stand, path: &str) {
    for _ in 0..3 {
        let answer = stand.get(path).await;
        assert_eq!(
            (answer.status, answer.header("x-ratelimit-limit")),
            (200, Some("3")),
            "{path}: {answer:?}"
        );
    }
}

fn refused(answer: &Answer) {
    assert_eq!(answer.status, 429, "{answer:?}");
    assert_eq!(answer.json()["error"], "rate_limit_exceeded");
}

fn unavailable(answer: &Answer) {
    assert_eq!((answer.status, answer.header("retry-after")), (503, Some("1")), "{answer:?}");
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!(answer.json()["error"], "unavailable");
    assert_eq!(answer.figures(), [None; 3]);
}

fn borrowed(headers: &[(String, String)]) -> Vec<(&str, &str)> {
    headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
}

//! Looking without waiting.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

/// What `future` comes to if it need not wait.
pub(crate) async fn now_or_never<F: Future>(future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

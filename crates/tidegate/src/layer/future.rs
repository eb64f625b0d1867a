//! What a limited service comes to.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::request::Parts;
use http::{HeaderMap, Request, Response};
use pin_project_lite::pin_project;
use tower::Service;

use crate::held::Held;
use crate::limiter::Limiter;

/// The headers for an allowed request's response and the slots that it holds, or the whole response to one that is not.
pub(super) type Answer = Result<(HeaderMap, Option<Slots>), Box<Response<String>>>;

/// Slots of rules that limit requests in flight, given back when this is dropped.
pub(super) struct Slots {
    limiter: Arc<Limiter>,
    held: Option<Held>,
}

impl Slots {
    pub(super) fn new(limiter: Arc<Limiter>, held: Held) -> Self {
        Self { limiter, held: Some(held) }
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        if let Some(held) = self.held.take() {
            // Such rules count in memory; what has expired is back already.
            self.limiter.try_settle(&held.unanswered()).ok();
        }
    }
}

/// The answer once it is there, with the request but for its body.
pub(super) type Checking = Pin<Box<dyn Future<Output = (Answer, Parts)> + Send>>;

pin_project! {
    /// The response of a limited service.
    pub struct LimitedFuture<S, B, F, R> {
        #[pin]
        state: State<S, B, F, R>,
    }
}

pin_project! {
    #[project = Projected]
    enum State<S, B, F, R> {
        Checking { check: Checking, next: Option<(S, B)> },
        Forwarded { #[pin] response: F, headers: HeaderMap, slots: Option<Slots> },
        Refused { response: Option<Response<R>> },
    }
}

impl<S, B, R> LimitedFuture<S, B, S::Future, R>
where
    S: Service<Request<B>, Response = Response<R>>,
    R: From<String>,
{
    /// Waits for `check` before it calls `service` with `body`.
    pub(super) fn checking(check: Checking, service: S, body: B) -> Self {
        Self { state: State::Checking { check, next: Some((service, body)) } }
    }

    /// Calls `service` with `request` if the answer is yes.
    pub(super) fn decided(answer: Answer, service: &mut S, request: Request<B>) -> Self {
        Self { state: State::decided(answer, service, request) }
    }
}

impl<S, B, R> State<S, B, S::Future, R>
where
    S: Service<Request<B>, Response = Response<R>>,
    R: From<String>,
{
    fn decided(answer: Answer, service: &mut S, request: Request<B>) -> Self {
        match answer {
            Ok((headers, slots)) => Self::Forwarded { response: service.call(request), headers, slots },
            Err(refusal) => Self::Refused { response: Some(refusal.map(R::from)) },
        }
    }
}

impl<S, B, R> Future for LimitedFuture<S, B, S::Future, R>
where
    S: Service<Request<B>, Response = Response<R>>,
    R: From<String>,
{
    type Output = Result<Response<R>, S::Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.project().state;
        loop {
            let decided = match state.as_mut().project() {
                Projected::Checking { check, next } => {
                    let (answer, parts) = ready!(check.as_mut().poll(context));
                    next.take().map(|(mut service, body)| {
                        State::decided(answer, &mut service, Request::from_parts(parts, body))
                    })
                }
                Projected::Forwarded { response, headers, slots } => {
                    let responded = ready!(response.poll(context));
                    drop(slots.take());
                    return Poll::Ready(responded.map(|mut response| {
                        response.headers_mut().extend(std::mem::take(headers));
                        response
                    }));
                }
                Projected::Refused { response } => match response.take() {
                    Some(response) => return Poll::Ready(Ok(response)),
                    None => None,
                },
            };
            match decided {
                Some(decided) => state.set(decided),
                // Polled again after it was ready, which futures are not.
                None => return Poll::Pending,
            }
        }
    }
}

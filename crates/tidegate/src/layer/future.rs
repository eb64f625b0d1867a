//! What a limited service comes to.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::request::Parts;
use http::{HeaderMap, Request, Response};
use pin_project_lite::pin_project;
use tower::Service;

/// The headers for an allowed request's response, or the whole response to one that is not.
pub(super) type Answer = Result<HeaderMap, Box<Response<String>>>;

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
        Forwarded { #[pin] response: F, headers: HeaderMap },
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
            Ok(headers) => Self::Forwarded { response: service.call(request), headers },
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
                Projected::Forwarded { response, headers } => {
                    return response.poll(context).map_ok(|mut response| {
                        response.headers_mut().extend(std::mem::take(headers));
                        response
                    });
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

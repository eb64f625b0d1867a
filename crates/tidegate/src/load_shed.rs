//! A tower [`Layer`] that sheds requests which a service has no room for.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Instant;

use http::header::RETRY_AFTER;
use http::{HeaderValue, Request, Response, StatusCode};
use pin_project_lite::pin_project;
use tidegate_overload::{InFlightLimiter, Permit, Share};
use tidegate_wire::ErrorBody;
use tower::{Layer, Service};

use crate::layer::{Head, json};

/// Greatest number of seconds after which a client that was shed is asked to retry.
const MAX_RETRY_AFTER: u64 = 3;

/// Sheds requests beyond a limit on those in flight: they are answered with 503 and `Retry-After` without touching the service.
///
/// `share` says which part of the limit a request may fill, as a rule by its tier. A request is in flight until the service has
/// responded; what it streams afterwards does not count. The service's response body must be made from a `String`, as axum's is.
///
/// Put it outside a [`RateLimitLayer`](crate::RateLimitLayer), so that what is shed is not counted.
///
/// ```
/// use std::time::Instant;
/// use tidegate::LoadShedLayer;
/// use tidegate::overload::{Headroom, InFlightLimiter, LimitBounds};
///
/// let limiter = InFlightLimiter::adaptive(LimitBounds::default(), Instant::now());
/// let headroom = Headroom::default();
/// let layer = LoadShedLayer::new(limiter, move |head| headroom.class(head.header("x-plan")).share);
/// # let _: LoadShedLayer<_> = layer;
/// ```
#[derive(Clone, Debug)]
pub struct LoadShedLayer<F> {
    shared: Arc<Shared<F>>,
}

#[derive(Debug)]
struct Shared<F> {
    limiter: Arc<InFlightLimiter>,
    share: F,
    shed: AtomicU64,
}

impl<F: for<'a> Fn(Head<'a>) -> Share> LoadShedLayer<F> {
    /// Sheds by `limiter`, of which requests may fill the part that `share` returns.
    pub fn new(limiter: Arc<InFlightLimiter>, share: F) -> Self {
        Self { shared: Arc::new(Shared { limiter, share, shed: AtomicU64::new(0) }) }
    }
}

impl<S, F> Layer<S> for LoadShedLayer<F> {
    type Service = LoadShed<S, F>;

    fn layer(&self, inner: S) -> LoadShed<S, F> {
        LoadShed { inner, shared: Arc::clone(&self.shared) }
    }
}

/// A service behind a [`LoadShedLayer`].
#[derive(Debug)]
pub struct LoadShed<S, F> {
    inner: S,
    shared: Arc<Shared<F>>,
}

impl<S: Clone, F> Clone for LoadShed<S, F> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), shared: Arc::clone(&self.shared) }
    }
}

impl<S, F, B, R> Service<Request<B>> for LoadShed<S, F>
where
    S: Service<Request<B>, Response = Response<R>>,
    F: for<'a> Fn(Head<'a>) -> Share,
    R: From<String>,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = LoadShedFuture<S::Future, R>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let Shared { limiter, share, shed } = &*self.shared;
        let state = match limiter.acquire(share(Head::of(&request)), Instant::now()) {
            Ok(permit) => State::Admitted { response: self.inner.call(request), permit: InFlight(permit) },
            Err(_) => {
                // Spread, so that clients do not come back together.
                let retry_after = 1 + shed.fetch_add(1, Ordering::Relaxed) % MAX_RETRY_AFTER;
                State::Shed { response: Some(overloaded(retry_after).map(R::from)) }
            }
        };
        LoadShedFuture { state }
    }
}

fn overloaded(retry_after: u64) -> Response<String> {
    let message = "the service has as many requests in flight as it can serve; retry later";
    let mut response = *json(StatusCode::SERVICE_UNAVAILABLE, &ErrorBody::new("overloaded", message));
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(retry_after));
    response
}

/// A permit whose request may be given up.
#[derive(Debug)]
struct InFlight(Permit);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.abandoned(Instant::now());
    }
}

pin_project! {
    /// The response of a service that may shed requests.
    pub struct LoadShedFuture<F, R> {
        #[pin]
        state: State<F, R>,
    }
}

pin_project! {
    #[project = Projected]
    enum State<F, R> {
        Admitted { #[pin] response: F, permit: InFlight },
        Shed { response: Option<Response<R>> },
    }
}

impl<F, E, R> Future for LoadShedFuture<F, R>
where
    F: Future<Output = Result<Response<R>, E>>,
{
    type Output = Result<Response<R>, E>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().state.project() {
            Projected::Admitted { response, permit } => {
                let response = ready!(response.poll(context));
                permit.0.responded(Instant::now());
                Poll::Ready(response)
            }
            // Polled again after it was ready, which futures are not.
            Projected::Shed { response } => {
                response.take().map_or(Poll::Pending, |response| Poll::Ready(Ok(response)))
            }
        }
    }
}

//! A tower [`Layer`] that limits an HTTP service.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::header::CONTENT_TYPE;
use http::{Extensions, HeaderMap, HeaderValue, Method, Response, StatusCode, Uri};
use pin_project_lite::pin_project;
use tidegate_core::{Request, Status};
use tidegate_wire::{ErrorBody, HeaderStyle, RefusalBody, headers};
use tower::{Layer, Service};

use crate::limiter::{Checked, Limiter};

/// What an extractor sees of a request: everything but the body.
#[derive(Clone, Copy, Debug)]
pub struct Head<'a> {
    /// The method.
    pub method: &'a Method,
    /// What is asked for.
    pub uri: &'a Uri,
    /// The headers.
    pub headers: &'a HeaderMap,
    /// What layers before this one have found out, such as the client's address or who is signed in.
    pub extensions: &'a Extensions,
}

impl<'a> Head<'a> {
    /// The facts every request has: method, path, headers. An extractor adds who asks.
    pub fn request(&self) -> Request<'a> {
        Request { method: Some(self.method.as_str()), headers: self.headers, ..Request::new(self.uri.path()) }
    }

    /// A header's value, if it is there, not empty, and text.
    pub fn header(&self, name: &str) -> Option<&'a str> {
        self.headers.get(name)?.to_str().ok().filter(|value| !value.is_empty())
    }
}

/// Limits an HTTP service: allowed requests go on, with the rate limit headers on their responses; refused ones are
/// answered with 429 (503 if the limits could not be checked) without touching the service.
///
/// Who asks is for the extractor to say. **It decides whom to believe**: a header that any client can set is no
/// identity. The service's response body must be made from a `String`, as axum's is.
///
/// ```
/// use std::sync::Arc;
/// use tidegate::{Facet, Limiter, Quota, Algorithm, RateLimitLayer, Request, Rule, RuleSet, RuleSetParts, Span};
///
/// let per_user = Rule::new("per_user", Facet::User, Quota::new(Algorithm::SlidingWindow, 100, Span::from_secs(60))?);
/// let rules = RuleSet::new(RuleSetParts { rules: vec![per_user], ..RuleSetParts::default() })?;
/// let limiter = Arc::new(Limiter::new(rules)?);
/// let layer = RateLimitLayer::new(limiter, |head| Request { user: head.header("x-user-id"), ..head.request() });
/// # let _: RateLimitLayer<_> = layer;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct RateLimitLayer<E> {
    shared: Arc<Shared<E>>,
}

#[derive(Debug)]
struct Shared<E> {
    limiter: Arc<Limiter>,
    extract: E,
    styles: Vec<HeaderStyle>,
    documentation_url: Option<String>,
}

impl<E: for<'a> Fn(Head<'a>) -> Request<'a>> RateLimitLayer<E> {
    /// Limits by `limiter`; `extract` says who asks.
    pub fn new(limiter: Arc<Limiter>, extract: E) -> Self {
        let shared =
            Shared { limiter, extract, styles: vec![HeaderStyle::XRateLimit], documentation_url: None };
        Self { shared: Arc::new(shared) }
    }
}

impl<E> RateLimitLayer<E> {
    /// Sends these families of headers.
    #[must_use]
    pub fn headers(self, styles: impl Into<Vec<HeaderStyle>>) -> Self {
        self.change(|shared| Shared { styles: styles.into(), ..shared })
    }

    /// Tells refused clients where the limits are explained.
    #[must_use]
    pub fn documentation_url(self, url: impl Into<String>) -> Self {
        self.change(|shared| Shared { documentation_url: Some(url.into()), ..shared })
    }

    /// Changes a layer that is still being built, and so not shared yet.
    fn change(self, change: impl FnOnce(Shared<E>) -> Shared<E>) -> Self {
        match Arc::try_unwrap(self.shared) {
            Ok(shared) => Self { shared: Arc::new(change(shared)) },
            Err(shared) => Self { shared },
        }
    }
}

impl<S, E> Layer<S> for RateLimitLayer<E> {
    type Service = RateLimited<S, E>;

    fn layer(&self, inner: S) -> RateLimited<S, E> {
        RateLimited { inner, shared: Arc::clone(&self.shared) }
    }
}

/// A service behind a [`RateLimitLayer`].
#[derive(Debug)]
pub struct RateLimited<S, E> {
    inner: S,
    shared: Arc<Shared<E>>,
}

impl<S: Clone, E> Clone for RateLimited<S, E> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), shared: Arc::clone(&self.shared) }
    }
}

impl<S, E, B, R> Service<http::Request<B>> for RateLimited<S, E>
where
    S: Service<http::Request<B>, Response = Response<R>>,
    E: for<'a> Fn(Head<'a>) -> Request<'a>,
    R: From<String>,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = LimitedFuture<S::Future, R>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        let state = match self.shared.decide(&request) {
            Ok(headers) => State::Forwarded { response: self.inner.call(request), headers },
            Err(refusal) => State::Refused { response: Some(refusal.map(R::from)) },
        };
        LimitedFuture { state }
    }
}

impl<E: for<'a> Fn(Head<'a>) -> Request<'a>> Shared<E> {
    /// The headers for an allowed request's response, or the whole response to one that is not.
    fn decide<B>(&self, request: &http::Request<B>) -> Result<HeaderMap, Box<Response<String>>> {
        let head = Head {
            method: request.method(),
            uri: request.uri(),
            headers: request.headers(),
            extensions: request.extensions(),
        };
        let checked = match self.limiter.try_check(&(self.extract)(head)) {
            Ok(checked) => checked,
            Err(error) => {
                return Err(json(StatusCode::BAD_REQUEST, &ErrorBody::field(error.field, error.message)));
            }
        };
        let mut fields = HeaderMap::new();
        headers::write(&checked, checked.rules(), &self.styles, &mut fields);
        if checked.allowed { Ok(fields) } else { Err(self.refuse(&checked, fields)) }
    }

    fn refuse(&self, checked: &Checked, fields: HeaderMap) -> Box<Response<String>> {
        let status = match checked.status {
            Status::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            Status::Enforced | Status::Local | Status::Disabled => StatusCode::TOO_MANY_REQUESTS,
        };
        let mut response = json(status, &RefusalBody::new(checked, self.documentation_url.as_deref()));
        response.headers_mut().extend(fields);
        response
    }
}

fn json(status: StatusCode, body: &impl serde::Serialize) -> Box<Response<String>> {
    let mut response = Response::new(serde_json::to_string(body).unwrap_or_default());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Box::new(response)
}

pin_project! {
    /// The response of a limited service.
    pub struct LimitedFuture<F, R> {
        #[pin]
        state: State<F, R>,
    }
}

pin_project! {
    #[project = Projected]
    enum State<F, R> {
        Forwarded { #[pin] response: F, headers: HeaderMap },
        Refused { response: Option<Response<R>> },
    }
}

impl<F, R, X> Future for LimitedFuture<F, R>
where
    F: Future<Output = Result<Response<R>, X>>,
{
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        match self.project().state.project() {
            Projected::Forwarded { response, headers } => response.poll(context).map_ok(|mut response| {
                response.headers_mut().extend(std::mem::take(headers));
                response
            }),
            Projected::Refused { response } => match response.take() {
                Some(response) => Poll::Ready(Ok(response)),
                // Polled again after it was ready, which futures are not.
                None => Poll::Pending,
            },
        }
    }
}

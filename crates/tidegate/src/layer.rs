//! A tower [`Layer`] that limits an HTTP service.

mod future;

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use http::header::{CONTENT_TYPE, COOKIE};
use http::request::Parts;
use http::{Extensions, HeaderMap, HeaderValue, Method, Response, StatusCode, Uri};
use tidegate_core::{Request, Status};
use tidegate_wire::{ErrorBody, HeaderStyle, RefusalBody, headers};
use tower::{Layer, Service};

use crate::checked::{Checked, RequestError};
use crate::limiter::Limiter;

pub use future::LimitedFuture;
use future::{Answer, Slots};

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
    pub(crate) fn of<B>(request: &'a http::Request<B>) -> Self {
        Self {
            method: request.method(),
            uri: request.uri(),
            headers: request.headers(),
            extensions: request.extensions(),
        }
    }

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
/// Slots of rules that limit how many requests are [in flight](tidegate_core::Algorithm::InFlight) are given back as soon as the service
/// has responded or its future is dropped; the response's body is no part of that.
///
/// Where rules let requests [wait](tidegate_core::rule::OnLimit::Delay) for their turn, they do, in a Tokio runtime with time
/// enabled; clients that go away leave their place.
///
/// Who asks is for the extractor to say. **It decides whom to believe**: a header that any client can set is no
/// identity. The service's response body must be made from a `String`, as axum's is, and it must be [`Clone`]: a shared
/// store is waited for while the next request comes in.
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
    S: Service<http::Request<B>, Response = Response<R>> + Clone,
    E: for<'a> Fn(Head<'a>) -> Request<'a> + Send + Sync + 'static,
    R: From<String>,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = LimitedFuture<S, B, S::Future, R>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        if let Some(refusal) = self.shared.refuse_headers(request.headers()) {
            let refusal = Err(json(StatusCode::BAD_REQUEST, &refusal));
            return LimitedFuture::decided(refusal, &mut self.inner, request);
        }
        let limiter = &self.shared.limiter;
        if limiter.may_wait() || limiter.may_delay() {
            let (parts, body) = request.into_parts();
            // The one that is ready is the one to call; another takes its place meanwhile.
            let next = self.inner.clone();
            let ready = std::mem::replace(&mut self.inner, next);
            let check = Arc::clone(&self.shared).check(parts, Instant::now());
            return LimitedFuture::checking(Box::pin(check), ready, body);
        }
        let checked = limiter.try_check(&self.shared.extract(&request));
        LimitedFuture::decided(self.shared.answer(checked), &mut self.inner, request)
    }
}

impl<E: for<'a> Fn(Head<'a>) -> Request<'a>> Shared<E> {
    /// Returns the answer to a request whose headers could be read in two ways. Cookies may come in several lines (RFC 9113, 8.2.3).
    fn refuse_headers(&self, headers: &HeaderMap) -> Option<ErrorBody> {
        let several =
            || headers::refuse_ambiguous(headers, self.limiter.in_force().headers(), |name| name != COOKIE);
        headers::refuse_padded(headers).or_else(several)
    }

    async fn check(self: Arc<Self>, parts: Parts, arrived: Instant) -> (Answer, Parts) {
        let Parts { method, uri, headers, extensions, .. } = &parts;
        let request = charged_at_once((self.extract)(Head { method, uri, headers, extensions }));
        // How long it may wait for its turn is for the rules to say.
        let waited = self.limiter.check_or_wait(&request, arrived, Duration::MAX).await;
        (self.answer(waited.map(|waited| waited.checked)), parts)
    }

    fn extract<'a, B>(&self, request: &'a http::Request<B>) -> Request<'a> {
        charged_at_once((self.extract)(Head::of(request)))
    }

    fn answer(&self, checked: Result<Checked, RequestError>) -> Answer {
        let mut checked = checked
            .map_err(|error| json(StatusCode::BAD_REQUEST, &ErrorBody::field(error.field, error.message)))?;
        let mut fields = HeaderMap::new();
        headers::write(&checked, checked.rules(), &self.styles, &mut fields);
        if !checked.allowed {
            return Err(self.refuse(&checked, fields));
        }
        let slots = checked.take_slots().map(|held| Slots::new(Arc::clone(&self.limiter), held));
        Ok((fields, slots))
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

/// Removes the name of a hold: the layer tells no response, and a hold that nobody settles costs nothing in the end. Slots of requests
/// in flight are held nevertheless, and given back.
fn charged_at_once(request: Request<'_>) -> Request<'_> {
    Request { hold: None, ..request }
}

pub(crate) fn json(status: StatusCode, body: &impl serde::Serialize) -> Box<Response<String>> {
    let mut response = Response::new(serde_json::to_string(body).unwrap_or_default());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Box::new(response)
}

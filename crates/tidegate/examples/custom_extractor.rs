//! Who asks, as found out by another layer: `cargo run -p tidegate --features tower --example custom_extractor`.
//!
//! A layer before the limiter authenticates the request and leaves a `Session` in its extensions; the extractor
//! counts by that and by the client's address, and believes no header.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{ConnectInfo, Request as HttpRequest};
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use axum::routing::get;
use tidegate::{
    Algorithm, Facet, Head, Limiter, Quota, RateLimitLayer, Request, Rule, RuleSet, RuleSetParts, Span,
};
use tokio::net::TcpListener;

/// What signing in leaves behind.
#[derive(Clone)]
struct Session {
    user: String,
    tenant: String,
}

async fn authenticate(mut request: HttpRequest, next: Next) -> Response {
    let token = request.headers().get("authorization").and_then(|value| value.to_str().ok());
    if token == Some("Bearer demo") {
        request.extensions_mut().insert(Session { user: "alice".into(), tenant: "acme".into() });
    }
    next.run(request).await
}

fn who_asks<'a>(head: Head<'a>) -> Request<'a> {
    let session = head.extensions.get::<Session>();
    Request {
        user: session.map(|session| session.user.as_str()),
        tenant: session.map(|session| session.tenant.as_str()),
        ip: head.extensions.get::<ConnectInfo<SocketAddr>>().map(|info| info.0.ip()),
        ..head.request()
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let per_user =
        Rule::new("per_user", Facet::User, Quota::new(Algorithm::SlidingLog, 10, Span::from_secs(60))?);
    let per_tenant =
        Rule::new("per_tenant", Facet::Tenant, Quota::token_bucket(100, Span::from_secs(1), 200)?);
    let rules = RuleSet::new(RuleSetParts { rules: vec![per_user, per_tenant], ..RuleSetParts::default() })?;
    let limiter = Arc::new(Limiter::new(rules)?);

    let app = Router::new()
        .route("/", get(async || "hello\n"))
        .layer(RateLimitLayer::new(limiter, who_asks))
        .layer(from_fn(authenticate));
    let listener = TcpListener::bind("127.0.0.1:3000").await?;
    println!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await?;
    Ok(())
}

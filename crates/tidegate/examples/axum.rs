//! An axum service with the layer: `cargo run -p tidegate --features tower --example axum`, then
//! `curl -i -H 'x-user-id: alice' http://127.0.0.1:3000/` a few times.

use std::sync::Arc;

use axum::Router;
use axum::routing::get;
use tidegate::{
    Algorithm, Facet, Limiter, Quota, RateLimitLayer, Request, Rule, RuleSet, RuleSetParts, Span,
};
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let quota = Quota::new(Algorithm::FixedWindow, 5, Span::from_secs(60))?;
    let rules = vec![Rule::new("five_a_minute", Facet::User, quota)];
    let limiter = Arc::new(Limiter::new(RuleSet::new(RuleSetParts { rules, ..RuleSetParts::default() })?)?);

    // In front of a service that anybody can reach, put who is signed in here, not a header anybody can send.
    let layer =
        RateLimitLayer::new(limiter, |head| Request { user: head.header("x-user-id"), ..head.request() });
    let app = Router::new().route("/", get(async || "hello\n")).layer(layer);

    let listener = TcpListener::bind("127.0.0.1:3000").await?;
    println!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, app).await?;
    Ok(())
}

//! A client's way to a back end: a proxy with its recipe, and Tidegate beside it.

use std::net::SocketAddr;
use std::path::PathBuf;

use tidegate_server::{Config, IdentityHeaders, RulesFeed};
use tidegate_testkit::{Backend, ReverseProxy};

use crate::ask::{Answer, ask, get};
use crate::client::{Running, config, start_with};

/// One rule for each way of being somebody. All stand still at the beginning of an hour.
pub(crate) const RULES: &str = "
tiers: {free: {limit: 3, window: 1h, algorithm: fixed_window}, premium: {limit: 1000, window: 1h}}
default_tier: free
rules:
  - {rule_id: orders, identifier_type: ip_address, algorithm: fixed_window, limit: 3, window: 1h,
     match: {path_pattern: /orders/*, methods: [GET]}}
  - {rule_id: uploads, identifier_type: ip_address, algorithm: fixed_window, limit: 1, window: 1h,
     match: {path_pattern: /uploads, methods: [POST]}}
  - {rule_id: user, identifier_type: user_id, algorithm: fixed_window, limit: 3, window: 1h,
     match: {path_pattern: /by-user}}
  - {rule_id: tenant, identifier_type: tenant_id, algorithm: fixed_window, limit: 3, window: 1h,
     match: {path_pattern: /by-tenant}}
  - {rule_id: key, identifier_type: api_key, algorithm: fixed_window, limit: 3, window: 1h,
     match: {path_pattern: /by-key}}
  - {rule_id: tiered, identifier_type: user_id, tiered: true, match: {path_pattern: /by-tier}}
  - {rule_id: planned, identifier_type: tenant_id, tiered: true, match: {path_pattern: /by-plan}}
  - {rule_id: blocked, identifier_type: global, limit: 0, window: 1h, match: {path_pattern: /blocked}}
";

/// Where a proxy finds the others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Upstreams {
    pub(crate) tidegate: SocketAddr,
    pub(crate) backend: SocketAddr,
}

/// A text in a recipe, and what a test puts there.
pub(crate) type Edit<'a> = (&'a str, &'a str);

/// A file of `deploy/`, and the proxy it is for.
pub(crate) struct Recipe {
    pub(crate) start: fn(Upstreams, &[Edit<'_>]) -> ReverseProxy,
    /// What the documentation says to change, for requests to pass while Tidegate is away.
    pub(crate) pass: Edit<'static>,
    /// Has the proxy take `user`, `tenant`, `key`, `tier` and `plan` from the query, which no real one should believe.
    pub(crate) identify: &'static [Edit<'static>],
}

pub(crate) struct Stand {
    pub(crate) tidegate: Running,
    pub(crate) backend: Backend,
    pub(crate) proxy: ReverseProxy,
}

impl Recipe {
    /// Everything, with the recipe as it is.
    pub(crate) async fn stand(&self) -> Stand {
        self.stand_with(&[]).await
    }

    /// Everything, with the recipe changed.
    pub(crate) async fn stand_with(&self, edits: &[Edit<'_>]) -> Stand {
        let tidegate = tidegate(config()).await;
        let backend = Backend::start();
        let upstreams = Upstreams { tidegate: tidegate.addresses.http, backend: backend.address() };
        Stand { tidegate, backend, proxy: (self.start)(upstreams, edits) }
    }
}

impl Stand {
    /// Sends a request to the proxy.
    pub(crate) async fn ask(&self, request: &[u8]) -> Answer {
        ask(self.proxy.address(), request).await
    }

    pub(crate) async fn get(&self, target: &str) -> Answer {
        self.ask(&get(target, &[])).await
    }
}

/// A server that would believe a proxy about tiers and plans, too.
pub(crate) async fn tidegate(config: Config) -> Running {
    let identity_headers = IdentityHeaders {
        tier: Some("x-tier".parse().unwrap()),
        plan: Some("x-plan".parse().unwrap()),
        ..IdentityHeaders::default()
    };
    start_with(Config { identity_headers, ..config }, RulesFeed::fixed("rules.yaml", RULES)).await
}

/// Where a file of `deploy/` is.
pub(crate) fn file(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy")).join(name)
}

/// A file of `deploy/` with everything replaced that `edits` say, all of which must be there.
pub(crate) fn recipe(name: &str, edits: &[&[Edit<'_>]]) -> String {
    let text = std::fs::read_to_string(file(name)).unwrap();
    edits.iter().copied().flatten().fold(text, |text, (from, to)| {
        assert!(text.contains(from), "there is no `{from}` in {name}");
        text.replace(from, to)
    })
}

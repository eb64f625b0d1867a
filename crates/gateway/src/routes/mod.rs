//! Where requests go: routes, as documents write them, to groups of servers.
//!
//! ```yaml
//! upstreams:
//!   api:
//!     servers: [http://10.0.0.1:9000, {url: http://10.0.0.2:9000, weight: 2}]
//!     health: {path: /healthz}
//! routes:
//!   - {host: api.example.com, path: /v1/*, upstream: api}
//!   - {upstream: http://127.0.0.1:9000}
//! ```
//!
//! The route of a request is the one with the narrowest host and, among those, the narrowest path; where a host's
//! routes do not match, those of the next wider host are asked.

mod compile;
mod concurrency;
mod document;
mod feed;
mod group;
mod host;
mod index;
mod limits;
mod path;
mod problem;
mod route;

use std::sync::Arc;

use http::Method;

use crate::upstream::Group;

pub use document::MAX_DOCUMENT_BYTES;
pub use feed::{LiveRoutes, RoutesFeed, RoutesNews};
pub use host::HostPattern;
pub use problem::{Problem, Problems};
pub use route::{HostHeader, Prefix, Route};

/// The most routes there can be.
pub const MAX_ROUTES: usize = 10_000;

/// The most groups there can be, with those that routes name by their URLs.
pub const MAX_GROUPS: usize = 1_000;

/// All routes, ready to be searched. Never changes: others take its place.
#[derive(Debug)]
pub struct Routes {
    /// The narrowest first.
    routes: Vec<Arc<Route>>,
    /// In the order of their names.
    groups: Vec<Arc<Group>>,
    index: index::Index,
}

impl Routes {
    /// Reads one document, called `name` in messages.
    pub fn read(name: &str, text: &str) -> Result<Self, Problems> {
        Self::join(&[(name, text)])
    }

    /// Reads documents (names and texts) that are one together. Reads the files that TLS needs, so it may take a while.
    pub fn join(documents: &[(&str, &str)]) -> Result<Self, Problems> {
        compile::compile(documents)
    }

    /// Everything goes to one group of these servers.
    pub fn single<S: AsRef<str>>(urls: &[S]) -> Result<Self, Problems> {
        compile::single(urls)
    }

    /// The most telling order is found here, so that finding a route is going through it.
    fn new(mut routes: Vec<Route>, groups: Vec<Arc<Group>>) -> Self {
        routes.sort_by(Route::by_width);
        let routes: Vec<_> = routes.into_iter().map(Arc::new).collect();
        let index = index::Index::new(&routes);
        Self { routes, groups, index }
    }

    /// The route of a request; `path` is in normal form ([`tidegate_core::Path`]), `host` may have a port.
    pub fn find(&self, host: Option<&str>, method: &Method, path: &str) -> Option<&Arc<Route>> {
        self.index.find(&self.routes, host, method, path)
    }

    /// These routes, with groups that know what the `old` ones of their names knew.
    #[must_use]
    pub fn carry_over(self, old: &Self) -> Self {
        let known = |group: Arc<Group>| match old.group(group.name()) {
            Some(known) => group.carry_over(known),
            None => group,
        };
        let groups = self.groups.into_iter().map(known).collect();
        // Names and order are the same, and so is the index.
        let mut routes = Self { routes: Vec::new(), groups, index: self.index };
        let regroup = |route: Arc<Route>| match routes.group(route.group().name()) {
            Some(group) => Arc::new(route.with_group(Arc::clone(group))),
            None => route,
        };
        let regrouped = self.routes.into_iter().map(regroup).collect();
        routes.routes = regrouped;
        routes
    }

    /// The group of this name.
    pub fn group(&self, name: &str) -> Option<&Arc<Group>> {
        let place = self.groups.binary_search_by(|group| group.name().cmp(name));
        place.ok().and_then(|place| self.groups.get(place))
    }

    /// All groups, in the order of their names.
    pub fn groups(&self) -> &[Arc<Group>] {
        &self.groups
    }

    /// All routes, the narrowest paths first.
    pub fn routes(&self) -> &[Arc<Route>] {
        &self.routes
    }
}

#[cfg(test)]
mod tests;

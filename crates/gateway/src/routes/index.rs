//! Finding the route of a request: by host, then by the first segment of the path, then one by one.

use std::iter;
use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use http::Method;
use tidegate_core::pattern::Segment;

use super::Route;
use super::host::Hosts;

/// Places in a list of routes whose narrowest come first.
#[derive(Debug, Default)]
pub(super) struct Index {
    hosts: Hosts<Places>,
}

/// The routes of one host, in two ascending lists that are gone through as one.
#[derive(Debug, Default)]
struct Places {
    /// Of patterns that start with a text.
    by_first: HashMap<Box<str>, Vec<usize>, RandomState>,
    /// Of those that do not.
    others: Vec<usize>,
}

impl Index {
    pub(super) fn new(routes: &[Arc<Route>]) -> Self {
        let mut index = Self::default();
        for (place, route) in routes.iter().enumerate() {
            let places = index.hosts.at(route.host());
            match route.path().segments().first() {
                Some(Segment::Literal(text)) => places.by_first.entry(text.clone()).or_default().push(place),
                _ => places.others.push(place),
            }
        }
        for places in index.hosts.values_mut() {
            places.others.shrink_to_fit();
        }
        index
    }

    pub(super) fn find<'a>(
        &self,
        routes: &'a [Arc<Route>],
        host: Option<&str>,
        method: &Method,
        path: &str,
    ) -> Option<&'a Arc<Route>> {
        let rest = path.strip_prefix('/').unwrap_or(path);
        let first = rest.split_once('/').map_or(rest, |(first, _)| first);
        self.hosts.find(host, |places| {
            let mut all = places.of(first).filter_map(|place| routes.get(place));
            all.find(|route| route.accepts(method, path))
        })
    }
}

impl Places {
    /// Those that a path with this first segment may match, ascending.
    fn of<'a>(&'a self, first: &str) -> impl Iterator<Item = usize> + 'a {
        let mut named = self.by_first.get(first).map_or(&[][..], Vec::as_slice).iter().copied().peekable();
        let mut others = self.others.iter().copied().peekable();
        iter::from_fn(move || match (named.peek(), others.peek()) {
            (Some(name), Some(other)) if other < name => others.next(),
            (Some(_), _) => named.next(),
            (None, _) => others.next(),
        })
    }
}

//! Documents as data: what they mean, and what is told about those that mean nothing.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::Method;
use proptest::prelude::*;

use super::*;
use crate::upstream::{Failure, Protocol};

fn routes(text: &str) -> Routes {
    Routes::read("routes.yaml", text).unwrap_or_else(|problems| panic!("{problems}"))
}

fn group_of(routes: &Routes, host: &str, method: &Method, path: &str) -> Option<String> {
    routes.find(Some(host), method, path).map(|route| route.group().name().to_owned())
}

const FULL: &str = "
upstreams:
  api:
    servers: [http://10.0.0.1:9000, {url: http://10.0.0.2:9443, weight: 2}]
    balance: least_requests
    protocol: http2
    health: {path: /healthz, every: 5s, timeout: 1s, unhealthy_after: 3, healthy_after: 2, statuses: [200-399]}
    passive: {failures: 7, for: 3s, statuses: [502, 503]}
    connect_timeout: 2s
    response_timeout: 30s
    idle_timeout: 10s
    max_idle: 8
  plain: {servers: http://10.0.0.3, passive: off}
routes:
  - {host: API.example.com, path: /v1/*, methods: [GET], upstream: api, response_timeout: 5s, retries: 2, host_header: upstream, prefix: {strip: /v1, add: /api}}
  - {host: api.example.com, path: /v1/*, upstream: plain}
  - {host: '*.example.com', path: '/v1/orders/{id}', upstream: http://10.0.0.4}
  - {host: '*.example.com', upstream: [http://10.0.0.4, http://10.0.0.5]}
  - {path: /health, upstream: http://10.0.0.4/}
";

#[test]
fn a_document_means_what_it_says() {
    let routes = routes(FULL);
    let api = routes.group("api").unwrap().settings();
    assert_eq!(api.protocol, Protocol::Http2);
    assert_eq!((api.connect_timeout, api.idle_timeout), (Duration::from_secs(2), Duration::from_secs(10)));
    assert_eq!(api.max_idle, 8);
    let passive = api.passive.as_ref().unwrap();
    assert_eq!((passive.failures.get(), passive.aside), (7, Duration::from_secs(3)));
    assert!(passive.statuses.contains(502) && !passive.statuses.contains(500));
    assert!(api.health.as_ref().unwrap().statuses.contains(302));
    assert!(routes.group("plain").unwrap().settings().passive.is_none());
    let weights: Vec<u32> = routes.group("api").unwrap().members().iter().map(|s| s.weight()).collect();
    assert_eq!(weights, [1, 2]);
    let route = routes.find(Some("api.example.com:80"), &Method::GET, "/v1/x").unwrap();
    assert_eq!((route.number(), route.retries()), (1, 2));
    assert_eq!(route.response_timeout(), Duration::from_secs(5));
    assert_eq!(route.host_header(), HostHeader::Upstream);
    assert_eq!(route.rewrite("/v1/x"), "/api/x");
    // Routes to the same servers share a group.
    let shared = routes.find(None, &Method::GET, "/health").unwrap();
    assert!(Arc::ptr_eq(shared.group(), routes.group("http://10.0.0.4").unwrap()));
    assert_eq!(shared.response_timeout(), Duration::from_secs(60));
    assert_eq!(routes.groups().len(), 4);
}

#[test]
fn the_narrowest_route_is_found() {
    let routes = routes(FULL);
    for (host, method, path, expected) in [
        ("api.example.com", Method::GET, "/v1/x", Some("api")),
        ("api.example.com", Method::POST, "/v1/x", Some("plain")),
        // Its own routes do not match; those of the wider host do.
        ("api.example.com", Method::GET, "/v1", Some("http://10.0.0.4,http://10.0.0.5")),
        ("www.example.com", Method::GET, "/v1/orders/7", Some("http://10.0.0.4")),
        ("www.example.com", Method::GET, "/health", Some("http://10.0.0.4,http://10.0.0.5")),
        ("example.com", Method::GET, "/health", Some("http://10.0.0.4")),
        ("example.com", Method::GET, "/", None),
    ] {
        assert_eq!(group_of(&routes, host, &method, path).as_deref(), expected, "{host} {path}");
    }
}

#[test]
fn paths_are_rewritten() {
    for (prefix, path, expected) in [
        ("{strip: /v1}", "/v1", "/"),
        ("{strip: /v1}", "/v1/a", "/a"),
        ("{strip: /v1/, add: /api/}", "/v1", "/api"),
        ("{strip: /v1, add: /api}", "/v1/a/b", "/api/a/b"),
        ("{add: /api}", "/v1/a", "/api/v1/a"),
        ("{strip: /v1, add: /}", "/v1/a", "/a"),
        ("{}", "/v1/a", "/v1/a"),
    ] {
        let routes = routes(&format!("routes: [{{path: /v1/**, upstream: http://a, prefix: {prefix}}}]"));
        let route = routes.find(None, &Method::GET, path).unwrap();
        assert_eq!(route.rewrite(path), expected, "{prefix} {path}");
    }
    let whole = routes("routes: [{upstream: http://a, prefix: {add: /api}}]");
    assert_eq!(whole.routes()[0].rewrite("/"), "/api");
}

#[test]
fn everything_wrong_is_told_at_once() {
    let text = "
upstreams:
  none: {servers: []}
  path: {servers: [http://a/x, 'http://u:pw@b', ftp://c, http://d, http://D:80]}
  slow: {servers: http://a, connect_timeout: 2h, response_timeout: soon, max_idle: 1000000}
  auto: {servers: [http://a], protocol: auto, passive: on, tls: {certificate: x}}
  files: {servers: [https://a], tls: {ca: /nowhere/ca.pem}}
  name: {servers: [https://a], tls: {name: 'a b', insecure: true}}
  check: {servers: http://a, health: {path: x, every: 1ms, statuses: [99], host: 'a b', unhealthy_after: 0}}
  two: {servers: http://a, protocol: http2, health: {path: /, host: api}}
  weight: {servers: [{url: http://a, weight: 0}]}
  'b d': {servers: http://a}
routes:
  - {upstream: paht}
  - {upstream: 10.0.0.1:9000, host: 'a:80', path: v1, methods: [get], retries: 11}
  - {upstream: none, host: api.example.com, path: '/a/{x}'}
  - {upstream: none, host: API.example.com, path: /a/*/}
  - {upstream: none, host: API.example.com, path: '/a/{y}'}
  - {upstream: none, path: /m, methods: [GET, PUT]}
  - {upstream: none, path: /m}
  - {upstream: none, path: /m, methods: [PUT]}
  - {upstream: none, path: /v2/*, prefix: {strip: /v1}}
  - {upstream: [], path: /n, prefix: {add: v1}}
  - {upstream: [http://a, api], path: /o}
";
    let told = Routes::read("routes.yaml", text).unwrap_err().lines();
    let expected = [
        ":3: upstream `none`: it has no servers",
        ":4: upstream `path`: `http://a/x` has a path",
        ":4: upstream `path`: `http://\u{2026}` has a user",
        ":4: upstream `path`: `ftp://c` is neither http nor https",
        ":4: upstream `path`: http://d is there twice",
        ":5: upstream `slow`: connect_timeout 2h is out of range; it can be 1ms to 1m",
        ":5: upstream `slow`: response_timeout: `soon` is not a duration",
        ":5: upstream `slow`: max_idle 1000000 is out of range",
        ":6: upstream `auto`: protocol: auto is for https",
        ":6: upstream `auto`: passive can be `off`",
        ":6: upstream `auto`: tls: a certificate without its key",
        ":6: upstream `auto`: has `tls` but no https server",
        ":7: upstream `files`: cannot use certificate authorities in /nowhere/ca.pem",
        ":8: upstream `name`: `a b` is no name of a server",
        ":9: upstream `check`: health: path must be one",
        ":9: upstream `check`: health: every 1ms is out of range; it can be 10ms to 1h",
        ":9: upstream `check`: health: `99` is no status",
        ":9: upstream `check`: health: host must be one",
        ":9: upstream `check`: health: unhealthy_after 0 is out of range",
        ":10: upstream `two`: health: host cannot be other than the server's own over HTTP/2",
        ":11: upstream `weight`: the weight of http://a: 0 is out of range",
        ":12: upstream `b d`: is no name",
        ":14: route 1 (* *): there is no upstream `paht`; do you mean `path`?",
        ":15: route 2 (a:80 v1): host `a:80` has a port",
        ":15: route 2 (a:80 v1): path: a path pattern starts with `/`",
        ":15: route 2 (a:80 v1): methods: `get` is none; write it in capitals, such as GET",
        ":15: route 2 (a:80 v1): upstream `10.0.0.1:9000` is no URL; write http://10.0.0.1:9000",
        ":15: route 2 (a:80 v1): retries 11 is out of range",
        ":18: route 5 (API.example.com /a/{y}): can never be reached: route 3 has the same",
        ":21: route 8 (* /m): can never be reached: route 6 has the same",
        ":22: route 9 (* /v2/*): prefix: cannot strip /v1",
        ":23: route 10 (* /n): upstream: it has no servers",
        ":23: route 10 (* /n): prefix: add `v1` is no path",
        ":24: route 11 (* /o): `api` is not a URL",
    ];
    for part in expected {
        assert!(told.iter().any(|line| line.contains(part)), "{part}\nin\n{}", told.join("\n"));
    }
    assert_eq!(told.len(), expected.len(), "{}", told.join("\n"));
    assert!(told.iter().all(|line| line.starts_with("routes.yaml:") && !line.contains("pw")));
}

#[test]
fn problems_are_bounded() {
    let text = format!("routes:\n{}", "  - {upstream: nobody}\n".repeat(5_000));
    let told = Routes::read("x", &text).unwrap_err().lines();
    assert_eq!(told.len(), 201);
    assert!(told[200].starts_with("and "), "{}", told[200]);
    let many = (0..=MAX_ROUTES).map(|n| format!("  - {{path: /{n}, upstream: http://a}}\n"));
    let told = Routes::read("x", &format!("routes:\n{}", many.collect::<String>())).unwrap_err().to_string();
    assert!(told.contains("10001 routes are too many"), "{told}");
    assert!(Routes::read("x", "").unwrap_err().to_string().contains("there are no routes"));
}

#[test]
fn several_documents_are_one() {
    let upstreams = "upstreams: {api: {servers: http://a}}";
    let joined = Routes::join(&[("1", "routes: [{upstream: api}]"), ("2", upstreams)]).unwrap();
    assert_eq!(joined.routes()[0].group().name(), "api");
    let told = Routes::join(&[("1", upstreams), ("2", upstreams), ("3", "routes: [{upstream: api}]")]);
    let told = told.unwrap_err().to_string();
    assert!(told.starts_with("2:1: upstream `api`: another document has one"), "{told}");
    let told = Routes::join(&[("1", "x: 1"), ("2", "routes: ["), ("3", upstreams)]).unwrap_err().lines();
    assert_eq!(told.len(), 2, "{told:?}");
}

#[test]
fn a_list_of_urls_will_do() {
    let routes = Routes::single(&["http://10.0.0.1:9000", "http://10.0.0.2:9000"]).unwrap();
    assert_eq!(group_of(&routes, "x", &Method::PUT, "/any").as_deref(), Some("upstream"));
    assert_eq!(routes.groups()[0].members().len(), 2);
    let told = Routes::single(&["http://a/x", "b"]).unwrap_err().lines();
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(Routes::single::<&str>(&[]).is_err());
}

#[test]
fn what_is_known_is_carried_over() {
    let text = |weight, max_idle| {
        format!(
            "upstreams: {{api: {{servers: [http://a, {{url: http://b, weight: {weight}}}], max_idle: {max_idle}, \
             passive: {{failures: 1, for: 1m}}}}, other: {{servers: http://a}}}}\n\
             routes: [{{upstream: api}}, {{upstream: other, path: /o}}]"
        )
    };
    let now = Instant::now();
    let old = routes(&text(1, 8));
    let mut ticket = old.group("api").unwrap().pick(now, &[]).unwrap();
    ticket.failed(Failure::Connect, now);
    let url = ticket.origin().to_string();
    let aside = |routes: &Routes, name: &str| {
        let servers = routes.group(name).unwrap().servers(now);
        servers.into_iter().filter(|s| s.aside_until.is_some()).map(|s| s.url).collect::<Vec<_>>()
    };
    assert_eq!(aside(&old, "api"), vec![url.clone()]);
    // Nothing has changed: the very same groups.
    let same = routes(&text(1, 8)).carry_over(&old);
    assert!(Arc::ptr_eq(same.group("api").unwrap(), old.group("api").unwrap()));
    assert!(Arc::ptr_eq(same.routes()[1].group(), old.group("api").unwrap()));
    // Something has: another group of the same servers.
    for (weight, max_idle) in [(3, 8), (1, 9)] {
        let new = routes(&text(weight, max_idle)).carry_over(&old);
        let group = new.group("api").unwrap();
        assert!(!Arc::ptr_eq(group, old.group("api").unwrap()));
        assert!(Arc::ptr_eq(new.routes()[1].group(), group));
        assert_eq!(group.settings().max_idle, max_idle);
        assert_eq!((aside(&new, "api"), aside(&new, "other")), (vec![url.clone()], vec![]));
        assert_eq!(group.servers(now).iter().map(|s| s.in_flight).sum::<usize>(), 1);
    }
    drop(ticket);
    assert_eq!(same.group("api").unwrap().servers(now).iter().map(|s| s.in_flight).sum::<usize>(), 0);
    // Without passive checks nobody is aside.
    let off = "upstreams: {api: {servers: [http://a, http://b], passive: off}}\nroutes: [{upstream: api}]";
    assert!(aside(&routes(off).carry_over(&old), "api").is_empty());
}

const HOSTS: [&str; 4] = ["*", "a.x", "*.x", "*.a.x"];

fn some_routes() -> impl Strategy<Value = Vec<(usize, String, Option<&'static str>)>> {
    let segment = prop_oneof![Just("a"), Just("b"), Just("*"), Just("{n}"), Just("**")];
    let path = prop::collection::vec(segment, 0..4).prop_map(|parts| format!("/{}", parts.join("/")));
    let method = prop::option::of(prop_oneof![Just("GET"), Just("PUT")]);
    prop::collection::vec((0..HOSTS.len(), path, method), 1..12)
}

proptest! {
    /// Searching finds what going through everything finds.
    #[test]
    fn finding_is_going_through_all(
        entries in some_routes(),
        host in prop_oneof![Just("a.x"), Just("b.x"), Just("c.a.x"), Just("y"), Just("A.X:80")],
        path in prop::collection::vec(prop_oneof![Just("a"), Just("b")], 0..4),
        put: bool,
    ) {
        let mut text = "routes:\n".to_owned();
        for (index, (host, path, method)) in entries.iter().enumerate() {
            let methods = method.map(|method| format!("methods: {method}, ")).unwrap_or_default();
            text += &format!(
                "  - {{host: '{}', path: '{path}', {methods}upstream: http://s{index}}}\n", HOSTS[*host]
            );
        }
        // Some of these have routes that can never be reached.
        let Ok(routes) = Routes::read("x", &text) else { return Ok(()) };
        let path = format!("/{}", path.join("/"));
        let method = if put { Method::PUT } else { Method::GET };
        let width = |host: &HostPattern| match host {
            HostPattern::Exact(_) => 0,
            HostPattern::Below(name) => 100 - name.len(),
            HostPattern::Any => 1_000,
        };
        let bare = host.to_lowercase().replace(":80", "");
        let is_host = |pattern: &HostPattern| match pattern {
            HostPattern::Any => true,
            HostPattern::Exact(name) => **name == *bare,
            HostPattern::Below(name) => bare.ends_with(&format!(".{name}")),
        };
        let mut all: Vec<_> = routes.routes().iter()
            .filter(|route| is_host(route.host()) && route.accepts(&method, &path))
            .collect();
        all.sort_by(|a, b| width(a.host()).cmp(&width(b.host())).then(a.by_width(b)));
        let found = routes.find(Some(host), &method, &path).map(|route| route.number());
        prop_assert_eq!(found, all.first().map(|route| route.number()));
    }
}

//! The matcher against a linear scan that asks every rule.

use ipnet::IpNet;
use proptest::prelude::*;

use super::*;
use crate::pattern::{Pattern, Segment};
use crate::rule::Wanted;

fn condition(path: &str) -> Condition {
    Condition { path: Some(path.parse().unwrap()), ..Condition::default() }
}

fn find(patterns: &[&str], path: &str) -> Vec<u32> {
    let matcher = Matcher::new(&patterns.iter().map(|pattern| condition(pattern)).collect::<Vec<_>>());
    matcher.find(&Request::new(path), &Path::parse(path).unwrap()).to_vec()
}

#[test]
fn patterns_match_what_they_say() {
    let matches = |pattern: &str, path: &str| !find(&[pattern], path).is_empty();
    for (pattern, yes, no) in [
        ("/", vec!["/", "", "/?q"], vec!["/a"]),
        (
            "/orders",
            vec!["/orders", "/orders/", "//orders", "/%6frders"],
            vec!["/", "/orders/1", "/Orders", "/ordersx"],
        ),
        (
            "/orders/*",
            vec!["/orders/1", "/orders/1/2/3", "/orders//1"],
            vec!["/orders", "/orders/", "/order/1"],
        ),
        ("/orders/**", vec!["/orders", "/orders/1", "/orders/1/2"], vec!["/order", "/x/orders"]),
        (
            "/users/*/posts",
            vec!["/users/7/posts"],
            vec!["/users/posts", "/users/7/8/posts", "/users/7/posts/1"],
        ),
        ("/users/{id}", vec!["/users/7"], vec!["/users", "/users/7/posts"]),
        ("/**/admin", vec!["/admin", "/a/admin", "/a/b/admin"], vec!["/admin/x", "/a/administrator"]),
        ("/a/**/z", vec!["/a/z", "/a/b/z", "/a/z/z"], vec!["/a", "/z", "/a/z/b"]),
        ("/a/**/b/*", vec!["/a/b/c", "/a/x/b/c/d", "/a/b/b/b"], vec!["/a/b", "/b/c"]),
        ("/*", vec!["/", "/a", "/a/b"], vec![]),
        ("/**", vec!["/", "/a", "/a/b"], vec![]),
    ] {
        for path in yes {
            assert!(matches(pattern, path), "{pattern} should match {path}");
        }
        for path in no {
            assert!(!matches(pattern, path), "{pattern} should not match {path}");
        }
    }
}

#[test]
fn doubtful_spellings_meet_the_rules_of_both_readings() {
    let patterns = ["/a/b", "/{one}", "/admin"];
    assert_eq!(find(&patterns, "/a%2Fb"), [0, 1]);
    assert_eq!(find(&patterns, "/x%2F..%2Fadmin"), [1, 2]);
    assert_eq!(find(&patterns, "/%2561dmin"), [1, 2]);
}

#[test]
fn many_wildcards_do_not_multiply() {
    let pattern = "/**/a".repeat(12);
    let path = "/a".repeat(2_000);
    assert_eq!(find(&[&pattern, "/**/b"], &path), [0]);
}

/// Whether a pattern matches, by trying everything: the reference.
fn naive(segments: &[Segment], path: &[&str]) -> bool {
    match (segments.split_first(), path.split_first()) {
        (None, None) => true,
        (Some((Segment::Below, _)), Some(_)) => true,
        (Some((Segment::Any, rest)), _) => (0..=path.len()).any(|skip| naive(rest, &path[skip..])),
        (Some((Segment::One, rest)), Some((_, tail))) => naive(rest, tail),
        (Some((Segment::Literal(text), rest)), Some((head, tail))) => **text == **head && naive(rest, tail),
        _ => false,
    }
}

/// Whether the rest of a condition holds, asked one by one: the reference.
fn holds_besides_path(condition: &Condition, request: &Request<'_>) -> bool {
    let has_method =
        |method: &str| condition.methods.iter().any(|wanted| wanted.eq_ignore_ascii_case(method));
    let has_ip =
        |ip: std::net::IpAddr| condition.subnets.iter().any(|subnet| subnet.contains(&ip.to_canonical()));
    (!condition.requires_authentication || request.user.is_some())
        && (condition.methods.is_empty() || request.method.is_some_and(has_method))
        && (condition.subnets.is_empty() || request.ip.is_some_and(has_ip))
        && condition.headers.iter().all(|(name, wanted)| wanted.accepts(request.headers.value(name)))
        && condition.attributes.iter().all(|(name, wanted)| wanted.accepts(request.attributes.value(name)))
}

fn conditions() -> impl Strategy<Value = Condition> {
    let segment = prop::sample::select(vec!["a", "b", "c", "*", "**", "{x}"]);
    let path = prop::option::weighted(
        0.8,
        prop::collection::vec(segment, 0..4).prop_map(|parts| format!("/{}", parts.join("/"))),
    );
    let methods = prop::sample::subsequence(vec!["GET", "POST", "PURGE", "REPORT"], 0..3);
    let nets =
        prop::sample::subsequence(vec!["10.0.0.0/8", "10.1.0.0/16", "10.1.2.0/24", "2001:db8::/32"], 0..3);
    let value = prop::sample::select(vec!["1", "2", "3", "*"]);
    let headers = prop::collection::btree_map(prop::sample::select(vec!["h1", "h2"]), value.clone(), 0..2);
    let attributes = prop::collection::btree_map(prop::sample::select(vec!["p", "q"]), value, 0..2);
    (path, methods, nets, headers, attributes, any::<bool>()).prop_map(
        |(path, methods, nets, headers, attributes, auth)| {
            let wanted = |(name, value): (&str, &str)| {
                (name.into(), if value == "*" { Wanted::Present } else { Wanted::Value(value.into()) })
            };
            Condition {
                path: path.map(|path| path.parse::<Pattern>().unwrap()),
                methods: methods.into_iter().map(Into::into).collect(),
                requires_authentication: auth,
                headers: headers.into_iter().map(wanted).collect(),
                attributes: attributes.into_iter().map(wanted).collect(),
                subnets: nets.into_iter().map(|net| net.parse::<IpNet>().unwrap()).collect(),
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn the_index_finds_what_a_scan_finds(
        conditions in prop::collection::vec(conditions(), 0..60),
        path in prop::collection::vec(prop::sample::select(vec!["a", "b", "c", "d"]), 0..5),
        method in prop::option::of(prop::sample::select(vec!["GET", "get", "POST", "DELETE", "purge", "LOCK"])),
        user in prop::option::of(Just("alice")),
        ip in prop::option::of(prop::sample::select(vec!["10.1.2.3", "10.9.9.9", "::ffff:10.1.9.9", "2001:db8::1", "192.0.2.1"])),
        header in prop::option::of(prop::sample::select(vec!["1", "2"])),
        attribute in prop::option::of(prop::sample::select(vec!["1", "3"])),
    ) {
        let joined = format!("/{}", path.join("/"));
        let headers: Vec<(&str, &str)> = header.map(|value| ("H1", value)).into_iter().collect();
        let attributes: Vec<(&str, &str)> = attribute.map(|value| ("p", value)).into_iter().collect();
        let request = Request {
            method, user, ip: ip.map(|ip| ip.parse().unwrap()), headers: &headers, attributes: &attributes,
            ..Request::new(&joined)
        };
        let scan: Vec<u32> = (0u32..).zip(&conditions).filter(|(_, condition)| {
            condition.path.as_ref().is_none_or(|pattern| naive(pattern.segments(), &path)) && holds_besides_path(condition, &request)
        }).map(|(index, _)| index).collect();
        let found = Matcher::new(&conditions).find(&request, &Path::parse(&joined).unwrap());
        prop_assert_eq!(found.to_vec(), scan);
    }
}

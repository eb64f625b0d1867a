use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::identity::{How, IdentityConfig, JwtConfig, JwtKeys};

fn forwarding() -> Forwarding {
    let mut jwt = JwtConfig::new(JwtKeys::Secret(vec![b's'; 32]));
    jwt.header = HeaderName::from_static("x-jwt-token");
    let mut config = IdentityConfig {
        trusted_proxies: vec!["10.0.0.0/8".parse().unwrap()],
        request_id: Some(HeaderName::from_static("x-request-id")),
        jwt: Some(jwt),
        ..IdentityConfig::default()
    };
    config.headers.tier = Some(HeaderName::from_static("x-tier"));
    config.headers.plan = Some(HeaderName::from_static("x-plan"));
    Forwarding::new(&Identify::new(&config).unwrap())
}

fn alice(ip: &str) -> Who<'static> {
    let mut who = Who::nobody(ip.parse().unwrap());
    who.user = Some(Text::Borrowed("alice"));
    who.tenant = Some(Text::Borrowed("acme"));
    who.plan = Some(Text::Borrowed("PREMIUM"));
    who.how = How::Token;
    who
}

fn map(lines: &[(&str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in lines {
        let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
        headers.append(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
    }
    headers
}

/// The headers after a rewrite, one line each, in order.
fn rewritten(peer: &str, who: &Who<'_>, host: Option<&str>, lines: &[(&str, &str)]) -> Vec<String> {
    let mut headers = map(lines);
    let peer = Peer::plain(peer.parse().unwrap());
    let host = host.map(|host| HeaderValue::from_str(host).unwrap());
    forwarding().rewrite(&peer, who, host.as_ref(), &mut headers);
    let line = |(name, value): (&HeaderName, &HeaderValue)| {
        format!("{name}: {}", String::from_utf8_lossy(value.as_bytes()))
    };
    let mut lines: Vec<String> = headers.iter().map(line).collect();
    lines.sort();
    lines
}

#[test]
fn a_client_is_told_of_as_it_is_known() {
    let told = rewritten("203.0.113.7", &alice("203.0.113.7"), Some("api.example.com"), &[("accept", "*/*")]);
    assert_eq!(
        told,
        [
            "accept: */*",
            "forwarded: for=203.0.113.7;host=\"api.example.com\";proto=http",
            "x-forwarded-for: 203.0.113.7",
            "x-forwarded-host: api.example.com",
            "x-forwarded-proto: http",
            "x-plan: PREMIUM",
            "x-real-ip: 203.0.113.7",
            "x-tenant-id: acme",
            "x-user-id: alice",
        ]
    );
}

#[test]
fn a_trusted_proxy_is_appended_to() {
    let sent = [
        ("x-forwarded-for", "1.1.1.1, 203.0.113.7"),
        ("forwarded", "for=203.0.113.7"),
        ("x-forwarded-host", "shop.example.com"),
        ("x-forwarded-proto", "https"),
        ("x-forwarded-port", "443"),
        ("x_forwarded_port", "666"),
        ("x-original-uri", "/a"),
        ("x-request-id", "r-1"),
        ("x.request.id", "r-2"),
        ("x-http-method-override", "DELETE"),
        ("x-user-id", "alice"),
        ("x-tier", "gold"),
    ];
    assert_eq!(
        rewritten("10.0.0.1", &alice("203.0.113.7"), Some("inner"), &sent),
        [
            "forwarded: for=203.0.113.7, for=10.0.0.1;host=\"inner\";proto=http",
            "x-forwarded-for: 1.1.1.1, 203.0.113.7, 10.0.0.1",
            "x-forwarded-host: shop.example.com",
            "x-forwarded-port: 443",
            "x-forwarded-proto: https",
            "x-original-uri: /a",
            "x-plan: PREMIUM",
            "x-real-ip: 203.0.113.7",
            "x-request-id: r-1",
            "x-tenant-id: acme",
            "x-user-id: alice",
        ]
    );
}

#[test]
fn both_lists_lead_to_the_same_client() {
    // A proxy that knows only one of them, and one that passes on what its client made up in the other.
    let first = "for=203.0.113.7;host=\"shop\";proto=https, for=10.0.0.1;proto=http";
    let shop = [("x-forwarded-host", "shop"), ("x-forwarded-proto", "HTTPS")];
    for made_up in [&[][..], &[("forwarded", "for=1.1.1.1")], &[("forwarded", "for=\"")]] {
        let sent = [&[("x-forwarded-for", "203.0.113.7")], &shop[..], made_up].concat();
        let told = rewritten("10.0.0.1", &alice("203.0.113.7"), None, &sent);
        assert_eq!(told[0], format!("forwarded: {first}"), "{made_up:?}");
        assert_eq!(told[1], "x-forwarded-for: 203.0.113.7, 10.0.0.1");
    }
    let told = rewritten("10.0.0.1", &alice("203.0.113.7"), None, &[("forwarded", "for=203.0.113.7;by=x")]);
    assert_eq!(told[0], "forwarded: for=203.0.113.7;by=x, for=10.0.0.1;proto=http");
    assert_eq!(told[1], "x-forwarded-for: 203.0.113.7, 10.0.0.1");
}

#[test]
fn hosts_and_names_cannot_break_out() {
    let told = rewritten("2001:db8::7", &alice("2001:db8::7"), Some("a\";for=\"1.1.1.1\\"), &[]);
    assert_eq!(told[0], r#"forwarded: for="[2001:db8::7]";host="a\";for=\"1.1.1.1\\";proto=http"#);
    for (user, arrives) in [
        ("zo\u{eb}", true),
        ("a b", true),
        ("a\r\nx-admin: 1", false),
        ("a\tb", false),
        ("a\u{85}b", false),
        (" alice", false),
        ("", false),
    ] {
        let mut who = alice("203.0.113.7");
        who.user = Some(Text::Borrowed(user));
        let told = rewritten("203.0.113.7", &who, None, &[("x-user-id", "bob")]);
        let expected = format!("x-user-id: {user}");
        assert_eq!(told.iter().find(|line| line.starts_with("x-user-id")), arrives.then_some(&expected));
    }
}

#[test]
fn nobody_is_told_of_as_nobody() {
    let who = Who::nobody("203.0.113.7".parse().unwrap());
    let sent = [
        ("x-user-id", "bob"),
        ("X-Tenant_Id", "acme"),
        ("x-tier", "gold"),
        ("x-api-key", "k"),
        ("x-api_key", "l"),
    ];
    let told = rewritten("::ffff:203.0.113.7", &who, None, &sent);
    let expected = [
        "forwarded: for=203.0.113.7;proto=http",
        "x-api-key: k",
        "x-forwarded-for: 203.0.113.7",
        "x-forwarded-proto: http",
        "x-real-ip: 203.0.113.7",
    ];
    assert_eq!(told, expected);
}

/// Names that matter, in spellings that some back ends cannot tell apart.
fn name() -> impl Strategy<Value = String> {
    let known: Vec<&str> = [
        "x-user-id",
        "x-tenant-id",
        "x-tier",
        "x-request-id",
        "x-forwarded-for",
        "x-forwarded-host",
        "x-forwarded-proto",
        "x-forwarded-port",
        "x-forwarded-user",
        "x-original-url",
        "x-original-method",
        "x-api-key",
        "x-jwt-token",
    ]
    .into_iter()
    .chain(PROXY_NAMES)
    .chain(METHOD_NAMES)
    .collect();
    let spelled =
        (prop::sample::select(known), vec((any::<bool>(), prop::sample::select(&b"-__.~+!"[..])), 32));
    spelled.prop_map(|(name, changes)| {
        let changed = name.bytes().zip(changes).map(|(byte, (upper, instead))| match byte {
            b'-' => char::from(instead),
            byte if upper => char::from(byte.to_ascii_uppercase()),
            byte => char::from(byte),
        });
        changed.collect()
    })
}

fn lines() -> impl Strategy<Value = Vec<(String, String)>> {
    let harmless = prop::sample::select(vec!["accept", "x-other", "x_other", "xforwarded-for", "user-agent"]);
    let name = prop_oneof![4 => name(), 1 => harmless.prop_map(str::to_owned)];
    let value = prop::sample::select(vec![
        "",
        "mallory",
        "1.1.1.1",
        "for=1.1.1.1",
        "10.0.0.1",
        "\"",
        "https",
        "DELETE",
    ]);
    vec((name, value.prop_map(str::to_owned)), 0..24)
}

fn folded(name: &str) -> String {
    name.bytes().map(|byte| char::from(tidegate_core::header_names::fold(byte))).collect()
}

proptest! {
    #[test]
    fn strangers_say_nothing_in_any_spelling(lines in lines(), tls in any::<bool>(), known in any::<bool>()) {
        let lines: Vec<(&str, &str)> = lines.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let before = map(&lines);
        let mut headers = before.clone();
        let peer = Peer { tls, ..Peer::plain("203.0.113.7".parse().unwrap()) };
        let who = if known { alice("203.0.113.7") } else { Who::nobody(peer.ip) };
        let host = HeaderValue::from_static("shop");
        forwarding().rewrite(&peer, &who, Some(&host), &mut headers);

        let scheme = if tls { "https" } else { "http" };
        let way = format!("for=203.0.113.7;host=\"shop\";proto={scheme}");
        let mut expected = vec![
            ("forwarded", way.as_str()), ("x-forwarded-for", "203.0.113.7"), ("x-forwarded-host", "shop"),
            ("x-forwarded-proto", scheme), ("x-real-ip", "203.0.113.7"),
        ];
        if known {
            expected.extend([("x-tenant-id", "acme"), ("x-user-id", "alice"), ("x-plan", "PREMIUM")]);
        }
        let credentials = ["x-api-key", "x-jwt-token"];
        for name in credentials {
            expected.extend(before.get_all(name).iter().map(|value| (name, value.to_str().unwrap())));
        }
        expected.sort_unstable();
        let harmless = |name: &str| ["accept", "x-other", "xforwarded-for", "user-agent"].contains(&name);
        // What a careless back end sees, apart from what is nobody's concern.
        let seen = headers.iter().map(|(name, value)| (folded(name.as_str()), value.to_str().unwrap()));
        let mut seen: Vec<(String, &str)> = seen.filter(|(name, _)| !harmless(name)).collect();
        seen.sort_unstable();
        let seen: Vec<(&str, &str)> = seen.iter().map(|(name, value)| (name.as_str(), *value)).collect();
        prop_assert_eq!(seen, expected);
        for name in ["accept", "x-other", "x_other", "xforwarded-for", "user-agent"] {
            let (before, after) = (before.get_all(name), headers.get_all(name));
            prop_assert!(before.iter().eq(after.iter()), "{} is lost", name);
        }
    }

    #[test]
    fn a_trusted_proxy_is_believed_in_one_spelling(lines in lines()) {
        let lines: Vec<(&str, &str)> = lines.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let before = map(&lines);
        let mut headers = before.clone();
        let peer = Peer::plain("10.0.0.1".parse().unwrap());
        forwarding().rewrite(&peer, &alice("203.0.113.7"), None, &mut headers);
        for name in headers.keys().map(HeaderName::as_str).filter(|name| name.starts_with('x') && *name != "x_other") {
            prop_assert!(folded(name) == name, "{name} is another spelling");
            prop_assert!(!METHOD_NAMES.contains(&name));
        }
        prop_assert_eq!(headers.get_all("x-user-id").iter().collect::<Vec<_>>(), ["alice"]);
        prop_assert_eq!(headers.get_all("x-real-ip").iter().collect::<Vec<_>>(), ["203.0.113.7"]);
        prop_assert!(headers.get("x-tier").is_none());
        for name in ["x-request-id", "x-forwarded-port", "x-original-url"] {
            prop_assert!(before.get_all(name).iter().eq(headers.get_all(name).iter()));
        }
        let all = headers.get_all("x-forwarded-for").iter().collect::<Vec<_>>();
        prop_assert!(all.len() == 1 && all[0].to_str().unwrap().ends_with("10.0.0.1"));
    }
}

use http::{HeaderValue, StatusCode};
use jsonwebtoken::{EncodingKey, Header, encode};
use proptest::collection::vec;
use proptest::prelude::*;
use rcgen::{CertificateParams, DnType, KeyPair};
use serde_json::json;
use tidegate_core::{Request, Span, Timestamp};
use tidegate_store::ManualClock;

use super::*;

const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";
/// SHA-256 of `abc`.
const ABC: &str = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
const NOW: u64 = 1_800_000_000;

/// Everything that can be believed, and a file that has to stay.
fn everything() -> (IdentityConfig, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let known = folder.path().join("keys");
    std::fs::write(&known, format!("shop {ABC} tenant=key-tenant tier=key-tier\n")).unwrap();
    let jwt = JwtConfig {
        tenant_claim: Some("org".to_owned()),
        tier_claim: Some("app.tier".to_owned()),
        ..JwtConfig::new(JwtKeys::Secret(SECRET.to_vec()))
    };
    let mut config = IdentityConfig {
        trusted_proxies: vec!["10.0.0.0/8".parse().unwrap()],
        request_id: Some(HeaderName::from_static("x-request-id")),
        jwt: Some(jwt),
        api_keys: ApiKeyConfig { known: Some(known), ..ApiKeyConfig::default() },
        certificates: CertificateConfig {
            user: Some(CertificateUser::CommonName),
            tenant: Some(CertificateTenant::Organization),
        },
        ..IdentityConfig::default()
    };
    config.headers.tier = Some(HeaderName::from_static("x-tier"));
    (config, folder)
}

fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::new(Timestamp::from_millis(NOW * 1_000)))
}

fn identify(config: &IdentityConfig) -> Identify {
    Identify::with_clock(config, clock()).unwrap()
}

fn token(claims: &serde_json::Value) -> String {
    let token = encode(&Header::default(), claims, &EncodingKey::from_secret(SECRET)).unwrap();
    format!("Bearer {token}")
}

fn head(lines: &[(&str, &str)]) -> Parts {
    let request = lines.iter().fold(http::Request::get("/orders"), |request, (name, value)| {
        request.header(*name, HeaderValue::from_bytes(value.as_bytes()).unwrap())
    });
    request.body(()).unwrap().into_parts().0
}

/// Who it is, as one line.
fn who(identify: &Identify, peer: &Peer, lines: &[(&str, &str)]) -> Result<String, StatusCode> {
    let head = head(lines);
    let who = identify.who(peer, &head).map_err(|wrong| wrong.status)?;
    let shown = |text: &Option<Text<'_>>| text.as_deref().unwrap_or("-").to_owned();
    let names = [&who.user, &who.tenant, &who.tier, &who.request_id].map(shown).join(" ");
    Ok(format!("{names} {} {:?}", who.ip, who.how))
}

fn peer(ip: &str) -> Peer {
    Peer::plain(ip.parse().unwrap())
}

fn with_certificate(ip: &str) -> Peer {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "carol");
    params.distinguished_name.push(DnType::OrganizationName, "cert-tenant");
    let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
    let name = ClientName::from_der(certificate.der()).unwrap();
    Peer { certificate: Some(Arc::new(name)), tls: true, ..peer(ip) }
}

#[test]
fn the_first_that_names_a_user_counts() {
    let (config, _folder) = everything();
    let identify = identify(&config);
    let token = token(&json!({"sub": "alice", "org": "acme", "app": {"tier": "gold"}, "exp": NOW + 60}));
    let all = [
        ("authorization", token.as_str()),
        ("x-api-key", "abc"),
        ("x-user-id", "bob"),
        ("x-tier", "silver"),
        ("x-request-id", "r-1"),
        ("x-forwarded-for", "203.0.113.7"),
    ];
    for (peer, skipped, expected) in [
        (with_certificate("10.0.0.1"), 0, "carol cert-tenant - r-1 203.0.113.7 Certificate"),
        (peer("10.0.0.1"), 0, "alice acme gold r-1 203.0.113.7 Token"),
        (peer("10.0.0.1"), 1, "shop key-tenant key-tier r-1 203.0.113.7 ApiKey"),
        (peer("10.0.0.1"), 2, "bob - silver r-1 203.0.113.7 Header"),
        (peer("10.0.0.1"), 3, "- - silver r-1 203.0.113.7 Header"),
        (peer("10.0.0.1"), 4, "- - - r-1 203.0.113.7 Nobody"),
        (peer("203.0.113.9"), 0, "alice acme gold - 203.0.113.9 Token"),
        (peer("203.0.113.9"), 2, "- - - - 203.0.113.9 Nobody"),
        (peer("::ffff:10.0.0.1"), 2, "bob - silver r-1 203.0.113.7 Header"),
    ] {
        assert_eq!(who(&identify, &peer, &all[skipped..]).as_deref(), Ok(expected));
    }
}

#[test]
fn names_of_different_origins_are_not_mixed() {
    let (config, _folder) = everything();
    let identify = identify(&config);
    let plain = token(&json!({"sub": "alice", "exp": NOW + 60}));
    let nameless = token(&json!({"org": "acme", "exp": NOW + 60}));
    let proxy = ("x-tenant-id", "other");
    let found =
        |token: &str, more| who(&identify, &peer("10.0.0.1"), &[("authorization", token), more]).unwrap();
    assert_eq!(found(&plain, proxy), "alice - - - 10.0.0.1 Token");
    assert_eq!(found(&nameless, proxy), "- acme - - 10.0.0.1 Token");
    assert_eq!(found(&nameless, ("x-user-id", "bob")), "bob - - - 10.0.0.1 Header");
}

#[test]
fn whatever_is_shown_must_be_good() {
    let (config, _folder) = everything();
    let identify = identify(&config);
    let strangers = peer("203.0.113.9");
    let expired = token(&json!({"sub": "alice", "exp": NOW - 60}));
    for (peer, lines, status) in [
        (&strangers, &[("authorization", expired.as_str())][..], 401),
        (&with_certificate("203.0.113.9"), &[("authorization", "Bearer x")], 401),
        (&strangers, &[("authorization", "Bearer x"), ("authorization", "Bearer y")], 400),
        (&strangers, &[("x-api-key", "abd")], 401),
        (&strangers, &[("x-api-key", "abc"), ("x-api-key", "abd")], 400),
        (&peer("10.0.0.1"), &[("x-user-id", "a"), ("x-user-id", "b")], 400),
        (&peer("10.0.0.1"), &[("x-tier", "a"), ("x-tier", "b")], 400),
        (&peer("10.0.0.1"), &[("x-request-id", "a"), ("x-request-id", "b")], 400),
        (&peer("10.0.0.1"), &[("x-user-id", "a\tb")], 400),
        (&peer("10.0.0.1"), &[("x-user-id", &"a".repeat(1_025))], 400),
    ] {
        let found = who(&identify, peer, lines);
        assert_eq!(found.map_err(|status| status.as_u16()), Err(status), "{lines:?}");
    }
    let ignored = [("x-user-id", "a"), ("x-user-id", "b"), ("x-request-id", "a"), ("x-request-id", "b")];
    assert!(who(&identify, &strangers, &ignored).is_ok(), "what strangers say does not matter");
    assert!(who(&identify, &strangers, &[("authorization", "Basic YTpi")]).is_ok());
}

#[test]
fn a_refusal_says_what_would_do() {
    let (config, _folder) = everything();
    let identify = identify(&config);
    let refused = |line| identify.who(&peer("203.0.113.9"), &head(&[line])).unwrap_err();
    let wrong = refused(("authorization", "Bearer very-secret"));
    assert_eq!((wrong.error, wrong.status), ("invalid_token", StatusCode::UNAUTHORIZED));
    assert_eq!(wrong.www_authenticate.clone().unwrap(), "Bearer error=\"invalid_token\"");
    assert!(!format!("{wrong:?}").contains("secret"));
    let wrong = refused(("x-api-key", "very-secret"));
    assert_eq!((wrong.error, wrong.status), ("invalid_api_key", StatusCode::UNAUTHORIZED));
    assert!(wrong.www_authenticate.is_some() && !format!("{wrong:?}").contains("secret"));
}

#[test]
fn by_default_nobody_is_believed() {
    let identify = identify(&IdentityConfig::default());
    let lines = [
        ("authorization", "Bearer x"),
        ("x-user-id", "bob"),
        ("x-forwarded-for", "1.1.1.1"),
        ("x-request-id", "r"),
        ("x-api-key", "k-1"),
    ];
    for ip in ["127.0.0.1", "::1", "203.0.113.9"] {
        let found = who(&identify, &with_certificate(ip), &lines);
        assert_eq!(found, Ok(format!("- - - - {ip} Nobody")));
    }
    let head = head(&lines);
    let who = identify.who(&peer("203.0.113.9"), &head).unwrap();
    let request = who.describe(Request::new("/orders"));
    assert_eq!(
        (request.api_key, request.user, request.ip),
        (Some("k-1"), None, Some(peer("203.0.113.9").ip))
    );
    assert!(!format!("{who:?}").contains("k-1"));
    assert!(matches!(who.api_key, Some(Text::Borrowed(_))));
    assert_eq!(who.into_static().api_key.as_deref(), Some("k-1"));
}

#[test]
fn the_usual_request_is_not_copied() {
    let (config, _folder) = everything();
    let identify = identify(&config);
    let token = token(&json!({"sub": "alice", "org": "acme", "exp": NOW + 60}));
    let cases = [
        (with_certificate("203.0.113.9"), vec![("accept", "*/*")]),
        (peer("203.0.113.9"), vec![("authorization", token.as_str())]),
        (peer("203.0.113.9"), vec![("x-api-key", "abc")]),
        (peer("10.0.0.1"), vec![("x-user-id", "bob"), ("x-forwarded-for", "1.1.1.1, 203.0.113.7")]),
        (peer("10.0.0.1"), vec![("x-user-id", "bob"), ("forwarded", "for=1.1.1.1, for=203.0.113.7")]),
    ];
    for (peer, lines) in cases {
        let head = head(&lines);
        assert!(identify.who(&peer, &head).unwrap().user.is_some());
        let counted = allocation_counter::measure(|| drop(identify.who(&peer, &head)));
        assert_eq!(counted.count_total, 0, "allocations for {lines:?}");
    }
}

/// Headers in which a trusted proxy would be believed.
const CLAIMS: &[&str] = &[
    "x-user-id",
    "x-tenant-id",
    "x-tier",
    "x-request-id",
    "x-forwarded-for",
    "x-real-ip",
    "forwarded",
    "x_user_id",
];

fn claim() -> impl Strategy<Value = String> {
    let likely = prop::sample::select(vec!["1.1.1.1", "for=1.1.1.1", "10.0.0.1", "alice"]);
    prop_oneof![likely.prop_map(str::to_owned), "[!-~]{0,20}"]
}

proptest! {
    #[test]
    fn strangers_cannot_say_who_they_are(lines in vec((prop::sample::select(CLAIMS), claim()), 0..12)) {
        let mut config = IdentityConfig {
            trusted_proxies: vec!["10.0.0.0/8".parse().unwrap()],
            request_id: Some(HeaderName::from_static("x-request-id")),
            ..IdentityConfig::default()
        };
        config.headers.tier = Some(HeaderName::from_static("x-tier"));
        let lines: Vec<(&str, &str)> = lines.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let found = who(&identify(&config), &peer("203.0.113.9"), &lines);
        prop_assert_eq!(found.as_deref(), Ok("- - - - 203.0.113.9 Nobody"));
    }
}

#[test]
fn the_clock_decides_when_a_token_expires() {
    let (config, _folder) = everything();
    let clock = clock();
    let identify = Identify::with_clock(&config, Arc::clone(&clock) as Arc<dyn Clock>).unwrap();
    let token = token(&json!({"sub": "alice", "exp": NOW + 60}));
    let ask = || who(&identify, &peer("203.0.113.9"), &[("authorization", &token)]).is_ok();
    assert!(ask());
    clock.advance(Span::from_secs(89));
    assert!(ask());
    clock.advance(Span::from_secs(1));
    assert!(!ask());
}

#[tokio::test]
async fn problems_are_told_until_they_are_over() {
    let (mut config, folder) = everything();
    let keys = folder.path().join("keys.json");
    config.jwt = Some(JwtConfig::new(JwtKeys::SetFile(keys.clone())));
    let pace = Pace { file: std::time::Duration::from_millis(2), ..Pace::default() };
    let identify = Identify::with(&config, clock(), pace).unwrap();
    assert_eq!(identify.problems().len(), 1);
    assert!(identify.problems()[0].contains("keys.json"), "{:?}", identify.problems());
    let token = token(&json!({"sub": "alice", "exp": NOW + 60}));
    let lines = [("authorization", token.as_str())];
    assert_eq!(who(&identify, &peer("203.0.113.9"), &lines), Err(StatusCode::SERVICE_UNAVAILABLE));
    let set = json!({"keys": [{"kty": "oct", "k": "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY"}]});
    std::fs::write(&keys, set.to_string()).unwrap();
    let over = tokio::time::timeout(std::time::Duration::from_secs(20), async {
        while !identify.problems().is_empty() {
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
    });
    tokio::select! {
        () = identify.follow() => unreachable!("following does not end"),
        over = over => over.unwrap(),
    }
    assert_eq!(who(&identify, &peer("203.0.113.9"), &lines).as_deref(), Ok("alice - - - 203.0.113.9 Token"));
}

#[test]
fn a_broken_configuration_is_told_at_the_start() {
    let (mut config, folder) = everything();
    std::fs::write(folder.path().join("keys"), "nonsense\n").unwrap();
    let wrong = Identify::new(&config).unwrap_err().to_string();
    assert!(wrong.contains("keys:1: a line is"), "{wrong}");
    config.jwt = Some(JwtConfig::new(JwtKeys::Secret(b"short".to_vec())));
    assert!(matches!(Identify::new(&config), Err(IdentityError::Jwt(_))));
    assert!(!format!("{config:?}").contains("short"));
}

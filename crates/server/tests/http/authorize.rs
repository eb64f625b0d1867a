//! `GET|POST /v1/authorize`

use serde_json::json;
use tidegate::Span;
use tidegate_server::{Config, IdentityHeaders, RulesFeed};

use crate::client::{Ask, config, send, start, start_with};

const RULES: &str = "
tiers: {free: {limit: 5, window: 1h}, premium: {limit: 7, window: 1h}}
default_tier: free
rules:
  - {rule_id: hourly, identifier_type: user_id, algorithm: fixed_window, limit: 100, window: 1h,
     match: {path_pattern: /orders/*, methods: [GET]}}
  - {rule_id: address, identifier_type: ip_address, algorithm: fixed_window, limit: 10, window: 1h,
     match: {path_pattern: /by-address}}
  - {rule_id: tenant, identifier_type: tenant_id, algorithm: fixed_window, limit: 11, window: 1h,
     on_missing_identity: skip, match: {path_pattern: /by-tenant}}
  - {rule_id: key, identifier_type: api_key, algorithm: fixed_window, limit: 12, window: 1h,
     on_missing_identity: skip, match: {path_pattern: /by-key}}
  - {rule_id: tiered, identifier_type: user_id, tiered: true, match: {path_pattern: /tiered}}
  - {rule_id: mobile, identifier_type: ip_address, algorithm: fixed_window, limit: 13, window: 1h,
     match: {path_pattern: /mobile, required_headers: {X-Client-Type: mobile}}}
  - {rule_id: combined, identifier_type: ip_address, algorithm: fixed_window, limit: 14, window: 1h,
     match: {path_pattern: /combined, required_headers: {X-Client-Type: 'mobile, tv'}}}
  - {rule_id: blocked, identifier_type: global, limit: 0, window: 1h, match: {path_pattern: /blocked}}
  - {rule_id: itself, identifier_type: ip_address, algorithm: fixed_window, limit: 9, window: 1h,
     match: {path_pattern: /v1/authorize}}
";

#[tokio::test]
async fn the_exact_words_of_a_refusal() {
    let server = start(RULES).await;
    let headers =
        [("x-original-method", "GET"), ("x-original-uri", "/orders/7?page=2"), ("x-user-id", "alice")];
    for made in 1..=100_u32 {
        let answer = server.authorize(&headers).await;
        assert_eq!(answer.status, 200);
        assert!(answer.body.is_empty());
        assert_eq!(answer.header("x-ratelimit-limit"), Some("100"));
        assert_eq!(answer.header("x-ratelimit-remaining"), Some((100 - made).to_string().as_str()));
        assert_eq!(answer.header("x-ratelimit-reset"), Some("1704070800"));
        assert_eq!(answer.header("retry-after"), None);
    }
    server.clock.advance(Span::from_millis(60_500));
    let answer = server.authorize(&headers).await;
    assert_eq!(answer.status, 429);
    assert_eq!(answer.header("retry-after"), Some("3540"));
    assert_eq!(answer.header("x-ratelimit-limit"), Some("100"));
    assert_eq!(answer.header("x-ratelimit-remaining"), Some("0"));
    assert_eq!(answer.header("x-ratelimit-reset"), Some("1704070800"));
    let expected = json!({
        "error": "rate_limit_exceeded", "message": "You have made 101 requests. Limit is 100 per hour.",
        "retry_after": 3540, "documentation_url": null,
    });
    assert_eq!(answer.json(), expected);
}

#[tokio::test]
async fn the_documentation_url_is_the_configured_one() {
    let config = Config { documentation_url: Some("https://example.com/limits".to_owned()), ..config() };
    let server = start_with(config, RulesFeed::fixed("rules.yaml", RULES)).await;
    let answer = server.authorize(&[("x-original-uri", "/blocked")]).await;
    assert_eq!(answer.status, 429);
    assert_eq!(answer.header("retry-after"), None);
    assert_eq!(answer.json()["documentation_url"], "https://example.com/limits");
    assert_eq!(answer.json()["retry_after"], json!(null));
}

#[tokio::test]
async fn the_status_of_a_refusal_can_be_chosen() {
    let server = start(RULES).await;
    let ask =
        |query: &str| Ask::get(&format!("/v1/authorize{query}")).headers(&[("x-original-uri", "/blocked")]);
    for (query, status) in
        [("", 429), ("?deny_status=401", 401), ("?deny_status=403", 403), ("?deny_status=429", 429)]
    {
        let answer = send(server.addresses.http, ask(query)).await;
        assert_eq!(answer.status, status, "{query}");
        assert_eq!(answer.json()["error"], "rate_limit_exceeded");
    }
    for query in [
        "?deny_status=200",
        "?deny_status=500",
        "?deny_status=",
        "?deny_status=403x",
        "?deny_status=%34%30%33",
    ] {
        let answer = send(server.addresses.http, ask(query)).await;
        assert_eq!(
            (answer.status.as_u16(), answer.json()["field"].as_str()),
            (400, Some("deny_status")),
            "{query}"
        );
    }
    let answer = send(server.addresses.http, ask("?status=403")).await;
    assert_eq!((answer.status.as_u16(), answer.json()["field"].as_str()), (400, Some("status")));
}

/// The limit that applies tells which rule did.
async fn limit(server: &crate::client::Running, headers: &[(&str, &str)]) -> Option<u64> {
    let answer = server.authorize(headers).await;
    assert_eq!(answer.status, 200, "{headers:?}: {answer:?}");
    answer.header("x-ratelimit-limit").map(|limit| limit.parse().unwrap())
}

#[tokio::test]
async fn the_request_is_read_from_headers() {
    let server = start(RULES).await;
    for (headers, expected) in [
        (&[("x-original-method", "GET"), ("x-original-uri", "/orders/7")][..], Some(100)),
        (&[("x-forwarded-method", "GET"), ("x-forwarded-uri", "/orders/7")], Some(100)),
        (&[("x-forwarded-method", "PUT"), ("x-forwarded-uri", "/orders/7")], None),
        (&[("x-original-uri", "https://api.example/by-tenant"), ("x-tenant-id", "acme")], Some(11)),
        (&[("x-original-uri", "/by-tenant"), ("x-tenant-id", "")], None),
        (&[("x-original-uri", "/by-key"), ("x-api-key", "k-1")], Some(12)),
        (&[("x-original-uri", "/by-key")], None),
        (&[("x-original-uri", "/tiered"), ("x-user-id", "a"), ("x-tier", "premium")], Some(5)),
        (&[("x-original-uri", "/mobile"), ("x-client-type", "mobile")], Some(13)),
        (&[("x-original-uri", "/mobile"), ("x-client-type", "desktop")], None),
        (
            &[("x-original-uri", "/mobile"), ("x-client-type", "mobile"), ("x-client-type", "mobile")],
            Some(13),
        ),
        (&[("x-original-uri", "/mobile"), ("x-client-type", "mobile"), ("x-client-type", "desktop")], None),
        (&[("x-original-uri", "/combined"), ("x-client-type", "mobile"), ("x-client-type", "tv")], Some(14)),
        (&[("x-original-uri", "/combined"), ("x-client-type", "tv"), ("x-client-type", "mobile")], None),
        (&[], Some(9)),
    ] {
        assert_eq!(limit(&server, headers).await, expected, "{headers:?}");
    }
    let post = Ask::post("/v1/authorize", "whatever").headers(&[("x-original-uri", "/by-address")]);
    assert_eq!(send(server.addresses.http, post).await.header("x-ratelimit-limit"), Some("10"));
}

#[tokio::test]
async fn the_names_of_identity_headers_can_be_chosen() {
    let identity_headers = IdentityHeaders {
        user: "x-auth-subject".parse().unwrap(),
        tier: Some("x-plan".parse().unwrap()),
        ..IdentityHeaders::default()
    };
    let server =
        start_with(Config { identity_headers, ..config() }, RulesFeed::fixed("rules.yaml", RULES)).await;
    let headers =
        |user: &'static str| [("x-original-uri", "/tiered"), ("x-plan", "premium"), ("x-auth-subject", user)];
    assert_eq!(server.authorize(&headers("a")).await.header("x-ratelimit-remaining"), Some("6"));
    assert_eq!(server.authorize(&headers("a")).await.header("x-ratelimit-remaining"), Some("5"));
    assert_eq!(server.authorize(&headers("b")).await.header("x-ratelimit-remaining"), Some("6"));
}

#[tokio::test]
async fn the_client_is_whom_trusted_proxies_heard_from() {
    let trusted_proxies = ["127.0.0.0/8", "10.0.0.0/8"].map(|network| network.parse().unwrap()).to_vec();
    let server =
        start_with(Config { trusted_proxies, ..config() }, RulesFeed::fixed("rules.yaml", RULES)).await;
    let remaining = async |forwarded: &str| {
        let headers = [("x-original-uri", "/by-address"), ("x-forwarded-for", forwarded)];
        server.authorize(&headers).await.header("x-ratelimit-remaining").map(str::to_owned)
    };
    assert_eq!(remaining("203.0.113.7").await.unwrap(), "9");
    assert_eq!(remaining("203.0.113.7, 10.1.1.1").await.unwrap(), "8");
    assert_eq!(
        remaining("8.8.8.8, 203.0.113.7, 10.1.1.1, 10.2.2.2").await.unwrap(),
        "7",
        "what is left of it is hearsay"
    );
    assert_eq!(remaining("198.51.100.1").await.unwrap(), "9");
    assert_eq!(remaining("10.3.3.3, 10.1.1.1").await.unwrap(), "9", "all trusted: the first");
    assert_eq!(remaining("203.0.113.7, garbage, 10.3.3.3").await.unwrap(), "8", "the last good one");
}

#[tokio::test]
async fn a_stranger_cannot_speak_for_others() {
    let trusted_proxies = vec!["192.0.2.0/24".parse().unwrap()];
    let server =
        start_with(Config { trusted_proxies, ..config() }, RulesFeed::fixed("rules.yaml", RULES)).await;
    let spoofed = [
        ("x-original-method", "GET"),
        ("x-original-uri", "/blocked"),
        ("x-forwarded-for", "203.0.113.7"),
        ("x-user-id", "alice"),
        ("x-tenant-id", "acme"),
        ("x-api-key", "k"),
    ];
    for left in (0..9).rev() {
        let answer = server.authorize(&spoofed).await;
        assert_eq!(answer.header("x-ratelimit-limit"), Some("9"), "it is about /v1/authorize itself");
        assert_eq!(
            answer.header("x-ratelimit-remaining"),
            Some(left.to_string().as_str()),
            "and its own address"
        );
    }
    assert_eq!(server.authorize(&[]).await.status, 429, "the same address without all that");
}

#[tokio::test]
async fn what_a_proxy_must_not_send() {
    let server = start(RULES).await;
    let long = format!("/{}", "x".repeat(8 * 1024));
    for (headers, field) in [
        (&[("x-original-uri", long.as_str())][..], "resource"),
        (&[("x-original-uri", "/a%zz")], "resource"),
        (&[("x-original-uri", "/a%00b")], "resource"),
        (&[("x-original-uri", "/by-address"), ("x-user-id", "a\tb")], "x-user-id"),
        (&[("x-original-uri", "/orders/1"), ("x-forwarded-uri", "/free")], "x-forwarded-uri"),
        (&[("x-original-uri", "/orders/1"), ("x-user-id", "a"), ("x-user-id", "b")], "x-user-id"),
    ] {
        let answer = server.authorize(headers).await;
        assert_eq!(
            (answer.status.as_u16(), answer.json()["field"].as_str()),
            (400, Some(field)),
            "{headers:?}"
        );
    }
}

#[tokio::test]
async fn request_ids_of_clients_do_not_count() {
    let server = start(RULES).await;
    let headers = [("x-original-uri", "/by-address"), ("x-request-id", "r-1"), ("request-id", "r-1")];
    assert_eq!(server.authorize(&headers).await.header("x-ratelimit-remaining"), Some("9"));
    assert_eq!(server.authorize(&headers).await.header("x-ratelimit-remaining"), Some("8"));
}

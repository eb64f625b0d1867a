//! Who may ask at all.

use std::net::{IpAddr, SocketAddr};
use std::process::Command;

use tidegate_server::{AdminTokens, Config, NamedToken, Role, RulesFeed, Server, StartError};

use crate::client::{Answer, Ask, Running, config, eventually, send, start, start_with};

const RULES: &str = "
rules:
  - {rule_id: each, identifier_type: ip_address, algorithm: fixed_window, limit: 100, window: 1h}
";

fn rules() -> RulesFeed {
    RulesFeed::fixed("rules.yaml", RULES)
}

#[tokio::test]
async fn a_listener_for_everybody_must_ask_something_of_them() {
    let everywhere: SocketAddr = "0.0.0.0:0".parse().unwrap();
    let open = [
        ("http", Config { http: everywhere, ..config() }),
        ("grpc", Config { grpc: everywhere, ..config() }),
        ("admin", Config { admin: "[::]:0".parse().unwrap(), ..config() }),
    ];
    for (listener, config) in open {
        let error = Server::bind(config.clone(), rules()).await.unwrap_err();
        assert!(matches!(error, StartError::Unprotected { .. }), "{error:?}");
        let text = error.to_string();
        for part in [listener, "token", "network", "127.0.0.1"] {
            assert!(text.contains(part), "{text}");
        }
        let token = Config { token: Some("s3cret".to_owned()), ..config.clone() };
        assert!(Server::bind(token, rules()).await.is_ok());
        let networks = Config { allowed_networks: vec!["10.0.0.0/8".parse().unwrap()], ..config };
        assert!(Server::bind(networks, rules()).await.is_ok());
    }
}

#[tokio::test]
async fn what_keeps_a_server_from_starting_is_said() {
    let taken = start(RULES).await;
    let config = Config { admin: taken.addresses.admin, ..config() };
    let error = Server::bind(config, rules()).await.unwrap_err().to_string();
    assert!(error.contains(&taken.addresses.admin.to_string()) && error.contains("admin"), "{error}");

    let bad =
        RulesFeed::fixed("bad.yaml", "rules:\n  - {rule_id: a, limt: 1}\n  - {rule_id: a, limit: -1}\n");
    let error = Server::bind(crate::client::config(), bad).await.unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, StartError::Rules(_)), "{text}");
    assert!(
        text.contains("bad.yaml:2:") && text.contains("bad.yaml:3:"),
        "all problems, each with its place: {text}"
    );

    let empty = Config { token: Some(String::new()), ..crate::client::config() };
    assert!(matches!(Server::bind(empty, rules()).await, Err(StartError::Token)));
}

/// An address that is not loopback, in a network that reaches nobody.
pub(crate) const OUTSIDE: &str = "192.0.2.10";

/// Runs the rest of `test` in a network namespace of its own that has [`OUTSIDE`] and all other addresses of its network
/// (24 bits); true in there.
pub(crate) fn is_in_namespace(test: &str) -> bool {
    const INSIDE: &str = "TIDEGATE_TEST_IN_NAMESPACE";
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    let set_up =
        format!("ip link set lo up && ip addr add {OUTSIDE}/24 dev lo && exec \"$0\" --exact \"$1\"");
    let status = Command::new("unshare")
        .args(["--map-root-user", "--net", "sh", "-c", &set_up])
        .arg(std::env::current_exe().unwrap())
        .arg(test)
        .env(INSIDE, "1")
        .status()
        .expect("a network namespace is needed: apt-get install util-linux iproute2");
    assert!(status.success(), "in its own network namespace (apt-get install util-linux iproute2): {status}");
    false
}

#[tokio::test]
async fn callers_from_outside_need_what_is_configured() {
    if !is_in_namespace("access::callers_from_outside_need_what_is_configured") {
        return;
    }
    let own: IpAddr = OUTSIDE.parse().unwrap();
    let everywhere: SocketAddr = "0.0.0.0:0".parse().unwrap();
    let open = Config { http: everywhere, admin: everywhere, grpc: everywhere, ..config() };
    let token = Config { token: Some("s3cret".to_owned()), ..open.clone() };
    let server = start_with(token, rules()).await;
    let ask = async |port: u16, headers: &[(&str, &str)]| -> Answer {
        send((own, port).into(), Ask::get("/openapi.json").headers(headers)).await
    };
    for port in [server.addresses.http.port(), server.addresses.admin.port()] {
        let answer = ask(port, &[]).await;
        assert_eq!((answer.status.as_u16(), answer.json()["error"].as_str()), (401, Some("unauthorized")));
        assert_eq!(ask(port, &[("authorization", "Bearer wrong!")]).await.status, 401);
        assert_eq!(ask(port, &[("authorization", "Bearer s3cret")]).await.status, 200);
        let inside = send(([127, 0, 0, 1], port).into(), Ask::get("/openapi.json")).await;
        assert_eq!(inside.status, 200, "from inside it is not needed");
    }

    let elsewhere = Config { allowed_networks: vec!["233.252.0.0/24".parse().unwrap()], ..open.clone() };
    let server = start_with(elsewhere, rules()).await;
    let answer = ask(server.addresses.http.port(), &[]).await;
    assert_eq!((answer.status.as_u16(), answer.json()["error"].as_str()), (403, Some("forbidden")));

    let here = Config { allowed_networks: vec![own.into()], ..open };
    let server = start_with(here, rules()).await;
    assert_eq!(ask(server.addresses.http.port(), &[]).await.status, 200);
}

pub(crate) const ALICE: &str = "tg_0000000000000000000000000000000000000000000000000000000000000001";
pub(crate) const BOB: &str = "tg_0000000000000000000000000000000000000000000000000000000000000002";

/// The lines for alice, who may write, and bob, who may read.
fn lines() -> [String; 2] {
    let line = |name, role, secret| NamedToken::new(name, role, secret).unwrap().to_string();
    [line("alice", Role::Write, ALICE), line("bob", Role::Read, BOB)]
}

pub(crate) fn inline() -> Option<AdminTokens> {
    Some(AdminTokens::Inline(lines().join(",")))
}

/// Sends `method path` to `address` with a bearer token, if there is one.
async fn ask_as(address: SocketAddr, token: Option<&str>, method: &str, path: &str) -> Answer {
    let value = token.map(|token| format!("Bearer {token}"));
    let headers: Vec<_> = value.iter().map(|value| ("authorization", value.as_str())).collect();
    send(address, Ask::new(method, path).headers(&headers)).await
}

#[tokio::test]
async fn admin_tokens_protect_the_admin_listener_and_no_other() {
    let everywhere: SocketAddr = "0.0.0.0:0".parse().unwrap();
    let named = Config { admin_tokens: inline(), ..config() };
    assert!(Server::bind(Config { admin: everywhere, ..named.clone() }, rules()).await.is_ok());
    for open in [Config { http: everywhere, ..named.clone() }, Config { grpc: everywhere, ..named }] {
        let error = Server::bind(open, rules()).await.unwrap_err();
        assert!(matches!(error, StartError::Unprotected { .. }), "{error:?}");
        assert!(!error.to_string().contains("admin token"), "{error}");
    }
    let error = Server::bind(Config { admin: everywhere, ..config() }, rules()).await.unwrap_err();
    assert!(error.to_string().contains("give admin tokens or a token"), "{error}");
    let bad = Config { admin_tokens: Some(AdminTokens::Inline("alice write".to_owned())), ..config() };
    let error = Server::bind(bad, rules()).await.unwrap_err();
    assert!(error.to_string().contains("inline tokens:1: a line is `NAME ROLE"), "{error}");
    let error = Server::bind(Config { admin_local: false, ..config() }, rules()).await.unwrap_err();
    assert!(matches!(error, StartError::AdminLocal), "{error:?}");
}

#[tokio::test]
async fn callers_on_this_machine_may_send_a_token_and_may_have_to() {
    let config = Config { admin_tokens: inline(), ..config() };
    let server = start_with(config.clone(), rules()).await;
    let strict = start_with(Config { admin_local: false, ..config }, rules()).await;
    let (open, closed) = (server.addresses.admin, strict.addresses.admin);
    for (token, method, path, on_open, on_closed) in [
        (None, "GET", "/v1/rules", 200, 401),
        (None, "PUT", "/v1/rules", 405, 401),
        (None, "GET", "/metrics", 200, 200),
        (None, "GET", "/readyz", 200, 200),
        (Some("wrong"), "GET", "/v1/rules", 401, 401),
        (Some("wrong"), "GET", "/livez", 200, 200),
        (Some(BOB), "GET", "/v1/rules", 200, 200),
        (Some(BOB), "PUT", "/v1/rules", 403, 403),
        (Some(ALICE), "PUT", "/v1/rules", 405, 405),
    ] {
        assert_eq!(ask_as(open, token, method, path).await.status, on_open, "{token:?} {method} {path}");
        assert_eq!(ask_as(closed, token, method, path).await.status, on_closed, "{token:?} {method} {path}");
    }
    let refused = ask_as(open, Some(BOB), "DELETE", "/v1/rules/each").await.json();
    let message = refused["message"].as_str().unwrap();
    assert_eq!(
        (refused["error"].as_str(), refused["field"].as_str()),
        (Some("forbidden"), Some("authorization"))
    );
    assert!(message.contains("`bob` has the role read") && message.contains("needs write"), "{message}");
    let explained = Ask::post("/v1/explain", r#"{"resource":"/"}"#);
    let bob = format!("Bearer {BOB}");
    assert_eq!(send(open, explained.headers(&[("authorization", &bob)])).await.status, 200, "a question");
    let page = [("origin", "http://evil.example"), ("authorization", "Bearer wrong")];
    let answer = send(open, Ask::get("/v1/rules").headers(&page)).await;
    assert_eq!(
        (answer.status.as_u16(), &answer.json()["field"]),
        (403, &"origin".into()),
        "pages come first"
    );
}

#[tokio::test]
async fn callers_from_outside_need_a_named_token() {
    if !is_in_namespace("access::callers_from_outside_need_a_named_token") {
        return;
    }
    let own: IpAddr = OUTSIDE.parse().unwrap();
    let everywhere: SocketAddr = "0.0.0.0:0".parse().unwrap();
    let outside = |server: &Running| SocketAddr::new(own, server.addresses.admin.port());
    let open = Config { http: everywhere, admin: everywhere, ..config() };

    let named = Config { admin_tokens: inline(), token: Some("s3cret".to_owned()), ..open.clone() };
    let server = start_with(named, rules()).await;
    for (token, rules, metrics) in [
        (None, 401, 401),
        (Some("wrong"), 401, 401),
        (Some("s3cret"), 401, 200),
        (Some(BOB), 200, 200),
        (Some(ALICE), 200, 200),
    ] {
        assert_eq!(ask_as(outside(&server), token, "GET", "/v1/rules").await.status, rules, "{token:?}");
        assert_eq!(ask_as(outside(&server), token, "GET", "/metrics").await.status, metrics, "{token:?}");
    }
    let data = SocketAddr::new(own, server.addresses.http.port());
    for token in [BOB, ALICE] {
        assert_eq!(ask_as(data, Some(token), "GET", "/openapi.json").await.status, 401, "data is not theirs");
    }

    let alone = Config { admin_tokens: inline(), admin: everywhere, ..config() };
    let server = start_with(alone, rules()).await;
    assert_eq!(ask_as(outside(&server), None, "GET", "/metrics").await.status, 401);
    assert_eq!(ask_as(outside(&server), Some(BOB), "GET", "/metrics").await.status, 200);

    let network = Config { allowed_networks: vec![own.into()], ..open };
    let server = start_with(network.clone(), rules()).await;
    assert_eq!(ask_as(outside(&server), None, "GET", "/v1/rules").await.status, 200);
    let answer = ask_as(outside(&server), None, "PUT", "/v1/rules").await;
    assert_eq!(answer.status, 403);
    assert!(answer.text().contains("--admin-tokens FILE"), "{}", answer.text());

    let server = start_with(Config { admin_tokens: inline(), ..network }, rules()).await;
    assert_eq!(ask_as(outside(&server), None, "GET", "/v1/rules").await.status, 401);
    assert_eq!(ask_as(outside(&server), None, "GET", "/metrics").await.status, 200);
    assert_eq!(ask_as(outside(&server), Some(ALICE), "PUT", "/v1/rules").await.status, 405);
}

#[tokio::test]
async fn a_token_file_may_change_at_any_time() {
    let [alice, bob] = lines();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokens");
    let replace = |text: &str| {
        let new = path.with_extension("new");
        std::fs::write(&new, text).unwrap();
        std::fs::rename(new, &path).unwrap();
    };
    replace(&alice);
    let config = Config { admin_tokens: Some(AdminTokens::File(path.clone())), ..config() };
    let server = start_with(config, rules()).await;
    let status =
        async |token| ask_as(server.addresses.admin, Some(token), "GET", "/v1/rules").await.status.as_u16();
    assert_eq!((status(ALICE).await, status(BOB).await), (200, 401));

    replace(&bob);
    eventually("bob", async || status(BOB).await == 200).await;
    assert_eq!(status(ALICE).await, 401, "hers was taken away");

    replace(&format!("{alice}\nbob reads {BOB}\n"));
    eventually("degraded", async || server.admin("/health").await.json()["status"] == "degraded").await;
    let reasons = server.admin("/health").await.json()["reasons"].to_string();
    assert!(reasons.contains("tokens:2: the hash is not") && reasons.contains("stay in use"), "{reasons}");
    assert!(!reasons.contains(BOB), "{reasons}");
    assert_eq!((status(ALICE).await, status(BOB).await), (401, 200), "nothing of it counts");
    assert_eq!(server.admin("/readyz").await.status, 200, "it can still decide");

    std::fs::remove_file(&path).unwrap();
    eventually("gone", async || server.admin("/health").await.text().contains("it cannot be read")).await;
    assert_eq!(status(BOB).await, 200);

    replace(&format!("{alice}\n{bob}\n"));
    eventually("normal", async || server.admin("/health").await.json()["status"] == "normal").await;
    assert_eq!((status(ALICE).await, status(BOB).await), (200, 200));
}

#[tokio::test]
async fn the_admin_listener_knows_its_names() {
    let config = Config { host_names: vec!["limits.example".to_owned()], ..config() };
    let server = start_with(config, rules()).await;
    let admin = server.addresses.admin;
    for (host, status) in [
        ("localhost", 200),
        ("localhost:8082", 200),
        ("127.0.0.1", 200),
        ("[::1]:8082", 200),
        ("limits.example", 200),
        ("evil.example", 403),
        ("evil.example:8082", 403),
        ("192.0.2.1", 403),
    ] {
        for path in ["/health", "/v1/rules", "/metrics"] {
            let answer = send(admin, Ask::get(path).headers(&[("host", host)])).await;
            assert_eq!(answer.status, status, "{host} {path}");
        }
    }
    let answer = send(admin, Ask::get("/health").headers(&[("host", "evil.example")])).await;
    assert_eq!(answer.json()["field"], "host");
}

#[tokio::test]
async fn web_pages_of_others_can_do_nothing() {
    let server = start(RULES).await;
    let (http, admin) = (server.addresses.http, server.addresses.admin);
    let own = |address: SocketAddr| format!("http://{address}");
    let body = r#"{"resource":"/"}"#;
    for (address, path) in [(http, "/v1/check"), (http, "/v1/check/batch"), (admin, "/v1/explain")] {
        let body = if path.ends_with("batch") { format!("[{body}]") } else { body.to_owned() };
        for (headers, status) in [
            (vec![("origin", "http://evil.example".to_owned())], 403),
            (vec![("origin", "null".to_owned())], 403),
            (vec![("origin", "http://127.0.0.1:1".to_owned())], 403),
            (vec![("sec-fetch-site", "cross-site".to_owned())], 403),
            (vec![("sec-fetch-site", "same-site".to_owned())], 403),
            (vec![("host", "evil.example".to_owned()), ("origin", "http://evil.example".to_owned())], 403),
            (vec![("origin", own(address)), ("sec-fetch-site", "same-origin".to_owned())], 200),
        ] {
            let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
            let answer = send(address, Ask::post(path, &body).headers(&headers)).await;
            assert_eq!(answer.status, status, "{path} {headers:?}");
            assert_eq!(answer.header("access-control-allow-origin"), None);
        }
    }
    assert_eq!(server.remaining(r#"{"resource":"/"}"#).await, 98, "only our own pages have counted");
    let preflight = Ask::new("OPTIONS", "/v1/check")
        .headers(&[("origin", "http://evil.example"), ("access-control-request-method", "POST")]);
    assert_eq!(send(http, preflight).await.status, 403);
}

#[tokio::test]
async fn a_proxy_passes_on_the_headers_of_browsers() {
    let server = start(RULES).await;
    let browser = [("origin", "https://app.example"), ("sec-fetch-site", "cross-site")];
    assert_eq!(server.authorize(&browser).await.status, 403, "a page that asks itself");
    let forwarded = [browser[0], browser[1], ("x-original-uri", "/orders/7")];
    assert_eq!(server.authorize(&forwarded).await.status, 200, "a proxy that asks for a page");
}

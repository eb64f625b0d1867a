//! Who may ask at all.

use std::net::{IpAddr, SocketAddr};
use std::process::Command;

use tidegate_server::{Config, RulesFeed, Server, StartError};

use crate::client::{Answer, Ask, config, send, start, start_with};

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
const OUTSIDE: &str = "192.0.2.10";

/// Runs the rest of `test` in a network namespace of its own that has [`OUTSIDE`]; true in there.
fn is_in_namespace(test: &str) -> bool {
    const INSIDE: &str = "TIDEGATE_TEST_IN_NAMESPACE";
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    let set_up =
        format!("ip link set lo up && ip addr add {OUTSIDE}/32 dev lo && exec \"$0\" --exact \"$1\"");
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

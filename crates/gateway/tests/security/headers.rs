//! Headers by which a client says more than it may.

use tidegate_gateway::GatewayConfig;
use tidegate_testkit::Backend;

use crate::frames::{DATA, Duplex, END_HEADERS, END_STREAM, HEADERS, Outcome, block, fields, frame};
use crate::support::Setup;
use crate::wire::{Answer, Wire, ask};

const PROXY: &str = "127.0.0.9";

fn trusting(config: &mut GatewayConfig) {
    config.identity.trusted_proxies = vec![format!("{PROXY}/32").parse().unwrap()];
    config.identity.headers.tier = Some("x-tier".parse().unwrap());
}

fn request(headers: &str) -> String {
    format!("GET /x HTTP/1.1\r\nhost: api.example\r\n{headers}\r\n")
}

#[tokio::test]
async fn what_only_a_proxy_may_say_never_arrives() {
    let backend = Backend::start();
    let gateway = Setup::to(&[backend.address()]).gateway(trusting).start().await;
    for name in [
        "X-User-Id",
        "X_User_Id",
        "x-user_id",
        "X.User.Id",
        "X!User!Id",
        "X-Tenant-Id",
        "X_TENANT_ID",
        "X-Tier",
        "X_Tier",
        "X-Forwarded-For",
        "X_Forwarded_For",
        "X.Forwarded.For",
        "X-Forwarded_For",
        "X-Forwarded-Host",
        "X-Forwarded-Proto",
        "X-Forwarded-Port",
        "X-Forwarded-Prefix",
        "X-Forwarded-User",
        "X_Forwarded_User",
        "X-Forwarded",
        "Forwarded",
        "X-Real-IP",
        "X_Real_IP",
        "X-Client-IP",
        "X-Cluster-Client-IP",
        "Client-IP",
        "Client_IP",
        "True-Client-IP",
        "X-Original-URI",
        "X-Original-URL",
        "X_Original_URL",
        "X-Original-Host",
        "X-Rewrite-URL",
        "X_Rewrite.URL",
        "X-HTTP-Method-Override",
        "X_HTTP_Method_Override",
        "X-HTTP-Method",
        "X-Method-Override",
        "Proxy",
        "Content_Length",
        "Content.Length",
        "Transfer_Encoding",
        "X_Api_Key",
        "X.Api.Key",
    ] {
        let answer = ask(gateway.at.listen, request(&format!("{name}: forged.example\r\n"))).await.unwrap();
        assert_eq!(answer.status, 200, "{name}: {answer:?}");
        assert!(!answer.body.contains("forged"), "{name}: {}", answer.body);
        assert!(answer.body.contains("\nx-forwarded-for: 127.0.0.1\n"), "{name}: {}", answer.body);
        assert!(answer.body.contains("\nx-real-ip: 127.0.0.1\n"), "{name}: {}", answer.body);
    }
}

/// They are headers to some, though they come at the end.
#[tokio::test]
async fn nor_does_it_at_the_end_of_a_body() {
    let hostile = crate::hostile::Hostile::says(
        "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok",
        crate::hostile::Then::Listen,
    )
    .await;
    let gateway = Setup::to(&[hostile.address]).gateway(trusting).start().await;
    let names = "x-user-id, x_user_id, x-forwarded-for, x-real-ip, x-http-method-override, x-checksum";
    let trailers: String = names.split(", ").map(|name| format!("{name}: forged-{name}\r\n")).collect();
    let sent = format!(
        "POST /x HTTP/1.1\r\nhost: api.example\r\nte: trailers\r\ntrailer: {names}\r\n\
         transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n{trailers}\r\n"
    );
    assert_eq!(ask(gateway.at.listen, sent).await.unwrap().status, 200);
    crate::slow::wait_for("all of it has come", || hostile.heard().contains("\r\n0\r\n")).await;
    crate::slow::wait_for("what may come has", || hostile.heard().contains("forged-x-checksum")).await;
    assert_eq!(hostile.heard().matches("forged-").count(), 1, "{}", hostile.heard());

    let mut duplex = Duplex::to(gateway.at.listen, &[]).await;
    let head = block(&fields("POST", "/second", &[("trailer", names.as_bytes())]));
    duplex.send(&frame(HEADERS, END_HEADERS, 1, &head)).await;
    duplex.send(&frame(DATA, 0, 1, b"hello")).await;
    let trailers = block(&[(b"x-user-id", b"forged-again"), (b"x-checksum", b"1234")]);
    duplex.send(&frame(HEADERS, END_HEADERS | END_STREAM, 1, &trailers)).await;
    assert!(matches!(duplex.outcome(1).await, Outcome::Answered(Some(200), _)));
    crate::slow::wait_for("what may come has", || hostile.heard().contains("x-checksum: 1234")).await;
    assert!(!hostile.heard().contains("forged-again"), "{}", hostile.heard());
}

#[tokio::test]
async fn what_the_gateway_says_cannot_be_named_as_the_connections() {
    let backend = Backend::start();
    let gateway = Setup::to(&[backend.address()]).gateway(trusting).start().await;
    let named = "X-User-Id, X-Tenant-Id, X-Forwarded-For, X-Real-IP, Forwarded, X-Forwarded-Proto, X-Forwarded-Host, \
                 Host, Content-Length, Transfer-Encoding";
    let sent = format!(
        "POST /x HTTP/1.1\r\nhost: api.example\r\nx-user-id: alice\r\nx-forwarded-for: 192.0.2.1\r\n\
         connection: keep-alive, {named}\r\ncontent-length: 5\r\n\r\nhello"
    );
    let mut wire = Wire::from(PROXY, gateway.at.listen).await;
    for _ in 0..2 {
        let answer = wire.ask(&sent).await.unwrap();
        for line in [
            "x-user-id: alice",
            "x-real-ip: 192.0.2.1",
            "x-forwarded-proto: http",
            "x-forwarded-host: api.example",
            "host: api.example",
            "content-length: 5",
        ] {
            assert!(answer.body.contains(&format!("\n{line}\n")), "{line}: {}", answer.body);
        }
        assert!(answer.body.contains("\nx-forwarded-for: "), "{}", answer.body);
        assert!(answer.body.ends_with("\n\nhello\n"), "{}", answer.body);
    }
    // Its own credentials are a client's to withhold; then it is nobody.
    let sent = request("authorization: Bearer x\r\nconnection: authorization\r\n");
    let answer = ask(gateway.at.listen, sent).await.unwrap();
    assert!(!answer.body.contains("bearer"), "{}", answer.body);
}

#[tokio::test]
async fn a_proxy_that_is_trusted_is_believed() {
    let backend = Backend::start();
    let gateway = Setup::to(&[backend.address()]).gateway(trusting).start().await;
    let said = "x-user-id: alice\r\nx-tier: gold\r\nx-forwarded-for: 198.51.100.9, 192.0.2.1\r\nX_User_Id: forged\r\n";
    let answer = Wire::from(PROXY, gateway.at.listen).await.ask(request(said)).await.unwrap();
    for line in ["x-user-id: alice", "x-tier: gold", "x-real-ip: 192.0.2.1"] {
        assert!(answer.body.contains(&format!("\n{line}\n")), "{line}: {}", answer.body);
    }
    assert!(!answer.body.contains("forged"), "{}", answer.body);
}

/// How many of `count` requests are let through, each with other headers.
async fn let_through(wire: &mut Wire, count: usize, headers: impl Fn(usize) -> String) -> usize {
    let mut through = 0;
    for turn in 0..count {
        let Answer { status, .. } = wire.ask(request(&headers(turn))).await.unwrap();
        assert!([200, 429].contains(&status), "{status}");
        through += usize::from(status == 200);
    }
    through
}

#[tokio::test]
async fn rules_go_by_no_header_that_its_sender_may_not_set() {
    let backend = Backend::start();
    let count = |rule: &str| {
        format!("rules:\n  - {{rule_id: counted, {rule}, algorithm: fixed_window, window: 1h}}\n")
    };
    let user = "identifier_type: 'header:X-User-Id', on_missing_identity: shared, limit: 3";
    let gateway = Setup::to(&[backend.address()]).gateway(trusting).rules(&count(user)).start().await;
    let mut client = Wire::to(gateway.at.listen).await;
    let forged = |turn: usize| format!("x-user-id: user-{turn}\r\n");
    assert_eq!(let_through(&mut client, 10, forged).await, 3, "by header");
    let mut proxy = Wire::from(PROXY, gateway.at.listen).await;
    assert_eq!(let_through(&mut proxy, 10, forged).await, 10, "a proxy tells them apart");

    let address = "identifier_type: ip_address, limit: 3";
    let gateway = Setup::to(&[backend.address()]).gateway(trusting).rules(&count(address)).start().await;
    let mut client = Wire::to(gateway.at.listen).await;
    let forged = |turn: usize| {
        format!(
            "x-forwarded-for: 192.0.2.{turn}\r\nx-real-ip: 192.0.2.{turn}\r\nforwarded: for=192.0.2.{turn}\r\n"
        )
    };
    assert_eq!(let_through(&mut client, 10, forged).await, 3, "by address");

    let wanted = "identifier_type: global, limit: 0, match: {required_headers: {X-User-Id: victim}}";
    let gateway = Setup::to(&[backend.address()]).gateway(trusting).rules(&count(wanted)).start().await;
    let victim = |_: usize| "x-user-id: victim\r\n".to_owned();
    let mut client = Wire::to(gateway.at.listen).await;
    assert_eq!(let_through(&mut client, 2, victim).await, 2, "it is not the victim");
    let mut proxy = Wire::from(PROXY, gateway.at.listen).await;
    assert_eq!(let_through(&mut proxy, 2, victim).await, 0);

    let tiers = "tiers:\n  free: {limit: 2, window: 1h, algorithm: fixed_window}\n  gold: {limit: 8, window: 1h, algorithm: fixed_window}\n\
                 default_tier: free\ntier_from: header:X-Tier\nrules:\n  - {rule_id: tier, identifier_type: ip_address, tiered: true}\n";
    let gateway = Setup::to(&[backend.address()]).gateway(trusting).rules(tiers).start().await;
    let gold = |_: usize| "x-tier: gold\r\nX_Tier: gold\r\n".to_owned();
    let mut client = Wire::to(gateway.at.listen).await;
    assert_eq!(let_through(&mut client, 10, gold).await, 2, "anybody can say gold");
    let mut proxy = Wire::from(PROXY, gateway.at.listen).await;
    assert_eq!(let_through(&mut proxy, 10, gold).await, 8);
}

#[tokio::test]
async fn the_method_that_was_decided_on_is_the_method() {
    let backend = Backend::start();
    let rules = "rules:\n  - {rule_id: no, identifier_type: global, limit: 0, window: 1h, match: {methods: [DELETE]}}\n";
    let gateway = Setup::to(&[backend.address()]).rules(rules).start().await;
    for first in ["DELETE", "delete", "Delete"] {
        let answer = ask(gateway.at.listen, format!("{first} / HTTP/1.1\r\nhost: a\r\n\r\n")).await.unwrap();
        assert_eq!(answer.status, 429, "{first}");
    }
    assert_eq!(backend.requests(), 0);
}

/// A rule for a host holds however the host is spelled, and wherever it is named.
#[tokio::test]
async fn a_rule_for_a_host_cannot_be_walked_around() {
    let backend = Backend::start();
    let rules = "rules:\n  - {rule_id: no, identifier_type: global, limit: 0, window: 1h, \
                 match: {required_headers: {Host: admin.example}}}\n";
    let gateway = Setup::to(&[backend.address()]).rules(rules).start().await;
    for (target, host) in [
        ("/", "admin.example"),
        ("/", "ADMIN.example"),
        ("/", "admin.example."),
        ("/", "admin.example:80"),
        ("http://admin.example/", "other.example"),
        ("http://Admin.example.:80/", "other.example"),
    ] {
        let answer = ask(gateway.at.listen, format!("GET {target} HTTP/1.1\r\nhost: {host}\r\n\r\n")).await;
        assert_eq!(answer.unwrap().status, 429, "{target} {host}");
    }
    let mut fields = fields("GET", "/", &[]);
    fields[2].1 = b"admin.example";
    let mut duplex = Duplex::to(gateway.at.listen, &[]).await;
    duplex.send(&frame(HEADERS, END_HEADERS | END_STREAM, 1, &block(&fields))).await;
    let outcome = duplex.outcome(1).await;
    assert!(!matches!(outcome, Outcome::Answered(Some(200), _)), "{outcome:?}");
    assert_eq!(backend.requests(), 0);
    // The request line has the last word.
    let other = "GET http://other.example/ HTTP/1.1\r\nhost: admin.example\r\n\r\n";
    assert_eq!(ask(gateway.at.listen, other).await.unwrap().status, 200);
}

/// A header that a rule reads has one value, in one spelling.
#[tokio::test]
async fn a_rule_for_a_header_cannot_be_walked_around() {
    let backend = Backend::start();
    let rules = "tiers: {free: {limit: 100, window: 1h}, gold: {limit: 100, window: 1h}}\ndefault_tier: free\ntier_from: header:X-Plan\n\
        rules:\n  - {rule_id: no, identifier_type: global, limit: 0, window: 1h, match: {required_headers: {X-Blocked: \"1\"}}}\n\
        \x20 - {rule_id: device, identifier_type: 'header:X-Device', limit: 100, window: 1h}\n\
        \x20 - {rule_id: cost, identifier_type: global, limit: 100, window: 1h, cost: {header: X-Cost}}\n\
        \x20 - {rule_id: tier, identifier_type: ip_address, tiered: true}\n\
        \x20 - {rule_id: city, identifier_type: global, limit: 0, window: 1h, match: {required_headers: {X-City: Zürich}}}\n\
        \x20 - {rule_id: session, identifier_type: global, limit: 0, window: 1h, match: {required_headers: {Cookie: a=1; b=2}}}\n";
    let gateway = Setup::to(&[backend.address()]).rules(rules).start().await;
    let bytes = |lines: &[(&str, &[u8])]| {
        let mut sent = b"GET /x HTTP/1.1\r\nhost: api.example\r\n".to_vec();
        for (name, value) in lines {
            sent.extend_from_slice(&[name.as_bytes(), b": ", value, b"\r\n"].concat());
        }
        [sent, b"\r\n".to_vec()].concat()
    };
    for (lines, status) in [
        (&[("x-blocked", b"1".as_slice())][..], 429),
        (&[("x-blocked", b"2"), ("x-blocked", b"1")], 400),
        (&[("x-blocked", b"1"), ("x-blocked", b"2")], 400),
        (&[("x-blocked", b""), ("x-blocked", b"1")], 400),
        (&[("x-blocked", b"\xff"), ("x-blocked", b"1")], 400),
        (&[("x-blocked", b"1\xff")], 400),
        (&[("x-blocked", b"1"), ("x-blocked", b"1")], 429),
        (&[("X_Blocked", b"1")], 400),
        (&[("x.blocked", b"1")], 400),
        (&[("x-device", b"a"), ("x-device", b"b")], 400),
        (&[("x_device", b"a")], 400),
        (&[("x-cost", b"1"), ("x-cost", b"50")], 400),
        (&[("x-cost", b"\x80")], 400),
        (&[("x-plan", b"gold"), ("x-plan", b"free")], 400),
        (&[("x_plan", b"gold")], 400),
        (&[("x-city", "Zürich".as_bytes())], 429),
        (&[("cookie", b"a=1"), ("cookie", b"b=2")], 429),
        (&[("cookie", b"a=1"), ("cookie", b"b=3")], 200),
        (&[("accept", b"a"), ("accept", b"b"), ("x_other", b"\xff"), ("x-device", b"a")], 200),
    ] {
        let answer = ask(gateway.at.listen, bytes(lines)).await.unwrap();
        assert_eq!(answer.status, status, "{lines:?}: {answer:?}");
        let named = answer.body.contains("\"error\":\"ambiguous_header\"");
        assert_eq!(named, status == 400, "{answer:?}");
        // Of the other statuses, HTTP/2 has no number.
        if status == 400 {
            let mut duplex = Duplex::to(gateway.at.listen, &[]).await;
            let lower: Vec<_> =
                lines.iter().map(|(name, value)| (name.to_ascii_lowercase(), *value)).collect();
            let more: Vec<_> = lower.iter().map(|(name, value)| (name.as_str(), *value)).collect();
            let head = block(&fields("GET", "/x", &more));
            duplex.send(&frame(HEADERS, END_HEADERS | END_STREAM, 1, &head)).await;
            let outcome = duplex.outcome(1).await;
            assert!(matches!(outcome, Outcome::Answered(Some(400), _)), "{lines:?}: {outcome:?}");
        }
    }
    assert_eq!(backend.requests(), 2);
}

/// Nobody has to mind the spelling of a header that no rule reads.
#[tokio::test]
async fn headers_that_no_rule_reads_are_passed_on() {
    let backend = Backend::start();
    let gateway = Setup::to(&[backend.address()]).start().await;
    let answer =
        ask(gateway.at.listen, request("x-blocked: 2\r\nx-blocked: 1\r\nX_Blocked: 3\r\n")).await.unwrap();
    assert_eq!(answer.status, 200);
    for line in ["x-blocked: 2", "x-blocked: 1", "x_blocked: 3"] {
        assert!(answer.body.to_ascii_lowercase().contains(line), "{answer:?}");
    }
}

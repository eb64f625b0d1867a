//! Rules from etcd.

use tidegate_testkit::{Etcd, Port};

use crate::support::{Server, run, wait_for};

const REQUEST: &str = r#"{"user":"alice","resource":"/"}"#;

fn rule(limit: u64) -> String {
    format!("{{rule_id: all, identifier_type: user_id, limit: {limit}, window: 1h}}")
}

#[test]
fn rules_come_from_etcd_and_the_password_is_not_shown() {
    let etcd = Etcd::start();
    etcd.put("shop/rules/all", rule(10));
    for args in
        [&["user", "add", "root:secret"][..], &["user", "grant-role", "root", "root"], &["auth", "enable"]]
    {
        etcd.control(args, "");
    }
    let server = Server::start(&["--rules", &format!("etcd://root:secret@{}/shop", etcd.address())]);
    assert_eq!(server.check(REQUEST)["limit"], 10);
    let banner = wait_for("the start-up message", || Some(server.out()).filter(|out| out.contains("curl")));
    assert!(banner.contains(&format!("etcd://{}/shop, 1 rule: all", etcd.address())), "{banner}");
    etcd.control(&["--user", "root:secret", "put", "shop/rules/all"], rule(20));
    wait_for("the new rules", || (server.check(REQUEST)["limit"] == 20).then_some(()));
    assert!(!server.out().contains("secret") && !server.log().contains("secret"));
}

#[test]
fn why_there_are_no_rules_is_said() {
    let nobody = Port::claim();
    let url = format!("etcd://root:secret@{}/shop", nobody.address());
    let said = run(["serve", "--rules", &url]);
    said.complains(1, &["cannot reach the rules in etcd at 127.0.0.1", "see that it runs there"]);
    for command in
        [&["rules", "convert"][..], &["simulate", "/dev/null", "--rules"], &["explain", "/", "--rules"]]
    {
        let said = run(command.iter().copied().chain([&*url]));
        said.complains(1, &["etcd://\u{2026}", "only files are read here"]);
    }
}

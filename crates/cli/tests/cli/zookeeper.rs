//! Rules from ZooKeeper.

use tidegate_testkit::{Port, Zookeeper};

use crate::support::{Server, run, wait_for};

const REQUEST: &str = r#"{"user":"alice","resource":"/"}"#;

fn rule(limit: u64) -> String {
    format!("{{rule_id: all, identifier_type: user_id, limit: {limit}, window: 1h}}")
}

#[test]
fn rules_come_from_zookeeper_and_the_password_is_not_shown() {
    let zookeeper = Zookeeper::start();
    let login = Some("ann:secret");
    zookeeper.put_as(login, "/shop/rules/all", rule(10));
    let url = format!("zookeeper://ann:secret@{}/shop/rules", zookeeper.address());
    let server = Server::start(&["--rules", &url]);
    assert_eq!(server.check(REQUEST)["limit"], 10);
    let banner = wait_for("the start-up message", || Some(server.out()).filter(|out| out.contains("curl")));
    let shown = format!("zookeeper://{}/shop/rules, 1 rule: all", zookeeper.address());
    assert!(banner.contains(&shown), "{banner}");
    zookeeper.put_as(login, "/shop/rules/all", rule(20));
    wait_for("the new rules", || (server.check(REQUEST)["limit"] == 20).then_some(()));
    assert!(!server.out().contains("secret") && !server.log().contains("secret"));
}

#[test]
fn why_there_are_no_rules_is_said() {
    let nobody = Port::claim();
    let url = format!("zookeeper://ann:secret@{}/shop/rules", nobody.address());
    let said = run(["serve", "--rules", &url]);
    said.complains(1, &["cannot reach the rules in ZooKeeper at 127.0.0.1", "see that it runs there"]);
}

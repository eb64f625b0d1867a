//! Who may look, and who may change.

use tidegate_testkit::{Browser, ConsoleMessage};

use super::{SOON, Site, part_of};
use crate::support::{Server, run};

const RULES: &str = "rules: [{rule_id: each, identifier_type: user_id, limit: 3, window: 1h}]";

/// A change that the page would not make, with its token.
const PUT: &str = r"
    const body = 'rule_id: each\nidentifier_type: user_id\nlimit: 99\nwindow: 1h';
    const headers = {Authorization: `Bearer ${sessionStorage.getItem('tidegate-token')}`};
    return fetch('/v1/rules/each', {method: 'PUT', body, headers}).then((answer) => answer.status);";

/// What the browser says of answers that a test provokes.
fn refused(message: &ConsoleMessage) -> bool {
    message.source == "network" && (message.text.contains("401") || message.text.contains("403"))
}

#[tokio::test]
async fn whoever_may_only_look_sees_all_and_changes_nothing() {
    let made = run(["token", "new", "--name", "alice", "--role", "read", "--json"]).json();
    let (redis, folder) = (tidegate_testkit::Redis::start(), tempfile::tempdir().unwrap());
    std::fs::write(folder.path().join("rules.yaml"), RULES).unwrap();
    let (store, rules) = (redis.url(), folder.path().to_str().unwrap().to_owned());
    let args = ["--store", &store, "--rules", &rules, "--admin-local", "deny", "--store-timeout", "1s"];
    let node = Server::start_with(&args, |command| {
        command.env("TIDEGATE_ADMIN_TOKENS_INLINE", made["line"].as_str().unwrap())
    });
    let site = Site { browser: Browser::start().await, node, redis, folder };

    // Without a token there is nothing to see, and a wrong one is no better.
    site.goto("#/").await;
    site.shows("token-form").await;
    site.shows("connection[data-value=denied]").await;
    site.browser.type_in("#token", &"x".repeat(40)).await;
    site.browser.click("[data-test=token-form] button").await;
    site.browser.wait_for("[data-test=token-form] [role=alert]", SOON).await;
    assert_eq!(site.browser.count(&part_of("mode")).await, 0);

    site.browser.type_in("#token", made["token"].as_str().unwrap()).await;
    site.browser.click("[data-test=token-form] button").await;
    site.shows("mode[data-value=normal]").await;
    site.click("nav-fleet").await;
    site.shows("fleet-row").await;

    site.click("nav-rules").await;
    site.shows("rule-new:disabled").await;
    let why = site.browser.text("#rules-may-not").await;
    assert!(why.contains("role write"), "{why}");
    site.click("rule-row[data-rule=each] a").await;
    site.shows("rule-edit:disabled").await;
    assert_eq!(
        site.browser.attribute(&part_of("rule-edit"), "aria-describedby").await.as_deref(),
        Some("rules-may-not")
    );

    // A page is no fence: the node itself refuses.
    assert_eq!(site.browser.eval(PUT).await, 403);
    assert_eq!(site.rules(), RULES);
    site.has_no_errors_but(refused).await;
}

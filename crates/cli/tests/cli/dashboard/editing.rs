//! Rules changed in the browser are those that decide.

use super::{PATIENT, Site, check_of};
use crate::support::wait_for;

const RULES: &str = "\
# Everybody's limit.
rules:
  - rule_id: each
    identifier_type: user_id
    algorithm: fixed_window
    limit: 3 # for now
    window: 366d
";

impl Site {
    /// How many requests of a new user are allowed.
    fn allows(&self, user: &str) -> usize {
        let decisions = (0..10).map(|_| self.node.check(&check_of(user)));
        decisions.filter(|decision| decision["allowed"] == true).count()
    }

    /// Waits until a limit is in force: the page's own answer may come first.
    fn enforces(&self, limit: u64) {
        wait_for("the limit to be in force", || {
            let decision = self.node.check(r#"{"user":"looks","resource":"/","cost":0}"#);
            (decision["limit"] == limit).then_some(())
        });
    }

    /// Puts another text into the editor, and waits until it was checked.
    async fn writes(&self, from: &str, to: &str, state: &str) {
        let text = self.until("document.querySelector('[data-test=rule-text]').value").await;
        let text = text.as_str().unwrap();
        assert!(text.contains(from), "`{from}` is not in {text}");
        self.write_over(&text.replace(from, to)).await;
        self.shows(&format!("rule-validate[data-state={state}]")).await;
    }
}

#[tokio::test]
async fn a_rule_is_changed_in_the_browser_and_brought_back() {
    let site = Site::open(RULES, &PATIENT).await;
    assert_eq!(site.allows("before"), 3);
    site.click("nav-rules").await;
    site.click("rule-row[data-rule=each] a").await;
    site.click("rule-edit:enabled").await;
    site.shows("rule-text").await;

    // What is wrong is said with its line, and cannot be saved.
    site.writes("limit: 3", "limit: three", "invalid").await;
    let wrong = site.text("rule-validate").await.to_lowercase();
    assert!(wrong.contains("line 4") && wrong.contains("limit"), "{wrong}");
    site.shows("rule-save:disabled").await;
    assert_eq!((site.rules().as_str(), site.allows("meanwhile")), (RULES, 3));

    site.writes("limit: three", "limit: 5", "valid").await;
    let diff = site.text("rule-diff").await;
    assert!(diff.contains("limit: 3 # for now") && diff.contains("limit: 5 # for now"), "{diff}");
    assert_eq!(site.rules(), RULES, "nothing is saved before one says so");
    site.click("rule-save:enabled").await;
    site.shows("rule-message[data-kind=good]").await;
    let said = site.text("rule-message").await;
    assert!(said.contains("Version ") && said.contains("in force"), "{said}");
    site.enforces(5);
    assert_eq!(site.allows("after"), 5);
    assert_eq!(site.rules(), RULES.replace("limit: 3", "limit: 5"), "comments stay");

    // Back to what was there before.
    site.shows("history-row").await;
    site.click("rule-rollback:enabled").await;
    site.click("rollback-confirm").await;
    site.until("/rolled back/i.test(document.querySelector('[data-test=rule-message]')?.textContent)").await;
    site.enforces(3);
    assert_eq!((site.rules().as_str(), site.allows("again")), (RULES, 3));
    site.until("document.querySelectorAll('[data-test=history-row]').length === 3").await;
    // That is how the node says that a text is wrong.
    site.has_no_errors_but(|message| message.source == "network" && message.text.contains("validate")).await;
}

#[tokio::test]
async fn a_request_is_explained_and_not_counted() {
    let site = Site::open(RULES, &PATIENT).await;
    site.goto("#/rules/~explain").await;
    site.shows("explain-form").await;
    for (part, text) in [("explain-path", "/orders/7"), ("explain-user", "curious")] {
        site.browser.type_in(&super::part_of(part), text).await;
    }
    site.click("explain-submit").await;
    site.shows("explain-answer[data-allowed=true]").await;
    let answer = site.text("explain-result").await;
    assert!(answer.contains("each") && answer.contains('3'), "{answer}");
    assert_eq!(site.allows("curious"), 3);
    site.click("explain-submit").await;
    site.shows("explain-answer[data-allowed=false]").await;
    site.has_no_errors().await;
}

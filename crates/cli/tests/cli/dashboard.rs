//! The dashboard in a real browser, on the page that the real binary serves, with a real store.

mod accessible;
mod editing;
mod fleet;
mod hostile;
mod hot_keys;
mod nodes;
mod numbers;
mod outage;
mod reach;
mod restart;
mod roles;
mod screenshots;
mod sizes;
mod traffic;
mod upstreams;

use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use tidegate_testkit::{Browser, ConsoleMessage, Redis};

use crate::support::Server;

/// Longer than anything on a page takes, on a machine that is busy with other things.
const SOON: Duration = tidegate_testkit::wait::HANG_LIMIT;

/// What makes a machine that is busy with other things no outage.
const PATIENT: [&str; 2] = ["--store-timeout", "1s"];

/// A node with a store of its own, and a browser that looks at it.
struct Site {
    browser: Browser,
    node: Server,
    redis: Redis,
    folder: TempDir,
}

impl Site {
    /// Starts all of them, with these rules in a folder, and opens the page.
    async fn open(rules: &str, args: &[&str]) -> Self {
        let (redis, folder) = (Redis::start(), TempDir::new().unwrap());
        std::fs::write(folder.path().join("rules.yaml"), rules).unwrap();
        let node = start(&redis, &folder, args);
        let browser = Browser::start().await;
        let site = Self { browser, node, redis, folder };
        site.goto("#/").await;
        site
    }

    /// Ends the node as an operator would; the page stays open.
    fn end_node(&mut self) {
        self.node.signal("TERM");
        assert_eq!(self.node.wait(), 0, "{}", self.node.log());
    }

    /// Starts another in its place.
    fn start_node(&mut self, args: &[&str]) {
        self.node = start(&self.redis, &self.folder, args);
    }

    /// Opens a view of the page.
    async fn goto(&self, view: &str) {
        self.browser.goto(&format!("http://{}/{view}", self.node.admin)).await;
    }

    /// Waits until an expression holds in the page.
    async fn until(&self, expression: &str) -> Value {
        self.browser.wait_until(expression, SOON).await
    }

    /// Waits until the page shows a part of it, by its name for tests and whatever else the selector says.
    async fn shows(&self, part: &str) {
        self.browser.wait_for(&part_of(part), SOON).await;
    }

    /// Waits for a part and clicks it.
    async fn click(&self, part: &str) {
        self.shows(part).await;
        self.browser.click(&part_of(part)).await;
    }

    /// The text of a part as it is shown.
    async fn text(&self, part: &str) -> String {
        self.browser.text(&part_of(part)).await
    }

    /// Writes over all that is in the editor, as people do.
    async fn write_over(&self, text: &str) {
        let (control, release) = ('\u{e009}', '\u{e000}');
        self.browser.press("[data-test=rule-text]", &format!("{control}a{release}{text}")).await;
        let is_there = Value::from(text);
        self.until(&format!("document.querySelector('[data-test=rule-text]').value === {is_there}")).await;
    }

    /// The document of the rules as it is on disk.
    fn rules(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("rules.yaml")).unwrap()
    }

    /// Fails if anything went wrong in the page but what a test expects.
    async fn has_no_errors_but(&self, expected: impl Fn(&ConsoleMessage) -> bool) {
        let said = self.browser.console().await;
        let wrong: Vec<_> = said.iter().filter(|one| one.is_error() && !expected(one)).collect();
        assert!(wrong.is_empty(), "{wrong:#?}");
    }

    async fn has_no_errors(&self) {
        self.has_no_errors_but(|_| false).await;
    }
}

fn start(redis: &Redis, folder: &TempDir, args: &[&str]) -> Server {
    let (store, source) = (redis.url(), folder.path().to_str().unwrap());
    Server::start(&[&["--store", &store, "--rules", source], args].concat())
}

/// The selector for `name`, `name[more]` or `name more`.
fn part_of(part: &str) -> String {
    let end = part.find(['[', ' ', ':']).unwrap_or(part.len());
    format!("[data-test=\"{}\"]{}", &part[..end], &part[end..])
}

/// A check of `user`, as JSON.
fn check_of(user: &str) -> String {
    serde_json::json!({"user": user, "resource": "/"}).to_string()
}

//! Pictures of the page for the documentation: three nodes, one store, eight rules, and users who come and go.
//!
//! `cargo xtask screenshots` takes them after more than a minute of traffic. Without it they are taken all the same, as soon as
//! there is something to see, and thrown away: it must not be on the day somebody wants new ones that they turn out to be broken.

mod cast;
mod picture;

use std::path::PathBuf;
use std::time::Duration;

use tidegate_testkit::{Browser, Redis};
use tokio::time::sleep;

use self::picture::{LAPTOP, PHONE, WALL, picture};
use super::{SOON, Site, nodes};

/// Where the pictures for the documentation go.
const FOLDER: &str = "TIDEGATE_SCREENSHOTS";

const ARGS: [&str; 6] = ["--store-timeout", "100ms", "--degraded-after", "1s", "--hot-key-rate", "120"];

#[tokio::test]
async fn pictures_can_be_taken() {
    let wanted = std::env::var_os(FOLDER).map(PathBuf::from);
    let (redis, folder) = (Redis::start(), tempfile::tempdir().unwrap());
    let to = wanted.clone().unwrap_or_else(|| folder.path().join("pictures"));
    std::fs::create_dir_all(&to).unwrap();
    // How long there is traffic before anything is looked at, and without the store.
    let (before, without) = if wanted.is_some() { (240, 15) } else { (0, 0) };

    cast::write_rules(&folder.path().join("rules"));
    let (token, line) = cast::token();
    let args = [&ARGS[..], &["--admin-tokens-inline", &line]].concat();
    let mut nodes = nodes::start(&redis, folder.path(), 3, &args);
    let traffic = cast::traffic(&nodes);
    cast::change_rules(&nodes[0], &token);
    let node = nodes.remove(0);
    let site = Site { browser: Browser::start().await, node, redis, folder };
    site.goto("#/").await;
    site.shows("hot-key [data-test=hot]").await;
    site.shows("refused-row").await;
    sleep(Duration::from_secs(before)).await;

    let picture = |name: &'static str, format, dark| picture(&site, to.join(name), format, dark);
    picture("overview.png", LAPTOP, false).await;
    picture("overview-phone.png", PHONE, false).await;
    picture("overview-wall.png", WALL, true).await;

    site.goto("#/rules").await;
    site.until("document.querySelectorAll('[data-test=rule-row]').length === 8").await;
    picture("rules.png", LAPTOP, false).await;
    site.goto("#/rules/search").await;
    site.shows("history-row").await;
    site.browser.click("[data-test=history-row] summary").await;
    picture("rule.png", LAPTOP, false).await;
    site.goto("#/rules/search/edit").await;
    let text = site.until("document.querySelector('[data-test=rule-text]')?.value").await;
    site.write_over(&text.as_str().unwrap().replace("limit: 25", "limit: 40")).await;
    site.shows("rule-validate[data-state=valid]").await;
    picture("rule-editor.png", LAPTOP, false).await;
    site.click("rule-revert").await;
    site.goto(
        "#/rules/~explain?method=GET&path=/search&user=user-0&tenant=tenant-1&tier=free&ip=203.0.113.1",
    )
    .await;
    site.click("explain-submit").await;
    site.shows("explain-answer").await;
    picture("explain.png", LAPTOP, false).await;
    site.goto("#/fleet").await;
    site.until("document.querySelectorAll('[data-test=fleet-row]').length === 3").await;
    picture("fleet.png", LAPTOP, false).await;

    site.goto("#/").await;
    site.redis.kill();
    site.browser.wait_for("[data-test=mode]:not([data-value=normal])", SOON).await;
    site.until("document.querySelector('[data-test=alerts]').dataset.value > 0").await;
    sleep(Duration::from_secs(without)).await;
    picture("overview-store-down.png", LAPTOP, true).await;
    // Where whoever is on call goes from there.
    site.browser.click("[data-test=alerts] a").await;
    site.shows("runbook li").await;
    picture("runbook.png", LAPTOP, false).await;
    site.goto("#/").await;
    site.redis.restart();
    site.shows("mode[data-value=normal]").await;
    println!("{} requests were answered", traffic.end());
    site.has_no_errors().await;
}

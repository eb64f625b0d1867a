//! The page is small, comes from the node alone, and can be used with the keyboard.

use serde_json::Value;

use super::{PATIENT, Site};

const RULES: &str = "rules: [{rule_id: each, identifier_type: user_id, limit: 3, window: 1h}]";

/// All that a visit may load, with headers.
const MOST_BYTES: u64 = 300 * 1024;

const TAB: &str = "\u{e004}";
const ENTER: &str = "\u{e007}";

#[tokio::test]
async fn a_visit_is_small_and_asks_nobody_else() {
    let site = Site::open(RULES, &PATIENT).await;
    site.shows("mode[data-value=normal]").await;
    let loaded =
        "return [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]
        .map(({name, transferSize}) => ({name, size: transferSize}))";
    let loaded = site.browser.eval(loaded).await;
    let loaded: &Vec<Value> = loaded.as_array().unwrap();
    let node = format!("http://{}/", site.node.admin);
    let elsewhere = |name: &str| !name.starts_with(&node) && !name.starts_with("data:");
    let names = || loaded.iter().map(|one| one["name"].as_str().unwrap());
    assert_eq!(names().find(|name| elsewhere(name)), None);
    assert!(names().any(|name| name.ends_with("/dashboard/app.js")), "{loaded:?}");
    let bytes: u64 = loaded.iter().filter_map(|one| one["size"].as_u64()).sum();
    println!("{} files, {bytes} bytes", loaded.len());
    assert!((50_000..MOST_BYTES).contains(&bytes), "{bytes} bytes: {loaded:?}");
    site.has_no_errors().await;
}

#[tokio::test]
async fn keys_are_enough_and_the_theme_is_remembered() {
    let site = Site::open(RULES, &PATIENT).await;
    site.browser.prefer_dark(false).await;
    site.shows("mode[data-value=normal]").await;

    let mut seen = Vec::new();
    let mut at = "body".to_owned();
    for _ in 0..7 {
        site.browser.press(&at, TAB).await;
        at = ":focus".to_owned();
        let here = "return document.activeElement.dataset.test ?? document.activeElement.textContent";
        seen.push(site.browser.eval(here).await.as_str().unwrap().to_owned());
    }
    assert!(seen[0].starts_with("Skip"), "{seen:?}");
    for name in ["nav-overview", "nav-rules", "nav-fleet", "theme-toggle"] {
        assert!(seen.iter().any(|part| part == name), "{name} is not reached: {seen:?}");
    }
    // The focus can be seen.
    let outline = "return getComputedStyle(document.activeElement).outlineStyle";
    assert_eq!(site.browser.eval(outline).await, "solid");
    site.browser.press("[data-test=nav-rules]", ENTER).await;
    site.shows("rules-search").await;
    site.browser.press("body", "/").await;
    site.until("document.activeElement.dataset.test === 'rules-search'").await;
    site.browser.press(".skip", ENTER).await;
    site.until("document.activeElement.id === 'main'").await;

    let theme = "document.documentElement.dataset.theme";
    assert_eq!(site.until(theme).await, "light");
    let ground = "return getComputedStyle(document.body).backgroundColor";
    let light = site.browser.eval(ground).await;
    site.browser.press("[data-test=theme-toggle]", ENTER).await;
    site.until(&format!("{theme} === 'dark'")).await;
    assert_ne!(site.browser.eval(ground).await, light);
    site.browser.eval("location.reload()").await;
    site.until(&format!("{theme} === 'dark'")).await;
    site.shows("theme-toggle").await;
    site.has_no_errors().await;
}

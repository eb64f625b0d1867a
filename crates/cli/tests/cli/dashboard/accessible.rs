//! Every view can be used by those who do not see it, or not as others do: held against axe-core, which knows what screen readers
//! need and which colours can be told apart.

use tidegate_testkit::from_npm;

use super::sizes::{RULES, VIEWS, open_view};
use super::traffic::Traffic;
use super::{PATIENT, Site};

/// Runs it over what the page shows, and says what is wrong, where, and why.
const AUDIT: &str = "
const tags = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'];
return axe.run(document, {runOnly: {type: 'tag', values: tags}, resultTypes: ['violations']}).then(({violations, passes}) => ({
    passed: passes.length,
    wrong: violations.map(({id, help, nodes}) => [id, help, nodes.slice(0, 4).map((node) => [node.html, node.failureSummary])]),
}))";

#[tokio::test]
async fn every_view_can_be_read_aloud() {
    // The version that xtask fetches (xtask/src/packages.rs).
    let axe = std::fs::read_to_string(from_npm("axe-core", "4.14.0", "axe.min.js")).unwrap();
    let site = Site::open(RULES, &PATIENT).await;
    let traffic = Traffic::steady(&[&site.node], 50);
    let mut wrong = Vec::new();
    for (width, height, dark) in [(1366, 768, false), (1366, 768, true), (360, 740, false)] {
        site.browser.prefer_dark(dark).await;
        site.browser.resize(width, height).await;
        for view in VIEWS {
            open_view(&site, view, dark).await;
            site.browser.eval(&axe).await;
            let found = site.browser.eval(AUDIT).await;
            assert!(found["passed"].as_u64().is_some_and(|passed| passed > 10), "{view:?}: {found}");
            if found["wrong"].as_array().is_none_or(|wrong| !wrong.is_empty()) {
                wrong.push(format!("{} at {width}, dark: {dark}: {:#}", view.0, found["wrong"]));
            }
        }
    }
    traffic.end();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    site.has_no_errors().await;
}

//! Many nodes on one page.

use tidegate_testkit::{Browser, Redis};

use super::{PATIENT, SOON, Site, check_of, nodes};

const RULES: &str =
    "rules: [{rule_id: each, identifier_type: user_id, algorithm: fixed_window, limit: 4, window: 366d}]";

#[tokio::test]
async fn nodes_have_a_row_each_and_are_summed_up() {
    let (redis, folder) = (Redis::start(), tempfile::tempdir().unwrap());
    std::fs::create_dir(folder.path().join("rules")).unwrap();
    std::fs::write(folder.path().join("rules/all.yaml"), RULES).unwrap();
    let mut nodes = nodes::start(&redis, folder.path(), 2, &PATIENT);
    for node in &nodes {
        for _ in 0..5 {
            node.check(&check_of("ann"));
        }
    }
    let (other, node) = (nodes.pop().unwrap(), nodes.pop().unwrap());
    let site = Site { browser: Browser::start().await, node, redis, folder };
    site.goto("#/fleet").await;
    for name in ["node-1", "node-2"] {
        site.shows(&format!("fleet-row[data-value={name}]")).await;
    }
    assert_eq!(site.browser.count("[data-test=fleet-row]").await, 2);
    // One store, so one limit of four over both nodes, and what each decided is added up.
    site.until("/\\D4 allowed/.test(document.querySelector('main').textContent)").await;
    site.until("/\\D6 in all/.test(document.querySelector('main').textContent)").await;
    site.until("/2 of 2 nodes answered/.test(document.querySelector('main').textContent)").await;
    site.shows("fleet-mode[data-value=normal]").await;
    // So is who was refused, whichever node it was.
    site.until("/^ann\\s*6$/.test(document.querySelector('[data-test=fleet-traffic] [data-test=refused-row]')?.textContent.trim())").await;

    // One that is gone stays in the list, with the reason.
    drop(other);
    let gone = "!/none/.test(document.querySelector('[data-test=fleet-row][data-value=node-2] .wide-cell').textContent)";
    site.browser.wait_until(gone, SOON).await;
    site.until("/1 of 2 nodes answered/.test(document.querySelector('main').textContent)").await;
    site.has_no_errors().await;
}

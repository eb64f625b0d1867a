//! A page that stays open while its node is replaced.

use tidegate_testkit::Port;

use super::{PATIENT, Site, check_of};

const RULES: &str = "rules: [{rule_id: each, identifier_type: user_id, limit: 1000, window: 1h}]";

#[tokio::test]
async fn a_node_that_goes_is_missed_and_one_in_its_place_is_read_on() {
    let port = Port::claim();
    let place = port.address().to_string();
    let args = [&["--admin", &*place], &PATIENT[..]].concat();
    let mut site = Site::open(RULES, &args).await;
    site.node.check(&check_of("ann"));
    site.shows("total-allowed[data-value=\"1\"]").await;
    site.shows("connection[data-value=live]").await;

    site.end_node();
    site.shows("connection[data-value=lost]").await;
    // What was known stays there to be read.
    assert_eq!(site.text("total-allowed").await, "1");

    site.start_node(&args);
    site.shows("connection[data-value=live]").await;
    site.shows("total-allowed[data-value=\"0\"]").await;
    site.node.check(&check_of("ann"));
    site.shows("total-allowed[data-value=\"1\"]").await;
    // That it could not be reached is what the browser says of its own accord.
    site.has_no_errors_but(|one| one.source == "network").await;
}

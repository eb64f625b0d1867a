//! `deploy/caddy`

use tidegate_testkit::ReverseProxy;

use crate::checks;
use crate::stand::{Edit, Recipe, Upstreams, recipe};

const CADDY: Recipe = Recipe {
    start,
    pass: ("import refuse", "import pass"),
    identify: &[(
        "# request_header X-User-Id {http.auth.user.id}",
        "request_header X-User-Id {query.user}
		request_header X-Tenant-Id {query.tenant}
		request_header X-Api-Key {query.key}
		request_header X-Tier {query.tier}
		request_header X-Plan {query.plan}",
    )],
};

fn start(upstreams: Upstreams, edits: &[Edit<'_>]) -> ReverseProxy {
    let [tidegate, backend] = [upstreams.tidegate, upstreams.backend].map(|address| address.to_string());
    ReverseProxy::caddy(|place| {
        let site = format!("http://:{}", place.listener.port());
        let addresses =
            [("http://:8000", site.as_str()), ("127.0.0.1:8080", &tidegate), ("127.0.0.1:9000", &backend)];
        recipe("caddy/Caddyfile", &[&addresses, edits])
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_within_the_limit_pass() {
    checks::requests_within_the_limit_pass(CADDY).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_arrive() {
    checks::bodies_arrive(CADDY).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_over_the_limit_stay_outside() {
    checks::requests_over_the_limit_stay_outside(CADDY).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn made_up_identities_gain_nothing() {
    checks::made_up_identities_gain_nothing(CADDY).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn made_up_identities_do_not_arrive() {
    checks::made_up_identities_do_not_arrive(CADDY).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_proxy_says_who_the_client_is() {
    checks::the_proxy_says_who_the_client_is(CADDY).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_are_told_apart_by_their_address() {
    checks::clients_are_told_apart_by_their_address(CADDY).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_tidegate_requests_are_refused() {
    checks::without_tidegate_requests_are_refused(CADDY).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_tidegate_requests_can_pass() {
    checks::without_tidegate_requests_can_pass(CADDY).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tidegate_that_hangs_is_as_good_as_gone() {
    checks::a_tidegate_that_hangs_is_as_good_as_gone(CADDY).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_back_end_that_is_gone_is_another_matter() {
    checks::a_back_end_that_is_gone_is_another_matter(CADDY).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_tidegate_refuses_for_want_of_its_store_stays_refused() {
    checks::what_tidegate_refuses_for_want_of_its_store_stays_refused(CADDY).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unreadable_requests_do_not_pass() {
    checks::unreadable_requests_do_not_pass(CADDY).await;
}

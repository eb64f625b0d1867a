//! `deploy/nginx`

use tidegate_testkit::ReverseProxy;

use crate::checks;
use crate::stand::{Edit, Recipe, Upstreams, recipe};

const NGINX: Recipe = Recipe {
    start,
    pass: ("return 503;", "return 204;"),
    identify: &[
        (r#"set $tidegate_user    "";"#, "set $tidegate_user $arg_user;"),
        (r#"set $tidegate_tenant  "";"#, "set $tidegate_tenant $arg_tenant;"),
        (r#"set $tidegate_api_key "";"#, "set $tidegate_api_key $arg_key;"),
        (r#"set $tidegate_tier    "";"#, "set $tidegate_tier $arg_tier;"),
        (r#"set $tidegate_plan    "";"#, "set $tidegate_plan $arg_plan;"),
    ],
};

fn start(upstreams: Upstreams, edits: &[Edit<'_>]) -> ReverseProxy {
    let [tidegate, backend] = [upstreams.tidegate, upstreams.backend].map(|address| address.to_string());
    ReverseProxy::nginx(|place| {
        let listener = place.listener.to_string();
        let addresses = [
            ("127.0.0.1:8000", listener.as_str()),
            ("127.0.0.1:8080", &tidegate),
            ("127.0.0.1:9000", &backend),
        ];
        recipe("nginx/tidegate.conf", &[&addresses, edits])
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_within_the_limit_pass() {
    checks::requests_within_the_limit_pass(NGINX).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_arrive() {
    checks::bodies_arrive(NGINX).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_over_the_limit_stay_outside() {
    checks::requests_over_the_limit_stay_outside(NGINX).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn made_up_identities_gain_nothing() {
    checks::made_up_identities_gain_nothing(NGINX).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn made_up_identities_do_not_arrive() {
    checks::made_up_identities_do_not_arrive(NGINX).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_proxy_says_who_the_client_is() {
    checks::the_proxy_says_who_the_client_is(NGINX).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_are_told_apart_by_their_address() {
    checks::clients_are_told_apart_by_their_address(NGINX).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_tidegate_requests_are_refused() {
    checks::without_tidegate_requests_are_refused(NGINX).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_tidegate_requests_can_pass() {
    checks::without_tidegate_requests_can_pass(NGINX).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tidegate_that_hangs_is_as_good_as_gone() {
    checks::a_tidegate_that_hangs_is_as_good_as_gone(NGINX).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_back_end_that_is_gone_is_another_matter() {
    checks::a_back_end_that_is_gone_is_another_matter(NGINX).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_tidegate_refuses_for_want_of_its_store_stays_refused() {
    checks::what_tidegate_refuses_for_want_of_its_store_stays_refused(NGINX).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unreadable_requests_do_not_pass() {
    checks::unreadable_requests_do_not_pass(NGINX).await;
}

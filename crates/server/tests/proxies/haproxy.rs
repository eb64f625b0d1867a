//! `deploy/haproxy`

use tidegate_testkit::ReverseProxy;

use crate::checks;
use crate::stand::{Edit, Recipe, Upstreams, file, recipe};

const HAPROXY: Recipe = Recipe {
    start,
    pass: ("-m str pass }", "-m str pass away }"),
    identify: &[(
        "# http-request set-header X-User-Id %[ssl_c_s_dn(cn)] if { ssl_c_used } { ssl_c_verify 0 }",
        "http-request set-header X-User-Id %[url_param(user)] if { url_param(user) -m found }
    http-request set-header X-Tenant-Id %[url_param(tenant)] if { url_param(tenant) -m found }
    http-request set-header X-Api-Key %[url_param(key)] if { url_param(key) -m found }
    http-request set-header X-Tier %[url_param(tier)] if { url_param(tier) -m found }
    http-request set-header X-Plan %[url_param(plan)] if { url_param(plan) -m found }",
    )],
};

fn start(upstreams: Upstreams, edits: &[Edit<'_>]) -> ReverseProxy {
    let [tidegate, backend] = [upstreams.tidegate, upstreams.backend].map(|address| address.to_string());
    let script = file("haproxy/tidegate.lua").display().to_string();
    ReverseProxy::haproxy(|place| {
        let listener = place.listener.to_string();
        // Its names are the whole machine's.
        let door = format!("abns@tidegate-{}", place.listener.port());
        let addresses = [
            ("127.0.0.1:8000", listener.as_str()),
            ("127.0.0.1:8080", &tidegate),
            ("127.0.0.1:9000", &backend),
            ("abns@tidegate", &door),
            ("tidegate.lua", &script),
        ];
        recipe("haproxy/haproxy.cfg", &[&addresses, edits])
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_within_the_limit_pass() {
    checks::requests_within_the_limit_pass(HAPROXY).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_arrive() {
    checks::bodies_arrive(HAPROXY).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_over_the_limit_stay_outside() {
    checks::requests_over_the_limit_stay_outside(HAPROXY).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn made_up_identities_gain_nothing() {
    checks::made_up_identities_gain_nothing(HAPROXY).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn made_up_identities_do_not_arrive() {
    checks::made_up_identities_do_not_arrive(HAPROXY).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_proxy_says_who_the_client_is() {
    checks::the_proxy_says_who_the_client_is(HAPROXY).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_are_told_apart_by_their_address() {
    checks::clients_are_told_apart_by_their_address(HAPROXY).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_tidegate_requests_are_refused() {
    checks::without_tidegate_requests_are_refused(HAPROXY).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_tidegate_requests_can_pass() {
    checks::without_tidegate_requests_can_pass(HAPROXY).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tidegate_that_hangs_is_as_good_as_gone() {
    checks::a_tidegate_that_hangs_is_as_good_as_gone(HAPROXY).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_back_end_that_is_gone_is_another_matter() {
    checks::a_back_end_that_is_gone_is_another_matter(HAPROXY).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_tidegate_refuses_for_want_of_its_store_stays_refused() {
    checks::what_tidegate_refuses_for_want_of_its_store_stays_refused(HAPROXY).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unreadable_requests_do_not_pass() {
    checks::unreadable_requests_do_not_pass(HAPROXY).await;
}

//! Over TLS, and what is said when only one side speaks it.

use tidegate_redis::RedisStore;
use tidegate_store::{Failure, Outcome};
use tidegate_testkit::{Certificates, ClientCertificates, Redis};

use crate::load::{attempt, yearly};
use crate::problems::check;
use crate::support::{PATIENT, connect, one, take};

fn with_tls(certificates: &Certificates, clients: ClientCertificates) -> Redis {
    Redis::options().tls(certificates, clients).start()
}

fn ca(certificates: &Certificates) -> String {
    format!("ca={}", certificates.authority().display())
}

fn client(certificates: &Certificates) -> String {
    let (cert, key) = (certificates.client_certificate(), certificates.client_key());
    format!("cert={}&key={}", cert.display(), key.display())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_whose_authority_is_known_is_used() {
    let certificates = Certificates::generate();
    let redis = with_tls(&certificates, ClientCertificates::Ignored);
    for host in [redis.address().to_string(), format!("localhost:{}", redis.address().port())] {
        let store = connect(&format!("rediss://{host}?{}", ca(&certificates))).await;
        assert!(one(&store, take("a", "alice", yearly(), 1)).await.allowed);
    }
    assert_eq!(redis.keys_without_ttl(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_asks_for_a_certificate_gets_it() {
    let certificates = Certificates::generate();
    let redis = with_tls(&certificates, ClientCertificates::Required);
    let known = format!("{}?{}&{}", redis.url(), ca(&certificates), client(&certificates));
    assert!(one(&connect(&known).await, take("a", "alice", yearly(), 1)).await.allowed);

    let without = format!("{}?{}", redis.url(), ca(&certificates));
    check(&without, Failure::NotAStore, &["CertificateRequired", "?cert="]).await;
    let other = Certificates::generate();
    let strange = format!("{}?{}&{}", redis.url(), ca(&certificates), client(&other));
    check(&strange, Failure::NotAStore, &["alert", "?cert="]).await;
    assert_eq!(redis.keys_without_ttl(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_of_another_authority_is_not_trusted() {
    let redis = with_tls(&Certificates::generate(), ClientCertificates::Ignored);
    let other = Certificates::generate();
    check(&format!("{}?{}", redis.url(), ca(&other)), Failure::NotAStore, &["certificate", "?ca="]).await;
    // Nobody the machine trusts has signed it, either.
    check(&redis.url(), Failure::NotAStore, &["certificate", "?ca="]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_on_one_side_only_is_told_as_such() {
    let certificates = Certificates::generate();
    let secured = with_tls(&certificates, ClientCertificates::Ignored);
    // It only hangs up, as one that is going down does.
    check(&format!("redis://{}", secured.address()), Failure::Connection, &["TLS", "rediss://"]).await;
    let plain = Redis::start();
    let url = format!("rediss://{}?{}", plain.address(), ca(&certificates));
    // It waits for something that it understands.
    check(&url, Failure::Connection, &["does not answer", "TLS", "use redis://"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_that_cannot_be_read_are_named_at_the_start() {
    let start = |url: &str| RedisStore::builder(url.parse().unwrap()).start();
    let problem = start("rediss://127.0.0.1:1?ca=/nowhere/ca.pem").unwrap_err();
    assert!(problem.text.contains("/nowhere/ca.pem"), "{problem}");
    let certificates = Certificates::generate();
    // A key where a certificate is wanted.
    let url = format!("rediss://127.0.0.1:1?ca={}", certificates.server_key().display());
    let store = start(&url).unwrap();
    let outcome = attempt(&store, &[take("a", "alice", yearly(), 1)], PATIENT).await[0];
    assert!(matches!(outcome, Outcome::Unavailable(_)), "{outcome:?}");
}

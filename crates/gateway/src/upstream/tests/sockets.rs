//! Groups of real servers.

use std::convert::Infallible;
use std::error::Error;
use std::net::SocketAddr;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::uri::PathAndQuery;
use http::{Request, Response, Version};
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::{Body, Frame};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tidegate_testkit::{Backend, Certificates, Port, Proxy};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

use crate::routes::Routes;
use crate::upstream::*;

const PATIENCE: Duration = tidegate_testkit::wait::HANG_LIMIT;

fn group(settings: &str) -> Result<Arc<Group>, String> {
    let text = format!("upstreams:\n  api: {settings}\nroutes: [{{upstream: api}}]\n");
    let routes = Routes::read("test", &text).map_err(|problems| problems.to_string())?;
    Ok(Arc::clone(routes.group("api").unwrap()))
}

async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let waiting = async {
        while !condition() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("waited in vain until {what}"));
}

/// Sends one request to the group; gives the version spoken and the body, or all that went wrong.
async fn ask(group: &Group, path: &'static str) -> Result<(Version, String), String> {
    let ticket = group.pick(Instant::now(), &[]).unwrap();
    let mut request = Request::new(Empty::<Bytes>::new());
    *request.uri_mut() = ticket.origin().uri(PathAndQuery::from_static(path));
    let answer = timeout(PATIENCE, group.client().request(request)).await.unwrap();
    let answer = answer.map_err(|error| {
        let mut text = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            text = format!("{text}: {error}");
            cause = error.source();
        }
        text
    })?;
    let version = answer.version();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    Ok((version, String::from_utf8(body.to_vec()).unwrap()))
}

/// A server that speaks TLS and says whether it was shown a certificate.
struct Secure {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl Drop for Secure {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn pem(path: &Path) -> Vec<CertificateDer<'static>> {
    CertificateDer::pem_file_iter(path).unwrap().collect::<Result<_, _>>().unwrap()
}

impl Secure {
    async fn start(files: &Certificates, alpn: &[&str]) -> Self {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(pem(&files.authority()));
        let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(clients.allow_unauthenticated().build().unwrap())
            .with_single_cert(
                pem(&files.server_certificate()),
                PrivateKeyDer::from_pem_file(files.server_key()).unwrap(),
            )
            .unwrap();
        config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let known = stream.get_ref().1.peer_certificates().is_some();
                    let name = stream.get_ref().1.server_name().unwrap_or("none").to_owned();
                    let service = service_fn(move |_| {
                        let text = format!("certificate: {known}, name: {name}");
                        async move { Ok::<_, Infallible>(Response::new(Full::<Bytes>::from(text))) }
                    });
                    let builder = auto::Builder::new(TokioExecutor::new());
                    builder.serve_connection(TokioIo::new(stream), service).await.ok();
                });
            }
        });
        Self { address, task }
    }
}

#[tokio::test]
async fn servers_go_down_and_come_back() {
    let backends = [Backend::start(), Backend::start()];
    let proxies = backends.each_ref().map(|backend| Proxy::start(backend.address()));
    let group = group(&format!(
        "{{servers: [http://{}, http://{}], health: {{path: /healthz, every: 20ms, unhealthy_after: 2, healthy_after: 2}}}}",
        proxies[0].address(),
        proxies[1].address(),
    ))
    .unwrap();
    let _checks = Checks::start(&group, 0);
    let healthy = || group.servers(Instant::now()).iter().map(|s| s.healthy).collect::<Vec<_>>();
    until("both are asked", || backends.iter().all(|backend| backend.requests() > 2)).await;
    assert_eq!(healthy(), [true, true]);
    proxies[0].cut();
    until("the first is down", || healthy() == [false, true]).await;
    let problem = group.servers(Instant::now())[0].last_problem.clone().unwrap();
    assert!(problem.what.starts_with("health check: "), "{problem:?}");
    for _ in 0..4 {
        assert_eq!(group.pick(Instant::now(), &[]).unwrap().id(), ServerId(1));
    }
    proxies[0].heal();
    until("it is up again", || healthy() == [true, true]).await;
    assert!(group.servers(Instant::now())[0].turned_at > Some(problem.at));
}

#[tokio::test]
async fn answers_are_judged_by_their_status() {
    let backend = Backend::start();
    let group = group(&format!(
        "{{servers: http://{}, health: {{path: '/h?x=1', every: 10ms, statuses: [204], host: other.example}}}}",
        backend.address()
    ))
    .unwrap();
    let _checks = Checks::start(&group, 0);
    until("it is down", || !group.servers(Instant::now())[0].healthy).await;
    let problem = group.servers(Instant::now())[0].last_problem.clone().unwrap();
    assert_eq!(problem.what, "health check: answered 200");
    // Nobody else is there.
    assert!(group.pick(Instant::now(), &[]).unwrap().is_desperate());
}

#[tokio::test]
async fn a_server_that_does_not_answer_is_down() {
    let backend = Backend::start();
    let proxy = Proxy::start(backend.address());
    proxy.stall();
    let settings = "health: {path: /, every: 10ms, timeout: 20ms, unhealthy_after: 1}";
    let group = group(&format!("{{servers: http://{}, {settings}}}", proxy.address())).unwrap();
    let _checks = Checks::start(&group, 0);
    until("it is down", || !group.servers(Instant::now())[0].healthy).await;
    let problem = group.servers(Instant::now())[0].last_problem.clone().unwrap();
    assert_eq!(problem.what, "health check: no answer in time");
}

#[tokio::test]
async fn both_versions_are_spoken_without_tls() {
    let backend = Backend::start();
    for (protocol, version) in [("http1", Version::HTTP_11), ("http2", Version::HTTP_2)] {
        let group = group(&format!("{{servers: http://{}, protocol: {protocol}}}", backend.address()));
        let (spoken, body) = ask(&group.unwrap(), "/a?b=1").await.unwrap();
        assert_eq!(spoken, version);
        assert!(body.starts_with("GET ") && body.contains("/a?b=1\n"), "{body}");
    }
}

#[tokio::test]
async fn connections_are_used_again() {
    let backend = Backend::start();
    for protocol in ["http1", "http2"] {
        let proxy = Proxy::start(backend.address());
        let group = group(&format!("{{servers: http://{}, protocol: {protocol}}}", proxy.address())).unwrap();
        for _ in 0..5 {
            ask(&group, "/").await.unwrap();
        }
        assert_eq!(proxy.connections(), 1, "{protocol}");
        // Of a group that is like it, too.
        let text = format!("{{servers: [http://{}], protocol: {protocol}, passive: off}}", proxy.address());
        let other = self::group(&text).unwrap().carry_over(&group);
        assert!(!Arc::ptr_eq(&other, &group));
        ask(&other, "/").await.unwrap();
        assert_eq!(proxy.connections(), 1, "{protocol}");
    }
}

#[tokio::test]
async fn only_servers_with_good_certificates_are_believed() {
    let files = Certificates::generate();
    let others = Certificates::generate();
    let server = Secure::start(&files, &["h2", "http/1.1"]).await;
    let url = format!("https://{}", server.address);
    let tls = |tls: &str| group(&format!("{{servers: {url}, tls: {{{tls}}}}}")).unwrap();
    let ca = format!("ca: {}", files.authority().display());
    let wrong = format!("ca: {}", others.authority().display());

    let (version, body) = ask(&tls(&ca), "/").await.unwrap();
    assert_eq!((version, body.as_str()), (Version::HTTP_11, "certificate: false, name: none"));
    let (_, body) = ask(&tls(&format!("{ca}, name: localhost")), "/").await.unwrap();
    assert_eq!(body, "certificate: false, name: localhost");
    let certificate = files.client_certificate().display().to_string();
    let identity = format!("{ca}, certificate: {certificate}, key: {}", files.client_key().display());
    let (_, body) = ask(&tls(&identity), "/").await.unwrap();
    assert_eq!(body, "certificate: true, name: none");

    let told = ask(&tls(&wrong), "/").await.unwrap_err();
    assert!(told.contains("invalid peer certificate"), "{told}");
    let told = ask(&tls(&format!("{ca}, name: example.com")), "/").await.unwrap_err();
    assert!(told.contains("not valid for name"), "{told}");
    ask(&tls("insecure: true"), "/").await.unwrap();
    let mixed = format!("{ca}, certificate: {certificate}, key: {}", others.client_key().display());
    let told = group(&format!("{{servers: {url}, tls: {{{mixed}}}}}")).unwrap_err();
    assert!(told.contains("cannot show the certificate"), "{told}");
}

#[tokio::test]
async fn servers_choose_what_is_spoken_within_tls() {
    let files = Certificates::generate();
    let tls = format!("tls: {{ca: {}}}", files.authority().display());
    let both = Secure::start(&files, &["h2", "http/1.1"]).await;
    let old = Secure::start(&files, &[]).await;
    for (server, protocol, expected) in [
        (&both, "http1", Some(Version::HTTP_11)),
        (&both, "http2", Some(Version::HTTP_2)),
        (&both, "auto", Some(Version::HTTP_2)),
        (&old, "auto", Some(Version::HTTP_11)),
        (&old, "http2", None),
    ] {
        let group = group(&format!("{{servers: https://{}, protocol: {protocol}, {tls}}}", server.address));
        let answer = ask(&group.unwrap(), "/").await;
        match expected {
            Some(version) => assert_eq!(answer.unwrap().0, version, "{protocol}"),
            None => assert!(answer.unwrap_err().contains("does not speak HTTP/2")),
        }
    }
}

#[tokio::test]
async fn checks_speak_what_requests_speak() {
    let files = Certificates::generate();
    let server = Secure::start(&files, &["h2"]).await;
    let text = |files: &Certificates| {
        format!(
            "{{servers: https://{}, protocol: http2, tls: {{ca: {}}}, health: {{path: /, every: 10ms, unhealthy_after: 1, healthy_after: 1}}}}",
            server.address,
            files.authority().display()
        )
    };
    let bad = group(&text(&Certificates::generate())).unwrap();
    let checks = Checks::start(&bad, 0);
    until("it is not believed", || !bad.servers(Instant::now())[0].healthy).await;
    drop(checks);
    let good = group(&text(&files)).unwrap().carry_over(&bad);
    assert!(!good.servers(Instant::now())[0].healthy);
    let _checks = Checks::start(&good, 0);
    until("it is", || good.servers(Instant::now())[0].healthy).await;
}

#[tokio::test]
async fn connecting_takes_only_so_long() {
    // Accepts, and never begins TLS.
    let backend = Backend::start();
    let proxy = Proxy::start(backend.address());
    proxy.stall();
    let text =
        format!("{{servers: https://{}, connect_timeout: 50ms, tls: {{insecure: true}}}}", proxy.address());
    let told = ask(&group(&text).unwrap(), "/").await.unwrap_err();
    assert!(told.contains("no connection in time"), "{told}");
    let port = Port::claim();
    let told =
        ask(&group(&format!("{{servers: http://{}}}", port.address())).unwrap(), "/").await.unwrap_err();
    assert!(told.contains("refused"), "{told}");
}

/// A body that breaks off.
struct Broken;

impl Body for Broken {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        Poll::Ready(Some(Err(std::io::Error::other("the client is gone"))))
    }
}

async fn failure<B>(group: &Group, body: B) -> Option<Failure>
where
    B: Body + Send + Unpin + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let ticket = group.pick(Instant::now(), &[]).unwrap();
    let mut request = Request::new(body);
    *request.uri_mut() = ticket.origin().uri(PathAndQuery::from_static("/"));
    *request.method_mut() = http::Method::POST;
    let error = timeout(PATIENCE, group.client().request(request)).await.unwrap().unwrap_err();
    Failure::of(&error)
}

#[tokio::test]
async fn it_is_told_whose_fault_a_failure_is() {
    let backend = Backend::start();
    let port = Port::claim();
    // Accepts, and hangs up.
    let nobody = Proxy::start(port.address());
    for protocol in ["http1", "http2"] {
        let group =
            |address| self::group(&format!("{{servers: http://{address}, protocol: {protocol}}}")).unwrap();
        assert_eq!(failure(&group(backend.address()), Broken).await, None, "{protocol}");
        let reset = failure(&group(nobody.address()), Empty::<Bytes>::new()).await;
        assert_eq!(reset, Some(Failure::Reset), "{protocol}");
        let refused = failure(&group(port.address()), Empty::<Bytes>::new()).await;
        assert_eq!(refused, Some(Failure::Connect), "{protocol}");
    }
}

//! gRPC over TLS, and connections that have reached their age.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tidegate_server::{Config, RulesFeed, Server, StartError, TlsFiles};
use tidegate_testkit::Certificates;
use tokio::net::TcpStream;
use tokio::time::Instant;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};

use super::client::{Client, ask};
use crate::client::{Running, config, start_with};

const RULES: &str = "rules: []";

fn files(certificates: &Certificates, client_authorities: bool) -> TlsFiles {
    TlsFiles {
        certificate: certificates.server_certificate(),
        key: certificates.server_key(),
        client_authorities: client_authorities.then(|| certificates.authority()),
    }
}

async fn serve(tls: TlsFiles) -> Running {
    let config = Config { grpc_tls: Some(tls), ..config() };
    start_with(config, RulesFeed::fixed("rules.yaml", RULES)).await
}

/// A client that knows the authority, and may have a certificate of its own.
async fn connect(
    server: &Running,
    certificates: &Certificates,
    identified: bool,
) -> Result<Channel, tonic::transport::Error> {
    let read = |path| std::fs::read(path).unwrap();
    let mut tls = ClientTlsConfig::new()
        .ca_certificate(Certificate::from_pem(read(certificates.authority())))
        .domain_name("localhost");
    if identified {
        let (certificate, key) = (certificates.client_certificate(), certificates.client_key());
        tls = tls.identity(Identity::from_pem(read(certificate), read(key)));
    }
    let url = format!("https://localhost:{}", server.addresses.grpc.port());
    Endpoint::from_shared(url).unwrap().tls_config(tls).unwrap().connect().await
}

async fn answers(channel: Channel) -> bool {
    Client::over(channel).ask(ask("d", 0, &["a=1"])).await.is_ok()
}

#[tokio::test]
async fn an_encrypted_listener() {
    let certificates = Certificates::generate();
    let server = serve(files(&certificates, false)).await;
    assert!(answers(connect(&server, &certificates, false).await.unwrap()).await);
    let stranger = Certificates::generate();
    assert!(connect(&server, &stranger, false).await.is_err(), "not an authority the client knows");
    let plain = Endpoint::from_shared(format!("http://{}", server.addresses.grpc)).unwrap().connect_lazy();
    assert!(!answers(plain).await);
}

#[tokio::test]
async fn clients_may_need_certificates() {
    let certificates = Certificates::generate();
    let server = serve(files(&certificates, true)).await;
    assert!(answers(connect(&server, &certificates, true).await.unwrap()).await);
    // With TLS 1.3 a client learns that it is turned away only when it asks.
    match connect(&server, &certificates, false).await {
        Ok(channel) => assert!(!answers(channel).await),
        Err(error) => drop(error),
    }
}

#[tokio::test]
async fn files_that_make_no_sense_are_named() {
    let certificates = Certificates::generate();
    let start = async |tls: TlsFiles| {
        let config = Config { grpc_tls: Some(tls), ..config() };
        match Server::bind(config, RulesFeed::fixed("rules.yaml", RULES)).await {
            Err(StartError::Tls(error)) => error.to_string(),
            other => panic!("{other:?}"),
        }
    };
    let good = files(&certificates, true);
    let missing = start(TlsFiles { key: "/no/such/key.pem".into(), ..good.clone() }).await;
    assert!(missing.contains("/no/such/key.pem") && missing.contains("private key"), "{missing}");
    let swapped = start(TlsFiles { certificate: good.key.clone(), ..good.clone() }).await;
    assert!(swapped.contains("there is none in it"), "{swapped}");
    let foreign = TlsFiles { key: Certificates::generate().server_key(), ..good };
    // The other folder is gone by now; what is asked for is the key in it.
    assert!(start(foreign).await.contains("private key"));
}

/// Time stands still but for what is waited for: an hour of it takes no time.
#[tokio::test(start_paused = true)]
async fn an_old_connection_is_ended_and_its_client_makes_another() {
    // All on the thread whose time passes so.
    let config =
        Config { grpc_max_connection_age: Some(Duration::from_secs(60)), data_plane: None, ..config() };
    let server = start_with(config, RulesFeed::fixed("rules.yaml", RULES)).await;
    let stream = TcpStream::connect(server.addresses.grpc).await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http2::handshake::<_, _, Full<Bytes>>(
        TokioExecutor::new(),
        TokioIo::new(stream),
    )
    .await
    .unwrap();
    let ended = tokio::spawn(connection);
    let start = Instant::now();
    let request = http::Request::post(format!("http://{}/x.Y/Z", server.addresses.grpc));
    sender.send_request(request.body(Full::default()).unwrap()).await.unwrap();
    ended.await.unwrap().unwrap();
    let age = start.elapsed().as_secs();
    assert!((54..=80).contains(&age), "after {age} s: neither at once nor for having been idle");
    assert!(Client::connect(server.addresses.grpc).await.ask(ask("d", 0, &["a=1"])).await.is_ok());
}

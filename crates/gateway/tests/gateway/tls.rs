//! Encrypted on either side.

use std::process::Output;

use tidegate_gateway::identity::CertificateUser;
use tidegate_server::TlsFiles;
use tidegate_testkit::{Backend, Certificates, ReverseProxy};

use crate::protocols::curl;
use crate::support::{Running, Setup};

fn files(certificates: &Certificates, clients: bool) -> TlsFiles {
    TlsFiles {
        certificate: certificates.server_certificate(),
        key: certificates.server_key(),
        client_authorities: clients.then(|| certificates.authority()),
    }
}

async fn ask(gateway: &Running, certificates: &Certificates, more: &[&str]) -> Output {
    let (url, authority) = (format!("https://{}/", gateway.at.listen), certificates.authority());
    curl(
        &[
            more,
            &["--cacert", authority.to_str().unwrap(), "-w", "\nis %{http_code} by %{http_version}", &url],
        ]
        .concat(),
    )
    .await
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[tokio::test]
async fn clients_choose_the_version_when_tls_begins() {
    let (backend, certificates) = (Backend::start(), Certificates::generate());
    let tls = files(&certificates, false);
    let gateway = Setup::to(&[backend.address()]).gateway(|gateway| gateway.tls = Some(tls)).start().await;
    for (option, version) in [("--http2", "2"), ("--http1.1", "1.1")] {
        let told = text(&ask(&gateway, &certificates, &[option]).await);
        assert!(told.ends_with(&format!("is 200 by {version}")), "{told}");
        assert!(told.contains("x-forwarded-proto: https\n"), "{told}");
    }
    let stranger = Certificates::generate();
    assert!(!ask(&gateway, &stranger, &[]).await.status.success(), "it is somebody else's");
    let plain = gateway.raw(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await;
    assert!(!plain.contains("HTTP/1.1 200"), "{plain}");
    assert_eq!(backend.requests(), 2);
}

#[tokio::test]
async fn a_certificate_names_the_user() {
    let (backend, certificates) = (Backend::start(), Certificates::generate());
    let rules = "rules:\n  - {rule_id: each, identifier_type: user_id, limit: 2, window: 52w, algorithm: fixed_window}\n";
    for required in [false, true] {
        let tls = files(&certificates, true);
        let setup = Setup::to(&[backend.address()]).rules(rules).gateway(|gateway| {
            gateway.tls = Some(tls);
            gateway.certificates_required = required;
            gateway.identity.certificates.user = Some(CertificateUser::CommonName);
        });
        let gateway = setup.start().await;
        let (certificate, key) = (certificates.client_certificate(), certificates.client_key());
        let shown = [
            "--cert",
            certificate.to_str().unwrap(),
            "--key",
            key.to_str().unwrap(),
            "-H",
            "x-user-id: root",
        ];
        for status in [200, 200, 429] {
            let told = text(&ask(&gateway, &certificates, &shown).await);
            assert!(told.contains(&format!("\nis {status} by")), "{told}");
            assert!(
                status == 429 || told.contains("x-user-id: client\n") && !told.contains("root"),
                "{told}"
            );
        }
        let told = ask(&gateway, &certificates, &["-H", "x-user-id: root"]).await;
        assert_eq!(told.status.success(), !required, "{told:?}");
        assert!(required || !text(&told).contains("root"));
    }
}

#[tokio::test]
async fn back_ends_are_known_by_their_authority() {
    let certificates = Certificates::generate();
    let nginx = ReverseProxy::nginx(|place| {
        format!(
            "events {{}} pid nginx.pid; http {{ client_body_temp_path a; proxy_temp_path b; fastcgi_temp_path c; \
             uwsgi_temp_path d; scgi_temp_path e; access_log off; server {{ listen {} ssl http2; ssl_certificate {}; \
             ssl_certificate_key {}; location / {{ return 200 \"$server_protocol $ssl_protocol $http_host\"; }} }} }}",
            place.listener,
            certificates.server_certificate().display(),
            certificates.server_key().display()
        )
    });
    let routes = |ca: &Certificates, protocol: &str| {
        format!(
            "upstreams: {{it: {{servers: 'https://{}', protocol: {protocol}, tls: {{ca: {}}}}}}}\nroutes: [{{upstream: it}}]\n",
            nginx.address(),
            ca.authority().display()
        )
    };
    for (protocol, version) in [("http1", "HTTP/1.1"), ("http2", "HTTP/2.0"), ("auto", "HTTP/2.0")] {
        let gateway = Setup::by(&routes(&certificates, protocol)).start().await;
        let told = gateway.get("/").await;
        assert_eq!(told.status, 200, "{told:?}");
        assert!(told.body.starts_with(&format!("{version} TLSv1.")), "{protocol}: {told:?}");
    }
    let stranger = Certificates::generate();
    let gateway = Setup::by(&routes(&stranger, "http1")).start().await;
    assert_eq!(gateway.get("/").await.status, 502, "it may be anybody");
}

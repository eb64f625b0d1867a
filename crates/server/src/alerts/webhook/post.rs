//! Posting to an address that an operator has written down: no pool, no redirects.

use std::convert::Infallible;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST, USER_AGENT};
use http::{Request, StatusCode, Uri};
use http_body_util::Full;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// Where to post.
pub(super) struct Target {
    uri: Uri,
    host: String,
    port: u16,
    tls: Option<(TlsConnector, ServerName<'static>)>,
}

/// Why it did not work.
#[derive(Debug)]
pub(super) struct Failed {
    pub(super) why: String,
    /// Whether the same would not work later, either.
    pub(super) is_final: bool,
}

impl Target {
    pub(super) fn new(url: &str, authorities: Option<&Path>) -> Result<Self, String> {
        let wrong = |why: &str| format!("{why}; give the webhook as https://HOST/PATH");
        let uri: Uri = url.parse().map_err(|error| wrong(&format!("this is no URL: {error}")))?;
        let authority = uri.authority().ok_or_else(|| wrong("the URL names no host"))?;
        if authority.as_str().contains('@') {
            return Err(wrong("the URL has a name or password in it"));
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let (tls, usual) = match uri.scheme_str() {
            Some("http") => (None, 80),
            Some("https") => {
                let name = ServerName::try_from(host.clone());
                let name = name.map_err(|_| wrong("the URL's host is neither a name nor an address"))?;
                (Some((connector(authorities)?, name)), 443)
            }
            _ => return Err(wrong("the URL is neither http:// nor https://")),
        };
        let port = authority.port_u16().unwrap_or(usual);
        Ok(Self { uri, host, port, tls })
    }

    /// Posts a body of JSON, and says whether it was taken.
    pub(super) async fn post(&self, body: &str, patience: Duration) -> Result<(), Failed> {
        let status = match timeout(patience, Box::pin(self.ask(body))).await {
            Ok(Ok(status)) => status,
            Ok(Err(why)) => return Err(Failed { why, is_final: false }),
            Err(_) => return Err(Failed { why: format!("no answer within {patience:?}"), is_final: false }),
        };
        if status.is_success() {
            return Ok(());
        }
        let later = status.is_server_error()
            || status == StatusCode::TOO_MANY_REQUESTS
            || status == StatusCode::REQUEST_TIMEOUT;
        Err(Failed { why: format!("the answer is {status}"), is_final: !later })
    }

    async fn ask(&self, body: &str) -> Result<StatusCode, String> {
        let connected = TcpStream::connect((self.host.as_str(), self.port)).await;
        let stream = connected.map_err(|error| format!("cannot connect: {error}"))?;
        match &self.tls {
            None => self.send(stream, body).await,
            Some((connector, name)) => {
                let encrypted = connector.connect(name.clone(), stream).await;
                self.send(encrypted.map_err(|error| format!("cannot agree on TLS: {error}"))?, body).await
            }
        }
    }

    async fn send<S>(&self, stream: S, body: &str) -> Result<StatusCode, String>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let broken = |error: hyper::Error| format!("no answer: {error}");
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
        let request = self.request(body)?;
        // Its body is not read: there is nothing in it to go by.
        let answered = async { Ok(sender.send_request(request).await.map_err(broken)?.status()) };
        let driven = async {
            drop(connection.await);
            std::future::pending::<Infallible>().await
        };
        tokio::select! {
            answered = answered => answered,
            never = driven => match never {},
        }
    }

    fn request(&self, body: &str) -> Result<Request<Full<Bytes>>, String> {
        let path = self.uri.path_and_query().map_or("/", |path| path.as_str());
        let host = self.uri.authority().map_or("", |authority| authority.as_str());
        Request::post(path)
            .header(HOST, host)
            .header(CONTENT_TYPE, "application/json")
            .header(USER_AGENT, concat!("tidegate/", env!("CARGO_PKG_VERSION")))
            .body(Full::new(Bytes::copy_from_slice(body.as_bytes())))
            .map_err(|error| format!("it cannot be posted: {error}"))
    }
}

/// Only the host: in paths of webhooks are secrets.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        write!(f, "{scheme}://{}", self.uri.authority().map_or("", |authority| authority.as_str()))
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// Believes servers with certificates of `authorities`, or of those that the machine trusts.
fn connector(authorities: Option<&Path>) -> Result<TlsConnector, String> {
    let mut roots = RootCertStore::empty();
    match authorities {
        Some(path) => {
            let place = path.display();
            let wrong = |error: &dyn fmt::Display| {
                format!("{place}: no certificate authorities: {error}; give a PEM file")
            };
            let certificates = CertificateDer::pem_file_iter(path).map_err(|error| wrong(&error))?;
            for certificate in certificates {
                roots.add(certificate.map_err(|error| wrong(&error))?).map_err(|error| wrong(&error))?;
            }
        }
        None => drop(roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs)),
    }
    if roots.is_empty() {
        return Err("there are no certificate authorities; name a file with those of the webhook".to_owned());
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS cannot be used: {error}"))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

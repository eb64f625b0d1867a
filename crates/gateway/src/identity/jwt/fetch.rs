//! Fetching a set of keys over HTTP.
//!
//! No pool and no redirects: it is one request every few minutes to an address that an operator has written down.

use std::convert::Infallible;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, HOST, USER_AGENT};
use http::{Request, StatusCode, Uri};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::follow::MAX_SET_BYTES;

/// Where a set of keys is.
pub(super) struct SetUrl {
    uri: Uri,
    host: String,
    port: u16,
    tls: Option<(TlsConnector, ServerName<'static>)>,
}

impl SetUrl {
    pub(super) fn new(url: &str, authorities: Option<&Path>) -> Result<Self, String> {
        let wrong = |why: &str| format!("{why}; give the keys' address as https://HOST/PATH");
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

    /// What is there, if it comes in time and is not too large.
    pub(super) async fn fetch(&self, patience: Duration) -> Result<Vec<u8>, String> {
        let late = |_| format!("no answer within {patience:?}");
        timeout(patience, Box::pin(self.ask())).await.map_err(late)?
    }

    async fn ask(&self) -> Result<Vec<u8>, String> {
        let connected = TcpStream::connect((self.host.as_str(), self.port)).await;
        let stream = connected.map_err(|error| format!("cannot connect: {error}"))?;
        match &self.tls {
            None => self.get(stream).await,
            Some((connector, name)) => {
                let encrypted = connector.connect(name.clone(), stream).await;
                self.get(encrypted.map_err(|error| format!("cannot agree on TLS: {error}"))?).await
            }
        }
    }

    async fn get<S>(&self, stream: S) -> Result<Vec<u8>, String>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let broken = |error: hyper::Error| format!("no answer: {error}");
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
        let request = self.request()?;
        let answered = async {
            let answer = sender.send_request(request).await.map_err(broken)?;
            if answer.status() != StatusCode::OK {
                return Err(format!(
                    "the answer is {}; give an address that answers with 200",
                    answer.status()
                ));
            }
            let body = Limited::new(answer.into_body(), MAX_SET_BYTES).collect().await;
            let body = body.map_err(|error| format!("the answer is broken or larger than 1 MiB: {error}"))?;
            Ok(body.to_bytes().to_vec())
        };
        // Whatever ends the connection, what it brought is still to be read.
        let driven = async {
            drop(connection.await);
            std::future::pending::<Infallible>().await
        };
        tokio::select! {
            answered = answered => answered,
            never = driven => match never {},
        }
    }

    fn request(&self) -> Result<Request<Empty<Bytes>>, String> {
        let path = self.uri.path_and_query().map_or("/", |path| path.as_str());
        let host = self.uri.authority().map_or("", |authority| authority.as_str());
        Request::get(path)
            .header(HOST, host)
            .header(ACCEPT, "application/jwk-set+json, application/json")
            .header(USER_AGENT, concat!("tidegate/", env!("CARGO_PKG_VERSION")))
            .body(Empty::new())
            .map_err(|error| format!("it cannot be asked for: {error}"))
    }
}

/// Leaves out the query, in which there may be a secret.
impl fmt::Display for SetUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        let authority = self.uri.authority().map_or("", |authority| authority.as_str());
        write!(f, "{scheme}://{authority}{}", self.uri.path())
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
        return Err(
            "there are no certificate authorities; name a file with those of the keys' server".to_owned()
        );
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS cannot be used: {error}"))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

//! Addresses that an operator has written down and that are asked now and then: no pool, no redirects.

use std::convert::Infallible;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{HOST, USER_AGENT};
use http::{Request, StatusCode, Uri, request};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// An address, `http://` or `https://`.
pub struct WrittenDown {
    uri: Uri,
    host: String,
    port: u16,
    tls: Option<(TlsConnector, ServerName<'static>)>,
}

impl WrittenDown {
    /// Reads the URL of `what`, such as `the webhook`. Its server must have a certificate of `authorities`, a PEM file, or of those
    /// that the machine trusts. An error never has the URL in it, which may be a secret.
    pub fn new(what: &str, url: &str, authorities: Option<&Path>) -> Result<Self, String> {
        let wrong = |why: &str| format!("{why}; give {what} as https://HOST/PATH");
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

    /// Its path, without the query, in which there may be a secret.
    pub fn path(&self) -> &str {
        self.uri.path()
    }

    /// Sends `request` with `body` there; the status of the answer and, if it is 200, up to `most` bytes of what it says: more is an
    /// error, and so is no answer within `patience`.
    pub async fn send(
        &self,
        request: request::Builder,
        body: impl Into<Bytes>,
        most: usize,
        patience: Duration,
    ) -> Result<(StatusCode, Bytes), String> {
        let path = self.uri.path_and_query().map_or("/", |path| path.as_str());
        let host = self.uri.authority().map_or("", |authority| authority.as_str());
        let request = request
            .uri(path)
            .header(HOST, host)
            .header(USER_AGENT, concat!("tidegate/", env!("CARGO_PKG_VERSION")))
            .body(Full::new(body.into()))
            .map_err(|error| format!("it cannot be asked: {error}"))?;
        let late = |_| format!("no answer within {patience:?}");
        timeout(patience, Box::pin(self.ask(request, most))).await.map_err(late)?
    }

    async fn ask(&self, request: Request<Full<Bytes>>, most: usize) -> Result<(StatusCode, Bytes), String> {
        let connected = TcpStream::connect((self.host.as_str(), self.port)).await;
        let stream = connected.map_err(|error| format!("cannot connect: {error}"))?;
        match &self.tls {
            None => ask(stream, request, most).await,
            Some((connector, name)) => {
                let encrypted = connector.connect(name.clone(), stream).await;
                ask(encrypted.map_err(|error| format!("cannot agree on TLS: {error}"))?, request, most).await
            }
        }
    }
}

async fn ask<S>(stream: S, request: Request<Full<Bytes>>, most: usize) -> Result<(StatusCode, Bytes), String>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let broken = |error: hyper::Error| format!("no answer: {error}");
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
    let answered = async {
        let answer = sender.send_request(request).await.map_err(broken)?;
        match answer.status() {
            StatusCode::OK if most > 0 => Ok((StatusCode::OK, read(answer.into_body(), most).await?)),
            status => Ok((status, Bytes::new())),
        }
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

async fn read(body: Incoming, most: usize) -> Result<Bytes, String> {
    let read = Limited::new(body, most).collect().await;
    let larger = |error| match (most >> 20, most % (1 << 20)) {
        (whole, 0) => format!("the answer is broken or larger than {whole} MiB: {error}"),
        _ => format!("the answer is broken or larger than {most} bytes: {error}"),
    };
    Ok(read.map_err(larger)?.to_bytes())
}

/// Only scheme and host: in paths of webhooks are secrets.
impl fmt::Display for WrittenDown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        write!(f, "{scheme}://{}", self.uri.authority().map_or("", |authority| authority.as_str()))
    }
}

impl fmt::Debug for WrittenDown {
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
        return Err("there are no certificate authorities; name a file with those of its server".to_owned());
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS cannot be used: {error}"))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

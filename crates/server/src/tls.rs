//! Encrypted listeners, with certificates that may be replaced at any time.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::net::TcpStream;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::config::TlsFiles;

/// How long a client may take to agree on keys.
const PATIENCE: Duration = Duration::from_secs(10);

/// How often the files are looked at.
const TICK: Duration = Duration::from_secs(10);

/// Why TLS cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read, or has not in it what it should.
    #[error("cannot use {what} in {path}: {message}; give a file in PEM form")]
    File {
        /// What should be in it.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        message: String,
    },
    /// Certificate and key do not belong together, or are of a kind that nobody accepts.
    #[error("cannot serve the certificate in {path}: {message}")]
    Unsound {
        /// The certificate's file.
        path: PathBuf,
        /// What is wrong with it.
        message: String,
    },
}

/// What is agreed on with clients besides keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsTerms {
    /// HTTP/2; whoever must have a certificate must show it.
    Grpc,
    /// HTTP/2 or HTTP/1.1; whoever has a certificate may show it, and must if that is `required`.
    Web {
        /// Whether clients without a certificate are turned away, if there are authorities for them.
        required: bool,
    },
}

impl TlsTerms {
    fn protocols(self) -> Vec<Vec<u8>> {
        match self {
            Self::Grpc => vec![b"h2".to_vec()],
            Self::Web { .. } => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
        }
    }

    fn needs_certificate(self) -> bool {
        matches!(self, Self::Grpc | Self::Web { required: true })
    }
}

/// The keys of a listener.
#[derive(Debug)]
pub struct Tls {
    files: TlsFiles,
    terms: TlsTerms,
    config: ArcSwap<ServerConfig>,
}

impl Tls {
    /// Reads the keys, which are to be [read again](Self::follow) when they change.
    pub fn new(files: TlsFiles, terms: TlsTerms) -> Result<Self, TlsError> {
        let config = ArcSwap::new(load(&files, terms)?);
        Ok(Self { files, terms, config })
    }

    /// Agrees on keys with a client; `None` if that fails, which is the client's loss.
    pub(crate) async fn accept(&self, stream: TcpStream) -> Option<TlsStream<TcpStream>> {
        let acceptor = TlsAcceptor::from(self.config.load_full());
        timeout(PATIENCE, acceptor.accept(stream)).await.ok()?.ok()
    }

    /// Takes other files into use as they come; files that cannot be used change nothing.
    pub async fn follow(self: Arc<Self>) {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut seen = self.changed();
        loop {
            ticks.tick().await;
            let changed = self.changed();
            if changed != seen {
                seen = changed;
                self.renew();
            }
        }
    }

    /// Reads the files again.
    fn renew(&self) {
        match load(&self.files, self.terms) {
            Ok(config) => {
                self.config.store(config);
                tracing::info!(certificate = %self.files.certificate.display(), "certificate replaced");
            }
            Err(error) => tracing::warn!("the certificate in use stays: {error}"),
        }
    }

    /// When each file was last changed.
    fn changed(&self) -> Vec<Option<SystemTime>> {
        let TlsFiles { certificate, key, client_authorities } = &self.files;
        let files = [Some(certificate), Some(key), client_authorities.as_ref()];
        let changed = |path: &PathBuf| path.metadata().and_then(|about| about.modified()).ok();
        files.into_iter().flatten().map(changed).collect()
    }
}

fn load(files: &TlsFiles, terms: TlsTerms) -> Result<Arc<ServerConfig>, TlsError> {
    let certificates = certificates("a certificate", &files.certificate)?;
    let key = PrivateKeyDer::from_pem_file(&files.key)
        .map_err(|error| unusable("a private key", &files.key, &error.to_string()))?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let unsound = |error: rustls::Error| {
        let path = files.certificate.clone();
        TlsError::Unsound { path, message: error.to_string() }
    };
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(unsound)?;
    let builder = match &files.client_authorities {
        None => builder.with_no_client_auth(),
        Some(path) => builder.with_client_cert_verifier(verifier(path, provider, terms)?),
    };
    let mut config = builder.with_single_cert(certificates, key).map_err(unsound)?;
    config.alpn_protocols = terms.protocols();
    Ok(Arc::new(config))
}

/// Accepts clients whose certificates were issued by the authorities in a file.
fn verifier(
    path: &Path,
    provider: Arc<rustls::crypto::CryptoProvider>,
    terms: TlsTerms,
) -> Result<Arc<dyn rustls::server::danger::ClientCertVerifier>, TlsError> {
    let what = "certificate authorities";
    let mut roots = RootCertStore::empty();
    for certificate in certificates(what, path)? {
        roots.add(certificate).map_err(|error| unusable(what, path, &error.to_string()))?;
    }
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    let verifier = if terms.needs_certificate() { verifier } else { verifier.allow_unauthenticated() };
    verifier.build().map_err(|error| unusable(what, path, &error.to_string()))
}

fn certificates(what: &'static str, path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let certificates = read.map_err(|error| unusable(what, path, &error.to_string()))?;
    if certificates.is_empty() {
        return Err(unusable(what, path, "there is none in it"));
    }
    Ok(certificates)
}

fn unusable(what: &'static str, path: &Path, message: &str) -> TlsError {
    TlsError::File { what, path: path.to_owned(), message: message.to_owned() }
}

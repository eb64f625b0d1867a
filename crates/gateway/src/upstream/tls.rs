//! Who is believed to be a back end, and what this gateway shows of itself.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use super::{Protocol, TlsFiles};

/// Why connections to `https` servers cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
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
    #[error("cannot show the certificate in {path}: {message}")]
    Unsound {
        /// The certificate's file.
        path: PathBuf,
        /// What is wrong with it.
        message: String,
    },
    /// The system trusts nobody.
    #[error(
        "this system trusts no certificate authority ({0}); name a file with some as `tls: {{ca: FILE}}`"
    )]
    NoAuthorities(String),
    /// The name is none.
    #[error("`{0}` is no name of a server; write a host name or an address as `tls: {{name: …}}`")]
    Name(String),
    /// The cryptography offers nothing that is needed.
    #[error("no TLS: {0}")]
    Provider(String),
}

/// What connections are made with, and a number for the content of the files it came from.
#[derive(Clone, Debug)]
pub(super) struct Keys {
    pub(super) config: Arc<ClientConfig>,
    pub(super) name: Option<ServerName<'static>>,
    pub(super) content: u64,
}

impl Keys {
    /// Reads the files. Where no server is `https`, there is nothing to trust either.
    pub(super) fn load(files: &TlsFiles, protocol: Protocol, is_needed: bool) -> Result<Self, TlsError> {
        let mut content = DefaultHasher::new();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| TlsError::Provider(error.to_string()))?;
        let builder = if files.insecure {
            builder.dangerous().with_custom_certificate_verifier(Arc::new(Anybody { provider }))
        } else {
            let roots = match &files.ca {
                Some(path) => Arc::new(authorities(path, &mut content)?),
                None if is_needed => system_authorities()?,
                None => Arc::new(RootCertStore::empty()),
            };
            builder.with_root_certificates(roots)
        };
        let mut config = match &files.identity {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let chain = certificates("a certificate", certificate, &mut content)?;
                let bytes = read("a private key", key, &mut content)?;
                let key = PrivateKeyDer::from_pem_slice(&bytes)
                    .map_err(|error| unusable("a private key", key, &error.to_string()))?;
                builder.with_client_auth_cert(chain, key).map_err(|error| TlsError::Unsound {
                    path: certificate.clone(),
                    message: error.to_string(),
                })?
            }
        };
        config.alpn_protocols = match protocol {
            Protocol::Http1 => vec![b"http/1.1".to_vec()],
            Protocol::Http2 => vec![b"h2".to_vec()],
            Protocol::Auto => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
        };
        let name = files.name.clone().map(|name| {
            ServerName::try_from(name.clone()).map_err(|_| TlsError::Name(name.chars().take(100).collect()))
        });
        Ok(Self { config: Arc::new(config), name: name.transpose()?, content: content.finish() })
    }
}

/// What the system trusts, read once: it is the same for all groups.
fn system_authorities() -> Result<Arc<RootCertStore>, TlsError> {
    static KNOWN: OnceLock<Result<Arc<RootCertStore>, TlsError>> = OnceLock::new();
    KNOWN
        .get_or_init(|| {
            let found = rustls_native_certs::load_native_certs();
            let mut roots = RootCertStore::empty();
            roots.add_parsable_certificates(found.certs);
            if roots.is_empty() {
                let why = found.errors.first().map_or_else(|| "none found".to_owned(), ToString::to_string);
                return Err(TlsError::NoAuthorities(why));
            }
            Ok(Arc::new(roots))
        })
        .clone()
}

fn authorities(path: &Path, content: &mut DefaultHasher) -> Result<RootCertStore, TlsError> {
    let what = "certificate authorities";
    let mut roots = RootCertStore::empty();
    for certificate in certificates(what, path, content)? {
        roots.add(certificate).map_err(|error| unusable(what, path, &error.to_string()))?;
    }
    Ok(roots)
}

fn certificates(
    what: &'static str,
    path: &Path,
    content: &mut DefaultHasher,
) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let bytes = read(what, path, content)?;
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    let certificates = certificates.map_err(|error| unusable(what, path, &error.to_string()))?;
    if certificates.is_empty() {
        return Err(unusable(what, path, "there is none in it"));
    }
    Ok(certificates)
}

fn read(what: &'static str, path: &Path, content: &mut DefaultHasher) -> Result<Vec<u8>, TlsError> {
    let bytes = fs::read(path).map_err(|error| unusable(what, path, &error.to_string()))?;
    bytes.hash(content);
    Ok(bytes)
}

fn unusable(what: &'static str, path: &Path, message: &str) -> TlsError {
    TlsError::File { what, path: path.to_owned(), message: message.to_owned() }
}

/// Believes every certificate, if only its holder has the key.
#[derive(Debug)]
struct Anybody {
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

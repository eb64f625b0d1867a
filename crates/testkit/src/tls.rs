//! Certificates, made anew for each test.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use tempfile::TempDir;

/// Whether a server asks clients for certificates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientCertificates {
    /// It does not.
    Ignored,
    /// It checks those it is given.
    Optional,
    /// It refuses clients without.
    Required,
}

/// An authority, and the certificates it has signed for a server on the loopback interface and for a client.
///
/// The files are there until the last clone is dropped. Two of these do not trust each other.
#[derive(Debug, Clone)]
pub struct Certificates {
    folder: Arc<TempDir>,
}

impl Certificates {
    /// Makes new ones.
    ///
    /// # Panics
    /// If the files cannot be written.
    #[must_use]
    pub fn generate() -> Self {
        let folder = TempDir::with_prefix("tidegate-tls-").expect("a temporary folder can be made");
        let authority = authority(folder.path());
        let names = ["localhost", "127.0.0.1"].map(str::to_owned).to_vec();
        sign(&authority, names, ExtendedKeyUsagePurpose::ServerAuth, folder.path(), "server");
        sign(&authority, Vec::new(), ExtendedKeyUsagePurpose::ClientAuth, folder.path(), "client");
        Self { folder: Arc::new(folder) }
    }

    /// The authority's certificate (PEM).
    #[must_use]
    pub fn authority(&self) -> PathBuf {
        self.folder.path().join("authority.pem")
    }

    /// The server's certificate, for `localhost` and `127.0.0.1` (PEM).
    #[must_use]
    pub fn server_certificate(&self) -> PathBuf {
        self.folder.path().join("server.pem")
    }

    /// The server's private key (PEM).
    #[must_use]
    pub fn server_key(&self) -> PathBuf {
        self.folder.path().join("server.key")
    }

    /// The client's certificate (PEM).
    #[must_use]
    pub fn client_certificate(&self) -> PathBuf {
        self.folder.path().join("client.pem")
    }

    /// The client's private key (PEM).
    #[must_use]
    pub fn client_key(&self) -> PathBuf {
        self.folder.path().join("client.key")
    }

    pub(crate) fn redis_args(&self, clients: ClientCertificates) -> Vec<String> {
        let clients = match clients {
            ClientCertificates::Ignored => "no",
            ClientCertificates::Optional => "optional",
            ClientCertificates::Required => "yes",
        };
        let mut args = vec!["--tls-auth-clients".to_owned(), clients.to_owned()];
        let files = [
            ("--tls-ca-cert-file", self.authority()),
            ("--tls-cert-file", self.server_certificate()),
            ("--tls-key-file", self.server_key()),
        ];
        args.extend(files.into_iter().flat_map(|(name, file)| [name.to_owned(), file.display().to_string()]));
        args
    }
}

fn authority(folder: &Path) -> Issuer<'static, KeyPair> {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "testkit authority");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    let key = KeyPair::generate().expect("a key can be made");
    let certificate = params.self_signed(&key).expect("an authority signs for itself");
    write(folder, "authority.pem", &certificate.pem());
    Issuer::new(params, key)
}

fn sign(
    authority: &Issuer<'static, KeyPair>,
    names: Vec<String>,
    usage: ExtendedKeyUsagePurpose,
    folder: &Path,
    file: &str,
) {
    let mut params = CertificateParams::new(names).expect("the names are valid");
    params.distinguished_name.push(DnType::CommonName, file);
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![usage];
    let key = KeyPair::generate().expect("a key can be made");
    let certificate = params.signed_by(&key, authority).expect("the authority signs");
    write(folder, &format!("{file}.pem"), &certificate.pem());
    write(folder, &format!("{file}.key"), &key.serialize_pem());
}

fn write(folder: &Path, name: &str, text: &str) {
    std::fs::write(folder.join(name), text).expect("certificates can be written");
}

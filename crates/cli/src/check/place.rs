//! Where a rate limit service is, and by which keys it is known.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};

use super::service::root;
use crate::client::authority;
use crate::failure::Failure;

/// Where a gRPC server is: `127.0.0.1:8081`, `http://…` or `https://…`.
#[derive(Clone, Debug)]
pub(super) struct Place {
    secure: bool,
    authority: String,
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (secure, rest) = match text.strip_prefix("https://") {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix("http://").unwrap_or(text)),
        };
        match authority(rest) {
            Some(authority) => Ok(Self { secure, authority: authority.to_owned() }),
            None => Err("write it as HOST:PORT or https://HOST:PORT".to_owned()),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.secure { "https" } else { "http" };
        write!(f, "{scheme}://{}", self.authority)
    }
}

/// Files for a connection over TLS, all in PEM form.
#[derive(Debug, Default, clap::Args)]
pub(super) struct TlsFiles {
    /// The authorities that vouch for an https:// server [default: those that the system trusts]
    #[arg(long, value_name = "FILE", requires = "grpc", help_heading = "Server")]
    ca: Option<PathBuf>,

    /// A certificate to show to an https:// server that asks for one
    #[arg(long, value_name = "FILE", requires_all = ["grpc", "key"], help_heading = "Server")]
    cert: Option<PathBuf>,

    /// Its private key
    #[arg(long, value_name = "FILE", requires_all = ["grpc", "cert"], help_heading = "Server")]
    key: Option<PathBuf>,
}

impl Place {
    /// Where and how to connect.
    pub(super) fn endpoint(&self, tls: &TlsFiles) -> Result<Endpoint, Failure> {
        let endpoint = Endpoint::from_shared(self.to_string())
            .map_err(|error| Failure::Usage(format!("cannot connect to {self}: {error}")))?;
        if self.secure {
            let config = tls.config()?;
            return endpoint
                .tls_config(config)
                .map_err(|error| Failure::Failed(format!("cannot speak TLS with {self}: {}", root(&error))));
        }
        if tls.ca.is_some() || tls.cert.is_some() {
            let fix = format!("write --server https://{}", self.authority);
            return Err(Failure::Usage(format!("--ca, --cert and --key are for https:// servers; {fix}")));
        }
        Ok(endpoint)
    }

    /// That nobody answers there, and what to do about it.
    pub(super) fn cannot_ask(&self, why: &str) -> Failure {
        let files =
            if self.secure { " If it is there, see to --ca FILE, --cert FILE and --key FILE." } else { "" };
        Failure::Failed(format!(
            "cannot ask {self}: {why}\n\
             Start a server with `tidegate serve`, or say where it listens for gRPC with --server HOST:PORT.{files}"
        ))
    }
}

impl TlsFiles {
    fn config(&self) -> Result<ClientTlsConfig, Failure> {
        let config = ClientTlsConfig::new();
        let config = match &self.ca {
            Some(path) => config.ca_certificate(Certificate::from_pem(read(path, "CERTIFICATE")?)),
            None => config.with_native_roots(),
        };
        Ok(match (&self.cert, &self.key) {
            (Some(cert), Some(key)) => {
                config.identity(Identity::from_pem(read(cert, "CERTIFICATE")?, read(key, "PRIVATE KEY")?))
            }
            _ => config,
        })
    }
}

/// The text of a file that has a `what` in it: were there none, the connection would fail for a reason that names
/// no file.
fn read(path: &Path, what: &str) -> Result<String, Failure> {
    let unusable =
        |why: &str| Failure::Failed(format!("cannot use {}: {why}; give a file in PEM form", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| unusable(&error.to_string()))?;
    let begins =
        |line: &str| line.starts_with("-----BEGIN ") && line.trim_end().ends_with(&format!("{what}-----"));
    if text.lines().any(begins) { Ok(text) } else { Err(unusable(&format!("there is no {what} in it"))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_with_and_without_ceremony() {
        for (text, shown) in [
            ("127.0.0.1:8081", "http://127.0.0.1:8081"),
            ("http://limiter:8081/", "http://limiter:8081"),
            ("https://limiter:8081", "https://limiter:8081"),
            ("https://[::1]:8081", "https://[::1]:8081"),
        ] {
            assert_eq!(text.parse::<Place>().unwrap().to_string(), shown);
        }
        for text in ["", "https://", "https://http://a", "a b", "https://a/b", "https://u@h:1", "dns:///x"] {
            assert!(text.parse::<Place>().unwrap_err().contains("https://HOST:PORT"), "{text}");
        }
    }
}

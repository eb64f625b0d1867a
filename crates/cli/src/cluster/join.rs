//! Joining other nodes, as the options of `tidegate serve` say it.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use tidegate::cluster::{Cluster, Fleet, Keyring, PeerName, Settings, StartError, Timing};
use tidegate_core::Secret;
use tidegate_server::Membership;

use crate::failure::Failure;

/// How to make a secret.
const MAKE: &str = "Make one for all nodes with `head -c 32 /dev/urandom | base64 > cluster.secret`";

/// How a node joins others.
#[derive(Clone, Debug)]
pub(crate) struct Together {
    settings: Settings,
    secrets: PathBuf,
}

impl Together {
    /// What the options say; nothing if they say nothing of others.
    pub(crate) fn new(
        listen: Option<SocketAddr>,
        secrets: Option<PathBuf>,
        peers: Option<Vec<PeerName>>,
        advertise: Option<SocketAddr>,
        name: Option<String>,
    ) -> Result<Option<Self>, Failure> {
        let Some(listen) = listen else {
            let given = [
                (secrets.is_some(), "--cluster-secret"),
                (peers.is_some(), "--peers"),
                (advertise.is_some(), "--advertise"),
                (name.is_some(), "--node-name"),
            ];
            return match given.iter().find(|(given, _)| *given) {
                Some((_, option)) => Err(Failure::Usage(format!(
                    "{option} says something about other nodes, but not where they reach this one\nUse --cluster ADDRESS:PORT \
                     as well."
                ))),
                None => Ok(None),
            };
        };
        let Some(secrets) = secrets else {
            let why = "--cluster needs the secret that tells nodes from strangers";
            return Err(Failure::Usage(format!("{why}\n{MAKE}, and use --cluster-secret FILE.")));
        };
        let wrong = |error: &dyn std::fmt::Display| {
            Failure::Usage(format!(
                "the cluster secret {} cannot be used: {error}\n{MAKE}.",
                secrets.display()
            ))
        };
        let text = fs::read_to_string(&secrets).map_err(|error| wrong(&error))?;
        let keyring = Keyring::parse(&text).map_err(|error| wrong(&error))?;
        let (peers, timing) = (peers.unwrap_or_default(), Timing::default());
        let settings = Settings { listen, advertise, name, peers, keyring, timing };
        Ok(Some(Self { settings, secrets }))
    }

    /// Returns what keys are hashed with until the store says.
    pub(crate) fn secret(&self) -> Secret {
        Fleet::secret_of(&self.settings.keyring)
    }

    /// Joins the others, who need not be there yet.
    pub(crate) async fn join(&self) -> Result<Membership, Failure> {
        let cluster = Cluster::start(self.settings.clone()).await.map_err(|error| match error {
            StartError::Advertise(_) => Failure::Usage(format!("{error}\nUse --advertise ADDRESS:PORT.")),
            StartError::Name(_) => Failure::Usage(format!("{error}\nUse --node-name NAME.")),
            StartError::Bind { .. } => {
                Failure::Failed(format!("{error}\nUse --cluster ADDRESS:PORT, or end what listens there."))
            }
            StartError::Random(_) => Failure::Failed(error.to_string()),
        })?;
        Ok(Membership::new(Arc::new(Fleet::new(cluster)), Some(self.secrets.clone())))
    }
}

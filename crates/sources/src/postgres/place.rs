//! One of the servers that an URL names, and patience with it.

use std::future::Future;
use std::time::Duration;

use sqlx::ConnectOptions;
use sqlx::postgres::{PgConnectOptions, PgConnection};
use tokio::time::timeout;

use super::trouble::{self, Trouble};
use super::url::PostgresUrl;

/// How long a server may take to answer one request.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// What the server itself does not exceed, so that requests that nobody waits for any more do not pile up there.
const LIMITS: [(&str, &str); 3] =
    [("lock_timeout", "4s"), ("statement_timeout", "30s"), ("idle_in_transaction_session_timeout", "30s")];

/// Whom to ask; named when it goes wrong.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'a> {
    pub(super) url: &'a PostgresUrl,
    /// Which of its servers.
    pub(super) server: usize,
}

impl<'a> Place<'a> {
    /// All servers of an URL, beginning with this one.
    pub(super) fn all(url: &'a PostgresUrl, first: usize) -> impl Iterator<Item = Self> {
        let count = url.servers.len();
        (first..first + count).map(move |server| Place { url, server: server % count })
    }

    /// How to connect.
    pub(super) fn options(self) -> PgConnectOptions {
        let url = self.url;
        let mut options = PgConnectOptions::new_without_pgpass()
            .username(&url.user)
            .database(&url.database)
            .ssl_mode(url.ssl_mode)
            .application_name("tidegate")
            .options(LIMITS)
            .disable_statement_logging();
        if let Some((host, port)) = url.servers.get(self.server) {
            options = options.host(host).port(*port);
        }
        if let Some(password) = &url.password {
            options = options.password(password);
        }
        if let Some(schema) = &url.schema {
            options = options.options([("search_path", format!("\"{schema}\""))]);
        }
        if let Some(file) = &url.ssl_root_cert {
            options = options.ssl_root_cert(file);
        }
        if let (Some(cert), Some(key)) = (&url.ssl_cert, &url.ssl_key) {
            options = options.ssl_client_cert(cert).ssl_client_key(key);
        }
        options
    }

    /// A connection of its own.
    pub(super) async fn connect(self) -> Result<PgConnection, Trouble> {
        let options = self.options();
        self.ask(options.connect()).await
    }

    /// Waits for an answer, but not for ever.
    pub(super) async fn ask<T>(
        self,
        answer: impl Future<Output = Result<T, sqlx::Error>>,
    ) -> Result<T, Trouble> {
        match timeout(PATIENCE, answer).await {
            Ok(answer) => answer.map_err(|error| self.trouble(&error)),
            Err(_) => Err(self.silent()),
        }
    }

    pub(super) fn trouble(self, error: &sqlx::Error) -> Trouble {
        trouble::of(self.url, &self.url.address(self.server), error)
    }

    /// There is no answer.
    pub(super) fn silent(self) -> Trouble {
        trouble::away(&self.url.address(self.server), "there is no answer")
    }

    /// The connection is lost.
    pub(super) fn lost(self) -> Trouble {
        trouble::away(&self.url.address(self.server), "the connection is lost")
    }
}

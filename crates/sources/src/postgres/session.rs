//! A connection over which notifications are heard and questions are asked.

use sqlx::Acquire;
use sqlx::postgres::{PgConnection, PgListener, PgPoolOptions};

use super::place::{PATIENCE, Place};
use super::trouble::Trouble;
use super::url::PostgresUrl;

/// An open connection to one of the URL's servers.
pub(super) struct Session {
    url: PostgresUrl,
    server: usize,
    listener: PgListener,
}

impl Session {
    /// Connects. Channels to listen on are named later.
    pub(super) async fn open(place: Place<'_>) -> Result<Self, Trouble> {
        // The pool that a listener wants tries again by itself and keeps the reason for doing so to itself.
        let probe = place.connect().await?;
        place.ask(sqlx::Connection::close(probe)).await?;
        let pool = PgPoolOptions::new()
            .max_connections(1)
            .acquire_timeout(PATIENCE)
            .idle_timeout(None)
            .max_lifetime(None)
            .connect_lazy_with(place.options());
        let mut listener = place.ask(PgListener::connect_with(&pool)).await?;
        // What was missed meanwhile is to be read, so that a lost connection is not to be mended in silence.
        listener.eager_reconnect(false);
        Ok(Self { url: place.url.clone(), server: place.server, listener })
    }

    pub(super) fn place(&self) -> Place<'_> {
        Place { url: &self.url, server: self.server }
    }

    /// Hears what is told on a channel from now on.
    pub(super) async fn listen(&mut self, channel: &str) -> Result<(), Trouble> {
        let place = Place { url: &self.url, server: self.server };
        place.ask(self.listener.listen(channel)).await
    }

    /// Waits for a notification. Giving up waiting loses nothing.
    pub(super) async fn hear(&mut self) -> Result<String, Trouble> {
        match self.listener.try_recv().await {
            Ok(Some(notification)) => Ok(notification.payload().to_owned()),
            Ok(None) => Err(self.place().lost()),
            Err(error) => Err(self.place().trouble(&error)),
        }
    }

    /// What else has been told already.
    pub(super) fn heard(&mut self) -> Option<String> {
        self.listener.next_buffered().map(|notification| notification.payload().to_owned())
    }

    /// To ask something.
    pub(super) async fn connection(&mut self) -> Result<(Place<'_>, &mut PgConnection), Trouble> {
        let place = Place { url: &self.url, server: self.server };
        // It is there until it is lost, and then the session is over.
        let connection = place.ask(self.listener.acquire()).await?;
        Ok((place, connection))
    }
}

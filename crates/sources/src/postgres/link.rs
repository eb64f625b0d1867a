//! A connection over which all rows have been read, and are followed from there on.

use super::place::Place;
use super::rows::{self, Rows};
use super::session::Session;
use super::trouble::Trouble;

/// Where triggers tell that rules have changed.
const CHANNEL: &str = "tidegate_rules";

/// All rows, and how they change.
pub(super) struct Link {
    session: Session,
    rows: Rows,
    /// Whether the server only follows another: it has no notifications, and may be behind.
    replica: bool,
}

impl Link {
    /// Reads everything from one of the URL's servers.
    pub(super) async fn open(place: Place<'_>) -> Result<Self, Trouble> {
        let mut session = Session::open(place).await?;
        let (_, connection) = session.connection().await?;
        rows::check_encoding(place, connection).await?;
        let (_, replica) = rows::version(place, connection).await?;
        // First, so that nothing changes unheard in between.
        if !replica {
            session.listen(CHANNEL).await?;
        }
        let (_, connection) = session.connection().await?;
        let rows = rows::read(place, connection).await?;
        Ok(Self { session, rows, replica })
    }

    pub(super) fn rows(&self) -> &Rows {
        &self.rows
    }

    pub(super) fn is_replica(&self) -> bool {
        self.replica
    }

    pub(super) fn place(&self) -> Place<'_> {
        self.session.place()
    }

    /// Waits until something may have changed. Giving up waiting loses nothing.
    pub(super) async fn hear(&mut self) -> Result<(), Trouble> {
        self.session.hear().await?;
        while self.session.heard().is_some() {}
        Ok(())
    }

    /// Reads what there is, if it has changed; says whether it has.
    pub(super) async fn refresh(&mut self) -> Result<bool, Trouble> {
        let (place, connection) = self.session.connection().await?;
        let (version, replica) = rows::version(place, connection).await?;
        if self.replica && !replica {
            self.session.listen(CHANNEL).await?;
            self.replica = false;
        }
        if version == self.rows.version {
            return Ok(false);
        }
        let (place, connection) = self.session.connection().await?;
        self.rows = rows::read(place, connection).await?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tidegate_testkit::Postgres;
    use tokio::time::timeout;

    use super::super::{PostgresArchive, PostgresUrl};
    use super::*;

    /// The safety net: what is asked every now and then does not depend on notifications.
    #[tokio::test]
    async fn what_no_notification_has_told_is_found_by_asking() {
        let postgres = Postgres::start();
        let url: PostgresUrl = postgres.url().parse().unwrap();
        PostgresArchive::new(url.clone()).init().await.unwrap();
        postgres.psql("INSERT INTO tidegate_rules (name, text) VALUES ('a', 'one')");
        let mut link = Link::open(Place { url: &url, server: 0 }).await.unwrap();
        let text = |link: &Link| link.rows().documents[0].text.clone().unwrap();
        assert_eq!((text(&link).as_str(), link.refresh().await), ("one", Ok(false)));

        let (place, connection) = link.session.connection().await.unwrap();
        place.ask(sqlx::query("UNLISTEN *").execute(connection)).await.unwrap();
        postgres.psql("UPDATE tidegate_rules SET text = 'two'");
        assert_eq!((link.refresh().await, text(&link).as_str()), (Ok(true), "two"));
        assert!(link.session.heard().is_none(), "nothing was told");

        link.session.listen(CHANNEL).await.unwrap();
        postgres.psql("UPDATE tidegate_rules SET text = 'three'");
        timeout(Duration::from_secs(60), link.hear()).await.unwrap().unwrap();
        assert_eq!((link.refresh().await, text(&link).as_str()), (Ok(true), "three"));
    }
}

//! Creating the tables, and bringing them up to date.

use sqlx::Connection;
use sqlx::postgres::PgConnection;

use super::place::Place;
use super::trouble::Trouble;

/// In order. What has been released is never changed, only added to.
const MIGRATIONS: [(i32, &str); 3] = [
    (1, include_str!("../../migrations/0001_rules.sql")),
    (2, include_str!("../../migrations/0002_users.sql")),
    (3, include_str!("../../migrations/0003_tenants.sql")),
];

/// Those who create tables at the same moment wait for each other by this number: any would do.
const LOCK: i64 = 7_306_071_625_894_327_397;

/// Applies what has not been applied yet, all or nothing.
pub(super) async fn run(place: Place<'_>, connection: &mut PgConnection) -> Result<(), Trouble> {
    let mut transaction = place.ask(connection.begin()).await?;
    let lock = sqlx::query("SELECT pg_advisory_xact_lock($1)").bind(LOCK);
    place.ask(lock.execute(&mut *transaction)).await?;
    enter_schema(place, &mut transaction).await?;
    // Not before the lock: even this, two cannot do at once.
    let create = "CREATE TABLE IF NOT EXISTS tidegate_migrations \
                  (number integer PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT now())";
    place.ask(sqlx::raw_sql(create).execute(&mut *transaction)).await?;
    let question = sqlx::query_as("SELECT coalesce(max(number), 0) FROM tidegate_migrations");
    let (done,): (i32,) = place.ask(question.fetch_one(&mut *transaction)).await?;
    for (number, sql) in MIGRATIONS.into_iter().filter(|&(number, _)| number > done) {
        place.ask(sqlx::raw_sql(sql).execute(&mut *transaction)).await?;
        let note = sqlx::query("INSERT INTO tidegate_migrations (number) VALUES ($1)").bind(number);
        place.ask(note.execute(&mut *transaction)).await?;
    }
    place.ask(transaction.commit()).await
}

/// Makes one schema the only one, so that functions can keep it.
async fn enter_schema(place: Place<'_>, connection: &mut PgConnection) -> Result<(), Trouble> {
    if let Some(schema) = &place.url.schema {
        let question = sqlx::query_as("SELECT to_regnamespace(quote_ident($1)) IS NOT NULL").bind(schema);
        let (there,): (bool,) = place.ask(question.fetch_one(&mut *connection)).await?;
        if !there {
            // Names of schemas in URLs have no character that could end the quotes.
            let create = sqlx::AssertSqlSafe(format!("CREATE SCHEMA \"{schema}\""));
            place.ask(sqlx::raw_sql(create).execute(&mut *connection)).await?;
        }
    }
    let question = sqlx::query_as("SELECT current_schema()::text");
    let (schema,): (Option<String>,) = place.ask(question.fetch_one(&mut *connection)).await?;
    let Some(schema) = schema else {
        return Err(Trouble::refused(format!(
            "{} has no schema to create tables in; name one, as in ?schema=tidegate",
            place.url
        )));
    };
    let enter = sqlx::query("SELECT set_config('search_path', quote_ident($1) || ', pg_temp', true)");
    place.ask(enter.bind(schema).execute(connection)).await.map(drop)
}

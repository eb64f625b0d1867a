//! What PostgreSQL says when something goes wrong, and what to do about it.

use sqlx::Error;
use sqlx::error::DatabaseError;

use super::url::PostgresUrl;

pub(super) use crate::trouble::Trouble;

/// An error of the server at `address`.
pub(super) fn of(url: &PostgresUrl, address: &str, error: &Error) -> Trouble {
    match error {
        Error::Database(error) => {
            let code = error.code().unwrap_or_default();
            said(url, address, &code, error.message())
        }
        Error::Configuration(error) => Trouble::refused(format!(
            "cannot connect to PostgreSQL at {address}: {error}; correct the URL or the files that it names"
        )),
        Error::Decode(error) => Trouble::data(format!(
            "PostgreSQL at {address} sends what cannot be understood: {error}; {}",
            init(url)
        )),
        // The pool keeps the reason to itself. That the server can be reached was seen just before.
        Error::PoolTimedOut => away(address, "there is no answer"),
        error => away(address, &error.to_string()),
    }
}

/// The same by its code and words.
fn said(url: &PostgresUrl, address: &str, code: &str, words: &str) -> Trouble {
    let (user, database) = (&url.user, &url.database);
    match code {
        "28P01" => Trouble::refused(format!(
            "PostgreSQL at {address} refuses user and password; correct them in the URL"
        )),
        "28000" => Trouble::refused(format!(
            "PostgreSQL at {address} does not let {user} in: {words}; correct the URL, or pg_hba.conf there"
        )),
        "3D000" => Trouble::refused(format!(
            "PostgreSQL at {address} has no database {database}; createdb {database}, or correct the URL"
        )),
        "42501" if words.contains("schema") => Trouble::refused(format!(
            "PostgreSQL at {address} does not let {user} do that: {words}; to let it create tables there, \
             GRANT USAGE, CREATE ON that SCHEMA TO {user}"
        )),
        "42501" => Trouble::refused(format!(
            "PostgreSQL at {address} does not let {user} do that: {words}; \
             for reading, GRANT SELECT ON tidegate_state, tidegate_rules, tidegate_users, tidegate_tenants TO {user}; \
             docs/operations/postgres.md says what writing takes"
        )),
        // A table, a schema, a function or a column is not there.
        "42P01" | "3F000" | "42883" | "42703" => Trouble::refused(format!(
            "the database {database} of PostgreSQL at {address} has no tables for Tidegate that {user} can see ({words}); {}",
            init(url)
        )),
        "25006" => read_only(address),
        "53300" => away(address, &format!("{words}; raise max_connections, or let fewer connect")),
        "55P03" | "57014" => {
            away(address, &format!("{words}, as somebody has locked the tables or it is slow"))
        }
        // Characters that the database's encoding does not have, or that no text may have.
        "22P05" | "22021" => Trouble::refused(format!(
            "the database {database} of PostgreSQL at {address} cannot hold that: {words}; \
             leave the character out, or use a database with ENCODING 'UTF8'"
        )),
        // Starting or ending, out of resources, errors of the system.
        _ if ["08", "53", "57", "58", "XX"].iter().any(|class| code.starts_with(class)) => {
            away(address, words)
        }
        _ => Trouble::refused(format!("PostgreSQL at {address} refuses: {words} ({code}); mend that there")),
    }
}

/// The server cannot be asked.
pub(super) fn away(address: &str, why: &str) -> Trouble {
    Trouble::away(format!("cannot use PostgreSQL at {address}: {why}; see that it runs there and answers"))
}

/// The server follows another, or takes no changes for another reason.
pub(super) fn read_only(address: &str) -> Trouble {
    Trouble::refused(format!(
        "PostgreSQL at {address} can only be read; name the server that can be written with --rules-primary, or in the URL of --tiers"
    ))
}

/// How to make the tables.
pub(super) fn init(url: &PostgresUrl) -> String {
    format!("tidegate rules init --rules {url} creates them (add user and password)")
}

/// Whether somebody else was quicker: a deadlock that was broken, or transactions that cannot be put in an order.
pub(super) fn is_conflict(error: &Error) -> bool {
    let code = error.as_database_error().and_then(DatabaseError::code);
    matches!(code.as_deref(), Some("40P01" | "40001"))
}

/// Why no server will do.
pub(super) fn worst(worst: Option<Trouble>) -> Trouble {
    worst.unwrap_or_else(|| Trouble::away("there is no PostgreSQL to ask; name one".to_owned()))
}

//! Rows in a real PostgreSQL, which crashes and hangs.

mod archive;
mod tiers;

use tidegate_sources::{ArchiveError, Event, PostgresArchive, PostgresSource, Snapshot};
use tidegate_testkit::{Certificates, Port, Postgres, Proxy};
use tokio::time::timeout;

use crate::scene::{DEADLINE, Scene, bad_among_two, names, texts};

fn open(url: &str) -> Scene {
    Scene::new(PostgresSource::new(url.parse().unwrap()))
}

fn archive(url: &str) -> PostgresArchive {
    PostgresArchive::new(url.parse().unwrap())
}

/// A server with tables.
async fn start() -> Postgres {
    let postgres = Postgres::start();
    archive(&postgres.url()).init().await.unwrap();
    postgres
}

fn put(postgres: &Postgres, name: &str, text: &str) {
    postgres.psql(&format!(
        "INSERT INTO tidegate_rules (name, text) VALUES ('{name}', '{text}') \
         ON CONFLICT (name) DO UPDATE SET text = excluded.text"
    ));
}

/// A server in which the row `a` is `one`, and a source that has told so.
async fn with_one() -> (Postgres, Scene) {
    let postgres = start().await;
    put(&postgres, "a", "one");
    let mut scene = open(&postgres.url());
    assert_eq!(texts(&scene.loaded().await), ["one"]);
    (postgres, scene)
}

/// The version that all rules have together.
fn version(postgres: &Postgres) -> u64 {
    postgres.psql("SELECT version FROM tidegate_state").trim().parse().unwrap()
}

fn versions(snapshot: &Snapshot) -> Vec<u64> {
    snapshot.documents.iter().map(|document| document.version).collect()
}

#[tokio::test]
async fn all_documents_are_told_at_once_and_after_every_change() {
    let postgres = start().await;
    for (name, text) in [("b", "2"), ("a", "1"), ("Z", "0")] {
        put(&postgres, name, text);
    }
    let mut scene = open(&postgres.url());
    let first = scene.loaded().await;
    assert_eq!((names(&first), texts(&first)), (vec!["Z", "a", "b"], vec!["0", "1", "2"]));
    assert_eq!((versions(&first), first.version), (vec![3, 2, 1], 3));

    // Of no interest.
    postgres.psql("INSERT INTO tidegate_users (user_id, tier) VALUES ('ann', 'free')");
    postgres.psql("UPDATE tidegate_rules SET good_text = text, good_version = version");
    put(&postgres, "c", "3");
    let second = scene.loaded().await;
    assert_eq!((texts(&second), second.version), (vec!["0", "1", "2", "3"], 4));

    postgres.psql("BEGIN; UPDATE tidegate_rules SET text = '11' WHERE name = 'a'; \
                   DELETE FROM tidegate_rules WHERE name = 'b'; UPDATE tidegate_rules SET name = 'd' WHERE name = 'c'; COMMIT");
    let third = scene.loaded().await;
    assert_eq!((names(&third), texts(&third)), (vec!["Z", "a", "d"], vec!["0", "11", "3"]), "as one");
    assert_eq!((versions(&third), third.version), (vec![3, 5, 5], 5));

    postgres.psql("DELETE FROM tidegate_rules WHERE name = 'd'");
    let fourth = scene.loaded().await;
    assert_eq!((texts(&fourth), fourth.version, version(&postgres)), (vec!["0", "11"], 6, 6));
    postgres.psql("TRUNCATE tidegate_rules");
    assert!(scene.failed().await.contains("holds no rules"));
    put(&postgres, "a", "text: [");
    let last = scene.loaded().await;
    assert_eq!((texts(&last), last.version), (vec!["text: ["], 8), "whether it is good is for others to say");
}

/// Whoever waits for several things at once drops the future again and again.
#[tokio::test]
async fn giving_up_waiting_loses_nothing() {
    let (postgres, mut scene) = with_one().await;
    for text in ["two", "three"] {
        put(&postgres, "a", text);
        let event = timeout(DEADLINE, async {
            loop {
                tokio::select! {
                    biased;
                    event = scene.source.next() => return event,
                    () = tokio::task::yield_now() => {}
                }
            }
        });
        let Event::Loaded(snapshot) = event.await.unwrap() else { panic!("failed") };
        assert_eq!(texts(&snapshot), [text]);
    }
}

/// What nobody waited for is told as it is in the end.
#[tokio::test]
async fn a_slow_listener_ends_with_the_latest() {
    let (postgres, mut scene) = with_one().await;
    for count in 0..20 {
        put(&postgres, "a", &count.to_string());
    }
    let mut told = 0;
    while texts(&scene.loaded().await) != ["19"] {
        told += 1;
        assert!(told < 20, "each change is told once at most");
    }
}

/// A version that was given later is never seen earlier: whoever saw it would think that it has all before it.
#[tokio::test]
async fn a_slow_transaction_keeps_later_versions_from_being_seen() {
    let (postgres, mut scene) = with_one().await;
    let connect = || async {
        use sqlx::Connection;
        sqlx::PgConnection::connect(&postgres.url()).await.unwrap()
    };
    let (mut slow, mut quick) = (connect().await, connect().await);
    let put = |name: &str| {
        sqlx::query("INSERT INTO tidegate_rules (name, text) VALUES ($1, 'two')").bind(name.to_owned())
    };
    sqlx::query("BEGIN").execute(&mut slow).await.unwrap();
    put("slow").execute(&mut slow).await.unwrap();
    let waiting = tokio::spawn(async move { put("quick").execute(&mut quick).await.unwrap() });
    let waits = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'INSERT INTO tidegate%'";
    timeout(DEADLINE, async {
        while postgres.psql(waits).is_empty() {
            tokio::task::yield_now().await;
        }
    })
    .await
    .unwrap();
    sqlx::query("COMMIT").execute(&mut slow).await.unwrap();
    waiting.await.unwrap();
    loop {
        let snapshot = scene.loaded().await;
        match &*names(&snapshot) {
            ["a", "slow"] => assert_eq!(snapshot.version, 2),
            ["a", "quick", "slow"] => break assert_eq!(versions(&snapshot), [1, 3, 2]),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_crash_is_told_once_and_what_changed_meanwhile_is_found() {
    let (postgres, mut scene) = with_one().await;
    postgres.kill();
    let why = scene.failed().await;
    assert!(why.contains(&postgres.address().to_string()) && why.contains("see that it runs"), "{why}");
    postgres.restart();
    assert_eq!(texts(&scene.loaded().await), ["one"], "told again although nothing changed");

    postgres.kill();
    scene.failed().await;
    // Whichever is first, the source or the change: it ends with the change.
    postgres.restart();
    put(&postgres, "a", "two");
    while texts(&scene.loaded().await) != ["two"] {}
}

#[tokio::test]
async fn a_hang_is_noticed_and_survived() {
    let (postgres, mut scene) = with_one().await;
    postgres.pause();
    let why = scene.failed().await;
    assert!(why.contains("there is no answer; see that it runs"), "{why}");
    postgres.resume();
    assert_eq!(texts(&scene.loaded().await), ["one"]);
    put(&postgres, "a", "two");
    assert_eq!(texts(&scene.loaded().await), ["two"]);
}

#[tokio::test]
async fn a_connection_that_is_ended_is_opened_again() {
    let (postgres, mut scene) = with_one().await;
    postgres
        .psql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'tidegate'");
    put(&postgres, "a", "two");
    // What it says depends on whether it was waiting or asking.
    let failed = scene.failed().await;
    let reasons = ["the connection is lost", "terminating connection", "error communicating"];
    assert!(reasons.iter().any(|reason| failed.contains(reason)), "{failed}");
    assert_eq!(texts(&scene.loaded().await), ["two"]);
    put(&postgres, "a", "three");
    assert_eq!(texts(&scene.loaded().await), ["three"]);
}

#[tokio::test]
async fn a_network_that_breaks_heals() {
    let postgres = start().await;
    put(&postgres, "a", "one");
    let proxy = Proxy::start(postgres.address());
    let url = postgres.url().replace(&postgres.address().to_string(), &proxy.address().to_string());
    let mut scene = open(&url);
    assert_eq!(texts(&scene.loaded().await), ["one"]);
    proxy.cut();
    scene.failed().await;
    put(&postgres, "a", "two");
    proxy.heal();
    assert_eq!(texts(&scene.loaded().await), ["two"]);
}

/// There are no notifications on a replica.
#[tokio::test]
async fn a_replica_is_followed_and_outlives_its_primary() {
    let primary = start().await;
    put(&primary, "a", "one");
    let replica = Postgres::replica_of(&primary);
    let mut scene = open(&replica.url());
    assert_eq!(texts(&scene.loaded().await), ["one"]);
    put(&primary, "a", "two");
    let changed = scene.loaded().await;
    assert_eq!((texts(&changed), changed.version), (vec!["two"], version(&primary)));

    let refused = archive(&replica.url()).init().await.unwrap_err();
    assert!(matches!(&refused, ArchiveError::Refused(why) if why.contains("--rules-primary")), "{refused}");

    primary.kill();
    replica.psql("SELECT pg_promote()");
    put(&replica, "a", "three");
    assert_eq!(texts(&scene.loaded().await), ["three"]);
}

#[tokio::test]
async fn a_replica_that_is_behind_does_not_bring_old_rules_back() {
    let primary = start().await;
    put(&primary, "a", "one");
    let replica = Postgres::replica_of(&primary);
    let both = format!("{},{}", primary.address(), replica.address());
    let mut scene = open(&primary.url().replace(&primary.address().to_string(), &both));
    scene.loaded().await;
    replica.psql("SELECT pg_wal_replay_pause()");
    put(&primary, "a", "two");
    assert_eq!(texts(&scene.loaded().await), ["two"]);
    primary.kill();
    let told = [scene.failed().await, scene.failed().await];
    assert!(told[1].contains("is behind what was read before"), "{told:?}");
    replica.psql("SELECT pg_wal_replay_resume()");
    assert_eq!(texts(&scene.loaded().await), ["two"]);
}

#[tokio::test]
async fn another_server_takes_over() {
    let postgres = start().await;
    put(&postgres, "a", "one");
    let both = format!("{},{}", Port::claim().address(), postgres.address());
    let mut scene = open(&postgres.url().replace(&postgres.address().to_string(), &both));
    assert_eq!(texts(&scene.loaded().await), ["one"]);
}

#[tokio::test]
async fn what_is_no_document_is_named_until_it_is_mended() {
    let (postgres, mut scene) = with_one().await;
    postgres.psql("INSERT INTO tidegate_rules (name, text) VALUES ('b', repeat(' ', 1024 * 1024 + 1))");
    let why = bad_among_two(&scene.loaded().await);
    assert!(why.contains("b is larger than 1 MiB"), "{why}");
    postgres.psql("UPDATE tidegate_rules SET text = repeat(' ', 1024 * 1024) WHERE name = 'b'");
    assert!(scene.loaded().await.documents.iter().all(|document| document.text.is_ok()));
    // Known before anything is read.
    postgres.psql(
        "INSERT INTO tidegate_rules (name, text) SELECT n, repeat(' ', 1024 * 1024) FROM generate_series(1, 64) AS n",
    );
    assert!(scene.failed().await.contains("larger than 64 MiB"));
    postgres.psql("DELETE FROM tidegate_rules WHERE name > 'a' OR name < 'A'");
    assert_eq!(texts(&scene.loaded().await), ["one"]);
}

#[tokio::test]
async fn a_hundred_thousand_rows_are_enough() {
    let postgres = start().await;
    postgres
        .psql("INSERT INTO tidegate_rules (name, text) SELECT n, 'x' FROM generate_series(1, 100000) AS n");
    let mut scene = open(&postgres.url());
    assert_eq!(scene.loaded().await.documents.len(), 100_000);
    put(&postgres, "a", "one");
    assert!(scene.failed().await.contains("more than 100000 rows"));
}

#[tokio::test]
async fn missing_tables_and_missing_rows_are_told_until_they_are_there() {
    let postgres = Postgres::start();
    let mut scene = open(&postgres.url());
    let why = scene.failed().await;
    let fix = format!("tidegate rules init --rules postgres://{}/postgres", postgres.address());
    assert!(why.contains("has no tables for Tidegate") && why.contains(&fix), "{why}");
    archive(&postgres.url()).init().await.unwrap();
    let why = scene.failed().await;
    assert!(
        why.contains("holds no rules; put one there") && why.contains("INSERT INTO tidegate_rules"),
        "{why}"
    );
    put(&postgres, "a", "one");
    assert_eq!(texts(&scene.loaded().await), ["one"]);
    postgres.psql("DELETE FROM tidegate_state");
    let why = scene.failed().await;
    assert!(why.contains("tidegate_state") && why.contains("is empty"), "{why}");
    postgres.psql(
        "INSERT INTO tidegate_state (version) SELECT coalesce(max(version), 0) + 1 FROM tidegate_rules",
    );
    assert_eq!(texts(&scene.loaded().await), ["one"]);
}

#[tokio::test]
async fn schemas_are_kept_apart() {
    let postgres = start().await;
    let url = format!("{}?schema=Limits", postgres.url());
    assert!(open(&url).failed().await.contains("rules init"));
    archive(&url).init().await.unwrap();
    put(&postgres, "a", "one");
    let mut scene = open(&url);
    assert!(scene.failed().await.contains("?schema=Limits holds no rules"));
    // Whoever changes them need not have looked for them there.
    postgres.psql("INSERT INTO \"Limits\".tidegate_rules (name, text) VALUES ('b', 'two')");
    let snapshot = scene.loaded().await;
    assert_eq!((texts(&snapshot), snapshot.version), (vec!["two"], 1));
}

#[tokio::test]
async fn a_wrong_address_is_named() {
    let nobody = Port::claim();
    let why = open(&format!("postgres://u:p@{}/d", nobody.address())).failed().await;
    assert!(why.contains(&nobody.address().to_string()) && why.contains("refused"), "{why}");
    let why = open("postgres://u:p@no-such-host.invalid/d").failed().await;
    assert!(why.contains("no-such-host.invalid:5432") && why.contains("see that it runs"), "{why}");
}

#[tokio::test]
async fn users_passwords_and_permissions() {
    let postgres = start().await;
    put(&postgres, "a", "one");
    let with =
        |login: &str, database: &str| open(&format!("postgres://{login}@{}/{database}", postgres.address()));
    let why = with("postgres:wrong", "postgres").failed().await;
    assert!(why.contains("refuses user and password; correct them") && !why.contains("wrong"), "{why}");
    let why = with("nobody:secret", "postgres").failed().await;
    assert!(why.contains("refuses user and password"), "{why}");
    let why = with("postgres:secret", "shop").failed().await;
    assert!(why.contains("has no database shop; createdb shop"), "{why}");

    postgres.psql("CREATE ROLE ann LOGIN PASSWORD 'secret'");
    let mut ann = with("ann:secret", "postgres");
    let why = ann.failed().await;
    assert!(why.contains("GRANT SELECT ON tidegate_state, tidegate_rules"), "{why}");
    postgres.psql("GRANT SELECT ON tidegate_state, tidegate_rules TO ann");
    assert_eq!(texts(&ann.loaded().await), ["one"]);
    let why = archive(&format!("postgres://ann:secret@{}/postgres?schema=ann", postgres.address()))
        .init()
        .await
        .unwrap_err()
        .to_string();
    assert!(why.contains("does not let ann do that: permission denied for database"), "{why}");

    // Who may change rules needs no rights on what counts them.
    postgres.psql("GRANT INSERT ON tidegate_rules TO ann");
    postgres
        .psql("SET SESSION AUTHORIZATION ann; INSERT INTO tidegate_rules (name, text) VALUES ('b', 'two')");
    assert_eq!(texts(&ann.loaded().await), ["one", "two"]);
    assert_eq!(postgres.psql("SELECT updated_by FROM tidegate_rules ORDER BY name"), "postgres\nann\n");
}

#[tokio::test]
async fn tls_with_certificates() {
    let certificates = Certificates::generate();
    let postgres = Postgres::start_tls(&certificates);
    archive(&postgres.url()).init().await.unwrap();
    put(&postgres, "a", "one");
    let with = |query: &str| open(&format!("{}?{query}", postgres.url()));
    let ca = format!("sslmode=verify-full&sslrootcert={}", certificates.authority().display());
    let encrypted = "SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) \
                     WHERE application_name = 'tidegate'";
    let mut scene = with(&ca);
    assert_eq!((texts(&scene.loaded().await), postgres.psql(encrypted).as_str()), (vec!["one"], "t\n"));
    drop(scene);
    let why = with("sslmode=verify-full").failed().await;
    assert!(why.contains("certificate"), "{why}");
    let why = with("sslmode=verify-full&sslrootcert=/nowhere/at/all").failed().await;
    assert!(why.contains("o such file"), "{why}");
    let plain = start().await;
    let why = open(&format!("{}?sslmode=require", plain.url())).failed().await;
    assert!(why.contains("does not support TLS"), "{why}");
}

#[tokio::test]
async fn encodings() {
    let postgres = Postgres::start();
    for encoding in ["LATIN1", "SQL_ASCII"] {
        postgres.psql(&format!("CREATE DATABASE {encoding} TEMPLATE template0 ENCODING '{encoding}'"));
    }
    let url = |database: &str| format!("postgres://postgres:secret@{}/{database}", postgres.address());
    archive(&url("latin1")).init().await.unwrap();
    postgres.psql("\\c latin1\nINSERT INTO tidegate_rules (name, text) VALUES ('a', chr(233))");
    assert_eq!(texts(&open(&url("latin1")).loaded().await), ["é"]);
    let why = open(&url("sql_ascii")).failed().await;
    assert!(why.contains("encoding SQL_ASCII, which is none; create one with ENCODING 'UTF8'"), "{why}");
}

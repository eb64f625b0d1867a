//! One PostgreSQL, and a replica of it.

use std::net::TcpStream;

use tidegate_testkit::{Certificates, Postgres, wait};

use crate::{SOON, exists};

#[test]
fn starts_answers_and_leaves_nothing_behind() {
    let postgres = Postgres::start();
    assert_eq!(postgres.psql("SELECT 1, 'two'"), "1|two\n");
    assert_eq!(postgres.psql("SHOW server_encoding"), "UTF8\n");
    let (pid, address, url) = (postgres.pid(), postgres.address(), postgres.url());
    assert!(exists(pid) && url.ends_with(&format!("@{address}/postgres")), "{url}");
    let folder = postgres.psql("SHOW data_directory").trim().to_owned();
    drop(postgres);
    assert!(TcpStream::connect(address).is_err() && !exists(pid));
    assert!(!std::fs::exists(folder).unwrap());
}

#[test]
fn crashes_and_comes_back_with_its_data_on_its_port() {
    let postgres = Postgres::start();
    postgres.psql("CREATE TABLE a AS SELECT 1");
    let (pid, address) = (postgres.pid(), postgres.address());
    postgres.kill();
    assert!(TcpStream::connect(address).is_err() && !exists(pid));
    postgres.restart();
    assert_eq!((postgres.psql("TABLE a").as_str(), postgres.address()), ("1\n", address));
    postgres.pause();
    postgres.resume();
    assert_eq!(postgres.psql("TABLE a"), "1\n");
    postgres.pause();
    postgres.restart();
    assert_eq!(postgres.psql("TABLE a"), "1\n");
}

#[test]
fn a_replica_follows_its_primary_and_can_only_be_read() {
    let primary = Postgres::start();
    let replica = Postgres::replica_of(&primary);
    assert_eq!(replica.psql("SELECT pg_is_in_recovery()"), "t\n");
    primary.psql("CREATE TABLE a AS SELECT 1");
    let there = || replica.psql("SELECT count(*) FROM pg_class WHERE relname = 'a'") == "1\n";
    wait::until("the replica has the table", SOON, || there().then_some(()));
    primary.restart();
    primary.psql("INSERT INTO a VALUES (2)");
    wait::until("the replica has the row", SOON, || (replica.psql("TABLE a") == "1\n2\n").then_some(()));
}

#[test]
fn speaks_tls() {
    let postgres = Postgres::start_tls(&Certificates::generate());
    assert_eq!(postgres.psql("SHOW ssl"), "on\n");
}

//! Users' tiers from a database.

use std::fs;

use tidegate_testkit::Postgres;

use crate::support::{Server, run, tidegate, wait_for};

const RULES: &str = "
tiers: {free: {limit: 10, window: 1h}, premium: {limit: 3000, window: 1h}}
default_tier: free
rules: [{rule_id: each, identifier_type: user_id, tiered: true}]
";

const ALICE: &str = r#"{"user":"alice","resource":"/"}"#;
const BOB: &str = r#"{"user":"bob","resource":"/"}"#;

/// The table of tiers; `tidegate rules init` makes it with the others.
const TABLE: &str = include_str!("../../../sources/migrations/0002_users.sql");
const TENANTS: &str = include_str!("../../../sources/migrations/0003_tenants.sql");

#[test]
fn a_users_tier_comes_from_postgresql_and_the_password_is_not_shown() {
    let (postgres, folder) = (Postgres::start(), tempfile::tempdir().unwrap());
    postgres.psql(TABLE);
    let (rules, config) = (folder.path().join("rules.yaml"), folder.path().join("config.yaml"));
    fs::write(&rules, RULES).unwrap();
    // A machine that is busy with other things is to be in time.
    fs::write(&config, "tier_timeout: 20s\ntier_cache: 100\n").unwrap();
    let args = ["--rules", rules.to_str().unwrap(), "--config", config.to_str().unwrap()];
    let server = Server::start_with(&args, |command| command.env("TIDEGATE_TIERS", postgres.url()));
    assert_eq!(server.check(ALICE)["limit"], 10);
    postgres.psql("INSERT INTO tidegate_users (user_id, tier) VALUES ('alice', 'premium')");
    wait_for("alice to be premium", || (server.check(ALICE)["limit"] == 3_000).then_some(()));
    // News come in their order: once those of bob are here, none of alice can follow that would have her be looked up again.
    assert_eq!(server.check(BOB)["limit"], 10);
    postgres.psql("INSERT INTO tidegate_users (user_id, tier) VALUES ('bob', 'premium')");
    wait_for("bob to be premium", || (server.check(BOB)["limit"] == 3_000).then_some(()));
    assert_eq!(server.check(ALICE)["limit"], 3_000);
    postgres.kill();
    assert_eq!(server.check(ALICE)["limit"], 3_000);
    assert!(!server.out().contains("secret") && !server.log().contains("secret"));
}

#[test]
fn tiers_and_plans_are_set_on_one_node_and_in_force_on_all() {
    let (postgres, folder) = (Postgres::start(), tempfile::tempdir().unwrap());
    postgres.psql(TABLE);
    postgres.psql(TENANTS);
    let (rules, config) = (folder.path().join("rules.yaml"), folder.path().join("config.yaml"));
    fs::write(&rules, RULES.replace("}]", "}, {rule_id: tenant, identifier_type: tenant_id, tiered: true}]"))
        .unwrap();
    fs::write(&config, "tier_timeout: 20s\n").unwrap();
    let args = ["--rules", rules.to_str().unwrap(), "--config", config.to_str().unwrap()];
    let start = || Server::start_with(&args, |command| command.env("TIDEGATE_TIERS", postgres.url()));
    let nodes = [start(), start()];
    let admin = format!("http://{}", nodes[0].admin);
    let tidegate = |arguments: &[&str]| run(arguments.iter().copied().chain(["--admin", &*admin]));
    let says = |arguments: &[&str], line: &str| assert_eq!(tidegate(arguments).out, line);
    let limit_is = |check: &str, rule: &str, limit: u64| {
        for node in &nodes {
            wait_for(&format!("{rule} to allow {limit}"), || {
                let answer = node.check(check);
                let rules = answer["rules"].as_array().unwrap().clone();
                rules.iter().any(|of| of["rule_id"] == rule && of["limit"] == limit).then_some(())
            });
        }
    };
    limit_is(ALICE, "each", 10);
    says(&["tiers", "set", "alice", "premium"], "alice: premium\n");
    limit_is(ALICE, "each", 3_000);
    says(&["tiers", "get", "alice"], "alice: premium\n");
    says(&["tiers", "set", "alice", "free", "--tenant", "acme"], "acme/alice: free\n");
    says(&["plans", "set", "acme", "premium"], "acme: premium\n");
    for check in [
        r#"{"tenant":"acme","user":"alice","resource":"/","cost":0}"#,
        r#"{"tenant":"acme","resource":"/","cost":0}"#,
    ] {
        limit_is(check, "tenant", 3_000);
    }
    limit_is(r#"{"tenant":"acme","user":"alice","resource":"/","cost":0}"#, "each", 10);
    limit_is(r#"{"tenant":"acme","user":"carol","resource":"/","cost":0}"#, "each", 3_000);
    says(&["tiers", "remove", "alice"], "alice: no tier (before: premium)\n");
    limit_is(ALICE, "each", 10);
    says(
        &["plans", "get", "acme", "--json"],
        "{\"tenant\":\"acme\",\"plan\":\"premium\",\"previous\":null}\n",
    );
    says(&["plans", "remove", "acme"], "acme: no plan (before: premium)\n");
    says(&["plans", "remove", "acme"], "acme: no plan\n");

    tidegate(&["tiers", "set", "alice", "premum"])
        .complains(1, &["no tier or plan `premum`", "`free`, `premium`"]);
    tidegate(&["plans", "set", "", "premium"]).complains(1, &["answers:"]);
    let nobody = Server::start(&[]);
    let elsewhere = format!("http://{}", nobody.admin);
    run(["tiers", "set", "alice", "premium", "--admin", &elsewhere]).complains(1, &["--tiers postgres://"]);
}

#[test]
fn what_cannot_be_a_database_is_said_without_its_password() {
    for (option, value, why) in [
        ("--tiers", "postgres://ann:secret@127.0.0.1", "the database is missing; write it as postgres://"),
        ("--tiers", "mysql://ann:secret@127.0.0.1/x", "it does not begin with postgres://"),
        ("--tier-cache", "0", "zero"),
        ("--tier-cache-ttl", "0s", "give it some time, such as 5m"),
        ("--tier-timeout", "0s", "give it some time, such as 5ms"),
    ] {
        let said = run(["serve", option, value]);
        said.complains(2, &[why]);
        assert!(!said.err.contains("secret"), "{}", said.err);
    }
    let help =
        tidegate().env("TIDEGATE_TIERS", "postgres://ann:secret@h/x").args(["serve", "--help"]).output();
    assert!(!String::from_utf8_lossy(&help.unwrap().stdout).contains("ann:secret"));
}

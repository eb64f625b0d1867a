//! Users' tiers in a real PostgreSQL.

use std::time::Duration;

use tidegate_sources::{ArchiveError, PostgresTiers, TierChange, TierChanges};
use tidegate_testkit::Postgres;
use tokio::time::timeout;

use super::start;
use crate::scene::DEADLINE;

/// Tiers whose look-ups fail only if the database does.
fn tiers(postgres: &Postgres) -> PostgresTiers {
    PostgresTiers::with_patience(postgres.url().parse().unwrap(), DEADLINE)
}

async fn next(changes: &mut TierChanges) -> TierChange {
    timeout(DEADLINE, changes.next()).await.expect("a change before the deadline")
}

fn of(tenant: Option<&str>, user: &str) -> TierChange {
    TierChange::User { tenant: tenant.map(str::to_owned), user: user.to_owned() }
}

#[tokio::test]
async fn the_tenants_word_counts_before_that_for_all() {
    let postgres = start().await;
    postgres.psql(
        "INSERT INTO tidegate_users (tenant, user_id, tier) VALUES ('acme', 'ann', 'premium'); \
         INSERT INTO tidegate_users (user_id, tier) VALUES ('ann', 'free'), ('bob', 'basic')",
    );
    let tiers = tiers(&postgres);
    for (tenant, user, tier) in [
        (Some("acme"), "ann", Some("premium")),
        (Some("other"), "ann", Some("free")),
        (None, "ann", Some("free")),
        (Some("acme"), "bob", Some("basic")),
        (Some("acme"), "carl", None),
        (None, "' OR true --", None),
    ] {
        assert_eq!(tiers.tier_of(tenant, user).await.unwrap().as_deref(), tier, "{tenant:?} {user}");
    }
}

#[tokio::test]
async fn changes_are_told_as_they_happen() {
    let postgres = start().await;
    let mut changes = tiers(&postgres).changes();
    assert_eq!(next(&mut changes).await, TierChange::All, "what was before is not known");
    postgres.psql("INSERT INTO tidegate_users (tenant, user_id, tier) VALUES ('acme', 'ann \"x\"', 'free')");
    assert_eq!(next(&mut changes).await, of(Some("acme"), "ann \"x\""));
    postgres.psql("UPDATE tidegate_users SET tier = 'premium'");
    assert_eq!(next(&mut changes).await, of(Some("acme"), "ann \"x\""));
    postgres.psql("UPDATE tidegate_users SET tier = 'free' WHERE user_id = 'nobody'");
    postgres.psql("UPDATE tidegate_users SET tenant = '', user_id = 'bob'");
    let moved = [next(&mut changes).await, next(&mut changes).await];
    assert_eq!(moved, [of(Some("acme"), "ann \"x\""), of(None, "bob")]);
    postgres.psql("DELETE FROM tidegate_users");
    assert_eq!(next(&mut changes).await, of(None, "bob"));

    postgres.psql("INSERT INTO tidegate_users (user_id, tier) VALUES (repeat(chr(1), 1200), 'free')");
    assert_eq!(next(&mut changes).await, TierChange::All, "too long to be told");
    postgres.psql(
        "INSERT INTO tidegate_users (user_id, tier) SELECT n, 'free' FROM generate_series(1, 10000) AS n",
    );
    assert_eq!(next(&mut changes).await, TierChange::All, "many are as good as all");
    postgres.psql("TRUNCATE tidegate_users");
    assert_eq!(next(&mut changes).await, TierChange::All);
}

#[tokio::test]
async fn plans_of_tenants_are_looked_up_and_their_changes_told() {
    let postgres = start().await;
    let tiers = tiers(&postgres);
    let mut changes = tiers.changes();
    assert_eq!(next(&mut changes).await, TierChange::All);
    postgres.psql("INSERT INTO tidegate_tenants VALUES ('acme', 'PREMIUM'), ('o''hara', 'FREE')");
    let mut told = [next(&mut changes).await, next(&mut changes).await];
    told.sort_by_key(|change| format!("{change:?}"));
    assert_eq!(told, ["acme", "o'hara"].map(|tenant| TierChange::Tenant(tenant.to_owned())));
    assert_eq!(tiers.plan_of("acme").await.unwrap().as_deref(), Some("PREMIUM"));
    assert_eq!(tiers.plan_of("o'hara").await.unwrap().as_deref(), Some("FREE"));
    assert_eq!(tiers.plan_of("zed").await.unwrap(), None);
    postgres.psql("UPDATE tidegate_tenants SET tenant = 'zed' WHERE tenant = 'acme'");
    let mut told = [next(&mut changes).await, next(&mut changes).await];
    told.sort_by_key(|change| format!("{change:?}"));
    assert_eq!(told, ["acme", "zed"].map(|tenant| TierChange::Tenant(tenant.to_owned())));
    postgres.psql("TRUNCATE tidegate_tenants");
    assert_eq!(next(&mut changes).await, TierChange::All);
}

#[tokio::test]
async fn tiers_and_plans_are_set_and_removed() {
    let postgres = start().await;
    let tiers = tiers(&postgres);
    let before = |answer: Result<Option<String>, ArchiveError>| answer.unwrap();
    assert_eq!(before(tiers.set_tier(None, "ann", Some("free")).await), None);
    assert_eq!(before(tiers.set_tier(None, "ann", Some("gold")).await).as_deref(), Some("free"));
    assert_eq!(before(tiers.set_tier(Some("acme"), "ann", Some("basic")).await), None, "another row");
    assert_eq!(before(tiers.tier_of(Some("acme"), "ann").await).as_deref(), Some("basic"));
    assert_eq!(before(tiers.set_tier(Some("acme"), "ann", None).await).as_deref(), Some("basic"));
    assert_eq!(before(tiers.set_tier(Some("acme"), "ann", None).await), None);
    assert_eq!(before(tiers.tier_of(Some("acme"), "ann").await).as_deref(), Some("gold"));
    assert_eq!(before(tiers.set_plan("acme", Some("FREE")).await), None);
    assert_eq!(before(tiers.set_plan("acme", Some("PREMIUM")).await).as_deref(), Some("FREE"));
    assert_eq!(before(tiers.plan_of("acme").await).as_deref(), Some("PREMIUM"));
    assert_eq!(before(tiers.set_plan("acme", None).await).as_deref(), Some("PREMIUM"));
    assert_eq!(before(tiers.plan_of("acme").await), None);
}

#[tokio::test]
async fn after_a_lost_connection_anything_may_have_changed() {
    let postgres = start().await;
    let mut changes = tiers(&postgres).changes();
    assert_eq!(next(&mut changes).await, TierChange::All);
    postgres
        .psql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'tidegate'");
    assert_eq!(next(&mut changes).await, TierChange::All);
    postgres.restart();
    assert_eq!(next(&mut changes).await, TierChange::All);
    postgres.psql("INSERT INTO tidegate_users (user_id, tier) VALUES ('ann', 'free')");
    assert_eq!(next(&mut changes).await, of(None, "ann"));
}

#[tokio::test]
async fn a_server_that_is_gone_or_hangs_fails_in_time_and_is_found_again() {
    let postgres = start().await;
    let tiers = PostgresTiers::with_patience(postgres.url().parse().unwrap(), Duration::from_millis(100));
    let answers = async || {
        let answered = async { while tiers.tier_of(None, "ann").await != Ok(None) {} };
        timeout(DEADLINE, answered).await.expect("it answers before the deadline");
    };
    let fails = async || {
        let failed = timeout(DEADLINE, tiers.tier_of(None, "ann")).await;
        let error = failed.expect("it fails before the deadline").unwrap_err();
        assert!(matches!(&error, ArchiveError::Away(why) if why.contains("see that it runs")), "{error:?}");
    };
    answers().await;
    postgres.kill();
    fails().await;
    postgres.restart();
    answers().await;
    postgres.pause();
    fails().await;
    postgres.resume();
    answers().await;
}

#[tokio::test]
async fn missing_tables_are_named() {
    let postgres = Postgres::start();
    let error = tiers(&postgres).tier_of(None, "ann").await.unwrap_err();
    assert!(matches!(&error, ArchiveError::Refused(why) if why.contains("tidegate rules init")), "{error:?}");
}

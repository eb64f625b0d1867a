//! `GET|PUT|DELETE /v1/users/{user}/tier` and `/v1/tenants/{tenant}/plan`: who has which tier or plan, in the database that nodes look
//! them up in.

use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::{Path, Query, State};
use http::{Request, StatusCode};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tidegate_sources::{ArchiveError, PostgresTiers};

use super::Door;
use crate::alerts::Severity;
use crate::body;
use crate::caller::Caller;
use crate::live::Kind;
use crate::reply::{self, Reply, Wrong};

/// Largest body: a name is short.
const MAX_BYTES: usize = 4 * 1024;

/// Longest name of a user, tenant, tier or plan, in bytes: longer ones are never looked up.
const LONGEST_NAME: usize = 1_024;

/// The tier to give a user.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SetTierBody {
    /// A tier or plan of the rules in force.
    tier: String,
}

/// The plan to give a tenant.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SetPlanBody {
    /// A plan or tier of the rules in force.
    plan: String,
}

/// The tier of a user.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct UserTierBody {
    user: String,
    /// The tenant that the user was asked about in; null for all tenants.
    tenant: Option<String>,
    /// Null if there is none in the database.
    tier: Option<String>,
    /// The tier before a change; null if there was none.
    previous: Option<String>,
}

/// The plan of a tenant.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct TenantPlanBody {
    tenant: String,
    /// Null if there is none in the database.
    plan: Option<String>,
    /// The plan before a change; null if there was none.
    previous: Option<String>,
}

/// Tenant within which a user's tier is meant.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Within {
    tenant: Option<String>,
}

/// User whose tier is meant.
struct Member {
    user: String,
    tenant: Option<String>,
}

impl Member {
    fn new(user: String, within: Query<Within>) -> Result<Self, Wrong> {
        let tenant = within.0.tenant.filter(|tenant| !tenant.is_empty());
        check_name("user", &user)?;
        tenant.as_deref().map_or(Ok(()), |tenant| check_name("tenant", tenant))?;
        Ok(Self { user, tenant })
    }

    /// Names the user for people.
    fn title(&self) -> String {
        match &self.tenant {
            Some(tenant) => format!("user {tenant}/{}", self.user),
            None => format!("user {}", self.user),
        }
    }
}

pub(super) async fn show_tier(
    State(door): State<Arc<Door>>,
    Path(user): Path<String>,
    within: Query<Within>,
) -> Reply {
    let tier = async {
        let member = Member::new(user, within)?;
        let tier = database(&door)?.tier_of(member.tenant.as_deref(), &member.user).await;
        let Member { user, tenant } = member;
        Ok(UserTierBody { user, tenant, tier: tier.map_err(|error| refuse(&error))?, previous: None })
    };
    answer(tier.await)
}

pub(super) async fn put_tier(
    State(door): State<Arc<Door>>,
    Extension(caller): Extension<Caller>,
    Path(user): Path<String>,
    within: Query<Within>,
    request: Request<Body>,
) -> Reply {
    let set = async {
        let SetTierBody { tier } = read(request, "{\"tier\": NAME}").await?;
        check_tier(&door, "tier", &tier)?;
        set_tier(&door, &caller, Member::new(user, within)?, Some(tier)).await
    };
    answer(set.await)
}

pub(super) async fn delete_tier(
    State(door): State<Arc<Door>>,
    Extension(caller): Extension<Caller>,
    Path(user): Path<String>,
    within: Query<Within>,
) -> Reply {
    let removed = async { set_tier(&door, &caller, Member::new(user, within)?, None).await };
    answer(removed.await)
}

async fn set_tier(
    door: &Door,
    caller: &Caller,
    member: Member,
    tier: Option<String>,
) -> Result<UserTierBody, Wrong> {
    let tenant = member.tenant.as_deref();
    let set = database(door)?.set_tier(tenant, &member.user, tier.as_deref()).await;
    let previous = set.map_err(|error| refuse(&error))?;
    // The other nodes hear of it from the database.
    door.node.limiter.tiers().into_iter().for_each(|tiers| tiers.forget(tenant, &member.user));
    note(door, caller, &member.title(), previous.as_deref(), tier.as_deref());
    let Member { user, tenant } = member;
    Ok(UserTierBody { user, tenant, tier, previous })
}

pub(super) async fn show_plan(State(door): State<Arc<Door>>, Path(tenant): Path<String>) -> Reply {
    let plan = async {
        check_name("tenant", &tenant)?;
        let plan = database(&door)?.plan_of(&tenant).await.map_err(|error| refuse(&error))?;
        Ok(TenantPlanBody { tenant, plan, previous: None })
    };
    answer(plan.await)
}

pub(super) async fn put_plan(
    State(door): State<Arc<Door>>,
    Extension(caller): Extension<Caller>,
    Path(tenant): Path<String>,
    request: Request<Body>,
) -> Reply {
    let set = async {
        let SetPlanBody { plan } = read(request, "{\"plan\": NAME}").await?;
        check_tier(&door, "plan", &plan)?;
        set_plan(&door, &caller, tenant, Some(plan)).await
    };
    answer(set.await)
}

pub(super) async fn delete_plan(
    State(door): State<Arc<Door>>,
    Extension(caller): Extension<Caller>,
    Path(tenant): Path<String>,
) -> Reply {
    answer(set_plan(&door, &caller, tenant, None).await)
}

async fn set_plan(
    door: &Door,
    caller: &Caller,
    tenant: String,
    plan: Option<String>,
) -> Result<TenantPlanBody, Wrong> {
    check_name("tenant", &tenant)?;
    let set = database(door)?.set_plan(&tenant, plan.as_deref()).await;
    let previous = set.map_err(|error| refuse(&error))?;
    door.node.limiter.tiers().into_iter().for_each(|tiers| tiers.forget_plan(&tenant));
    note(door, caller, &format!("tenant {tenant}"), previous.as_deref(), plan.as_deref());
    Ok(TenantPlanBody { tenant, plan, previous })
}

/// Writes a change into the log and the journal.
fn note(door: &Door, caller: &Caller, who: &str, from: Option<&str>, to: Option<&str>) {
    if from == to {
        return;
    }
    let (from, to) = (from.unwrap_or("none"), to.unwrap_or("none"));
    tracing::info!(who, from, to, by = caller.name, "tier changed by the admin API");
    let detail = format!("from {from} to {to}, by {}", caller.name);
    door.node.write_down(Kind::Tiers, Severity::Info, &format!("tier of {who} changed"), &detail);
}

fn answer(result: Result<impl Serialize, Wrong>) -> Reply {
    match result {
        Ok(body) => reply::json(StatusCode::OK, &body),
        Err(wrong) => wrong.into(),
    }
}

async fn read<T: DeserializeOwned>(request: Request<Body>, shape: &str) -> Result<T, Wrong> {
    let bytes = body::read(request.into_body(), MAX_BYTES).await?;
    serde_json::from_slice(&bytes).map_err(|error| {
        Wrong::new(StatusCode::BAD_REQUEST, "bad_request", format!("the body must be {shape}: {error}"))
    })
}

fn database(door: &Door) -> Result<&PostgresTiers, Wrong> {
    door.node.tiers.as_deref().ok_or_else(|| {
        let message = "tiers and plans are in no database here; change `users` and `tenants` in the rule documents, or serve \
                       with `--tiers postgres://…`";
        Wrong::new(StatusCode::CONFLICT, "no_tiers", message)
    })
}

/// Refuses names that no request could have.
fn check_name(field: &str, name: &str) -> Result<(), Wrong> {
    let why = if name.is_empty() {
        "is empty"
    } else if name.len() > LONGEST_NAME {
        "is longer than 1,024 bytes"
    } else if name.chars().any(char::is_control) {
        "has control characters"
    } else {
        return Ok(());
    };
    let message = format!("`{field}` {why}; give a name as requests have it");
    Err(Wrong::new(StatusCode::BAD_REQUEST, "bad_request", message).about(field))
}

/// Refuses names that the rules in force do not have: whoever has such a tier has the default one.
fn check_tier(door: &Door, field: &str, name: &str) -> Result<(), Wrong> {
    check_name(field, name)?;
    let rules = door.node.limiter.rules();
    if rules.knows_tier(name) {
        return Ok(());
    }
    let known: Vec<_> = rules.tiers().iter().take(20).map(|tier| format!("`{}`", tier.name)).collect();
    let message = if known.is_empty() {
        format!(
            "there is no tier or plan `{name}`: the rules in force have none; add `tiers` or `plans` to them"
        )
    } else {
        format!("there is no tier or plan `{name}` in the rules in force; use {}", known.join(", "))
    };
    Err(Wrong::new(StatusCode::UNPROCESSABLE_ENTITY, "unknown_tier", message).about(field))
}

fn refuse(error: &ArchiveError) -> Wrong {
    let (status, name) = match error {
        ArchiveError::Moved => (StatusCode::CONFLICT, "conflict"),
        ArchiveError::Refused(_) => (StatusCode::BAD_GATEWAY, "source_refused"),
        ArchiveError::Away(_) => (StatusCode::SERVICE_UNAVAILABLE, "source_away"),
    };
    Wrong::new(status, name, error.to_string())
}

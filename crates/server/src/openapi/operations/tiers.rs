//! Who has which tier or plan.

use schemars::Schema;
use serde_json::json;
use tidegate_wire::ErrorBody;

use super::{Listener, Operation};
use crate::admin::{SetPlanBody, SetTierBody, TenantPlanBody, UserTierBody};
use crate::openapi::Schemas;

pub(super) fn all(schemas: &mut Schemas) -> Vec<Operation> {
    let text = json!({"type": "string"});
    let (tier, plan) = (schemas.response::<UserTierBody>(), schemas.response::<TenantPlanBody>());
    let of_user = |method, summary| {
        Operation::new(Listener::Admin, method, "/v1/users/{user}/tier", summary)
            .parameter("user", "path", "The user", &text)
            .parameter(
                "tenant",
                "query",
                "The tenant within which the tier is meant; absent for all tenants",
                &text,
            )
    };
    let of_tenant = |method, summary| {
        Operation::new(Listener::Admin, method, "/v1/tenants/{tenant}/plan", summary).parameter(
            "tenant",
            "path",
            "The tenant",
            &text,
        )
    };
    let error = schemas.response::<ErrorBody>();
    vec![
        answered(
            of_user("GET", "Tier of a user in the database: within the tenant, or else in all tenants"),
            &tier,
            &error,
        ),
        changed(
            of_user("PUT", "Sets the tier of a user").reads(&schemas.request::<SetTierBody>()),
            &tier,
            &error,
        )
        .answers(422, "The rules in force have no tier or plan of this name", &error),
        changed(of_user("DELETE", "Removes the tier of a user"), &tier, &error),
        answered(of_tenant("GET", "Plan of a tenant in the database"), &plan, &error),
        changed(
            of_tenant("PUT", "Sets the plan of a tenant").reads(&schemas.request::<SetPlanBody>()),
            &plan,
            &error,
        )
        .answers(422, "The rules in force have no tier or plan of this name", &error),
        changed(of_tenant("DELETE", "Removes the plan of a tenant"), &plan, &error),
    ]
}

fn answered(operation: Operation, body: &Schema, error: &Schema) -> Operation {
    operation
        .answers(200, "As it is now", body)
        .answers(400, "A name is empty, too long or has control characters", error)
        .answers(409, "Tiers and plans are in no database here", error)
        .answers(502, "The database refuses; the message says why and what to do", error)
        .answers(503, "The database cannot be reached", error)
}

fn changed(operation: Operation, body: &Schema, error: &Schema) -> Operation {
    answered(operation, body, error).answers(403, "The caller may not change anything", error)
}

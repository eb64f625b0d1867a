//! What can be asked for, operation by operation.

mod changes;
mod log_level;
mod tiers;

use schemars::Schema;
use serde_json::{Map, Value, json};
use tidegate_wire::{CheckBody, DecisionBody, ErrorBody, ExplanationBody, RefusalBody};

use super::Schemas;
use crate::admin::{
    AlertsBody, ClusterBody, EVENTS, FleetBody, HealthBody, InsightBody, RulesBody, StatusBody, Valid,
    WhoamiBody,
};
use crate::data::{MAX_BATCH_BYTES, MAX_BATCH_ITEMS, MAX_CHECK_BYTES};
use crate::live::{History, JournalBody, Tick};
use crate::metrics;

/// Where an operation is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Listener {
    Data,
    Admin,
}

/// One thing that can be asked for.
#[derive(Debug)]
pub(super) struct Operation {
    pub(super) listeners: &'static [Listener],
    pub(super) path: &'static str,
    pub(super) method: &'static str,
    summary: &'static str,
    details: Option<String>,
    parameters: Vec<Value>,
    request: Option<Value>,
    responses: Map<String, Value>,
}

impl Operation {
    fn new(listener: Listener, method: &'static str, path: &'static str, summary: &'static str) -> Self {
        let listeners: &[Listener] = match listener {
            Listener::Data => &[Listener::Data],
            Listener::Admin => &[Listener::Admin],
        };
        let (details, request) = (None, None);
        Self {
            listeners,
            path,
            method,
            summary,
            details,
            parameters: Vec::new(),
            request,
            responses: Map::new(),
        }
    }

    fn details(mut self, details: impl Into<String>) -> Self {
        self.details = Some(details.into());
        self
    }

    fn parameter(mut self, name: &str, place: &str, description: &str, schema: &Value) -> Self {
        let required = place == "path";
        self.parameters.push(json!({
            "name": name, "in": place, "description": description, "required": required, "schema": schema,
        }));
        self
    }

    fn reads(self, schema: &Schema) -> Self {
        self.reads_content(&json!({"application/json": {"schema": schema}}))
    }

    fn reads_content(mut self, content: &Value) -> Self {
        self.request = Some(json!({"required": true, "content": content}));
        self
    }

    fn answers(self, status: u16, description: &str, schema: &Schema) -> Self {
        self.answers_content(status, description, &json!({"application/json": {"schema": schema}}))
    }

    fn answers_text(self, status: u16, description: &str, content_type: &str) -> Self {
        self.answers_content(status, description, &json!({content_type: {"schema": {"type": "string"}}}))
    }

    fn answers_content(mut self, status: u16, description: &str, content: &Value) -> Self {
        self.responses.insert(status.to_string(), json!({"description": description, "content": content}));
        self
    }

    /// Adds the rate limit headers to the answer with a status.
    fn with_headers(mut self, status: u16) -> Self {
        if let Some(response) = self.responses.get_mut(&status.to_string()) {
            response["headers"] = rate_limit_headers();
        }
        self
    }

    fn answers_empty(mut self, status: u16, description: &str) -> Self {
        self.responses.insert(status.to_string(), json!({"description": description}));
        self
    }

    pub(super) fn describe(&self) -> Value {
        let mut described = json!({
            "summary": self.summary,
            "operationId": self.id(),
            "responses": self.responses,
        });
        if let Some(details) = &self.details {
            described["description"] = json!(details);
        }
        if !self.parameters.is_empty() {
            described["parameters"] = json!(self.parameters);
        }
        if let Some(request) = &self.request {
            described["requestBody"] = request.clone();
        }
        described
    }

    /// `postV1Check`: method and path as one word.
    fn id(&self) -> String {
        let words = self.path.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
        let start = self.method.to_ascii_lowercase();
        words.fold(start, |id, word| {
            let (first, rest) = word.split_at(1);
            id + &first.to_ascii_uppercase() + rest
        })
    }
}

fn rate_limit_headers() -> Value {
    let header =
        |description: &str, kind: &str| json!({"description": description, "schema": {"type": kind}});
    json!({
        "X-RateLimit-Limit": header("The binding rule's limit", "integer"),
        "X-RateLimit-Remaining": header("What is left of it", "integer"),
        "X-RateLimit-Reset": header("When it will be as if never used, in Unix seconds", "integer"),
        "X-RateLimit-Status": header("`disabled` if the limits could not be enforced", "string"),
        "Retry-After": header("On refusals: seconds to wait; absent if waiting does not help", "integer"),
        "RateLimit-Policy": header("The limits (IETF draft), if so configured", "string"),
        "RateLimit": header("How they stand (IETF draft), if so configured", "string"),
    })
}

/// Everything there is.
pub(super) fn all(schemas: &mut Schemas) -> Vec<Operation> {
    let mut all = data(schemas);
    all.extend(admin(schemas));
    let description = "This description";
    all.push(Operation {
        listeners: &[Listener::Data, Listener::Admin],
        ..Operation::new(Listener::Data, "GET", "/openapi.json", description).answers_content(
            200,
            "The description",
            &json!({"application/json": {"schema": {"type": "object"}}}),
        )
    });
    all
}

fn data(schemas: &mut Schemas) -> Vec<Operation> {
    let error = schemas.response::<ErrorBody>();
    let check = schemas.request::<CheckBody<'static>>();
    let decision = schemas.response::<DecisionBody<'static>>();
    let new = |method, path, summary| Operation::new(Listener::Data, method, path, summary);
    let single = new("POST", "/v1/check", "Decide a request, and count it if it is allowed")
        .details(format!("The body may have {} KiB.", MAX_CHECK_BYTES / 1024))
        .reads(&check)
        .answers(200, "The decision, whichever it is", &decision)
        .with_headers(200)
        .answers(400, "The body cannot be understood; nothing was consumed", &error)
        .answers(413, "The body is too large; nothing was consumed", &error)
        .answers(503, "The limits could not be checked, and a rule refuses then", &decision);
    let batch = new("POST", "/v1/check/batch", "Decide several requests, independently of each other")
        .details(format!(
            "Up to {MAX_BATCH_ITEMS} in up to {} KiB. The answers are in the order of the requests.",
            MAX_BATCH_BYTES / 1024
        ))
        .reads_content(&json!({"application/json": {"schema": {
            "type": "array", "items": check, "maxItems": MAX_BATCH_ITEMS,
        }}}))
        .answers_content(
            200,
            "A decision, or what is wrong, for each",
            &json!({"application/json": {"schema": {"type": "array", "items": {"anyOf": [decision, error]}}}}),
        )
        .answers(400, "The body is no list of requests, or too long a list; nothing was consumed", &error)
        .answers(413, "The body is too large; nothing was consumed", &error);
    let authorize = ["GET", "POST"].map(|method| authorize(method, schemas));
    [single, batch, rate_limit(&error)].into_iter().chain(authorize).collect()
}

fn rate_limit(error: &Schema) -> Operation {
    let object = json!({"application/json": {"schema": {"type": "object"}}});
    let summary = "Decide on what a proxy says about a request, as Envoy's rate limit service does";
    Operation::new(Listener::Data, "POST", "/json", summary)
        .details(
            "The body is `envoy.service.ratelimit.v3.RateLimitRequest` and the answer `RateLimitResponse`, in the \
             JSON form of protobuf.",
        )
        .reads_content(&object)
        .answers_content(200, "It may go ahead", &object)
        .answers(400, "The body cannot be understood; nothing was consumed", error)
        .answers(403, "It gives quota back, which is not allowed; nothing was consumed", error)
        .answers(413, "The body is too large; nothing was consumed", error)
        .answers_content(429, "It is refused", &object)
        .answers(500, "The limits could not be checked, and a rule refuses then", error)
}

fn authorize(method: &'static str, schemas: &mut Schemas) -> Operation {
    let error = schemas.response::<ErrorBody>();
    let refusal = schemas.response::<RefusalBody<'static>>();
    let text = json!({"type": "string"});
    let statuses = json!({"type": "integer", "enum": [401, 403, 429], "default": 429});
    Operation::new(
        Listener::Data,
        method,
        "/v1/authorize",
        "Decide the request that a proxy describes in headers",
    )
    .details("Headers are believed if the caller is a trusted proxy, and ignored otherwise.")
    .parameter(
        "deny_status",
        "query",
        "The status of refusals, for proxies that cannot pass on 429",
        &statuses,
    )
    .parameter("X-Original-Method", "header", "The method; or X-Forwarded-Method", &text)
    .parameter("X-Original-URI", "header", "The path; or X-Forwarded-Uri", &text)
    .parameter("X-Forwarded-For", "header", "The addresses it came by, the nearest last", &text)
    .parameter("X-User-Id", "header", "The user (the name can be configured)", &text)
    .parameter("X-Tenant-Id", "header", "The tenant (the name can be configured)", &text)
    .parameter("X-Api-Key", "header", "The API key (the name can be configured)", &text)
    .answers_empty(200, "It may go ahead")
    .with_headers(200)
    .answers(400, "The headers cannot be understood; nothing was consumed", &error)
    .answers(401, "It is refused, if this status was asked for", &refusal)
    .with_headers(401)
    .answers(403, "It is refused, if this status was asked for", &refusal)
    .with_headers(403)
    .answers(429, "It is refused", &refusal)
    .with_headers(429)
    .answers(503, "The limits could not be checked, and a rule refuses then", &refusal)
}

fn admin(schemas: &mut Schemas) -> Vec<Operation> {
    let plain = "text/plain; charset=utf-8";
    let text = json!({"schema": {"type": "string"}});
    let get = |path, summary| Operation::new(Listener::Admin, "GET", path, summary);
    let mut all = vec![
        get("/", "What there is; for browsers, a page that shows the node").answers_content(
            200,
            "A line for each endpoint, or the page if `Accept` has text/html",
            &json!({plain: text, "text/html; charset=utf-8": text}),
        ),
        get("/dashboard/{file}", "The files of that page")
            .parameter("file", "path", "The name of the file", &json!({"type": "string"}))
            .answers_content(200, "The file", &json!({"*/*": text}))
            .answers_empty(304, "The caller has it already, as `If-None-Match` says")
            .answers(404, "There is no such file", &schemas.response::<ErrorBody>()),
        get("/health", "How the node is doing, and why").answers(
            200,
            "Its mode, whichever it is",
            &schemas.response::<HealthBody>(),
        ),
        get("/livez", "Whether the process is alive").answers_text(200, "It is", plain).answers_text(
            503,
            "A thread that serves requests is stuck; the node should be restarted",
            plain,
        ),
        get("/readyz", "Whether it wants requests").answers_text(200, "It does", plain).answers_text(
            503,
            "It is draining, or some of its rules cannot be read",
            plain,
        ),
        get("/metrics", "Metrics for Prometheus").answers_text(
            200,
            "OpenMetrics text",
            metrics::CONTENT_TYPE,
        ),
        get("/v1/alerts", "What is wrong, what was, and what else happened").answers(
            200,
            "Alerts that fire, alerts that are over, and events",
            &schemas.response::<AlertsBody>(),
        ),
        get("/v1/cluster", "The nodes that know each other, as this one sees them")
            .answers(200, "Who they are and how they are doing", &schemas.response::<ClusterBody>())
            .answers(404, "This node knows of no others", &schemas.response::<ErrorBody>()),
        events(schemas),
        get("/v1/fleet", "All nodes that know each other, and all of them as one")
            .details(
                "What was found is kept for a second, so that many callers cost the others one question.",
            )
            .answers(
                200,
                "What each node says of itself, or why it says nothing; without a cluster, this node alone",
                &schemas.response::<FleetBody>(),
            ),
        get("/v1/whoami", "Who asks, and what they may do").answers(
            200,
            "The caller, by their token or network",
            &schemas.response::<WhoamiBody>(),
        ),
        get("/v1/insight", "Which keys are hot, and who is refused").answers(
            200,
            "What traffic is like, as this node sees it; names are as clients sent them",
            &schemas.response::<InsightBody>(),
        ),
        get("/v1/status", "All about the node at a glance").answers(
            200,
            "The node",
            &schemas.response::<StatusBody>(),
        ),
    ];
    all.extend(rules(schemas));
    all.extend(changes::all(schemas));
    all.extend(log_level::all(schemas));
    all.extend(tiers::all(schemas));
    all
}

/// Server-sent events cannot be described as one body; the data of each can.
fn events(schemas: &mut Schemas) -> Operation {
    let data = json!([
        schemas.response::<History<'_>>(),
        schemas.response::<Tick>(),
        schemas.response::<InsightBody>(),
        schemas.response::<JournalBody>(),
    ]);
    Operation::new(Listener::Admin, "GET", "/v1/events", "The node as it goes on, as server-sent events")
        .details(
            "Begins with `history` (the last 300 seconds), `tick`, `insight` and `journal`; then there is a `tick` each second, \
             an `insight` every five, and a `journal` whenever something was noted down. The data of each is one line of JSON. \
             Whoever reads too slowly misses ticks.",
        )
        .answers_content(
            200,
            "Events, until the caller or the node goes",
            &json!({EVENTS: {"schema": {"type": "string", "contentMediaType": "application/json", "contentSchema": {"oneOf": data}}}}),
        )
        .answers(503, "Too many watch this node already", &schemas.response::<ErrorBody>())
}

fn rules(schemas: &mut Schemas) -> [Operation; 4] {
    let error = schemas.response::<ErrorBody>();
    let valid = schemas.response::<Valid>();
    let new = |method, path, summary| Operation::new(Listener::Admin, method, path, summary);
    [
        new("GET", "/v1/rules", "The rules in force").answers(
            200,
            "All of them, by priority",
            &schemas.response::<RulesBody>(),
        ),
        new("GET", "/v1/rules/{rule_id}", "One rule")
            .parameter("rule_id", "path", "Its id", &json!({"type": "string"}))
            .answers(
                200,
                "The rule as it is in force; ETag is the version of its document",
                &schemas.request::<tidegate_rules::form::Rule>(),
            )
            .answers(404, "There is no such rule", &error),
        new(
            "POST",
            "/v1/rules/validate",
            "Whether a rule document could be used, or a rule among all others",
        )
        .parameter(
            "rule_id",
            "query",
            "The rule that the body is to be: it is looked at among all others, where they come from",
            &json!({"type": "string"}),
        )
        .reads_content(&json!({
            "application/yaml": {"schema": {"type": "string"}},
            "application/json": {"schema": {}},
        }))
        .answers(200, "It could", &valid)
        .answers(409, "There is no source with others", &error)
        .answers(412, "It is not what If-Match or If-None-Match ask for", &error)
        .answers(413, "It is too large to be looked at", &error)
        .answers(422, "It could not; all that is wrong", &valid)
        .answers(503, "Many requests about rules are under way; the source is away", &error),
        new("POST", "/v1/explain", "What would be decided about a request, and why; consumes nothing")
            .reads(&schemas.request::<CheckBody<'static>>())
            .answers(
                200,
                "The decision, with who the request is to each rule",
                &schemas.response::<ExplanationBody<'static>>(),
            )
            .answers(400, "The body cannot be understood", &error),
    ]
}

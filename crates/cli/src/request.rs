//! A request described on the command line.

use std::net::IpAddr;

use serde_json::{Map, Value};

/// What is known about the request.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Request")]
pub(crate) struct RequestArgs {
    /// What is asked for: a path such as /orders/7
    #[arg(value_name = "RESOURCE", help_heading = None::<&'static str>)]
    resource: String,

    /// Who asks; given means signed in
    #[arg(long, value_name = "NAME")]
    user: Option<String>,

    /// Whom the user belongs to
    #[arg(long, value_name = "NAME")]
    tenant: Option<String>,

    /// The user's tier or plan, or the tenant's if there is no user
    #[arg(long, value_name = "NAME")]
    tier: Option<String>,

    /// The tenant's plan or tier
    #[arg(long, value_name = "NAME")]
    plan: Option<String>,

    /// The method, such as GET
    #[arg(long, value_name = "METHOD")]
    method: Option<String>,

    /// The address it comes from
    #[arg(long, value_name = "ADDRESS")]
    ip: Option<IpAddr>,

    /// The API key
    #[arg(long, value_name = "KEY")]
    api_key: Option<String>,

    /// A header; may be given several times
    #[arg(long = "header", value_name = "NAME=VALUE", value_parser = pair)]
    headers: Vec<(String, String)>,

    /// An attribute; may be given several times
    #[arg(long = "attribute", value_name = "NAME=VALUE", value_parser = pair)]
    attributes: Vec<(String, String)>,

    /// How much it takes of each limit; 0 only looks
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    cost: Option<u64>,

    /// Makes repeating an admitted request free, within bounds
    #[arg(long, value_name = "ID")]
    request_id: Option<String>,
}

fn pair(text: &str) -> Result<(String, String), &'static str> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write it as NAME=VALUE"),
    }
}

impl RequestArgs {
    /// The body of a check.
    pub(crate) fn body(&self) -> Vec<u8> {
        let texts = [
            ("resource", Some(&self.resource)),
            ("user", self.user.as_ref()),
            ("tenant", self.tenant.as_ref()),
            ("tier", self.tier.as_ref()),
            ("plan", self.plan.as_ref()),
            ("method", self.method.as_ref()),
            ("api_key", self.api_key.as_ref()),
            ("request_id", self.request_id.as_ref()),
        ];
        let mut body: Map<String, Value> = texts
            .into_iter()
            .filter_map(|(field, text)| Some((field.to_owned(), Value::from(text?.as_str()))))
            .collect();
        for (field, pairs) in [("headers", &self.headers), ("attributes", &self.attributes)] {
            if !pairs.is_empty() {
                body.insert(field.to_owned(), pairs.iter().cloned().collect());
            }
        }
        body.extend(self.ip.map(|ip| ("ip".to_owned(), Value::from(ip.to_string()))));
        body.extend(self.cost.map(|cost| ("cost".to_owned(), Value::from(cost))));
        Value::Object(body).to_string().into_bytes()
    }
}

//! `GET|POST /v1/authorize`, for proxies.

use std::net::IpAddr;
use std::time::Instant;

use http::request::Parts;
use http::{Response, StatusCode};
use tidegate::{Checked, Request, Status};
use tidegate_wire::{ErrorBody, RefusalBody, headers};

use crate::combined::Combined;
use crate::node::Node;
use crate::reply::{self, Reply, Wrong};

/// Whether the request a proxy describes in its headers may go ahead, if that need not be waited for. A body is
/// nobody's business here.
pub(super) fn answer(node: &Node, peer: IpAddr, asked: &Parts) -> Result<Reply, Wrong> {
    let denied = deny_status(asked.uri.query())?;
    let headers = Combined::new(&asked.headers, node.limiter.in_force().headers())?;
    let checked = node.decide(&Request { headers: &headers, ..node.proxies.request(peer, asked)? })?;
    Ok(tell(node, &checked, denied))
}

/// The same, wherever the counters are.
pub(super) async fn ask(node: &Node, peer: IpAddr, asked: &Parts) -> Result<Reply, Wrong> {
    let arrived = Instant::now();
    let denied = deny_status(asked.uri.query())?;
    let headers = Combined::new(&asked.headers, node.limiter.in_force().headers())?;
    let request = Request { headers: &headers, ..node.proxies.request(peer, asked)? };
    let checked = node.ask(&request, arrived).await?;
    Ok(tell(node, &checked, denied))
}

fn tell(node: &Node, checked: &Checked, denied: StatusCode) -> Reply {
    let mut reply = reply(node, checked, denied);
    headers::write(checked, checked.rules(), &node.header_styles, reply.headers_mut());
    reply
}

fn reply(node: &Node, checked: &Checked, denied: StatusCode) -> Reply {
    let refusal = || RefusalBody::new(checked, node.documentation_url.as_deref());
    match (checked.status, checked.allowed) {
        (Status::Unavailable, _) => reply::json(StatusCode::SERVICE_UNAVAILABLE, &refusal()),
        (_, false) => reply::json(denied, &refusal()),
        (_, true) => Response::default(),
    }
}

/// The status of a refusal: 429 unless the proxy asks for one it can pass on.
fn deny_status(query: Option<&str>) -> Result<StatusCode, ErrorBody> {
    let mut status = StatusCode::TOO_MANY_REQUESTS;
    for pair in query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
        status = match pair.split_once('=') {
            Some(("deny_status", "401")) => StatusCode::UNAUTHORIZED,
            Some(("deny_status", "403")) => StatusCode::FORBIDDEN,
            Some(("deny_status", "429")) => StatusCode::TOO_MANY_REQUESTS,
            Some(("deny_status", _)) | None if pair.starts_with("deny_status") => {
                return Err(ErrorBody::field("deny_status", "`deny_status` must be 401, 403 or 429"));
            }
            _ => {
                let name: String = pair.split('=').next().unwrap_or_default().chars().take(100).collect();
                let message = format!("unknown parameter `{name}`; only `deny_status` is known");
                return Err(ErrorBody::field(name, message));
            }
        };
    }
    Ok(status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_status_that_proxies_pass_on() {
        for (query, status) in [
            (None, Some(429)),
            (Some(""), Some(429)),
            (Some("deny_status=401"), Some(401)),
            (Some("deny_status=403&"), Some(403)),
            (Some("deny_status=429"), Some(429)),
            (Some("deny_status=200"), None),
            (Some("deny_status="), None),
            (Some("deny_status"), None),
            (Some("deny_status=4o3"), None),
            (Some("deny=403"), None),
        ] {
            let found = deny_status(query);
            assert_eq!(found.as_ref().ok().map(StatusCode::as_u16), status, "{query:?}");
            if let Err(error) = found {
                assert!(error.field.unwrap().starts_with("deny"));
            }
        }
    }
}

//! What fuzz targets call: the way of a request until it is decided on.

use std::cell::RefCell;
use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr};

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, HOST};
use http::request::Parts;
use http::{Request, Response};
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tidegate_core::Path;
use tokio::io::{AsyncWriteExt, duplex};
use tokio::runtime::{Builder, Runtime};

use crate::forwarded::Forwarding;
use crate::hop;
use crate::identity::{Identify, IdentityConfig, Peer};
use crate::target::{Target, merge_lengths};

thread_local! {
    static RUNTIME: RefCell<Option<Runtime>> = const { RefCell::new(None) };
}

/// Takes the bytes for what a client sends on one connection.
pub fn request(bytes: &[u8]) {
    RUNTIME.with_borrow_mut(|runtime| {
        if runtime.is_none() {
            *runtime = Builder::new_current_thread().build().ok();
        }
        if let Some(runtime) = runtime {
            runtime.block_on(serve(bytes));
        }
    });
}

async fn serve(bytes: &[u8]) {
    let (mut client, server) = duplex(bytes.len() + 1);
    client.write_all(bytes).await.ok();
    client.shutdown().await.ok();
    let service = service_fn(|request: Request<Incoming>| {
        look(request.into_parts().0);
        async { Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new())) }
    });
    // Responses fill the pipe, which ends the connection early rather than never.
    let connection = http1::Builder::new().serve_connection(TokioIo::new(server), service);
    tokio::select! {
        _ = connection => {}
        () = async { drain(&mut client).await } => {}
    }
}

async fn drain(client: &mut tokio::io::DuplexStream) {
    let mut sink = tokio::io::sink();
    tokio::io::copy(client, &mut sink).await.ok();
}

/// Checks that what is accepted can be read in one way only.
fn look(mut head: Parts) {
    merge_lengths(&mut head.headers);
    let (plain_path, host) = {
        let Ok(target) = Target::read(&head) else { return };
        (target.path.as_str().to_owned(), target.plain_host().map(std::borrow::Cow::into_owned))
    };
    let path = plain_path.as_str();
    assert!(path.starts_with('/') && !path.contains("//"), "{path}");
    assert!(!path.split('/').any(|segment| matches!(segment, "." | "..")), "{path}");
    assert!(!["%2F", "%5C", "%00", "\\"].iter().any(|code| path.to_uppercase().contains(code)), "{path}");
    let again = Path::parse(path);
    assert!(again.is_ok_and(|again| again.as_str() == path && !again.is_ambiguous()), "{path}");
    assert!(head.headers.get_all(CONTENT_LENGTH).iter().count() <= 1);
    assert!(host.is_none_or(|host| !host.is_empty() && !host.contains(['@', ',', ' ', '/'])));

    let Ok(identify) = Identify::new(&IdentityConfig::default()) else { return };
    let peer = Peer::plain(IpAddr::V4(Ipv4Addr::new(203, 0, 113, 7)));
    let Ok(who) = identify.who(&peer, &head) else { return };
    assert!(
        who.user.is_none() && who.tenant.is_none() && who.ip == peer.ip,
        "a client says who it is: {who:?}"
    );
    let forwarding = Forwarding::new(&identify);
    let mut headers = head.headers.clone();
    hop::strip_request(&mut headers);
    let host = headers.get(HOST).cloned();
    forwarding.rewrite(&peer, &who.into_static(), host.as_ref(), &mut headers);
    for name in headers.keys().map(|name| name.as_str().replace('_', "-")) {
        assert!(
            !["x-user-id", "x-tenant-id", "connection", "upgrade", "te"].contains(&name.as_str()),
            "{name}"
        );
    }
    let addresses: Vec<_> = headers.get_all("x-forwarded-for").iter().collect();
    assert_eq!(addresses, ["203.0.113.7"], "a client says where it is");
}

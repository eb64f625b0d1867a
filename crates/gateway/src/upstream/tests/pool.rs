//! Connections that are kept, and those that are not.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::{Method, Request, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tidegate_testkit::Scripted;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use crate::body::Outgoing;
use crate::routes::Routes;
use crate::upstream::*;

const PATIENCE: Duration = tidegate_testkit::wait::HANG_LIMIT;

/// A server that answers `ok` until it is told to hang up, and says how many are connected.
struct Server {
    open: Arc<AtomicUsize>,
    hang_up: Arc<Notify>,
    scripted: Scripted,
}

impl Server {
    fn start() -> Self {
        let (open, hang_up) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
        let shared = (Arc::clone(&open), Arc::clone(&hang_up));
        let scripted = Scripted::bytes(move |stream| {
            let (open, hang_up) = shared.clone();
            async move {
                open.fetch_add(1, Ordering::SeqCst);
                tokio::select! {
                    () = answer_all(stream) => {}
                    () = hang_up.notified() => {}
                }
                open.fetch_sub(1, Ordering::SeqCst);
            }
        });
        Self { open, hang_up, scripted }
    }

    fn pool(&self, max_idle: usize, idle_timeout: Duration) -> Arc<Pool<Outgoing>> {
        let settings = Settings { max_idle, idle_timeout, ..Settings::default() };
        let origin = format!("http://{}", self.scripted.address()).parse().unwrap();
        Clients::new(&settings, false).unwrap().pool(&origin).unwrap()
    }

    async fn until_open(&self, count: usize) {
        let waiting = async {
            while self.open.load(Ordering::SeqCst) != count {
                sleep(Duration::from_millis(5)).await;
            }
        };
        let open = || self.open.load(Ordering::SeqCst);
        timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("{} are open, not {count}", open()));
    }
}

async fn answer_all(mut stream: TcpStream) {
    let mut seen = Vec::new();
    while stream.read_buf(&mut seen).await.is_ok_and(|read| read > 0) {
        while let Some(end) = seen.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
            seen.drain(..end + 4);
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await.ok();
        }
    }
}

async fn send(pool: &Arc<Pool<Outgoing>>, method: Method) -> (Response<Incoming>, Lease<Outgoing>) {
    let mut request = Request::new(Outgoing::Empty);
    *request.method_mut() = method;
    timeout(PATIENCE, pool.send(request)).await.unwrap().unwrap()
}

/// Asks, reads all of the answer, and lets others use the connection.
async fn ask(pool: &Arc<Pool<Outgoing>>, method: Method) {
    let (response, lease) = send(pool, method).await;
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "ok");
    lease.free();
}

#[tokio::test]
async fn one_connection_serves_one_request_after_the_other() {
    let server = Server::start();
    let pool = server.pool(8, PATIENCE);
    for _ in 0..20 {
        ask(&pool, Method::GET).await;
    }
    assert_eq!(server.scripted.asked(), 1);
}

#[tokio::test]
async fn a_request_goes_out_even_if_what_was_kept_for_it_is_gone() {
    let server = Server::start();
    let pool = server.pool(8, PATIENCE);
    for round in 1..=20 {
        ask(&pool, Method::POST).await;
        assert_eq!(server.scripted.asked(), round);
        server.hang_up.notify_waiters();
        server.until_open(0).await;
        // A runtime hears of what happened to connections when it has nothing else to do.
        sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn what_nobody_read_to_its_end_is_not_used_again() {
    let server = Server::start();
    let pool = server.pool(8, PATIENCE);
    drop(send(&pool, Method::GET).await);
    server.until_open(0).await;
    ask(&pool, Method::GET).await;
    assert_eq!(server.scripted.asked(), 2);
}

#[tokio::test]
async fn no_more_are_kept_than_may_be() {
    let server = Server::start();
    let pool = server.pool(2, PATIENCE);
    let mut leases = Vec::new();
    for _ in 0..5 {
        let (response, lease) = send(&pool, Method::GET).await;
        response.into_body().collect().await.unwrap();
        leases.push(lease);
    }
    server.until_open(5).await;
    leases.into_iter().for_each(Lease::free);
    server.until_open(2).await;
}

#[tokio::test]
async fn what_nobody_comes_for_is_closed() {
    let server = Server::start();
    let pool = server.pool(8, Duration::from_millis(20));
    ask(&pool, Method::GET).await;
    server.until_open(0).await;
    ask(&pool, Method::GET).await;
    assert_eq!(server.scripted.asked(), 2);
}

#[test]
fn connections_outlive_documents_that_do_not_concern_them() {
    let read = |text: &str| {
        let routes =
            Routes::read("test", &format!("upstreams:\n  api: {text}\nroutes: [{{upstream: api}}]\n"));
        Arc::clone(routes.unwrap().group("api").unwrap())
    };
    let pools = |group: &Group| -> Vec<Arc<Pool<Outgoing>>> {
        group.members().iter().map(|server| Arc::clone(server.pool().unwrap())).collect()
    };
    let old = read("{servers: ['http://10.0.0.1', 'http://10.0.0.2'], balance: round_robin}");
    let before = pools(&old);
    let other =
        read("{servers: ['http://10.0.0.2', 'http://10.0.0.3'], balance: least_requests}").carry_over(&old);
    let after = pools(&other);
    assert!(Arc::ptr_eq(&before[1], &after[0]));
    assert!(!Arc::ptr_eq(&before[0], &after[1]));
    let others = read("{servers: ['http://10.0.0.2'], connect_timeout: 7s}").carry_over(&other);
    assert!(!Arc::ptr_eq(&after[0], &pools(&others)[0]), "they were made on other terms");
}
